"""Requests with known latents in a scattered pool, and what their attention must come to."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from mla_runtime.batch import ForwardBatch
from mla_runtime.dense_reference import dense_mla, relative_error
from mla_runtime.kv_shard import KvShard
from mla_runtime.latent_heads import LatentHeads
from mla_runtime.mla_core import MlaCore, plan_form
from mla_runtime.phase import ForwardMode
from mla_runtime.pool import MlaKvPool, ReqToTokenPool, SlotAllocator
from mla_runtime.runner import MlaModelConfig, ModelRunner
from mla_runtime.settings import EngineSettings
from mla_runtime.sharded_pool import ShardedMlaKvPool

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from mla_runtime.attention_form import AttentionForm
    from mla_runtime.base import AttentionBackend

FP8 = torch.float8_e4m3fn
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 1e-2}

SMALL = MlaModelConfig(
    num_attention_heads=4,
    kv_lora_rank=32,
    qk_nope_head_dim=16,
    qk_rope_head_dim=8,
    v_head_dim=12,
    context_len=256,
)


@dataclass
class World:
    """One layer's cache and weights; ``runner`` is what a backend is built from."""

    config: MlaModelConfig = SMALL
    dtype: torch.dtype = torch.float32
    kv_dtype: torch.dtype | None = None
    page_size: int = 32
    pages: int = 64
    requests: int = 12
    seed: int = 0
    kv_scale: float | None = 0.03
    """Of an fp8 cache; None for one per token."""
    settings: EngineSettings = field(default_factory=EngineSettings)
    layer_id: int = 1
    device: str = "cpu"
    group: ProcessGroup | None = None
    """Ranks that share the cache and split the heads; each draws the same numbers."""
    tp: tuple[int, int] | None = None
    """This rank and the number of those that split the heads; None for the ranks of ``group``."""

    def __post_init__(self) -> None:
        self.generator = torch.Generator().manual_seed(self.seed)
        order = list(range(1, self.pages + 1))
        random.Random(self.seed).shuffle(order)
        scales: dict[str, Any] = {}
        if self.kv_dtype == FP8:
            scales = (
                {"scale_per_token": True}
                if self.kv_scale is None
                else {"kv_scales": [1.0, self.kv_scale]}
            )
        shard = KvShard.of(self.group)
        make = MlaKvPool if self.group is None else partial(ShardedMlaKvPool, self.group)
        self.pool = make(
            self.pages * self.page_size * shard.world,
            self.page_size * shard.world,
            self.config.kv_lora_rank,
            self.config.qk_rope_head_dim,
            layer_num=2,
            dtype=self.kv_dtype or self.dtype,
            device=self.device,
            **scales,
        )
        self.req_to_token = ReqToTokenPool(self.requests, self.config.context_len, self.device)
        self.allocator = SlotAllocator(self.pool.size, self.pool.page_size, order)
        tp_rank, tp_size = self.tp or (shard.rank, shard.world)
        self.runner = ModelRunner(
            self.config,
            self.req_to_token,
            self.pool,
            dtype=self.dtype,
            kv_cache_dtype=self.kv_dtype,
            page_size=self.page_size,
            device=self.device,
            tp_size=tp_size,
            dcp_group=self.group,
            server_args=self.settings,
        )
        heads, per_head = (
            self.config.num_attention_heads,
            self.config.qk_nope_head_dim + self.config.v_head_dim,
        )
        self.weight = self.randn(heads * per_head, self.config.kv_lora_rank) * (
            self.config.kv_lora_rank**-0.5
        )
        self.weight = self.weight.to(self.dtype)
        self.heads = self.heads_on(self.weight)
        own = heads // tp_size
        self.own = slice(tp_rank * own, (tp_rank + 1) * own)
        """The heads of this rank: all of them without a group."""
        own_weight = self.weight.view(heads, per_head, -1)[self.own].flatten(0, 1)
        self.device_heads = self.heads_on(own_weight.to(self.device))
        self.core = MlaCore(
            self.config.absorbed_layer(self.layer_id, own),
            self.config.mha_layer(self.layer_id, own),
            self.pool,
            self.req_to_token.req_to_token,
        )
        self.slots: dict[int, list[int]] = {}
        self.latent: dict[int, torch.Tensor] = {}
        self.k_pe: dict[int, torch.Tensor] = {}

    def heads_on(self, weight: torch.Tensor) -> LatentHeads:
        return LatentHeads(weight, self.config.qk_nope_head_dim, self.config.v_head_dim)

    def forget(self) -> None:
        """Let every request go, as an engine does between batches; the pool keeps its bytes."""
        for slots in self.slots.values():
            self.allocator.free(slots)
        for known in (self.slots, self.latent, self.k_pe):
            known.clear()

    def randn(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self.generator)

    def grow(self, request: int, length: int) -> list[int]:
        """Reserve slots up to ``length`` tokens; the slots of the new ones."""
        before = self.slots.get(request, [])
        self.slots[request] = self.allocator.extend(before, length)
        self.req_to_token.req_to_token[request, :length] = torch.tensor(
            self.slots[request], dtype=torch.int32
        )
        return self.slots[request][len(before) : length]

    def new_rows(self, request: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Latent and rope rows of a request's next tokens, remembered for the reference."""
        latent = self.randn(count, self.config.kv_lora_rank).to(self.dtype)
        k_pe = self.randn(count, self.config.qk_rope_head_dim).to(self.dtype)
        empty = latent[:0], k_pe[:0]
        self.latent[request] = torch.cat([self.latent.get(request, empty[0]), latent])
        self.k_pe[request] = torch.cat([self.k_pe.get(request, empty[1]), k_pe])
        return latent, k_pe

    def cache(self, request: int, length: int) -> None:
        """Put a prefix into the pool, as an earlier pass would have."""
        slots = self.grow(request, length)
        latent, k_pe = self.new_rows(request, len(slots))
        self.pool.set_mla_kv_buffer(
            self.core.absorbed,
            torch.tensor(slots, dtype=torch.int64, device=self.device),
            latent[:, None].to(self.device),
            k_pe[:, None].to(self.device),
        )

    def pass_of(self, mode: ForwardMode, prefix_lens: list[int], q_lens: list[int]) -> Pass:
        """A pass over requests 0 to n-1, whose prefixes are cached and new rows drawn."""
        rows, slots = [], []
        for request, (prefix, new) in enumerate(zip(prefix_lens, q_lens, strict=True)):
            self.cache(request, prefix)
            slots += self.grow(request, prefix + new)
            rows.append(self.new_rows(request, new))
        requests = list(range(len(prefix_lens)))
        batch = self.batch(mode, requests, prefix_lens, q_lens, slots)
        tokens, heads = sum(q_lens), self.config.num_attention_heads
        return Pass(
            world=self,
            batch=batch,
            q_lens=q_lens,
            q_nope=self.randn(tokens, heads, self.config.qk_nope_head_dim).to(self.dtype),
            q_pe=self.randn(tokens, heads, self.config.qk_rope_head_dim).to(self.dtype),
            latent=torch.cat([r[0] for r in rows]),
            k_pe=torch.cat([r[1] for r in rows]),
        )

    def next_decode(self, lengths: list[int]) -> Pass:
        """A decode pass after ``lengths`` tokens, into slots that are reserved already."""
        requests = list(range(len(lengths)))
        slots = [self.slots[r][n] for r, n in enumerate(lengths)]
        rows = [self.new_rows(r, 1) for r in requests]
        ones = [1] * len(lengths)
        heads = self.config.num_attention_heads
        return Pass(
            world=self,
            batch=self.batch(ForwardMode.DECODE, requests, lengths, ones, slots),
            q_lens=ones,
            q_nope=self.randn(len(lengths), heads, self.config.qk_nope_head_dim).to(self.dtype),
            q_pe=self.randn(len(lengths), heads, self.config.qk_rope_head_dim).to(self.dtype),
            latent=torch.cat([r[0] for r in rows]),
            k_pe=torch.cat([r[1] for r in rows]),
        )

    def batch(
        self,
        mode: ForwardMode,
        requests: list[int],
        prefix_lens: list[int],
        q_lens: list[int],
        slots: list[int],
    ) -> ForwardBatch:
        seq_lens = [p + q for p, q in zip(prefix_lens, q_lens, strict=True)]
        if mode is ForwardMode.DECODE:
            return ForwardBatch.decode(requests, seq_lens, slots, self.device)
        if mode is ForwardMode.TARGET_VERIFY:
            return ForwardBatch.target_verify(requests, prefix_lens, q_lens[0], slots, self.device)
        if mode is ForwardMode.DRAFT_EXTEND_V2:
            return ForwardBatch.draft_extend(requests, prefix_lens, q_lens, slots, self.device)
        return ForwardBatch.extend(requests, prefix_lens, q_lens, slots, self.device, mode)

    def stored(self, request: int) -> tuple[torch.Tensor, torch.Tensor]:
        """What the pool holds of a request, dequantised, in float64: the reference for fp8."""
        known = self.latent[request].shape[0]
        slots = torch.tensor(self.slots[request][:known], dtype=torch.int64)
        if isinstance(self.pool, ShardedMlaKvPool):
            latent, k_pe = self.pool.get_mla_kv_buffer(
                self.core.absorbed, slots.to(self.device), torch.float64
            )
            return latent[:, 0].cpu(), k_pe[:, 0].cpu()
        rows = self.pool.get_key_buffer(self.layer_id).cpu()[slots, 0].double()
        scale = self.pool.kv_scale(self.layer_id)
        rows = rows * (scale if isinstance(scale, float) else scale.cpu()[slots, None])
        rank = self.config.kv_lora_rank
        return rows[:, :rank], rows[:, rank:]


@dataclass
class Pass:
    """One forward pass and its inputs: ``T`` new tokens over all requests."""

    world: World
    batch: ForwardBatch
    q_lens: list[int]
    q_nope: torch.Tensor
    q_pe: torch.Tensor
    latent: torch.Tensor
    k_pe: torch.Tensor

    def plan(self, backend: AttentionBackend) -> None:
        backend.init_forward_metadata(self.batch)

    def run(
        self,
        backend: AttentionBackend,
        form: AttentionForm | None = None,
        *,
        capacity: int = 1 << 17,
        plan: bool = True,
    ) -> torch.Tensor:
        """``[T, H, v]`` of the backend, its own heads; ``form`` None is the one it prefers."""
        if plan:
            self.plan(backend)
        core, own = self.world.core, self.world.own
        taken = plan_form(backend, self.batch, core.req_to_token, capacity, form)
        return core.attend(
            taken,
            backend,
            self.batch,
            self.world.device_heads,
            *(
                x.to(self.world.device)
                for x in (self.q_nope[:, own], self.q_pe[:, own], self.latent, self.k_pe)
            ),
        )

    def expected(
        self, *, prefix_from_pool: bool = False, new_from_pool: bool = False
    ) -> torch.Tensor:
        """The dense float64 attention over the true latents.

        An fp8 cache is not the fault of a backend: the flags take the prefix, or the pass's own
        rows, as the pool holds them.
        """
        return self._dense(
            self.q_nope, self.q_pe, self.world.weight, prefix_from_pool, new_from_pool
        )

    def expected_of_fp8_query(self) -> torch.Tensor:
        """As ``expected`` from the pool, for kernels that quantise the absorbed query too.

        The reference stays dense: its keys are the latents themselves, its query the absorbed one.
        """
        config = self.world.config
        heads, rank = config.num_attention_heads, config.kv_lora_rank
        identity = torch.eye(rank).expand(heads, -1, -1).double()
        weight = torch.cat([identity, self.world.heads.w_uv.double()], dim=1).flatten(0, 1)
        q_latent = self.world.heads.absorb(self.q_nope).to(FP8).double()
        return self._dense(q_latent, self.q_pe.to(FP8).double(), weight, True, True)

    def _dense(
        self,
        q_nope: torch.Tensor,
        q_pe: torch.Tensor,
        weight: torch.Tensor,
        prefix_from_pool: bool,
        new_from_pool: bool,
    ) -> torch.Tensor:
        world, out, start = self.world, [], 0
        for request, new in enumerate(self.q_lens):
            latent, k_pe = world.latent[request].double(), world.k_pe[request].double()
            stored_latent, stored_k_pe = world.stored(request)
            prefix = latent.shape[0] - new
            from_pool = torch.zeros(latent.shape[0], 1, dtype=torch.bool)
            from_pool[:prefix] = prefix_from_pool
            from_pool[prefix:] = new_from_pool
            rows = slice(start, start + new)
            out.append(
                dense_mla(
                    q_nope[rows],
                    q_pe[rows],
                    torch.where(from_pool, stored_latent, latent),
                    torch.where(from_pool, stored_k_pe, k_pe),
                    weight,
                    world.config.scaling,
                )
            )
            start += new
        return torch.cat(out)

    def error(self, actual: torch.Tensor) -> float:
        return relative_error(actual, self.expected()[:, self.world.own])


def with_heads(heads: int) -> MlaModelConfig:
    return replace(SMALL, num_attention_heads=heads)
