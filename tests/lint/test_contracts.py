"""``mla-guard contract`` on the bundled engine, compared whole."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lint_rules.demo import ENGINE
from mla_guard.cli import main

ROOT = """\
AttentionBackend  engine/base.py:6
  init_forward_metadata(forward_batch): required; 8 of 10 classes define it
  forward_decode(q, k, v, layer, forward_batch, save_kv_cache=...): required; 9 of 10 classes \
define it
  forward_extend(q, k, v, layer, forward_batch, save_kv_cache=...): required; 10 of 10 classes \
define it
  plan_for_graph(forward_batch): has a default; 0 of 10 classes define it
  plan_outside_graph(forward_batch): has a default; 5 of 10 classes define it
  plan_in_graph(forward_batch): has a default; 5 of 10 classes define it
  init_cuda_graph_state(max_bs): required; 8 of 10 classes define it
  commit_draft(accepted): required; 6 of 10 classes define it
  forward(q, k, v, layer, forward_batch, save_kv_cache=...): has a default; 0 of 10 classes \
define it
  init_mha_chunk_metadata(forward_batch, disable_flashinfer_ragged=...) or \
init_mha_chunk_metadata(forward_batch): not declared, but asked for; 5 of 10 classes define it
  replay_cuda_graph(bs, seq_lens): not declared, but asked for; 6 of 10 classes define it
"""
WRAPPER = """\
TwoBatchBackend < AttentionBackend  engine/wrappers.py:87
  init_forward_metadata(forward_batch): delegated  engine/wrappers.py:94
  forward_decode(q, k, v, layer, forward_batch, save_kv_cache=...): delegated  \
engine/wrappers.py:116
  forward_extend(q, k, v, layer, forward_batch, save_kv_cache=...): delegated  \
engine/wrappers.py:119
  plan_for_graph(forward_batch): inherited from AttentionBackend  engine/base.py:19
  plan_outside_graph(forward_batch): delegated  engine/wrappers.py:99
  plan_in_graph(forward_batch): delegated  engine/wrappers.py:102
  init_cuda_graph_state(max_bs): delegated  engine/wrappers.py:105
  commit_draft(accepted): delegated  engine/wrappers.py:113
  forward(q, k, v, layer, forward_batch, save_kv_cache=...): inherited from AttentionBackend  \
engine/base.py:38
  init_mha_chunk_metadata: absent
  replay_cuda_graph(bs, seq_lens): delegated  engine/wrappers.py:110
"""
MATRIX = """\
                       1  2  3  4  5  6  7  8  9 10 11
FlashInferMLABackend   I  I  I  i  I  I  I  I  i  I  I
FlashMLABackend        I  I  I  i  i  i  I  i  i  i  i
HipMLABackend          I  I  I  i  i  i  I  I  i  .  I
HybridLinearBackend    d  d  d  i  d  d  d  d  i  d  d
PhaseBackend           d  d  d  i  d  d  d  d  i  d  .
SlidingWindowBackend   d  d  d  i  d  d  d  d  i  d  d
TRTLLMMLABackend       i  I  I  i  i  i  i  i  i  D  i
TokenspeedMLABackend   i  i  I  i  i  i  i  i  i  i  i
TritonBackend          I  I  I  i  i  i  I  r  i  .  I
TwoBatchBackend        d  d  d  i  d  d  d  d  i  .  d

I implements  D drifts  i inherits  d delegates  r raises only  . absent

  1  init_forward_metadata
  2  forward_decode
  3  forward_extend
  4  plan_for_graph
  5  plan_outside_graph
  6  plan_in_graph
  7  init_cuda_graph_state
  8  commit_draft
  9  forward
 10  init_mha_chunk_metadata

                                                      1  2  3  4  5  6  7  8  9 10
