"""Faulty releases repaired: the finding goes, no other comes, the files parse, and it is final."""

from __future__ import annotations

import ast
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from lint_rules.baseline import new_text
from lint_rules.cache import Cache
from lint_rules.config import Config
from lint_rules.fix import fix
from lint_rules.fixed import diff, write
from lint_rules.run import check
from mla_guard.diagnostic import Diagnostic
from tests.field.wheels import unpacked

pytestmark = [pytest.mark.field, pytest.mark.slow]

CHUNK_HOOK = """\
+    def init_mha_chunk_metadata(
+        self, forward_batch: ForwardBatch, disable_flashinfer_ragged: bool = False
+    ):
+        hook = getattr(self.full_attn_backend, "init_mha_chunk_metadata", None)
+        if hook is not None:
+            hook(forward_batch, disable_flashinfer_ragged=disable_flashinfer_ragged)
"""
"""SGLang 0.5.13 repairs #27316 so too, but passes the flag by position."""

WIDENED = """\
-    def init_mha_chunk_metadata(self, forward_batch: "ForwardBatch") -> None:
+    def init_mha_chunk_metadata(
+        self, forward_batch: "ForwardBatch", disable_flashinfer_ragged: bool = False
+    ) -> None:
"""
"""The signature that SGLang 0.5.16 has."""

ASKING = """\
     def init_mha_chunk_metadata(self, forward_batch: ForwardBatch):
-        self.backend.init_mha_chunk_metadata(forward_batch)
+        hook = getattr(self.backend, "init_mha_chunk_metadata", None)
+        if hook is not None:
+            hook(forward_batch)
"""


def key(finding: Diagnostic) -> tuple[str, str, str, str]:
    """A finding without its lines and counts."""
    message = re.sub(r"\b\d+\b", "#", finding.message)
    return finding.code, finding.place.path, finding.symbol, message


@pytest.mark.parametrize(
    ("release", "symbol", "shown"),
    [
        ("0.5.12.post1", ("MLA301", "HybridLinearAttnBackend.init_mha_chunk_metadata"), CHUNK_HOOK),
        ("0.5.13", ("MLA101", "TRTLLMMLABackend.init_mha_chunk_metadata"), WIDENED),
        ("0.5.23", ("MLA303", "DotsSWAMLAAttnBackend.init_mha_chunk_metadata"), ASKING),
    ],
)
def test_a_release_is_repaired(
    release: str, symbol: tuple[str, str], shown: str, tmp_path: Path
) -> None:
    shutil.copytree(unpacked("sglang", release) / "sglang", tmp_path / "sglang")
    config, cache = Config(src=(tmp_path,), root=tmp_path), Cache(tmp_path / ".cache")
    before = {key(d) for d in check([tmp_path], config, cache=cache).diagnostics}
    fixed = fix([tmp_path], config, cache=cache)
    assert symbol in {(d.code, d.symbol) for d in fixed.repaired}
    assert shown in diff(fixed, tmp_path)
    write(fixed)
    after = {key(d) for d in check([tmp_path], config, cache=cache).diagnostics}
    assert after <= before - {key(d) for d in fixed.repaired}
    for path in fixed.after:
        ast.parse(Path(path).read_bytes())
    assert fix([tmp_path], config, cache=cache).after == {}


def test_an_override_that_is_narrowed_under_a_baseline_is_widened_again(tmp_path: Path) -> None:
    shutil.copytree(unpacked("sglang", "0.5.23") / "sglang", tmp_path / "sglang")
    config, cache = Config(src=(tmp_path,), root=tmp_path), Cache(tmp_path / ".cache")
    known = tmp_path / "known.txt"
    known.write_text(new_text(check([tmp_path], config, cache=cache).diagnostics, known)[0])
    backend = tmp_path / "sglang/srt/layers/attention/trtllm_mla_backend.py"
    original = backend.read_bytes()
    narrow, wide = WIDENED.split("\n", 1)
    taking = re.sub("^[+]", "", wide, flags=re.MULTILINE).replace('"', "")
    assert original.count(taking.encode()) == 1
    backend.write_bytes(
        original.replace(
            taking.encode(), narrow.removeprefix("-").replace('"', "").encode() + b"\n"
        )
    )
    fixed = fix([tmp_path], replace(config, baseline=known), cache=cache)
    assert [d.symbol for d in fixed.repaired] == ["TRTLLMMLABackend.init_mha_chunk_metadata"]
    assert fixed.report.diagnostics == ()
    assert fixed.after == {str(backend): original}
