"""One check: what is read, judged, ignored and reported."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from lint_rules.cache import Cache
from lint_rules.config import Config, ConfigError
from lint_rules.finished import Asked, recall, remember
from lint_rules.halves import can_halve, from_both_ends
from lint_rules.library import Library, TreeChanged
from lint_rules.profiles import BACKEND_ROOTS, COMPANION_ROOTS
from lint_rules.report import FileFailure, Report
from lint_rules.target import inside
from mla_guard.diagnostic import Diagnostic, Place, Related

if TYPE_CHECKING:
    from typing import TypeAlias

    from lint_rules.judge import Judge
    from lint_rules.kept import Made
    from lint_rules.link import Project
    from lint_rules.load import Loaded

    _Checked: TypeAlias = tuple[Report, Judge | None]

__all__ = [
    "FileFailure",
    "Report",
    "Reported",
    "TreeChanged",
    "answer",
    "check",
    "checked",
    "judged",
    "read_project",
]

_MOST_ATTEMPTS = 4
_WORTH_HALVING = 60
"""Classes from which judging takes longer than the start of a process."""
_APART = frozenset({"MLA201", "MLA202", "MLA203", "MLA204", "MLA205", "MLA206", "MLA307"})
"""The rules that share little with the others: what following every constructor gives, what methods
say by themselves, and a view of classes of their own. The rest share what callers ask."""


def read_project(
    library: Library,
    config: Config,
    *,
    progress: Callable[[str], None] | None = None,
) -> tuple[Loaded, Judge]:
    """Link and prepare what ``library`` holds."""
    # what links and judges loads here, while the processes of the library load the parser
    from lint_rules.judge import Judge
    from lint_rules.load import load

    roots = (*BACKEND_ROOTS, *config.bases)
    loaded = load(library, roots, COMPANION_ROOTS, config.stand_ins, progress=progress)
    _check_bases(config, loaded.project)
    simple = {name.rpartition(".")[2] for name in roots}
    backend_roots = [root for root in loaded.project.roots if root.name in simple]
    return loaded, Judge(loaded.project, backend_roots, library.texts)


def _check_bases(config: Config, project: Project) -> None:
    """Refuse a configured base class that nothing in the project derives from."""
    from lint_rules.nearest import nearest

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
    changed: Collection[Path] | None = None,
    unsaved: Mapping[str, bytes] = MappingProxyType({}),
    progress: Callable[[str], None] | None = None,
    cache: Cache | None = None,
) -> Report:
    """Check the project around ``targets`` and report on what lies inside them.

    A target that is a file stands for a change of it: what points at the file from elsewhere, an
    override at the base that it breaks with, is reported too. With ``changed`` that is what is
    reported on, and ``targets`` only say what is read. ``unsaved`` has, by absolute path, what an
    editor holds of files in place of what is on disk.

    What ``cache`` holds is not found out again, and what it does not hold is left there. The
    result is the same without one. Raises :class:`TreeChanged` for a tree that is edited faster
    than it is read.
    """
    asked = Asked(targets, config, changed)
    return answer(asked, unsaved=unsaved, progress=progress, cache=cache)


def answer(
    asked: Asked,
    *,
    unsaved: Mapping[str, bytes] = MappingProxyType({}),
    progress: Callable[[str], None] | None = None,
    cache: Cache | None = None,
) -> Report:
    """What :func:`check` gives for a question that is already put."""
    return _settled(asked, unsaved, progress, cache)[0]


def checked(
    targets: Sequence[Path], config: Config, *, unsaved: Mapping[str, bytes], cache: Cache
) -> tuple[Report, Judge | None]:
    """A check as :func:`check` makes it, and what it judged, unless its report was kept."""
    return _settled(Asked(targets, config), unsaved, None, cache)


def _settled(
    asked: Asked,
    unsaved: Mapping[str, bytes],
    progress: Callable[[str], None] | None,
    cache: Cache | None,
) -> _Checked:
    """What a check of a tree gives that is not edited meanwhile."""
    with _uncollected():
        for _ in range(_MOST_ATTEMPTS - 1):
            with suppress(TreeChanged):
                return _check(asked, unsaved, progress, cache)
            asked = asked.again()
        return _check(asked, unsaved, progress, cache)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Most of what a check makes lives until its end: to look for garbage takes a seventh of it."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _check(
    asked: Asked,
    unsaved: Mapping[str, bytes],
    progress: Callable[[str], None] | None,
    cache: Cache | None,
) -> _Checked:
    with Library(asked.listing, cache, asked.clock_ns, unsaved) as library:
        if cache is None or asked.listing.failures or library.unreadable:
            return _judged(asked, library, progress)
        key = asked.key_by_content({path: row.content for path, row in library.rows.items()})
        report, judge = recall(cache, key), None
        if report is None:
            report, judge = _judged(asked, library, progress, cache)
        # the listing is not what was read where a file was edited since, or has unsaved text
        listed = asked.settled and asked.listing.files == library.texts.identities
        remember(cache, (key, asked.key()) if listed else (key,), report)
        library.save()
        return report, judge


def judged(
    targets: Sequence[Path],
    config: Config,
    *,
    changed: Collection[Path] | None = None,
    unsaved: Mapping[str, bytes] = MappingProxyType({}),
    progress: Callable[[str], None] | None = None,
    cache: Cache | None = None,
) -> tuple[Judge, Report]:
    """A check as :func:`check` makes it, and the linked project that it judged.

    Finished reports are neither used nor kept. Raises :class:`TreeChanged` at the first edit.
    """
    asked = Asked(targets, config, changed)
    with Library(asked.listing, cache, asked.clock_ns, unsaved) as library:
        report, judge = _judged(asked, library, progress)
        if not (asked.listing.failures or library.unreadable):
            library.save()
        return judge, report


def _judged(
    asked: Asked,
    library: Library,
    progress: Callable[[str], None] | None,
    cache: Cache | None = None,
) -> tuple[Report, Judge]:
    loaded, judge = read_project(library, asked.config, progress=progress)
    if cache is not None:
        from lint_rules.kept import Kept

        contents = {path: row.content for path, row in library.rows.items()}
        judge.kept = Kept(cache, judge, contents, loaded.scan)
    return _report(asked, library, loaded, judge, progress), judge


def _report(
    asked: Asked,
    library: Library,
    loaded: Loaded,
    judge: Judge,
    progress: Callable[[str], None] | None,
) -> Report:
    from lint_rules.suppression import apply_ignores

    config = asked.config
    if progress is not None:
        progress("checking")
    findings = dict.fromkeys(_findings(judge, config))
    marked = sorted(path for path, row in library.rows.items() if row.marked)
    kept = apply_ignores(findings, ((path, library.texts[path]) for path in marked), config.selects)
    reported = Reported(asked.targets, asked.changed)
    kept = [
        f
        for f in kept
        if config.selects(f.code)
        and config.shows(f.severity)
        and not config.ignores_in(f.place.path, f.code)
        and reported.concerns(f)
    ]
    failures = sorted((*asked.listing.failures, *loaded.failures))
    return Report(
        tuple(sorted(kept, key=lambda f: (f.place, f.code, f.message))),
        tuple(FileFailure(*failure) for failure in failures),
        files=len(library.rows),
        classes=len(judge.project.backends),
        roots=tuple(f"{root.path}:{root.qualname}" for root in judge.view.roots),
        unresolved=tuple(_unresolved(judge)),
    )


def _findings(judge: Judge, config: Config) -> list[Diagnostic]:
    """What the rules find, on two processors where that pays; those that stand apart come last."""
    from lint_rules.rules import RULES

    ordered = sorted(filter(config.selects, RULES), key=lambda code: code in _APART)
    kept = judge.kept

    def of(code: str) -> tuple[list[Diagnostic], Made]:
        return list(RULES[code](judge)), kept.made() if kept is not None else {}

    if len(judge.classes) < _WORTH_HALVING or not can_halve():
        found = [of(code) for code in ordered]
    else:
        # both processes need them
        _ = judge.view.uses, judge.view.wrappers, judge.project.walked.only_if
        found = from_both_ends([partial(of, code) for code in ordered])
    if kept is not None:
        kept.save({key: record for _, made in found for key, record in made.items()})
    return [finding for findings, _ in found for finding in findings]


class Reported:
    """What is reported on: folders, and files that stand for changes."""

    def __init__(self, targets: Sequence[Path], changed: Collection[Path] | None) -> None:
        self._folders = [t for t in targets if t.is_dir()] if changed is None else []
        files = targets if changed is None else changed
        self._files = {os.path.realpath(path) for path in files if not path.is_dir()}

    def concerns(self, finding: Diagnostic) -> bool:
        """Whether a finding stands in a folder or a file, or points at a file."""
        place = Path(os.path.abspath(finding.place.path))
        if any(inside(place, folder) for folder in self._folders):
            return True
        ends = (finding.place, *(related.place for related in finding.related))
        return bool(self._files) and any(os.path.realpath(p.path) in self._files for p in ends)


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
