"""Repairs on a tree: found, tried in memory, kept where they hold, and only then written."""

from __future__ import annotations

import difflib
import os
import re
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lint_rules.against import check_against
from lint_rules.baseline import Baseline, hold, read_baseline
from lint_rules.cache import Cache
from lint_rules.config import Config
from lint_rules.judge import Judge
from lint_rules.output import counted, shown
from lint_rules.repairs import REPAIRS
from lint_rules.repairs.edits import Edit, Files, NoRepair, Repair, applied, lines_of
from lint_rules.repairs.source import Source
from lint_rules.run import Report, Reported, TreeChanged, judged
from lint_rules.target import inside
from mla_guard.diagnostic import LINT_RULES, Diagnostic

__all__ = ["FileChanged", "Fixed", "diff", "fix", "said", "write"]

_MOST_ROUNDS = 20
_MOST_CONSEQUENCES = 4
_STAGES = (("MLA101", "MLA201", "MLA202", "MLA303"), ("MLA301", "MLA302"))
"""What a wrapper should hand on is only settled once the signatures inside are."""

_Key = tuple[str, str, str, str]


class FileChanged(Exception):
    """A file is no longer what was checked; nothing is written over it."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A tree after its repairs.

    ``report`` is on what remains, ``repaired`` are the findings that went away, in the order of
    their repairs; ``before`` and ``after`` hold the changed files.
    """

    report: Report
    repaired: tuple[Diagnostic, ...]
    before: Mapping[str, bytes]
    after: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class _State:
    """A tree as edited so far: the findings to repair, and all that every rule says."""

    asked: list[Diagnostic]
    everywhere: Report
    judge: Judge
    unsaved: dict[str, bytes]


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
    files inside of ``targets`` are edited. With ``cache`` a round parses what it edited alone.

    A round makes every repair that does not clash with another one. It is kept if its findings are
    gone and no finding is new, of whatever rule and wherever in the project; the repairs that are
    to blame are otherwise left out for good. Rounds follow until nothing is left to repair.

    Raises :class:`ConfigError` as a check does, and :class:`FileChanged` where a file is edited
    while it is read.
    """
    known = read_baseline(config.baseline) if config.baseline is not None else None
    try:
        return _fixed(_Tree(targets, config, changed, known, cache, progress))
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
    known: Baseline | None
    cache: Cache | None
    progress: Callable[[str], None] | None

    def judged(self, unsaved: dict[str, bytes]) -> _State:
        """What every rule says of the whole project, with ``unsaved`` edits."""
        config = replace(self.config, select=tuple(LINT_RULES), ignore=(), min_severity="warning")
        judge, report = judged(
            (*self.targets, *self.config.src),
            config,
            unsaved=unsaved,
            progress=self.progress,
            cache=self.cache,
        )
        return _State(self._asked(report), report, judge, unsaved)

    def after(self, state: _State, chosen: Sequence[Repair]) -> _State:
        """The tree once ``chosen`` repairs are made."""
        edited = _applied(Files(state.judge.sources), chosen)
        return self.judged({**state.unsaved, **edited})

    def _asked(self, report: Report) -> list[Diagnostic]:
        """Those of all findings that the check reports."""
        reported = Reported(self.targets, self.changed)
        asked = [
            d for d in report.diagnostics if self.config.selects(d.code) and reported.concerns(d)
        ]
        if self.known is not None:
            asked = hold(asked, self.known, lambda path, code: False).reported
        return [d for d in asked if self.config.shows(d.severity)]

    def report(self, unsaved: Mapping[str, bytes]) -> Report:
        """What the check reports, with ``unsaved`` edits."""

        def check(config: Config) -> Report:
            return judged(
                self.targets,
                config,
                changed=self.changed,
                unsaved=unsaved,
                progress=self.progress,
                cache=self.cache,
            )[1]

        if self.config.baseline is None:
            return check(self.config)
        asked = self.targets if self.changed is None else tuple(self.changed)
        return check_against(self.config.baseline, check, asked, self.config, write=False)

    def holds(self, path: str) -> bool:
        """Whether a file lies inside of the targets, and may be edited."""
        place = Path(os.path.abspath(path))
        return any(inside(place, target) for target in self.targets)


def _fixed(tree: _Tree) -> Fixed:
    state = tree.judged({})
    original = state.judge.sources
    repaired: list[Diagnostic] = []
    refused: set[_Key] = set()
    for _ in range(_MOST_ROUNDS):
        chosen = _chosen(state, tree, refused)
        if not chosen:
            break
        made, first = list(chosen), tree.after(state, chosen)
        tried = first
        for _ in range(_MOST_CONSEQUENCES):
            fresh = set(_fresh(state, tried))
            in_turn = _chosen(tried, tree, refused, fresh)
            if not fresh or {repair.diagnostic for repair in in_turn} != fresh:
                break
            made += in_turn
            tried = tree.after(tried, in_turn)
        if _blamed(state, tried, made):
            refused.update(_key(repair.diagnostic) for repair in _blamed(state, first, chosen))
        else:
            repaired += [repair.diagnostic for repair in made]
            state = tried
    before = {path: original[path] for path in state.unsaved}
    return Fixed(tree.report(state.unsaved), tuple(repaired), before, state.unsaved)


def _chosen(
    state: _State,
    tree: _Tree,
    refused: Collection[_Key],
    only: Collection[Diagnostic] | None = None,
) -> list[Repair]:
    """The repairs of the next round, no two of which clash; of ``only`` some findings if given."""
    files = Files(state.judge.sources)
    for codes in _STAGES:
        chosen: list[Repair] = []
        for code in [c for c in codes if c in REPAIRS]:
            wanted = {d for d in state.asked if d.code == code and _key(d) not in refused}
            if only is not None:
                wanted &= set(only)
            for repair in REPAIRS[code](state.judge, files, wanted) if wanted else ():
                others = [edit for other in chosen for edit in other.edits]
                if _is_possible(repair, others, files, tree):
                    chosen.append(repair)
        if chosen:
            return chosen
    return []


def _is_possible(repair: Repair, others: Sequence[Edit], files: Files, tree: _Tree) -> bool:
    if any(edit.clashes(other) for edit in repair.edits for other in others if edit != other):
        return False
    try:
        _applied(files, [repair])
    except NoRepair:
        return False
    return all(tree.holds(edit.path) for edit in repair.edits)


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
    files = Files(before.judge.sources)
    for finding in _fresh(before, after):
        blamed += _causes(finding, chosen, files) or chosen
    return blamed


def _fresh(before: _State, after: _State) -> Iterator[Diagnostic]:
    """The findings that were not there, or not as errors; an ignore that is now unused is none."""
    known = {(_key(d), d.severity) for d in before.everywhere.diagnostics}
    known |= {(key, "warning") for key, _ in known}
    return (
        d
        for d in after.everywhere.diagnostics
        if (_key(d), d.severity) not in known and d.code != "MLA001"
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
    mentioned = [r for r in chosen if r.diagnostic.symbol in finding.text()]
    defining = [r for r in mentioned if _defines(r) & set(re.findall(r"\w+", finding.message))]
    return pointed or defining or mentioned


def _defines(repair: Repair) -> set[str]:
    """The methods that a repair adds."""
    return {name for edit in repair.edits for name in re.findall(r"\bdef (\w+)", edit.text)}


def _key(finding: Diagnostic) -> _Key:
    """What stays the same of a finding while lines move and what it counts changes."""
    message = re.sub(r"\b\d+\b", "#", finding.message)
    return finding.code, finding.place.path, finding.symbol, message


def diff(fixed: Fixed, base: Path) -> str:
    """The changes as a unified diff, paths relative to ``base`` where they lie below it."""
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for path in sorted(fixed.after)
        for line in difflib.unified_diff(
            _lines(path, fixed.before[path]),
            _lines(path, fixed.after[path]),
            shown(path, base),
            shown(path, base),
        )
    )


def said(fixed: Fixed, verb: str) -> str:
    """How many findings are repaired in how many files, and by which rules, as one line."""
    if not fixed.after:
        return f"{verb} nothing."
    codes = Counter(d.code for d in fixed.repaired)
    by_rule = ", ".join(f"{code} {count}" for code, count in sorted(codes.items()))
    findings, files = counted(len(fixed.repaired), "finding"), counted(len(fixed.after), "file")
    return f"{verb} {findings} in {files} ({by_rule})."


def _lines(path: str, data: bytes) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+", Source(path, data).text)


def write(fixed: Fixed) -> None:
    """Write the changed files, each at once and with its permissions.

    Raises :class:`FileChanged`, before anything is written, where a file is not what was checked,
    and :class:`OSError` where one cannot be written.
    """
    for path, data in fixed.before.items():
        if Path(path).read_bytes() != data:
            raise FileChanged(f"{path} was changed while it was checked: nothing was repaired")
        if not os.access(path, os.W_OK):
            raise PermissionError(f"{path} may not be written: nothing was repaired")
    for path, data in fixed.after.items():
        _replace(Path(os.path.realpath(path)), fixed.before[path], data)


def _replace(path: Path, before: bytes, data: bytes) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, stat.S_IMODE(path.stat().st_mode))
        if path.read_bytes() != before:
            raise FileChanged(f"{path} was changed while repairs were written: it was left alone")
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
