"""Put repaired faults back, one at a time, and see who notices.

``python -m tests.runtime.mutate [name ...]`` copies the sources, changes one place, and runs the
tests; where the fault is one of contracts, the linter and the guard too. Exits 1 if somebody who
must notice does not. The first four are those that SGLang shipped; the others are the traps of the
kernels around them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
COPIED = ("mla_guard", "lint_rules", "mla_runtime", "tests", "pyproject.toml")
FAULT_TESTS = "tests/runtime/test_upstream_faults.py"

GUARD_PROBE = """
from mla_guard import HookContractError
from mla_runtime import EngineSettings, ForwardMode, TRTLLMMLABackend
from tests.runtime.world import World
world = World(settings=EngineSettings(disable_chunked_prefix_cache=True))
batch = world.pass_of(ForwardMode.EXTEND, [40, 0], [7, 3]).batch
backend = TRTLLMMLABackend(world.runner)
try:
    backend.init_forward_metadata(batch)
    backend.init_mha_chunk_metadata(batch)
except HookContractError as error:
    print(error.diagnostics[0].code)
"""


@dataclass(frozen=True)
class Mutation:
    """One fault: what to replace in which file, and the codes of the linter and the guard.

    Empty codes say that the fault is one of arithmetic, which no contract describes. ``tests`` is
    the file that must fail.
    """

    name: str
    edits: tuple[tuple[str, str, str], ...]
    lint_code: str = ""
    guard_code: str = ""
    tests: str = FAULT_TESTS


MUTATIONS = (
    Mutation(
        "narrowed override",
        (
            (
                "mla_runtime/trtllm_mla.py",
                "    def init_mha_chunk_metadata(\n        self, forward_batch: ForwardBatchLike, "
                "disable_flashinfer_ragged: bool = False\n    ) -> None:",
                "    def init_mha_chunk_metadata(self, forward_batch: ForwardBatchLike) -> None:",
            ),
        ),
        lint_code="MLA101",
        guard_code="MLA101",
    ),
    Mutation(
        "conditional cache",
        (
            (
                "mla_runtime/flashinfer_mla.py",
                "        self.mha_chunk_kv_cache = "
                "FlashInferMhaChunkKVRunner(model_runner, self)\n",
                "        if self.enable_chunk_kv:\n"
                "            self.mha_chunk_kv_cache = FlashInferMhaChunkKVRunner(\n"
                "                model_runner, self\n"
                "            )\n",
            ),
        ),
        lint_code="MLA202",
        guard_code="MLA202",
    ),
    Mutation(
        "skip flag",
        (
            (
                "mla_runtime/flashinfer_mla.py",
                "        kernels: PlannedKernels | None = None,\n    ) -> None:",
                "        kernels: PlannedKernels | None = None,\n"
                "        skip_wrappers: bool = False,\n    ) -> None:",
            ),
            (
                "mla_runtime/flashinfer_mla.py",
                "        self.decode_wrapper = self.kernels.paged_mla(self.device)\n"
                "        self.prefill_wrapper_paged = self.kernels.paged_mla(self.device)\n"
                "        self.prefill_wrapper_verify = self.kernels.paged_mla(self.device)\n",
                "        if not skip_wrappers:\n"
                "            self.decode_wrapper = self.kernels.paged_mla(self.device)\n"
                "            self.prefill_wrapper_paged = self.kernels.paged_mla(self.device)\n"
                "            self.prefill_wrapper_verify = self.kernels.paged_mla(self.device)\n",
            ),
            (
                "mla_runtime/trtllm_mla.py",
                "            model_runner, skip_prefill, kv_indptr_buf, q_indptr_decode_buf, "
                "kernels=kernels\n        )",
                "            model_runner,\n            skip_prefill,\n            kv_indptr_buf,\n"
                "            q_indptr_decode_buf,\n            kernels=kernels,\n"
                "            skip_wrappers=True,\n        )",
            ),
        ),
        lint_code="MLA203",
        guard_code="MLA202",
    ),
    Mutation(
        "base-2 LSE into a natural merge, FlashInfer",
        (
            (
                "mla_runtime/kernels/flashinfer_planned.py",
                "        return out, canonical_lse(lse, base2=True)\n\n\nclass",
                "        return out, canonical_lse(lse, base2=False)\n\n\nclass",
            ),
        ),
    ),
    Mutation(
        "base-2 LSE into a natural merge, TRT-LLM",
        (
            (
                "mla_runtime/kernels/flashinfer_blocks.py",
                "            lse = canonical_lse(lse, base2=True)\n",
                "            lse = canonical_lse(lse, base2=False)\n",
            ),
        ),
    ),
    Mutation(
        "draft steps planned with the lengths before the draft",
        (("mla_runtime/multi_step_draft.py", "    grown = step + 1\n", "    grown = 0\n"),),
    ),
    Mutation(
        "rows without a key left as the kernel wrote them",
        (
            (
                "mla_runtime/kernels/flashinfer_blocks.py",
                "        if has_empty_rows:\n            out, lse",
                "        if not has_empty_rows:\n            out, lse",
            ),
        ),
    ),
    Mutation(
        "head counts that divide no tile launched as they are",
        (
            (
                "mla_runtime/kernels/flashinfer_paged.py",
                "    if not causal or max_q <= 1:\n",
                "    if num_heads <= 128:\n",
            ),
        ),
    ),
    Mutation(
        "the scale of an e4m3 cache dropped",
        (
            (
                "mla_runtime/kernels/flashinfer_paged.py",
                "ckv_scale=scale, kpe_scale=scale",
                "ckv_scale=1.0, kpe_scale=1.0",
            ),
        ),
        tests="tests/runtime/test_adapters.py",
    ),
    Mutation(
        "a replay that rebinds the captured lengths",
        (
            (
                "mla_runtime/trtllm_mla.py",
                "        metadata.seq_lens_k.copy_(seq_lens)\n",
                "        metadata = replace(metadata, seq_lens_k=seq_lens.to(torch.int32))\n",
            ),
            (
                "mla_runtime/trtllm_mla.py",
                "from typing import TYPE_CHECKING\n",
                "from dataclasses import replace\nfrom typing import TYPE_CHECKING\n",
            ),
        ),
        tests="tests/runtime/test_graph_contract.py",
    ),
    Mutation(
        "uneven draft queries reshaped where their sum divides",
        (
            (
                "mla_runtime/block_metadata.py",
                "bool((queries_cpu != max_q).any()):",
                "int(queries_cpu.sum()) % len(queries_cpu):",
            ),
        ),
    ),
    Mutation(
        "a ragged prefill left on its old plan",
        (
            (
                "mla_runtime/indices_updater.py",
                "        if use_ragged:\n",
                "        if use_ragged and qo_indptr_cpu[-1] == 800:\n",
            ),
        ),
    ),
)


CONTROL = Mutation("nothing changed", (), lint_code="MLA", guard_code="MLA")
"""What an unchanged copy must pass: whoever fails it would fail every mutation too."""


def main(names: Sequence[str]) -> int:
    """Run the named mutations, all by default; 1 if one goes unnoticed."""
    chosen = [m for m in MUTATIONS if not names or m.name in names]
    unknown = set(names) - {m.name for m in MUTATIONS}
    if unknown or not chosen:
        print(f"unknown mutations: {sorted(unknown)}", file=sys.stderr)
        return 2
    if try_one(CONTROL) != ("MISSED", "MISSED", "MISSED"):
        print("the unchanged copy fails already: nothing can be concluded", file=sys.stderr)
        return 2
    print(f"{'fault':<58}{'tests':<12}{'linter':<12}guard")
    unnoticed = 0
    for mutation in chosen:
        noticed = try_one(mutation)
        unnoticed += sum(word == "MISSED" for word in noticed)
        print(f"{mutation.name:<58}{noticed[0]:<12}{noticed[1]:<12}{noticed[2]}", flush=True)
    print(f"{len(chosen)} faults put back, {unnoticed} unnoticed")
    return 1 if unnoticed else 0


def try_one(mutation: Mutation) -> tuple[str, str, str]:
    """What the tests, the linter and the guard say of one fault; ``MISSED`` where they must."""
    with tempfile.TemporaryDirectory(prefix="mutated-") as scratch:
        tree = Path(scratch)
        copied(tree)
        for file, old, new in mutation.edits:
            path = tree / file
            text = path.read_text()
            if text.count(old) != 1:
                raise ValueError(f"{mutation.name}: {file} holds {text.count(old)} of {old!r}")
            path.write_text(text.replace(old, new))
        pytest = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", mutation.tests]
        tests = _run(tree, pytest)
        noticed_by_tests = "fail" if tests.returncode == 1 else "MISSED"
        noticed_by_lint = noticed_by_guard = "-"
        if mutation.lint_code:
            lint = _run(tree, ["-m", "mla_guard", "check", "mla_runtime"])
            found = lint.returncode == 1 and mutation.lint_code in lint.stdout
            noticed_by_lint = mutation.lint_code if found else "MISSED"
        if mutation.guard_code:
            probe = _run(tree, ["-c", GUARD_PROBE])
            found = probe.stdout.strip() == mutation.guard_code
            noticed_by_guard = mutation.guard_code if found else "MISSED"
        return noticed_by_tests, noticed_by_lint, noticed_by_guard


def copied(tree: Path) -> None:
    """Put the sources into the folder ``tree``."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tree / name)


def _run(tree: Path, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=tree, capture_output=True, text=True, check=False
    )


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
