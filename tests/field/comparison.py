"""What each tool makes of the known faults and of the newest releases, and the tables of it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.field.cases import NEWEST, Case
from tests.field.other_tools import Outcome, Tool, families
from tests.field.pointing import Pointing, Tree, pointing
from tests.field.scopes import FOLDERS, in_folders

__all__ = ["Newest", "Results", "judge", "long_form", "short_form"]


@dataclass(frozen=True, slots=True)
class Newest:
    """What there is to read on a newest release: findings per check, in all files read and in
    those of :data:`FOLDERS`."""

    whole: bool
    files: int
    seconds: float
    everywhere: Counter[str]
    in_folders: Counter[str]


@dataclass
class Results:
    """A tool's results: of each fault the checks that point at it, and the newest releases."""

    name: str
    version: str
    tool: Tool | None = None
    found: dict[str, dict[str, Pointing]] = field(default_factory=dict)
    newest: dict[str, Newest] = field(default_factory=dict)

    def named(self, case: Case) -> list[str]:
        """The checks that name the fault."""
        return self._pointing(case, "names")

    def near(self, case: Case) -> list[str]:
        """The checks that only report something in the faulty code."""
        return self._pointing(case, "stands there")

    def _pointing(self, case: Case, how: Pointing) -> list[str]:
        return sorted(check for check, h in self.found.get(case.id, {}).items() if h == how)

    def telling(self) -> set[str]:
        """The checks that name at least one fault."""
        return {c for checks in self.found.values() for c, how in checks.items() if how == "names"}


def judge(
    results: Results,
    engine: str,
    release: str,
    outcome: Outcome,
    known: Sequence[Case],
    tree: Tree,
) -> None:
    """Add what ``results.tool`` reported of a release that has the faults ``known``."""
    assert results.tool is not None
    kinds, fitting = results.tool.kinds, families()
    for case in known:
        found = results.found.setdefault(case.id, {})
        for report in outcome.reports:
            if found.get(report.check) != "names" and kinds[report.check] in fitting[case.family]:
                if how := pointing(case, report, kinds[report.check], tree):
                    found[report.check] = how
    if NEWEST[engine] == release:
        results.newest[engine] = Newest(
            results.tool.newest == "tree",
            outcome.files,
            outcome.seconds,
            Counter(report.check for report in outcome.reports),
            Counter(report.check for report in outcome.reports if in_folders(report.path)),
        )


def short_form(results: Sequence[Results], known: Sequence[Case]) -> str:
    """The table of the README: faults named and findings to read."""
    return "".join(
        _table(
            ["tool", f"faults named, of {len(known)}", "something near", *_releases()],
            (
                [
                    f"{r.name} {r.version}",
                    str(sum(1 for case in known if r.named(case))),
                    str(sum(1 for case in known if not r.named(case) and r.near(case))),
                    *(_to_read(r, engine) for engine in NEWEST),
                ]
                for r in results
            ),
        )
    )


def long_form(results: Sequence[Results], known: Sequence[Case]) -> str:
    """The tables of ``docs/field-comparison.md``."""
    ours, *others = results
    only_others = [c.id for c in known if not ours.named(c) and any(r.named(c) for r in others)]
    only_ours = [c for c in known if ours.named(c) and not any(r.named(c) for r in others)]
    parts = [
        *("## Faults and findings\n\n", short_form(results, known), "\n"),
        f"Only {ours.name} names {len(only_ours)}; only others name {len(only_others)}"
        f"{': ' + ', '.join(only_others) if only_others else ''}.\n\n",
        *("By how a reader of source can know the fault:\n\n", *_by_reading(results, known), "\n"),
        "With each tool cut down to the checks that name at least one fault:\n\n",
        *(*_telling_only(results), "\n## Time\n\n", *_times(results), "\n"),
        *("## Each fault\n\n", *_faults(results, known), "\n"),
        *("## Each check that reports something\n\n", *_checks(others, known), "\n"),
        *("## Versions, settings, checks\n\n", *_settings(others)),
    ]
    return "".join(parts)


def _releases() -> list[str]:
    return [f"{engine} {release}" for engine, release in NEWEST.items()]


def _to_read(results: Results, engine: str, checks: set[str] | None = None) -> str:
    newest = results.newest[engine]

    def count(counts: Counter[str]) -> str:
        return f"{sum(n for check, n in counts.items() if checks is None or check in checks):,}"

    return f"{count(newest.in_folders)} / {count(newest.everywhere) if newest.whole else '-'}"


def _by_reading(results: Sequence[Results], known: Sequence[Case]) -> Iterator[str]:
    groups = {read: [c for c in known if c.read == read] for read in ("static", "partly")}
    yield from _table(
        ["tool", *(f"{read}, of {len(group)}" for read, group in groups.items())],
        (
            [r.name, *(str(sum(1 for c in g if r.named(c))) for g in groups.values())]
            for r in results
        ),
    )


def _telling_only(results: Sequence[Results]) -> Iterator[str]:
    yield from _table(
        ["tool", *_releases()],
        ([r.name, *(_to_read(r, engine, r.telling()) for engine in NEWEST)] for r in results),
    )


def _times(results: Sequence[Results]) -> Iterator[str]:
    yield from _table(
        ["tool", *_releases()],
        (
            [r.name, *(f"{n.files:,} files, {n.seconds:,.0f} s" for n in r.newest.values())]
            for r in results
        ),
    )


def _faults(results: Sequence[Results], known: Sequence[Case]) -> Iterator[str]:
    def cell(result: Results, case: Case) -> str:
        return ", ".join(result.named(case)) or ("near" if result.near(case) else "")

    yield from _table(
        ["fault", "release", "family", *(r.name for r in results), "what it is"],
        (
            [c.id, f"{c.engine} {c.release}", c.family, *(cell(r, c) for r in results), c.fault]
            for c in known
        ),
    )


def _checks(results: Sequence[Results], known: Sequence[Case]) -> Iterator[str]:
    def row(result: Results, check: str, kind: str) -> list[str]:
        named = sum(1 for case in known if check in result.named(case))
        counts = [
            n.everywhere[check] if n.whole else n.in_folders[check] for n in result.newest.values()
        ]
        return [result.name, check, kind, str(named), *(f"{count:,}" for count in counts)]

    rows = [row(r, check, kind) for r in results if r.tool for check, kind in r.tool.kinds.items()]
    yield from _table(
        ["tool", "check", "kind", "faults named", *_releases()],
        (row for row in rows if set(row[3:]) != {"0"}),
    )


def _settings(results: Sequence[Results]) -> Iterator[str]:
    for result in results:
        if tool := result.tool:
            yield f"**{tool.name} {tool.version}**, newest releases: {tool.newest}, older ones: "
            yield f"{tool.older}; `{shlex.join(tool.flags)}`\n\n"
            for kind, checks in tool.checks.items():
                yield f"- {kind}: {', '.join(checks)}\n"
            yield "\n"
    yield f"The folders: {', '.join(FOLDERS)}. Which kinds can be about a fault of each family:\n\n"
    for family, kinds in families().items():
        yield f"- {family}: {', '.join(kinds)}\n"


def _table(head: Sequence[str], rows: Iterator[list[str]] | Sequence[list[str]]) -> Iterator[str]:
    for row in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(row)} |\n"
