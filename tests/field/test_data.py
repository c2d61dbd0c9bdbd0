"""The faults and verdicts that the field benchmark reads are well formed."""

from __future__ import annotations

from tests.field.cases import NEWEST, cases
from tests.field.labels import Label, compare, labels
from tests.field.wheels import pins


def test_every_fault_names_a_pinned_release() -> None:
    found = cases()
    assert len({case.id for case in found}) == len(found)
    known = pins()
    assert [c.id for c in found if c.release and c.release not in known[c.engine]] == []
    assert [c.id for c in found if bool(c.release) != (c.read != "commit")] == []


def test_every_newest_release_has_verdicts() -> None:
    assert [engine for engine, release in NEWEST.items() if not labels(engine, release)] == []


def test_a_finding_without_a_label_and_a_label_without_a_finding_are_told() -> None:
    def finding(about: str) -> dict[str, str]:
        message = f"A does not pass on {about}, which callers read"
        return {"path": "a.py", "code": "MLA302", "symbol": "A", "message": message}

    known = [Label("a.py", "MLA302", "A", name, "true", "why") for name in ("flag", "gone")]
    used, unlabelled, stale = compare([finding("flag"), finding("fresh")], known)
    assert used == [known[0]]
    assert unlabelled == [finding("fresh")]
    assert stale == [known[1]]
