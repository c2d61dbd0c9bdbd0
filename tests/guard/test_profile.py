"""Profiles: what they state, and what is said of one that is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mla_guard import (
    Clause,
    HookContractError,
    contract_of,
    guard_hierarchy,
    status,
    unguard_hierarchy,
    verify,
)
from mla_guard.profile import load_profile, profile_names, terms_of


def test_the_profiles_that_come_with_the_package_load() -> None:
    assert profile_names() == ("sglang", "tokenspeed", "vllm")
    assert [load_profile(name).variadic for name in profile_names()] == [False] * 3
    sglang = load_profile("sglang")
    assert sglang.flags == {"needs_cpu_seq_lens": "any"}
    mark = sglang.marks["FlashInferMLAAttnBackend"]["init_mha_chunk_metadata"]
    assert mark.clauses == (Clause("requires", "mha_chunk_kv_cache"),)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"flag": {}}, "profile: unknown key 'flag', did you mean 'flags'?"),
        ({"zzz": 1}, "profile: unknown key 'zzz', known are flags, hooks, modes"),
        ({"flags": {"x": "some"}}, "profile: flags.x must be any, all or same, not 'some'"),
        (
            {"hooks": {"C": {"h": {"require": []}}}},
            "profile: hooks.C.h: unknown key 'require', did you mean 'requires'?",
        ),
        ({"hooks": {"C": {"h": {"assumes": "not ("}}}}, "profile: hooks.C.h: "),
    ],
)
def test_a_table_that_is_no_profile(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=r"^profile") as caught:
        terms_of(table)
    assert str(caught.value).startswith(said)


def test_an_unknown_profile() -> None:
    with pytest.raises(ValueError, match=r"unknown profile 'sglan', did you mean 'sglang'[?]"):
        load_profile("sglan")


class Foreign:
    def run(self, batch: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def gate(self) -> None:
        raise NotImplementedError


class Leaf(Foreign):
    def run(self, batch: Any) -> Any:
        return batch

    def probed(self, batch: Any) -> Any:
        return batch


class Own(Foreign):
    def run(self, other: int, batch: Any) -> Any:  # type: ignore[override]
        return batch


def test_a_file_with_clauses_by_phase(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        """
        variadic = false
        required = []
        [modes]
        TREE = "verify"
        [own_protocol]
        Own = ["run"]
        [[hooks.Leaf.run]]
        phase = "prefill"
        requires = "planned"
        [[hooks.Leaf.run]]
        phase = "verify"
        ensures = "result is batch"
        """,
        encoding="utf-8",
    )
    guard_hierarchy(Foreign, profile=file)
    try:
        assert Own().run(1, "b") == "b"
        leaf = Leaf()

        class Batch:
            forward_mode = "DECODE"

        batch = Batch()
        assert leaf.run(batch) is batch
        assert [(a.what, a.phase) for a in status(leaf).armed] == [
            ("requires", "prefill"),
            ("ensures", "verify"),
        ]
        batch.forward_mode = "TREE"
        assert leaf.run(batch) is batch
        batch.forward_mode = "EXTEND"
        with pytest.raises(HookContractError) as caught:
            leaf.run(batch)
        assert [d.code for d in caught.value.diagnostics] == ["MLA202"]
    finally:
        unguard_hierarchy(Foreign)
    assert contract_of(Leaf).hooks["run"].clauses == ()


def test_without_a_profile_what_the_base_leaves_open_is_required() -> None:
    guard_hierarchy(Foreign)
    try:
        with pytest.raises(HookContractError) as caught:
            verify(Leaf)
        assert [d.code for d in caught.value.diagnostics] == ["MLA401"]
        with pytest.raises(ValueError, match="Foreign is guarded already"):
            guard_hierarchy(Foreign)
    finally:
        unguard_hierarchy(Foreign)
    with pytest.raises(ValueError, match="Foreign is not guarded"):
        unguard_hierarchy(Foreign)


def test_instances_that_exist_already_are_guarded() -> None:
    leaf = Leaf()
    before = dict(vars(Leaf))
    guard_hierarchy(Foreign, profile={"required": [], "variadic": False})
    try:
        assert status(leaf).installed == ("gate", "run")
        assert leaf.run(1) == 1
        assert status(leaf).verified
    finally:
        unguard_hierarchy(Foreign)
    assert dict(vars(Leaf)) == before
