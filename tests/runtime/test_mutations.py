"""The four faults that SGLang shipped, put back one at a time, are noticed by all who must."""

from __future__ import annotations

import pytest

from tests.runtime.mutate import CONTROL, MUTATIONS, ROOT, Mutation, try_one

SHIPPED = MUTATIONS[:5]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_every_mutation_still_has_its_place(mutation: Mutation) -> None:
    for file, old, _ in mutation.edits:
        assert (ROOT / file).read_text().count(old) == 1, file


def test_an_unchanged_copy_is_fine() -> None:
    assert try_one(CONTROL) == ("MISSED", "MISSED", "MISSED")


@pytest.mark.parametrize("mutation", SHIPPED, ids=lambda m: m.name)
def test_a_fault_put_back_is_noticed(mutation: Mutation) -> None:
    expected = ("fail", mutation.lint_code or "-", mutation.guard_code or "-")
    assert try_one(mutation) == expected
