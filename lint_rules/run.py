"""One check: what is read, judged, ignored and reported."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lint_rules.config import Config, ConfigError
from lint_rules.discover import walk
from lint_rules.judge import Judge
from lint_rules.link import Project
from lint_rules.load import Loaded, load
from lint_rules.nearest import nearest
from lint_rules.profiles import BACKEND_ROOTS, COMPANION_ROOTS
from lint_rules.rules import RULES
from lint_rules.suppression import apply_ignores
from lint_rules.target import inside
from mla_guard.diagnostic import Diagnostic, Place, Related

__all__ = ["FileFailure", "Report", "check", "read_project"]


@dataclass(frozen=True, slots=True)
class FileFailure:
    """A file that holds or uses a backend and could not be read."""

    path: str
    line: int
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a check.

    ``files`` counts the Python files that were read, ``classes`` those below a root, and ``roots``
    names the base classes that were found (``path:Class``). ``unresolved`` are places that no rule
    judged, for want of a base class or a constant name. ``held`` counts the findings that a
    baseline keeps back.
    """

    diagnostics: tuple[Diagnostic, ...]
    failures: tuple[FileFailure, ...] = ()
    files: int = 0
    classes: int = 0
    roots: tuple[str, ...] = ()
    unresolved: tuple[Related, ...] = ()
    held: int = 0


def read_project(
    targets: Sequence[Path],
    config: Config,
    *,
    progress: Callable[[str], None] | None = None,
) -> tuple[Loaded, Judge]:
    """Read what a check of ``targets`` has to read."""
    tops = config.src or tuple(targets)
    unlisted: list[tuple[str, int, str]] = []

    def failed(error: OSError) -> None:
        unlisted.append((str(error.filename), 1, f"cannot be listed: {error.strerror}"))

    paths = dict.fromkeys(
        path
        for top in tops
        for path in walk(top, config.excludes, failed)
        if not _is_test(Path(path), top, targets)
    )
    for target in targets:
        # what is named is read, though it is hidden, excluded, a test or behind a link
        if not any(inside(Path(path), target) for path in paths):
            paths.update(dict.fromkeys(walk(target, failed=failed)))
    roots = (*BACKEND_ROOTS, *config.bases)
    loaded = load(list(paths), roots, COMPANION_ROOTS, config.stand_ins, progress=progress)
    loaded = replace(loaded, failures=(*unlisted, *loaded.failures))
    _check_bases(config, loaded.project)
    simple = {name.rpartition(".")[2] for name in roots}
    backend_roots = [root for root in loaded.project.roots if root.name in simple]
    return loaded, Judge(loaded.project, backend_roots, loaded.scan.sources)


def _check_bases(config: Config, project: Project) -> None:
    """Refuse a configured base class that nothing in the project derives from."""
    for name in config.bases:
        if not any(root.name == name.rpartition(".")[2] for root in project.roots):
            close = nearest(
                name.rpartition(".")[2], {k.name for k in project.classes if k.children}
            )
            hint = f" (did you mean {close!r}?)" if close else ""
            raise ConfigError(
                f"bases: {name!r} names no class from which another in the project derives{hint}"
            )


def check(
    targets: Sequence[Path],
    config: Config,
    *,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Check the project around ``targets`` and report on what lies inside them."""
    loaded, judge = read_project(targets, config, progress=progress)
    sources = loaded.scan.sources
    findings: list[Diagnostic] = []
    for code, rule in RULES.items():
        if config.selects(code):
            if progress is not None:
                progress(f"checking {code}")
            findings += rule(judge)
    wanted = {path for path in sources if _reported(path, targets)}
    findings = [f for f in findings if f.place.path in wanted]
    findings = apply_ignores(
        dict.fromkeys(findings), ((p, sources[p]) for p in sorted(wanted)), config.selects
    )
    findings = [
        f
        for f in findings
        if config.selects(f.code)
        and config.shows(f.severity)
        and not config.ignores_in(f.place.path, f.code)
    ]
    return Report(
        tuple(sorted(findings, key=lambda f: (f.place, f.code, f.message))),
        tuple(FileFailure(*failure) for failure in loaded.failures),
        files=len(sources),
        classes=len(judge.project.backends),
        roots=tuple(f"{root.path}:{root.qualname}" for root in judge.view.roots),
        unresolved=tuple(_unresolved(judge)),
    )


def _is_test(path: Path, top: Path, targets: Sequence[Path]) -> bool:
    """Whether a file below ``top`` is a test that no target names.

    Tests are not read: what they ask of their doubles is no demand on a backend.
    """
    if not _looks_like_test(path.relative_to(top)):
        return False
    return not any(
        inside(path, target) and inside(target, top) and _looks_like_test(target.relative_to(top))
        for target in targets
    )


def _looks_like_test(path: Path) -> bool:
    return path.name.startswith(("test_", "conftest.")) or any(
        part in {"test", "tests", "testing"} for part in path.parts
    )


def _reported(path: str, targets: Sequence[Path]) -> bool:
    place = Path(os.path.abspath(path))
    return any(inside(place, target) for target in targets)


def _unresolved(judge: Judge) -> list[Related]:
    found: list[Related] = []
    for klass in judge.classes:
        for base in klass.unresolved:
            found.append(
                Related(
                    Place(klass.path, klass.line),
                    f"{klass.name}: the base class {base} was not found, "
                    "so that attributes and missing hooks are not judged",
                )
            )
        if klass.computes_names:
            found.append(
                Related(
                    Place(klass.path, klass.line),
                    f"{klass.name} stores attributes under names that it computes, "
                    "so that attributes and missing hooks are not judged",
                )
            )
        if "__getattr__" in klass.own:
            found.append(
                Related(
                    Place(klass.path, klass.own["__getattr__"].line),
                    f"{klass.name}.__getattr__ answers for names that the class does not define",
                )
            )
    return sorted(found, key=lambda r: (r.place, r.message))
