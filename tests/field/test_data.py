"""The faults and verdicts that the field benchmark reads are well formed."""

from __future__ import annotations

from mla_guard.diagnostic import LINT_RULES
from tests.field.cases import NEWEST, Finding, cases
from tests.field.history import subject
from tests.field.labels import Label, compare, labels
from tests.field.outside import faults
from tests.field.wheels import pins


def test_every_fault_names_a_pinned_release() -> None:
    found = cases()
    assert len({case.id for case in found}) == len(found)
    known = pins()
    assert [c.id for c in found if c.release and c.release not in known[c.engine]] == []
    assert [c.id for c in found if bool(c.release) != (c.read != "commit")] == []


def test_every_newest_release_has_verdicts() -> None:
    assert [engine for engine, release in NEWEST.items() if not labels(engine, release)] == []


def test_every_fault_outside_names_a_pinned_release_and_no_row() -> None:
    listed = faults()
    assert len({(f.code, f.engine, f.release, f.symbol, f.about) for f in listed}) == len(listed)
    known = pins()
    releases = [(f.engine, f.release) for f in listed]
    releases += [host for f in listed for host in f.host.items()]
    assert [(name, release) for name, release in releases if release not in known[name]] == []
    assert {f.code for f in listed} <= LINT_RULES.keys()
    rows = {(c.engine, c.release, c.path, c.symbol, *c.words) for c in cases()}
    assert [f for f in listed if (f.engine, f.release, f.path, f.symbol, f.about) in rows] == []


def test_a_finding_without_a_label_and_a_label_without_a_finding_are_told() -> None:
    def finding(about: str) -> dict[str, str]:
        message = f"A does not pass on {about}, which callers read"
        return {"path": "a.py", "code": "MLA302", "symbol": "A", "message": message}

    known = [Label("a.py", "MLA302", "A", name, "true", "why") for name in ("flag", "gone")]
    used, unlabelled, stale = compare([finding("flag"), finding("fresh")], known)
    assert used == [known[0]]
    assert unlabelled == [finding("fresh")]
    assert stale == [known[1]]


def test_a_fault_is_shown_by_a_fitting_rule_there_or_at_a_caller_that_names_it() -> None:
    [case] = [c for c in cases() if c.id == "S024"]
    [hook] = case.words

    def finding(code: str, path: str, symbol: str, *reasons: str) -> Finding:
        return {
            "code": code, "path": path, "symbol": symbol, "message": f"calls {hook}",
            "reasons": reasons, "related": [],
        }  # fmt: skip

    caller = ("caller.py", "run")
    assert case.is_shown_by(finding("MLA305", *caller, f"not implemented by {case.symbol}, B"))
    assert case.is_shown_by(finding("MLA301", case.path, case.symbol))
    assert not case.is_shown_by(finding("MLA305", *caller, f"not implemented by {case.symbol}2"))
    assert not case.is_shown_by(finding("MLA101", case.path, case.symbol))


def test_two_findings_of_one_symbol_are_told_apart_by_what_they_are_about() -> None:
    read = "A.plan reads cache unguarded: AttributeError if not (x, y)"
    contradicted = "A.plan reads cache in a branch that implies that it is absent: AttributeError"
    assert subject(read) == "A.plan reads cache unguarded"
    assert subject(contradicted) == "A.plan reads cache in a branch that implies that it is absent"
    assert subject("W does not pass on plan, which callers probe") == "W does not pass on plan"


def test_a_finding_is_the_same_where_arguments_and_counts_differ() -> None:
    stored = "f says kind = MLA in {} branches and stores scaling in {}; A.__init__ reads scaling"
    told = "f says kind = MLA in some branches and stores scaling in some"
    assert {subject(stored.format(7, 4)), subject(stored.format(8, 5))} == {told}
    bound = "A.plan calls self._apply({}=...), which does not bind to B._apply(bs, plan=...)"
    assert {subject(bound.format("bs")), subject(bound.format("plan"))} == {
        "A.plan calls self._apply()"
    }
    assert subject("P stands in for A, but has no depth, which Q.run calls: AttributeError") == (
        "P stands in for A, but has no depth"
    )
