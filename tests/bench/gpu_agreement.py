"""How far the GPU is from the CPU: ``python -m tests.bench.gpu_agreement``.

The inputs of the ``gpu`` tests; per mode the largest difference from the CPU reference on identical
inputs, and the relative error of both against dense float64.
"""

from __future__ import annotations

import torch

from mla_runtime import AttentionForm, FlashInferMLAAttnBackend, ForwardMode, TorchMLABackend
from mla_runtime.dense_reference import relative_error
from tests.runtime.test_gpu import twins
from tests.runtime.world import FP8

MLA, CHUNKS, SHOT = AttentionForm.MLA, AttentionForm.MHA_CHUNKED_KV, AttentionForm.MHA_ONE_SHOT
EXTEND, DECODE, VERIFY = ForwardMode.EXTEND, ForwardMode.DECODE, ForwardMode.TARGET_VERIFY
DRAFT = ForwardMode.DRAFT_EXTEND_V2
CASES = {
    "decode": (DECODE, [1, 63, 64, 65, 500, 1500], [1] * 6, None, None),
    "decode, e4m3 cache": (DECODE, [1, 63, 500], [1] * 3, None, FP8),
    "ragged extend": (EXTEND, [0, 0, 0], [1, 63, 300], None, None),
    "paged extend": (EXTEND, [0, 64, 500], [40, 1, 150], MLA, None),
    "chunked prefix": (EXTEND, [0, 64, 500], [40, 1, 150], CHUNKS, None),
    "one shot": (EXTEND, [0, 64, 500], [40, 1, 150], SHOT, None),
    "target verify": (VERIFY, [0, 61, 64, 500], [4] * 4, None, None),
    "target verify, e4m3 cache": (VERIFY, [0, 61, 64, 500], [4] * 4, None, FP8),
    "draft extend": (DRAFT, [0, 61, 64, 500], [1, 4, 2, 3], None, None),
}


def main() -> None:
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    print(f"{'mode':<28}{'heads':>6}{'max difference':>16}{'GPU, float64':>14}{'CPU, float64':>14}")
    for name, (mode, prefix_lens, q_lens, form, kv_dtype) in CASES.items():
        for heads in (12, 16, 128):
            pair = twins(mode, prefix_lens, q_lens, heads=heads, kv_dtype=kv_dtype)
            gpu = pair.gpu.run(FlashInferMLAAttnBackend(pair.gpu.world.runner), form, capacity=300)
            cpu = pair.cpu.run(TorchMLABackend(pair.cpu.world.runner), form, capacity=300)
            fp8 = kv_dtype is not None
            dense = pair.cpu.expected(prefix_from_pool=fp8, new_from_pool=fp8)
            difference = float((gpu.cpu().float() - cpu.float()).abs().max())
            errors = relative_error(gpu, dense), relative_error(cpu, dense)
            print(
                f"{name:<28}{heads:>6}{difference:>16.1e}{errors[0]:>14.1e}{errors[1]:>14.1e}",
                flush=True,
            )


if __name__ == "__main__":
    main()