PhaseBackend.prefill_backend > FlashInferMLABackend   I  -  I  b  -  -  I  -  b  I
PhaseBackend.prefill_backend > FlashMLABackend        I  -  I  b  -  -  I  -  b  i
PhaseBackend.prefill_backend > HipMLABackend          I  -  I  b  -  -  I  -  b  .
PhaseBackend.prefill_backend > TokenspeedMLABackend   i  -  I  b  -  -  i  -  b  i
PhaseBackend.prefill_backend > TritonBackend          I  -  I  b  -  -  I  -  b  .
PhaseBackend.prefill_backend > TRTLLMMLABackend       i  -  I  b  -  -  i  -  b  I
PhaseBackend.prefill_backend > HybridLinearBackend    I  -  I  b  -  -  I  -  b  I
PhaseBackend.prefill_backend > SlidingWindowBackend   I  -  I  b  -  -  I  -  b  I
PhaseBackend.prefill_backend > TwoBatchBackend        I  -  I  b  -  -  I  -  b  .
PhaseBackend.decode_backend > FlashInferMLABackend    I  I  -  b  I  I  I  I  b  -
PhaseBackend.decode_backend > FlashMLABackend         I  I  -  b  i  i  I  i  b  -
PhaseBackend.decode_backend > HipMLABackend           I  I  -  b  i  i  I  I  b  -
PhaseBackend.decode_backend > TokenspeedMLABackend    i  i  -  b  i  i  i  i  b  -
PhaseBackend.decode_backend > TritonBackend           I  I  -  b  i  i  I  r  b  -
PhaseBackend.decode_backend > TRTLLMMLABackend        i  I  -  b  i  i  i  i  b  -
PhaseBackend.decode_backend > HybridLinearBackend     I  I  -  b  I  I  I  I  b  -
PhaseBackend.decode_backend > SlidingWindowBackend    I  I  -  b  I  I  I  I  b  -
PhaseBackend.decode_backend > TwoBatchBackend         I  I  -  b  I  I  I  I  b  -

I reaches an implementation there  i reaches an inherited one  r reaches one that only raises
. reaches nothing  - not routed to this child  s the wrapper's own  b the base's  ? no route
"""


@pytest.fixture(autouse=True)
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ENGINE, tmp_path / "engine")
    (tmp_path / "pyproject.toml").write_text("")
    monkeypatch.chdir(tmp_path)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["contract", *arguments]) == 0
    return capsys.readouterr().out


def test_a_base_class_shows_its_hooks_and_those_that_callers_ask_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert printed(capsys) == ROOT
    assert printed(capsys, "AttentionBackend") == ROOT
    assert printed(capsys, "engine/base.py") == ROOT


def test_a_backend_shows_where_each_hook_comes_from(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "TwoBatchBackend") == WRAPPER
    assert printed(capsys, "engine.wrappers.TwoBatchBackend") == WRAPPER


def test_the_matrix_has_a_row_for_each_backend(capsys: pytest.CaptureFixture[str]) -> None:
    hooks, _, rows = printed(capsys, "--matrix").partition("\n\n")
    assert [line.split()[0] for line in hooks.splitlines()] == [str(n) for n in range(1, 12)]
    assert rows == MATRIX


def test_an_unknown_class_is_2_and_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["contract", "TritonBackends"]) == 2
    assert capsys.readouterr().err == (
        "mla-guard: error: no backend class or path is named 'TritonBackends' "
        "(did you mean 'TritonBackend'?)\n"
    )


def test_a_definition_that_only_raises_and_a_stored_hook(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "base.py").write_text(
        "class AttentionBackend:\n"
        "    def plan(self, batch):\n        raise NotImplementedError\n\n"
        "    def close(self):\n        pass\n\n\n"
        "class Refusing(AttentionBackend):\n"
        "    def plan(self, batch):\n        raise NotImplementedError('never')\n\n\n"
        "class Storing(AttentionBackend):\n"
        "    def __init__(self, plan):\n        self.verify = plan\n\n"
        "    def plan(self, batch):\n        return self.verify(batch)\n\n\n"
        "class Verifying(AttentionBackend):\n"
        "    def verify(self, batch):\n        return batch\n\n\n"
        "def run(attn_backend: AttentionBackend, batch):\n    attn_backend.verify(batch)\n",
        encoding="utf-8",
    )
    rows = printed(capsys, "other/base.py", "--matrix").split("\n\n")[1].splitlines()
    assert rows == [
        "            1  2  3",
        "Refusing    r  i  .",
        "Storing     I  i  I",
        "Verifying   r  i  I",
    ]
