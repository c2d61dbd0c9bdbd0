"""Nothing can be taken from a wrapper unnoticed: one of each kind here, all by the script."""

from __future__ import annotations

import pytest

from tests.runtime.composites import HOOKS
from tests.runtime.lost_hooks import FLAGS, WRAPPERS, Removal, removals, try_one

ALL = list(removals())
SAMPLE = [
    next(r for r in ALL if str(r) == name)
    for name in (
        "HybridLinearAttnBackend: method init_mha_chunk_metadata",
        "HybridAttnBackend: route update_mamba_state_after_mtp_verify",
        "TboAttnBackend: flag data_type",
    )
]


def test_every_name_of_the_contract_is_taken_from_every_wrapper() -> None:
    for kind, names in (("route", [*HOOKS, *FLAGS]), ("method", HOOKS), ("flag", FLAGS)):
        for wrapper in WRAPPERS.values():
            taken = [r.name for r in ALL if (r.kind, r.wrapper) == (kind, wrapper)]
            assert sorted(taken) == sorted(names)


@pytest.mark.parametrize("removal", SAMPLE, ids=str)
def test_a_removal_is_noticed(removal: Removal) -> None:
    assert try_one(removal) == ("MLA304", "MLA304", "fail")
