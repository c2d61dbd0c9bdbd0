"""One check: what is read, judged, ignored and reported."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from lint_rules.cache import Cache
from lint_rules.config import Config, ConfigError
from lint_rules.finished import Asked, recall, remember
from lint_rules.judge import Judge
from lint_rules.library import Library, TreeChanged
from lint_rules.link import Project
from lint_rules.load import Loaded, load
from lint_rules.nearest import nearest
from lint_rules.profiles import BACKEND_ROOTS, COMPANION_ROOTS
from lint_rules.report import FileFailure, Report
from lint_rules.rules import RULES
from lint_rules.suppression import apply_ignores
from lint_rules.target import inside
from lint_rules.tree import Listing
from mla_guard.diagnostic import Diagnostic, Place, Related

__all__ = ["FileFailure", "Report", "TreeChanged", "check", "read_project"]

_MOST_ATTEMPTS = 4


def read_project(
    library: Library,
    config: Config,
    *,
    progress: Callable[[str], None] | None = None,
) -> tuple[Loaded, Judge]:
    """Link and prepare what ``library`` holds."""
    roots = (*BACKEND_ROOTS, *config.bases)
    loaded = load(library, roots, COMPANION_ROOTS, progress=progress)
    _check_bases(config, loaded.project)
    simple = {name.rpartition(".")[2] for name in roots}
    backend_roots = [root for root in loaded.project.roots if root.name in simple]
    return loaded, Judge(loaded.project, backend_roots, library.texts)


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
    cache: Cache | None = None,
) -> Report:
    """Check the project around ``targets`` and report on what lies inside them.

    What ``cache`` holds is not found out again, and what it does not hold is left there. The
    result is the same without one. Raises :class:`TreeChanged` for a tree that is edited faster
    than it is read.
    """
    for _ in range(_MOST_ATTEMPTS - 1):
        with suppress(TreeChanged):
            return _check(targets, config, progress, cache)
    return _check(targets, config, progress, cache)


def _check(
    targets: Sequence[Path],
    config: Config,
    progress: Callable[[str], None] | None,
    cache: Cache | None,
) -> Report:
    asked = Asked(targets, config)
    with Library(asked.listing, cache, asked.clock_ns) as library:
        if cache is None or asked.listing.failures or library.unreadable:
            return _judged(targets, config, asked.listing, library, progress)
        key = asked.key_by_content({path: row.content for path, row in library.rows.items()})
        report = recall(cache, key)
        if report is None:
            report = _judged(targets, config, asked.listing, library, progress)
        # where a file was edited after it was listed, the listing is not what was read
        listed = asked.settled and asked.listing.files == library.texts.identities
        remember(cache, (key, asked.key()) if listed else (key,), report)
        library.save()
        return report


def _judged(
    targets: Sequence[Path],
    config: Config,
    listing: Listing,
    library: Library,
    progress: Callable[[str], None] | None,
) -> Report:
    loaded, judge = read_project(library, config, progress=progress)
    findings: list[Diagnostic] = []
    for code, rule in RULES.items():
        if config.selects(code):
            if progress is not None:
                progress(f"checking {code}")
            findings += rule(judge)
    wanted = {path for path in library.rows if _reported(path, targets)}
    findings = [f for f in findings if f.place.path in wanted]
    marked = (p for p in sorted(wanted) if library.rows[p].marked)
    findings = apply_ignores(
        dict.fromkeys(findings), ((p, library.texts[p]) for p in marked), config.selects
    )
    findings = [f for f in findings if config.selects(f.code) and config.shows(f.severity)]
    failures = sorted((*listing.failures, *loaded.failures))
    return Report(
        tuple(sorted(findings, key=lambda f: (f.place, f.code, f.message))),
        tuple(FileFailure(*failure) for failure in failures),
        files=len(library.rows),
        classes=len(judge.project.backends),
        roots=tuple(f"{root.path}:{root.qualname}" for root in judge.view.roots),
        unresolved=tuple(_unresolved(judge)),
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
