"""From a listing to a linked project: scan, extract, link."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lint_rules.described import described, may_be_uneven
from lint_rules.discover import Scan, scan
from lint_rules.facts import FileFacts
from lint_rules.library import Library
from lint_rules.link import Klass, Project

__all__ = ["Loaded", "load"]


@dataclass(frozen=True)
class Loaded:
    """A linked project, what it was read from, and the files that could not be."""

    project: Project
    scan: Scan
    failures: tuple[tuple[str, int, str], ...]


def load(
    library: Library,
    roots: Sequence[str],
    companions: Sequence[str] = (),
    pairs: Sequence[tuple[str, str]] = (),
    *,
    progress: Callable[[str], None] | None = None,
) -> Loaded:
    """Scan the files of ``library`` and link what matters of them.

    ``roots`` name the base classes whose callers count too, ``companions`` those of which only the
    hierarchy does, ``pairs`` classes that stand in for each other.
    """
    if progress is not None:
        progress(f"scanning {len(library.rows)} files")
    found = scan(library, roots, companions, pairs)
    wanted = {path: path in found.defining for path in found.defining | found.using}
    if progress is not None:
        progress(f"parsing {len(wanted)} of {len(library.rows)} files")
    facts = library.facts(wanted, {*found.family, *found.needles})
    failures = [(f.path, f.error_line, f.error) for f in facts if f.error]
    failures += [(path, 1, f"cannot be read: {why}") for path, why in library.unreadable.items()]
    project = Project(facts, (*roots, *companions), found.stand_ins)
    project.described = _described(facts, found, project, library)
    library.dismiss()
    return Loaded(project, found, tuple(sorted(failures)))


def _described(
    facts: Sequence[FileFacts], found: Scan, project: Project, library: Library
) -> dict[Klass, frozenset[str]]:
    """The classes that backends read of whose files tell kinds of them apart, read for that."""
    holders = described(facts, found.family, found.declared)
    paths = {path for path, _ in holders}
    beside = {p: True for p in paths - found.defining if may_be_uneven(library.texts[p])}
    classes = [k for k in project.classes if k.path in found.defining]
    for whole in library.facts(beside, ()):
        classes += Project([whole], ()).classes
    return {k: frozenset(holders[at]) for k in classes if (at := (k.path, k.qualname)) in holders}
