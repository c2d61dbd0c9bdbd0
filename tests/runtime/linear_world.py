"""Requests with known projections and linear states in slots, and what they must come to."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import torch

from mla_runtime import (
    EngineSettings,
    ForwardBatch,
    GDNAttnBackend,
    HybridReqToTokenPool,
    KDAAttnBackend,
    LightningAttnBackend,
    LinearAttentionLayer,
    LinearAttnBackend,
    LinearStatePool,
    LinearStateShape,
    MlaKvPool,
    ModelRunner,
    lightning_slopes,
)
from mla_runtime.linear.reference import gdn_reference, kda_reference, lightning_reference
from tests.runtime.world import SMALL

FAMILIES: dict[str, type[LinearAttnBackend]] = {
    "lightning": LightningAttnBackend,
    "gdn": GDNAttnBackend,
    "kda": KDAAttnBackend,
}
LAYER = 3
Rows = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""``mixed_qkv``, ``a`` and ``b`` of a request's tokens."""


@dataclass
class LinearWorld:
    """One layer's weights and states; a request's tokens are drawn once and replayed in passes."""

    family: str
    key_heads: int = 2
    value_heads: int = 4
    key_size: int = 8
    value_size: int = 6
    width: int = 4
    requests: int = 6
    slots: int = 9
    draft_tokens: int = 3
    seed: int = 0
    gate: float = 1.0
    """How widely the inputs of the decay spread: 1 for usual decays, 30 for some that erase all."""
    dtype: torch.dtype = torch.float32
    device: str = "cpu"
    settings: EngineSettings = field(default_factory=EngineSettings)

    def __post_init__(self) -> None:
        self.generator = torch.Generator().manual_seed(self.seed)
        self.layer = self.new_layer()
        self.device_layer = self.layer if self.device == "cpu" else self.moved(self.layer)
        self.pool = LinearStatePool(
            self.slots,
            [1, LAYER],
            LinearStateShape.of(self.layer),
            conv_dtype=self.dtype,
            draft_tokens=self.draft_tokens,
            requests=self.requests,
            device=self.device,
        )
        self.req_to_token = HybridReqToTokenPool(
            self.requests, SMALL.context_len, self.pool, self.device
        )
        self.runner = ModelRunner(
            SMALL,
            self.req_to_token,
            MlaKvPool(32, 32, SMALL.kv_lora_rank, SMALL.qk_rope_head_dim, 1, torch.float32),
            device=self.device,
            server_args=self.settings,
        )
        self.rows: dict[int, Rows] = {}

    @property
    def decays(self) -> int:
        """Decays per value head."""
        return {"lightning": 0, "gdn": 1, "kda": self.key_size}[self.family]

    def randn(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self.generator)

    def new_layer(self) -> LinearAttentionLayer:
        sizes: dict[str, Any] = {
            "num_q_heads": self.key_heads,
            "num_k_heads": self.key_heads,
            "num_v_heads": self.value_heads,
            "head_q_dim": self.key_size,
            "head_k_dim": self.key_size,
            "head_v_dim": self.value_size,
        }
        if self.family == "lightning":
            return LinearAttentionLayer(
                LAYER, **sizes, slopes=lightning_slopes(self.value_heads, 1, 4)
            )
        channels = 2 * self.key_heads * self.key_size + self.value_heads * self.value_size
        return LinearAttentionLayer(
            LAYER,
            **sizes,
            conv_weights=self.randn(channels, self.width).to(self.dtype),
            bias=self.randn(channels).to(self.dtype),
            A_log=self.randn(self.value_heads),
            dt_bias=self.randn(self.value_heads * self.decays),
        )

    def moved(self, layer: LinearAttentionLayer) -> LinearAttentionLayer:
        moved: dict[str, Any] = {}
        for spec in dataclasses.fields(layer):
            value = getattr(layer, spec.name)
            moved[spec.name] = value.to(self.device) if isinstance(value, torch.Tensor) else value
        return LinearAttentionLayer(**moved)

    def backend(self) -> LinearAttnBackend:
        return FAMILIES[self.family](self.runner)

    def draw(self, request: int, tokens: int) -> None:
        """Draw a request's tokens, and give it a state slot."""
        heads = self.value_heads
        self.rows[request] = (
            self.randn(tokens, self.layer.conv_dim).to(self.dtype),
            (self.randn(tokens, heads * self.decays) * self.gate).to(self.dtype),
            self.randn(tokens, heads).to(self.dtype),
        )
        self.req_to_token.alloc_mamba_slot(request)

    def extend(self, spans: dict[int, tuple[int, int]]) -> ForwardBatch:
        """A batch of the tokens from the first to before the second number of each request."""
        starts = [start for start, _ in spans.values()]
        lens = [end - start for start, end in spans.values()]
        return ForwardBatch.extend(list(spans), starts, lens, [1] * sum(lens), self.device)

    def decode(self, places: dict[int, int]) -> ForwardBatch:
        """A batch of one token per request, that at the given place."""
        lens = [place + 1 for place in places.values()]
        return ForwardBatch.decode(list(places), lens, [1] * len(lens), self.device)

    def verify(self, starts: dict[int, int], draft: int = 3) -> ForwardBatch:
        """A batch of ``draft`` tokens per request, from the given places on."""
        slots = [1] * (draft * len(starts))
        return ForwardBatch.target_verify(
            list(starts), list(starts.values()), draft, slots, self.device
        )

    def inputs(self, spans: dict[int, tuple[int, int]]) -> dict[str, Any]:
        """The arguments of ``forward`` for those tokens."""
        parts = [[x[start:end] for x in self.rows[r]] for r, (start, end) in spans.items()]
        mixed, a, b = (torch.cat(x).to(self.device) for x in zip(*parts, strict=True))
        arguments: dict[str, Any] = {"mixed_qkv": mixed, "layer": self.device_layer}
        return arguments if self.family == "lightning" else {**arguments, "a": a, "b": b}

    def run(
        self,
        backend: LinearAttnBackend,
        batch: ForwardBatch,
        spans: dict[int, tuple[int, int]],
        *,
        plan: bool = True,
    ) -> dict[int, torch.Tensor]:
        """The outputs of one pass by request."""
        if plan:
            backend.init_forward_metadata(batch)
        out = backend.forward(forward_batch=batch, **self.inputs(spans)).cpu()
        parts = torch.split(out, [end - start for start, end in spans.values()])
        return dict(zip(spans, parts, strict=True))

    def extended(
        self, backend: LinearAttnBackend, spans: dict[int, tuple[int, int]]
    ) -> dict[int, torch.Tensor]:
        return self.run(backend, self.extend(spans), spans)

    def decoded(
        self, backend: LinearAttnBackend, places: dict[int, int]
    ) -> dict[int, torch.Tensor]:
        spans = {request: (place, place + 1) for request, place in places.items()}
        return self.run(backend, self.decode(places), spans)

    def verified(
        self, backend: LinearAttnBackend, starts: dict[int, int], draft: int = 3
    ) -> dict[int, torch.Tensor]:
        spans = {request: (start, start + draft) for request, start in starts.items()}
        return self.run(backend, self.verify(starts, draft), spans)

    def expected(self, request: int) -> torch.Tensor:
        """Every token of a request, float64: the reference over the whole sequence."""
        return self.expected_of(*self.rows[request])

    def expected_of(self, mixed: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        layer, keys = self.layer, self.key_heads * self.key_size
        if layer.slopes is not None:
            return lightning_reference(
                mixed[:, :keys].reshape(-1, self.key_heads, self.key_size),
                mixed[:, keys : 2 * keys].reshape(-1, self.key_heads, self.key_size),
                mixed[:, 2 * keys :].reshape(-1, self.value_heads, self.value_size),
                layer.slopes,
            )
        assert layer.conv_weights is not None
        assert layer.A_log is not None
        reference = gdn_reference if self.family == "gdn" else kda_reference
        return reference(
            mixed,
            a,
            b,
            layer.conv_weights,
            layer.bias,
            layer.A_log,
            layer.dt_bias,
            (self.key_heads, self.value_heads),
            (self.key_size, self.value_size),
        )
