"""Requests, their pages, and the passes that a serving engine makes over them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch

from mla_runtime.batch import ForwardBatch
from mla_runtime.create import create_backend, kernels_of
from mla_runtime.dense_reference import relative_error
from mla_runtime.engine.model import TinyModel
from mla_runtime.engine.reference import DenseModel
from mla_runtime.phase import ForwardMode
from mla_runtime.pool import MlaKvPool, ReqToTokenPool, SlotAllocator
from mla_runtime.runner import MlaModelConfig, ModelRunner
from mla_runtime.settings import EngineSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["EngineOptions", "PhaseReport", "TinyEngine"]


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What ``python -m mla_runtime`` lets people choose."""

    backend: str = "auto"
    device: str = "cpu"
    dtype: torch.dtype = torch.float32
    kv_dtype: torch.dtype | None = None
    page_size: int = 64
    heads: int = 8
    layers: int = 2
    requests: int = 4
    prompt: int = 96
    draft_tokens: int = 4
    seed: int = 0


@dataclass(frozen=True, slots=True)
class PhaseReport:
    """One phase: its error against the float64 model and its speed."""

    phase: str
    form: str
    tokens: int
    error: float
    tokens_per_second: float


@dataclass
class TinyEngine:
    """A pool, a model and a backend; sequences grow by the passes made over them."""

    options: EngineOptions
    sequences: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        options = self.options
        self.device = torch.device(options.device)
        gpu = self.device.type == "cuda"
        self.config = MlaModelConfig(
            num_attention_heads=options.heads,
            kv_lora_rank=512 if gpu else 128,
            qk_nope_head_dim=128 if gpu else 32,
            qk_rope_head_dim=64 if gpu else 16,
            v_head_dim=128 if gpu else 32,
            context_len=2048,
        )
        chunk_capacity = options.requests * 16
        pages = options.requests * (-(-self.config.context_len // options.page_size))
        size = pages * options.page_size
        fp8 = options.kv_dtype == torch.float8_e4m3fn
        pool = MlaKvPool(
            size,
            options.page_size,
            self.config.kv_lora_rank,
            self.config.qk_rope_head_dim,
            options.layers,
            options.kv_dtype or options.dtype,
            self.device,
            [0.05] * options.layers if fp8 else None,
        )
        self.req_to_token = ReqToTokenPool(options.requests, self.config.context_len, self.device)
        self.allocator = SlotAllocator(size, options.page_size)
        self.slots: list[list[int]] = [[] for _ in range(options.requests)]
        self.sequences = [[] for _ in range(options.requests)]
        runner = ModelRunner(
            self.config,
            self.req_to_token,
            pool,
            dtype=options.dtype,
            kv_cache_dtype=options.kv_dtype,
            page_size=options.page_size,
            device=self.device,
            server_args=EngineSettings(
                speculative_num_draft_tokens=options.draft_tokens,
                chunked_prefix_cache_threshold=1,
                prefix_chunk_capacity=chunk_capacity,
            ),
        )
        self.backend = create_backend(options.backend, runner)
        self.model = TinyModel(
            self.config,
            pool,
            self.req_to_token.req_to_token,
            layers=options.layers,
            hidden_size=128,
            vocab_size=512,
            dtype=options.dtype,
            device=self.device,
            chunk_capacity=chunk_capacity,
            seed=options.seed,
        )
        self.reference = DenseModel(self.model)
        self.generator = torch.Generator().manual_seed(options.seed)

    @property
    def kernels(self) -> str:
        """Which kernels run."""
        return kernels_of(self.backend)

    def random_tokens(self, counts: Sequence[int]) -> list[list[int]]:
        """Token ids for the next pass."""
        return [
            torch.randint(0, 512, (count,), generator=self.generator).tolist() for count in counts
        ]

    @torch.inference_mode()
    def run(
        self, phase: str, mode: ForwardMode, new_tokens: list[list[int]], *, keep: bool = True
    ) -> PhaseReport:
        """One pass over every request; ``keep`` False takes the new tokens back (a rejected draft).

        Returns the error of the new tokens' logits over all requests, and the pass's speed.
        """
        before = [len(sequence) for sequence in self.sequences]
        batch = self._batch(mode, before, new_tokens)
        flat = torch.tensor(
            [token for tokens in new_tokens for token in tokens], device=self.device
        )
        start = self._now()
        self.backend.init_forward_metadata(batch)
        form = self.backend.preferred_form(batch)
        logits = self.model(flat, batch, self.backend)
        seconds = self._now() - start
        expected = []
        for request, tokens in enumerate(new_tokens):
            sequence = self.sequences[request] + tokens
            expected.append(self.reference.logits(sequence)[before[request] :])
            if keep:
                self.sequences[request] = sequence
        return PhaseReport(
            phase,
            form.name,
            flat.numel(),
            relative_error(logits, torch.cat(expected)),
            flat.numel() / seconds,
        )

    def _batch(
        self, mode: ForwardMode, before: list[int], new_tokens: list[list[int]]
    ) -> ForwardBatch:
        counts = [len(tokens) for tokens in new_tokens]
        after = [b + c for b, c in zip(before, counts, strict=True)]
        loc: list[int] = []
        for request, length in enumerate(after):
            self.slots[request] = self.allocator.extend(self.slots[request], length)
            self.req_to_token.req_to_token[request, :length] = torch.tensor(
                self.slots[request][:length], dtype=torch.int32
            )
            loc += self.slots[request][before[request] : length]
        requests = list(range(len(counts)))
        if mode is ForwardMode.DECODE:
            return ForwardBatch.decode(requests, after, loc, self.device)
        if mode is ForwardMode.TARGET_VERIFY:
            return ForwardBatch.target_verify(requests, before, counts[0], loc, self.device)
        return ForwardBatch.extend(requests, before, counts, loc, self.device, mode)

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def reports(self) -> list[PhaseReport]:
        """The passes of a request's life, in order."""
        options = self.options
        many = [options.prompt + 3 * i for i in range(options.requests)]
        draft = [options.draft_tokens] * options.requests
        accepted = [1 + i % options.draft_tokens for i in range(options.requests)]
        one = [1] * options.requests
        reports = [self.run("prefill", ForwardMode.EXTEND, self.random_tokens(many))]
        reports.append(
            self.run("prefix-cached prefill", ForwardMode.EXTEND, self.random_tokens(many))
        )
        reports.append(self.run("decode", ForwardMode.DECODE, self.random_tokens(one)))
        drafted = self.random_tokens(draft)
        reports.append(self.run("target verify", ForwardMode.TARGET_VERIFY, drafted, keep=False))
        kept = [tokens[:count] for tokens, count in zip(drafted, accepted, strict=True)]
        reports.append(self.run("draft extend", ForwardMode.DRAFT_EXTEND_V2, kept))
        return reports


def warm(options: EngineOptions) -> None:
    """One throwaway run, so that a table times kernels and not their compilation."""
    TinyEngine(replace(options, prompt=8)).reports()
