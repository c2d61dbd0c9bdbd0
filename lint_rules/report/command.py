"""What ``mla-guard report`` does: check each tree, put the page together, write it whole."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from lint_rules.report.ends import Excerpt, Json
from lint_rules.report.families import Families
from lint_rules.report.findings import Release, findings_of, history
from lint_rules.report.manual import manual
from lint_rules.report.render import render
from lint_rules.report.trees import ReportError, Tree, labels, read_tree
from lint_rules.run import FileFailure

__all__ = ["ReportError", "main_report", "page_data", "replacing"]


def main_report(
    arguments: Sequence[str], progress: Callable[[str], None] | None = None
) -> tuple[str, list[FileFailure]]:
    """The page for the trees that ``arguments`` name, oldest release first; and what was not read.

    Hierarchy and matrix are those of the last tree. Raises :class:`ReportError`, and what the
    linter raises for a bad target or setting.
    """
    data, failures = page_data(arguments, progress)
    releases = data["releases"]
    assert isinstance(releases, list)
    return render(data, f"mla-guard report: {releases[-1]}"), failures


def page_data(
    arguments: Sequence[str], progress: Callable[[str], None] | None = None
) -> tuple[Json, list[FileFailure]]:
    """What :func:`main_report` shows, as JSON-ready data."""
    names = labels(arguments)
    excerpts: list[Excerpt] = []
    releases: list[Release] = []
    failures: list[FileFailure] = []
    picture: Json = {}
    for argument, label in zip(arguments, names, strict=True):
        # one tree in memory at a time
        release, picture, failed = _read(argument, label, excerpts, progress)
        releases.append(release)
        failures += failed
    shown, rows = history(releases)
    codes = sorted({code for release in releases for (_, code, _), _ in release.records})
    return {
        "releases": names,
        **picture,
        "findings": shown,
        "history": rows,
        "excerpts": excerpts,
        "rules": {code: manual(code) for code in codes},
    }, failures


def _read(
    argument: str,
    label: str,
    excerpts: list[Excerpt],
    progress: Callable[[str], None] | None,
) -> tuple[Release, Json, tuple[FileFailure, ...]]:
    """The findings of one tree, its classes and matrix, and the files that could not be read."""
    said = None if progress is None else lambda message: progress(f"{label}: {message}")
    tree = read_tree(argument, label, said)
    families = Families(tree)
    release = findings_of(tree, families.hooks, excerpts)
    picture = {"summary": _summary(tree), **families.as_json()}
    return release, picture, tree.report.failures


def _summary(tree: Tree) -> Json:
    return {
        "files": tree.report.files,
        "classes": tree.report.classes,
        "failures": [
            {"path": tree.relative(f.path), "line": f.line, "message": f.message}
            for f in tree.report.failures
        ],
        "unresolved": [
            {"path": tree.relative(r.place.path), "line": r.place.line, "message": r.message}
            for r in tree.report.unresolved
        ],
    }


@contextmanager
def replacing(target: Path) -> Iterator[TextIO]:
    """A stream whose content becomes the file ``target``, whole or, after an error, not at all.

    Raises :class:`ReportError` where that file cannot be made: before anything is written to it.
    """
    target = Path(os.path.realpath(target))
    try:
        if target.exists() and not target.is_file():
            raise ReportError(f"{str(target)!r} is not a regular file: nothing was written")
        handle, scratch = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
    except OSError as error:
        raise ReportError(f"{str(target)!r} cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(handle, "w", encoding="ascii", newline="\n") as stream:
            yield stream
        os.chmod(scratch, _mode(target))
        os.replace(scratch, target)
    except BaseException:
        os.unlink(scratch)
        raise


def _mode(target: Path) -> int:
    """The permissions of the file that is replaced, or those that a new file gets."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
