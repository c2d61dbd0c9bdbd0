"""Repairs on a tree: found, tried in memory, and kept where they hold."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from lint_rules.against import check_against
from lint_rules.baseline import Baseline, Held, hold, read_baseline
from lint_rules.cache import Cache, Memory
from lint_rules.config import Config
from lint_rules.fixed import FileChanged, Fixed, Mended
from lint_rules.judge import Judge
from lint_rules.repairs import REPAIRS
from lint_rules.repairs.edits import Edit, Files, NoRepair, Repair, applied, lines_of
from lint_rules.run import Report, Reported, TreeChanged, judged
from lint_rules.target import inside
from mla_guard.diagnostic import LINT_RULES, Diagnostic

__all__ = ["fix", "mend", "repairable"]

_MOST_ROUNDS = 20
_MOST_CONSEQUENCES = 4
_STAGES = (("MLA101", "MLA201", "MLA202", "MLA303"), ("MLA301", "MLA302"))
"""What a wrapper should hand on is only settled once the signatures inside are."""

_Key = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class _State:
    """A tree as edited so far.

    ``asked`` are the findings to repair, ``held`` those that the baseline holds, ``everywhere`` is
    what every rule says of the whole project.
    """

    asked: list[Diagnostic]
    held: list[Diagnostic]
    everywhere: Report
    judge: Judge
    files: Files
    edited: dict[str, bytes]


def fix(
    targets: Sequence[Path],
    config: Config,
    *,
    changed: Collection[Path] | None = None,
    cache: Cache | None = None,
    progress: Callable[[str], None] | None = None,
) -> Fixed:
    """Repair in memory what can be repaired of the findings that a check of ``targets`` reports.

    What that check is, ``changed`` and a baseline included, :func:`lint_rules.run.check` says; only
    files inside of ``targets`` are edited. A round parses only what the one before it edited; what
    ``cache`` holds, the first one does not parse either.

    A round makes every repair that does not clash with another one. It is kept if its findings are
    gone and no finding is new, of whatever rule and wherever in the project, but for what the
    baseline holds; the repairs that are to blame are otherwise left out for good. Rounds follow
    until nothing is left to repair.

    Raises :class:`ConfigError` as a check does, and :class:`FileChanged` where a file is edited
    while it is read.
    """
    tree = _Tree(targets, config, changed, {}, _kept(cache), progress)
    with _unchanged():
        mended = _mended(tree, None)
        report = tree.report(mended.after)
    return Fixed(mended.repaired, mended.before, mended.after, report)


def mend(
    targets: Sequence[Path],
    config: Config,
    findings: Collection[Diagnostic],
    *,
    unsaved: Mapping[str, bytes],
    cache: Cache | None = None,
) -> Mended:
    """The repairs of ``findings`` that :func:`fix` would make in a tree with ``unsaved`` texts.

    Raises what :func:`fix` does.
    """
    tree = _Tree(targets, config, None, unsaved, _kept(cache), None)
    with _unchanged():
        return _mended(tree, findings)


def repairable(
    judge: Judge, targets: Sequence[Path], findings: Collection[Diagnostic]
) -> set[Diagnostic]:
    """Those of ``findings`` for which there is a repair; whether it holds is not tried."""
    files = Files(judge.sources)
    return {
        repair.diagnostic
        for code, repairs in REPAIRS.items()
        if (asked := {finding for finding in findings if finding.code == code})
        for repair in repairs(judge, files, asked)
        if _is_possible(repair, (), files, targets)
    }


def _kept(cache: Cache | None) -> Cache:
    return Memory() if cache is None else cache


@contextmanager
def _unchanged() -> Iterator[None]:
    try:
        yield
    except TreeChanged as error:
        raise FileChanged(
            f"{error} was changed while it was checked: nothing was repaired"
        ) from error


@dataclass(frozen=True, slots=True)
class _Tree:
    """What is to be repaired, and how it is judged."""

    targets: Sequence[Path]
    config: Config
    changed: Collection[Path] | None
    unsaved: Mapping[str, bytes]
    cache: Cache
    progress: Callable[[str], None] | None
    known: Baseline | None = field(init=False)

    def __post_init__(self) -> None:
        baseline = self.config.baseline
        object.__setattr__(self, "known", read_baseline(baseline) if baseline else None)

    def judged(self, edited: dict[str, bytes], before: Files | None = None) -> _State:
        """What every rule says of the whole project once it is ``edited``."""
        config = replace(self.config, select=tuple(LINT_RULES), ignore=(), min_severity="warning")
        judge, report = judged(
            (*self.targets, *self.config.src),
            config,
            unsaved={**self.unsaved, **edited},
            progress=self.progress,
            cache=self.cache,
        )
        held = self._held(report.diagnostics).kept
        files = Files(judge.sources, before)
        return _State(self._asked(report), held, report, judge, files, edited)

    def after(self, state: _State, chosen: Sequence[Repair]) -> _State:
        """The tree once ``chosen`` repairs are made."""
        edited = _applied(state.files, chosen)
        return self.judged({**state.edited, **edited}, state.files)

    def _asked(self, report: Report) -> list[Diagnostic]:
        """Those of all findings that the check reports."""
        reported = Reported(self.targets, self.changed)
        asked = [
            d for d in report.diagnostics if self.config.selects(d.code) and reported.concerns(d)
        ]
        kept = set(self._held(asked).kept)
        return [d for d in asked if d not in kept and self.config.shows(d.severity)]

    def _held(self, findings: Sequence[Diagnostic]) -> Held:
        """What the baseline makes of ``findings``."""
        if self.known is None:
            return Held(list(findings), [], [])
        return hold(findings, self.known, lambda path, code: False)

    def report(self, edited: Mapping[str, bytes]) -> Report:
        """What the check reports once the tree is ``edited``."""

        def check(config: Config) -> Report:
            return judged(
                self.targets,
                config,
                changed=self.changed,
                unsaved={**self.unsaved, **edited},
                progress=self.progress,
                cache=self.cache,
            )[1]

        if self.config.baseline is None:
            return check(self.config)
        asked = self.targets if self.changed is None else tuple(self.changed)
        return check_against(self.config.baseline, check, asked, self.config, write=False)


def _mended(tree: _Tree, wanted: Collection[Diagnostic] | None) -> Mended:
    """Repair what the check reports, or what is ``wanted`` of it."""
    keys = None if wanted is None else {_key(finding) for finding in wanted}
    state = tree.judged({})
    original = state.judge.sources
    repaired: list[Diagnostic] = []
    refused: set[_Key] = set()
    for _ in range(_MOST_ROUNDS):
        asked = [d for d in state.asked if keys is None or _key(d) in keys]
        chosen = _chosen(state, tree, refused, asked)
        if not chosen:
            break
        made, first = list(chosen), tree.after(state, chosen)
        tried = first
        for _ in range(_MOST_CONSEQUENCES):
            fresh = set(_fresh(state, tried))
            in_turn = _chosen(tried, tree, refused, fresh.intersection(tried.asked))
            if not fresh or {repair.diagnostic for repair in in_turn} != fresh:
                break
            made += in_turn
            tried = tree.after(tried, in_turn)
        if _blamed(state, tried, made):
            refused.update(_key(repair.diagnostic) for repair in _blamed(state, first, chosen))
        else:
            repaired += [repair.diagnostic for repair in made]
            state = tried
    before = {path: original[path] for path in state.edited}
    return Mended(tuple(repaired), before, state.edited)


def _chosen(
    state: _State,
    tree: _Tree,
    refused: Collection[_Key],
    asked: Collection[Diagnostic],
) -> list[Repair]:
    """The repairs of the next round, of the findings ``asked``, no two of which clash."""
    for codes in _STAGES:
        chosen: list[Repair] = []
        for code in [c for c in codes if c in REPAIRS]:
            wanted = {d for d in asked if d.code == code and _key(d) not in refused}
            for repair in REPAIRS[code](state.judge, state.files, wanted) if wanted else ():
                others = [edit for other in chosen for edit in other.edits]
                if _is_possible(repair, others, state.files, tree.targets):
                    chosen.append(repair)
        if chosen:
            return chosen
    return []


def _is_possible(
    repair: Repair, others: Sequence[Edit], files: Files, targets: Sequence[Path]
) -> bool:
    if any(edit.clashes(other) for edit in repair.edits for other in others if edit != other):
        return False
    try:
        _applied(files, [repair])
    except NoRepair:
        return False
    places = {Path(os.path.abspath(edit.path)) for edit in repair.edits}
    return all(any(inside(place, target) for target in targets) for place in places)


def _applied(files: Files, chosen: Iterable[Repair]) -> dict[str, bytes]:
    edits: dict[str, set[Edit]] = {}
    for repair in chosen:
        for edit in repair.edits:
            edits.setdefault(edit.path, set()).add(edit)
    return {path: applied(files[path], found) for path, found in edits.items()}


def _blamed(before: _State, after: _State, chosen: Sequence[Repair]) -> list[Repair]:
    """The repairs that did not do away with their finding, or brought another one about."""
    remaining = {_key(d) for d in after.everywhere.diagnostics}
    blamed = [r for r in chosen if _key(r.diagnostic) in remaining]
    broken = {f.path for f in after.everywhere.failures} - {
        f.path for f in before.everywhere.failures
    }
    blamed += [r for r in chosen if any(edit.path in broken for edit in r.edits)]
    for finding in _fresh(before, after):
        blamed += _causes(finding, chosen, before.files) or chosen
    return blamed


def _fresh(before: _State, after: _State) -> Iterator[Diagnostic]:
    """The findings that were not there, or not as errors, and that no check would hold back.

    An ignore that is now unused is none.
    """
    known = {(_key(d), d.severity) for d in before.everywhere.diagnostics}
    known |= {(key, "warning") for key, _ in known}
    return (
        d
        for d in after.everywhere.diagnostics
        if (_key(d), d.severity) not in known and d not in after.held and d.code != "MLA001"
    )


def _causes(finding: Diagnostic, chosen: Sequence[Repair], files: Files) -> list[Repair]:
    """The repairs whose edits a new finding points at, or else those that it mentions."""
    ends = (finding.place, *(related.place for related in finding.related))
    edits = [edit for repair in chosen for edit in repair.edits]
    lines = {edit: lines_of(files[edit.path], edits, edit) for edit in edits}
    pointed = [
        repair
        for repair in chosen
        if any(end.path == e.path and end.line in lines[e] for end in ends for e in repair.edits)
    ]
    said = set(re.findall(r"\w+", finding.text()))
    mentioned = [r for r in chosen if said.issuperset(_names(r.diagnostic.symbol))]
    defining = [r for r in mentioned if _defines(r) & set(re.findall(r"\w+", finding.message))]
    return pointed or defining or mentioned


def _names(symbol: str) -> list[str]:
    return symbol.rpartition("<locals>.")[2].split(".")


def _defines(repair: Repair) -> set[str]:
    """The methods that a repair adds."""
    return {name for edit in repair.edits for name in re.findall(r"\bdef (\w+)", edit.text)}


def _key(finding: Diagnostic) -> _Key:
    """What stays the same of a finding while lines move and what it counts changes."""
    message = re.sub(r"\b\d+\b", "#", finding.message)
    return finding.code, finding.place.path, finding.symbol, message
