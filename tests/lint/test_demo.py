"""The bundled engine shows each rule once, whatever its names are."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

import pytest

from lint_rules.config import Config
from lint_rules.demo import DESCRIPTION, ENGINE
from lint_rules.profiles import BACKEND_ROOTS, COMPANION_ROOTS
from lint_rules.run import check
from mla_guard.cli import main
from mla_guard.diagnostic import LINT_RULES, Diagnostic
from tests.lint.renaming import Renaming

FAULTS = [rule for rule in LINT_RULES if not rule.startswith("MLA0")]


def findings(engine: Path) -> list[Diagnostic]:
    report = check([engine], Config(src=(engine,), root=engine))
    assert report.failures == ()
    return list(report.diagnostics)


def test_each_fault_is_found_once_and_reached() -> None:
    found = findings(ENGINE)
    assert sorted(d.code for d in found) == FAULTS
    # what a caller sends, or which backend is configured, is not known: warnings at most
    latent = ["MLA105", "MLA205", "MLA305", "MLA308", "MLA309"]
    assert sorted(d.code for d in found if d.severity == "warning") == latent


def test_each_finding_stands_where_the_fault_is() -> None:
    found = {d.code: (Path(d.place.path).name, d.symbol) for d in findings(ENGINE)}
    assert found == {
        "MLA101": ("trtllm_mla.py", "TRTLLMMLABackend.init_mha_chunk_metadata"),
        "MLA102": ("wrappers.py", "HybridLinearBackend.init_mha_chunk_metadata"),
        "MLA103": ("triton.py", "TritonBackend.replay_cuda_graph"),
        "MLA104": ("spec_worker.py", "LookupWorker.generate"),
        "MLA105": ("trtllm_mla.py", "TRTLLMMLABackend.forward_decode"),
        "MLA201": ("flashmla.py", "FlashMLABackend.init_cuda_graph_state"),
        "MLA202": ("trtllm_mla.py", "TRTLLMMLABackend.init_mha_chunk_metadata"),
        "MLA203": ("tokenspeed_mla.py", "TokenspeedMLABackend.__init__"),
        "MLA204": ("hip_mla.py", "HipMLABackend.replay_cuda_graph"),
        "MLA205": ("hip_mla.py", "HipMLABackend.init_forward_metadata"),
        "MLA206": ("model_config.py", "ModelConfig.__init__"),
        "MLA207": ("flashinfer_mla.py", "FlashInferMLABackend._one_shot"),
        "MLA301": ("wrappers.py", "TwoBatchBackend.init_mha_chunk_metadata"),
        "MLA302": ("wrappers.py", "TwoBatchBackend.max_context_len"),
        "MLA303": ("wrappers.py", "SlidingWindowBackend.init_mha_chunk_metadata"),
        "MLA304": ("wrappers.py", "PhaseBackend.replay_cuda_graph"),
        "MLA305": ("spec_worker.py", "BaseSpecWorker.commit"),
        "MLA306": ("forward_rope.py", "FusedRopeForward.forward_fused"),
        "MLA307": ("algorithm.py", "PluginAlgorithm.needs_scores"),
        "MLA308": ("model_runner.py", "ModelRunner.record"),
        "MLA309": ("flashmla.py", "FlashMLABackend.init_forward_metadata"),
    }


def test_no_name_matters(tmp_path: Path) -> None:
    files = sorted(ENGINE.glob("*.py"))
    renaming = Renaming(
        [file.read_text(encoding="utf-8") for file in files],
        keep=[*BACKEND_ROOTS, *COMPANION_ROOTS, "ABC", "abstractmethod"],
    )
    assert len(renaming) > 60
    engine = tmp_path / "engine"
    engine.mkdir()
    for file in files:
        text = renaming.apply(file.read_text(encoding="utf-8"))
        ast.parse(text)
        (engine / file.name).write_text(text, encoding="utf-8")

    def told(finding: Diagnostic, directory: Path) -> str:
        """The finding in the old names; columns move with the length of names."""
        text = re.sub(r"(\.py:\d+):\d+:", r"\1:", finding.text())
        return renaming.undo(text.replace(f"{directory}/", ""))

    original = [told(finding, ENGINE) for finding in findings(ENGINE)]
    assert [told(finding, engine) for finding in findings(engine)] == original


def test_the_verb_prints_every_finding_and_exits_0(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = shutil.copytree(ENGINE, tmp_path / "engine")
    monkeypatch.setattr("lint_rules.demo.ENGINE", engine)
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    output = capsys.readouterr()
    assert output.err == ""
    assert output.out.startswith(f"{DESCRIPTION}\n\nengine/")
    assert output.out.endswith(
        "\nFound 16 errors, 5 warnings in 13 backend classes (18 files). "
        "6 may be repairable with --fix.\n"
    )
    for finding in findings(engine):
        assert finding.headline().replace(f"{tmp_path}/", "") in output.out
