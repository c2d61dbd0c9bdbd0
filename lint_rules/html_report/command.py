"""What ``mla-guard report`` does: check each tree and put the page together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lint_rules.html_report.ends import Excerpt, Json
from lint_rules.html_report.families import Families
from lint_rules.html_report.findings import Release, findings_of, history
from lint_rules.html_report.manual import manual
from lint_rules.html_report.render import render
from lint_rules.html_report.trees import Tree, labels, read_tree
from lint_rules.run import FileFailure

__all__ = ["main_report", "page_data"]


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
