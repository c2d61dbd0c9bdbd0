"""A pool, a model and a backend: the passes that a serving engine makes over its requests."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch

from mla_runtime.engine.backends import compose_backend
from mla_runtime.engine.draft import DraftChain
from mla_runtime.engine.linear_attention import state_shape
from mla_runtime.engine.model import VOCAB_SIZE, TinyModel
from mla_runtime.engine.requests import RequestTable
from mla_runtime.kv_shard import KvShard
from mla_runtime.linear.state_pool import HybridReqToTokenPool, LinearStatePool
from mla_runtime.micro_batches import split_batch
from mla_runtime.pool import MlaKvPool, ReqToTokenPool
from mla_runtime.runner import MlaModelConfig, ModelRunner
from mla_runtime.settings import EngineSettings
from mla_runtime.sharded_pool import ShardedMlaKvPool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.distributed import ProcessGroup

    from mla_runtime.engine.model import ModelOutput
    from mla_runtime.engine.options import EngineOptions
    from mla_runtime.phase import ForwardMode

__all__ = ["TinyEngine"]


class TinyEngine:
    """Every request in every batch; sequences grow by what is kept of the passes over them."""

    def __init__(self, options: EngineOptions, dcp_group: ProcessGroup | None = None) -> None:
        """Pools, weights and backends for ``options``.

        Over ``dcp_group`` the heads are split and the cache is sharded by token: each rank makes an
        engine of the same options, and all of them the same passes.

        Raises:
            ValueError: a page size or dtype that the backend does not serve.
            KernelUnavailableError: the device or the installed libraries lack its kernels.
        """
        self.options = options
        self.dcp_group = dcp_group
        world = KvShard.of(dcp_group).world
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
        page_size = options.page_size * world
        size = options.requests * (-(-self.config.context_len // page_size)) * page_size
        req_to_token = self._request_pool()
        pool = self._pool(size, page_size, len(options.kinds))
        self.requests = RequestTable(req_to_token, size, page_size)
        runner = ModelRunner(
            self.config,
            req_to_token,
            pool,
            dtype=options.dtype,
            kv_cache_dtype=options.kv_dtype,
            page_size=options.page_size,
            device=self.device,
            tp_size=world,
            dcp_group=dcp_group,
            server_args=EngineSettings(
                speculative_num_draft_tokens=options.draft_tokens,
                chunked_prefix_cache_threshold=1,
                prefix_chunk_capacity=chunk_capacity,
            ),
        )
        self.backend = compose_backend(options, runner)
        self.model = TinyModel(options, runner, chunk_capacity)
        self.draft = (
            DraftChain(
                options,
                replace(runner, token_to_kv_pool=self._pool(size, page_size, 1)),
                self.model,
                self.requests,
            )
            if options.speculative
            else None
        )
        self._generator = torch.Generator().manual_seed(options.seed)

    def _request_pool(self) -> ReqToTokenPool:
        """A row per request, and with linear layers a state slot."""
        options, kind = self.options, self.options.linear_kind
        if kind is None:
            return ReqToTokenPool(options.requests, self.config.context_len, self.device)
        states = LinearStatePool(
            options.requests,
            [i for i, k in enumerate(options.kinds) if k == kind],
            state_shape(options, kind),
            conv_dtype=options.dtype,
            draft_tokens=options.draft_tokens,
            requests=options.requests,
            device=self.device,
        )
        pool = HybridReqToTokenPool(options.requests, self.config.context_len, states, self.device)
        for request in range(options.requests):
            pool.alloc_mamba_slot(request)
        return pool

    def _pool(self, size: int, page_size: int, layers: int) -> MlaKvPool:
        options, group = self.options, self.dcp_group
        make = MlaKvPool if group is None else partial(ShardedMlaKvPool, group)
        fp8 = options.kv_dtype == torch.float8_e4m3fn
        return make(
            size,
            page_size,
            self.config.kv_lora_rank,
            self.config.qk_rope_head_dim,
            layers,
            options.kv_dtype or options.dtype,
            self.device,
            [0.05] * layers if fp8 else None,
        )

    def random_tokens(self, counts: Sequence[int]) -> list[list[int]]:
        """So many token ids for each request."""
        return [
            torch.randint(0, VOCAB_SIZE, (count,), generator=self._generator).tolist()
            for count in counts
        ]

    def take_prefix(self, source: int, target: int) -> None:
        """A prefix hit: ``target`` goes on from all that ``source`` has read.

        Raises:
            ValueError: the last page of ``source`` is not full.
        """
        self.requests.share(source, target)
        pool = self.requests.req_to_token
        if isinstance(pool, HybridReqToTokenPool):
            slots = pool.get_mamba_indices(torch.tensor([source, target])).tolist()
            pool.mamba_pool.copy(slots[:1], slots[1:])

    @torch.inference_mode()
    def forward(self, mode: ForwardMode, tokens: Sequence[Sequence[int]]) -> ModelOutput:
        """One pass over every request's new tokens; what of them is kept is for the caller."""
        counts = [len(new) for new in tokens]
        batch = self.requests.batch(mode, self.requests.lengths, counts)
        if self.options.tbo and batch.batch_size > 1:
            batch.tbo_children = split_batch(batch)
        flat = torch.tensor([token for new in tokens for token in new], device=self.device)
        self.backend.init_forward_metadata(batch)
        out: ModelOutput = self.model(flat, batch, self.backend)
        return out

    def now(self) -> float:
        """Seconds, when the device has done what it was given."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()
