"""The package as people get it: what importing loads, the command line, the README's example."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import mla_runtime
from mla_runtime.__main__ import main
from mla_runtime.create import BACKENDS

ROOT = Path(__file__).parents[2]
KERNEL_LIBRARIES = ("flashinfer", "tokenspeed_mla", "triton", "cutlass", "libcst", "tvm_ffi", "fla")


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_loads_no_kernel_library() -> None:
    loaded = run(
        "import sys, torch; before = set(sys.modules); import mla_runtime;"
        f"print([m for m in {KERNEL_LIBRARIES!r} if m in sys.modules and m not in before])"
    )
    assert loaded.strip() == "[]"


def test_building_every_backend_for_a_cpu_loads_no_kernel_library() -> None:
    """There ``import flashinfer`` itself can fail, so it must not even be tried."""
    loaded = run(
        "import sys\n"
        "class Refusing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('flashinfer', 'tokenspeed_mla'):\n"
        "            raise AssertionError(f'{name} imported for a CPU device')\n"
        "sys.meta_path.insert(0, Refusing())\n"
        "from mla_runtime.create import BACKENDS, create_backend, create_draft_backend\n"
        "from tests.runtime.world import FP8, World\n"
        "for name in BACKENDS:\n"
        "    runner = World(kv_dtype=FP8 if name == 'tokenspeed_mla' else None).runner\n"
        "    create_backend(name, runner); create_draft_backend(name, runner, 1, 3)\n"
        "print('built', len(BACKENDS))"
    )
    assert loaded.strip() == f"built {len(BACKENDS)}"


def test_everything_that_is_exported_exists() -> None:
    assert [n for n in mla_runtime.__all__ if not hasattr(mla_runtime, n)] == []
    assert sorted(mla_runtime.__all__) == mla_runtime.__all__


@pytest.mark.parametrize("name", BACKENDS)
def test_the_tiny_engine_prints_small_errors_for_every_phase(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--backend", name, "--device", "cpu", "--prompt", "20", "--requests", "2"]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"mla on cpu: {BACKENDS[name].__name__}, kernels: torch"
    rows = [re.split(r"\s{2,}", line.strip()) for line in lines[2:]]
    assert [row[0] for row in rows] == [
        "prefill",
        "prefix-cached prefill",
        "decode",
        "target verify",
        "decode after verify",
        "draft extend",
    ]
    # An e4m3 cache costs what e4m3 costs; all else is float32 against float64.
    tolerance = 1e-2 if name == "tokenspeed_mla" else 1e-5
    for row in rows:
        assert float(row[-2].split()[-1]) <= tolerance, row
        assert float(row[-1].replace(",", "")) > 0


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_the_tiny_engine_in_16_bit(dtype: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--device", "cpu", "--dtype", dtype, "--prompt", "9", "--requests", "2"]) == 0
    errors = [float(line.split()[-2]) for line in capsys.readouterr().out.splitlines()[2:]]
    assert len(errors) == 6
    assert max(errors) <= 2e-2


@pytest.mark.parametrize("model", ["ring", "kimi-linear"])
def test_the_tiny_engine_drafts_and_says_that_the_tokens_are_the_same(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--model", model, "--speculative", "2", "--split-prefill-decode", "--tbo"]
    sizes = ["--device", "cpu", "--prompt", "9", "--requests", "2", "--heads", "2"]
    assert main([*given, *sizes]) == 0
    lines = capsys.readouterr().out.splitlines()
    wrapped = "TboAttnBackend > HybridLinearAttnBackend > HybridAttnBackend > "
    assert lines[0].startswith(f"{model} on cpu: {wrapped}")
    found = re.fullmatch(
        r"32 tokens for each of 2 requests: (\d+) passes with 2 drafted tokens "
        r"\((\d+) of (\d+) accepted\), 31 without; tokens identical",
        lines[-1],
    )
    assert found is not None
    passes, accepted, drafted = map(int, found.groups())
    assert 0 < accepted < drafted == passes * 4


def test_options_that_no_backend_serves_exit_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--backend", "trtllm_mla", "--device", "cpu", "--page-size", "16"]) == 2
    assert "page_size=16" in capsys.readouterr().err


def examples(path: Path) -> list[str]:
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.DOTALL)
    return [block for block in blocks if "create_backend" in block]


def test_the_documented_example_runs() -> None:
    """Ten lines in which an engine imports a backend; the README's, where it has them, too."""
    found = examples(ROOT / "docs" / "runtime.md") + examples(ROOT / "README.md")
    assert found
    for example in found:
        assert len([line for line in example.splitlines() if line.strip()]) <= 10
        assert run(example).strip() == "torch.Size([2, 2048])"


def test_the_feature_table_links_to_tests_that_exist() -> None:
    text = (ROOT / "docs" / "runtime.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("|") and "tests/runtime" in line]
    assert len(rows) >= 20
    for row in rows:
        links = re.findall(r"\[`([\w ]+)`\]\(\.\./(tests/runtime/\w+\.py)\)", row)
        assert links, row
        for function, path in links:
            assert f"def {function}(" in (ROOT / path).read_text(), (function, path)
