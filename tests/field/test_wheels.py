"""Pinned releases are fetched whole, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.field import wheels

pytestmark = pytest.mark.field


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MLA_GUARD_FIELD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_only_sources_are_kept_and_a_second_call_downloads_nothing(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = wheels.unpacked("sglang", "0.5.2")
    assert found == cache / "sglang-0.5.2-83aae146f391"
    assert (found / "sglang/srt/layers/attention/trtllm_mla_backend.py").is_file()
    assert {path.suffix for path in found.rglob("*") if path.is_file()} == {".py"}
    monkeypatch.setattr(wheels, "_download", None)
    assert wheels.unpacked("sglang", "0.5.2") == found


def test_another_hash_is_refused_and_leaves_nothing_behind(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "pins", lambda: {"sglang": {"0.5.2": "0" * 64}})
    with pytest.raises(RuntimeError, match="DO NOT MATCH THE HASHES"):
        wheels.unpacked("sglang", "0.5.2")
    assert list(cache.iterdir()) == []


def test_an_unknown_release_is_named() -> None:
    with pytest.raises(KeyError, match=r"'0\.0\.1'"):
        wheels.unpacked("sglang", "0.0.1")
