"""The guard says of a fault what the linter says: the same code, words and places."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lint_rules.config import Config
from lint_rules.run import check
from mla_guard import guard_hierarchy, unguard_hierarchy
from mla_guard.diagnostic import Diagnostic, Place
from mla_guard.verification import breaches

SOURCE = """
class AttentionBackend:
    def init_forward_metadata(self, forward_batch, in_capture=False):
        raise NotImplementedError

    def init_mha_chunk_metadata(self, forward_batch, disable_ragged=False):
        pass

    def forward_decode(self, q, k):
        pass


class Narrow(AttentionBackend):
    def init_forward_metadata(self, forward_batch, in_capture=False):
        pass

    @staticmethod
    def helper():
        pass

    def init_mha_chunk_metadata(self, forward_batch):
        pass

    def forward_decode(self, q, key):
        return super().forward_decode(q, key, None)


class HybridAttnBackend(AttentionBackend):
    def __init__(self, full: AttentionBackend):
        self.full = full

    def init_forward_metadata(self, forward_batch, in_capture=False):
        self.full.init_forward_metadata(forward_batch, in_capture)

    def init_mha_chunk_metadata(self, forward_batch, disable_ragged=False):
        init = getattr(self.full, "init_mha_chunk_metadata", None)
        if init is not None:
            init(forward_batch, disable_ragged)

    def forward_decode(self, q, k):
        return self.full.forward_decode(q, k)


def build():
    return HybridAttnBackend(Narrow())


def step(backend: AttentionBackend, forward_batch, q, k):
    backend.init_forward_metadata(forward_batch, in_capture=True)
    backend.init_mha_chunk_metadata(forward_batch, disable_ragged=True)
    backend.forward_decode(q, k=k)
"""


def imported(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def without_callers(diagnostic: Diagnostic) -> Diagnostic:
    """A finding less the calls elsewhere that make it an error: a running class knows of none."""
    return replace(diagnostic, related=diagnostic.related[:1])


def test_signature_drift_and_calls_that_do_not_bind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "engine_of_same_words.py"
    path.write_text(textwrap.dedent(SOURCE), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    linted = {
        without_callers(d)
        for d in check([path], Config(root=tmp_path)).diagnostics
        if d.code in ("MLA101", "MLA102")
    }
    module = imported(path)
    guard_hierarchy(module.AttentionBackend)
    try:
        guarded = set(breaches(module.build()))
    finally:
        unguard_hierarchy(module.AttentionBackend)
        del sys.modules[path.stem]
    assert sorted(d.text() for d in guarded) == sorted(d.text() for d in linted)
    assert {d.place for d in guarded} == {
        Place(str(path), line, column) for line, column in ((21, 9), (24, 9), (25, 24), (38, 13))
    }


DROPPED = """
from mla_guard import guard, hook

@guard
class AttentionBackend:
    @hook(optional_arguments="disable_ragged")
    def init_mha_chunk_metadata(self, forward_batch, disable_ragged=False):
        pass


class MayDrop(AttentionBackend):
    def init_mha_chunk_metadata(self, forward_batch):
        pass


class Renames(AttentionBackend):
    def init_mha_chunk_metadata(self, batch):
        pass
"""


def test_what_the_contract_lets_an_override_drop(tmp_path: Path) -> None:
    path = tmp_path / "dropping_engine.py"
    path.write_text(DROPPED)
    spec = importlib.util.spec_from_file_location("dropping_engine", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    said = breaches(module.MayDrop) + breaches(module.Renames)
    [found] = check([path], Config(src=(path,), root=tmp_path)).diagnostics
    assert [(d.code, d.symbol, d.reasons) for d in said] == [
        (found.code, found.symbol, found.reasons)
    ]
    assert found.reasons == ("renames 'forward_batch' to 'batch' (position 1)",)
