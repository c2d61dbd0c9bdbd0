"""From a listing to a linked project: scan, extract, link."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lint_rules.discover import Scan, scan
from lint_rules.library import Library
from lint_rules.link import Project

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
    return Loaded(project, found, tuple(sorted(failures)))
