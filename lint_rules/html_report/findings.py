"""The findings of a tree as the page shows them, and in which releases each is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lint_rules.html_report.ends import Ends, Excerpt, Json, difference
from lint_rules.html_report.trees import Tree
from lint_rules.link import shape
from mla_guard.diagnostic import Diagnostic

__all__ = ["Key", "Release", "findings_of", "history"]

Key = tuple[str, str, str]
"""What names a finding across releases: path below the tree, code and symbol."""


@dataclass(frozen=True, slots=True)
class Release:
    """A tree's findings: ``records`` for the page, in order, each with its key."""

    label: str
    records: tuple[tuple[Key, Json], ...]


def findings_of(
    tree: Tree, hooks: Mapping[tuple[str, str], Sequence[str]], excerpts: list[Excerpt]
) -> Release:
    """What the check of ``tree`` found.

    ``hooks`` are the hooks that a class (path, qualified name) can have a cell for; the code that
    is shown goes to ``excerpts``.
    """
    ends = Ends(tree.judge, excerpts)
    records = []
    for finding in tree.report.diagnostics:
        path = tree.relative(finding.place.path)
        record = _record(tree, ends, finding, path)
        owner, hook = _concerned(finding, hooks)
        record |= {"owner": owner, "hook": hook, "release": tree.label}
        records.append(((path, finding.code, finding.symbol), record))
    return Release(tree.label, tuple(records))


def _record(tree: Tree, ends: Ends, finding: Diagnostic, path: str) -> Json:
    pair = ends.promise(finding)
    diff: Json | None = None
    if pair is not None:
        promised, mine = pair
        assert promised.function is not None
        assert mine.function is not None
        parameters = difference(shape(promised.function), shape(mine.function))
        diff = {
            "promised": promised.symbol,
            "mine": mine.symbol,
            "parameters": list(parameters),
        }
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity,
        "message": finding.message,
        "symbol": finding.symbol,
        "path": path,
        "line": finding.place.line,
        "reasons": list(finding.reasons),
        "hint": finding.hint,
        "diff": diff,
        "ends": [
            ends.end(finding.place, "", path),
            *(ends.end(r.place, r.message, tree.relative(r.place.path)) for r in finding.related),
        ],
    }


def _concerned(
    finding: Diagnostic, hooks: Mapping[tuple[str, str], Sequence[str]]
) -> tuple[str, str]:
    """The class that a finding is about, and the hook where it is about one."""
    path = finding.place.path
    if (path, finding.symbol) in hooks:
        return finding.symbol, ""
    owner, _, name = finding.symbol.rpartition(".")
    if (path, owner) not in hooks:
        return "", ""
    return owner, name if name in hooks[path, owner] else ""


def history(releases: Sequence[Release]) -> tuple[list[Json], list[Json]]:
    """The findings to show, those of the last release first, and one row for each key.

    A finding that is gone is shown as the last release with it had it. A row counts the findings
    of its key in each release and names the first and last release that has one.
    """
    counts = [Counter(key for key, _ in release.records) for release in releases]
    keys = {key: index for index, key in enumerate(sorted({k for c in counts for k in c}))}
    shown: list[Json] = []
    seen: set[Key] = set()
    for release in reversed(releases):
        shown += [record | {"key": keys[key]} for key, record in release.records if key not in seen]
        seen |= {key for key, _ in release.records}
    rows: list[Json] = []
    for path, code, symbol in keys:
        numbers = [count[path, code, symbol] for count in counts]
        there = [release.label for release, n in zip(releases, numbers, strict=True) if n]
        row: Json = {"path": path, "code": code, "symbol": symbol, "counts": numbers}
        rows.append(row | {"first": there[0], "last": there[-1]})
    return shown, rows
