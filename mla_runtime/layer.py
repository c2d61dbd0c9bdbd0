"""A whole MLA attention layer: projections, rotation, and the backend in either form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from mla_runtime.head_exchange import sum_over_all
from mla_runtime.kv_shard import KvShard
from mla_runtime.latent_heads import LatentHeads
from mla_runtime.rope import cos_sin_cache_of, rotate

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from mla_runtime.attention_form import AttentionForm
    from mla_runtime.base import AttentionBackend
    from mla_runtime.batch import ForwardBatch
    from mla_runtime.mla_core import MlaCore
    from mla_runtime.runner import MlaModelConfig

__all__ = ["MlaAttention"]


class MlaAttention(nn.Module):
    """Multi-head latent attention of DeepSeek-V2 and V3 over a paged cache.

    Parameter names are those of the checkpoints (and of transformers' ``DeepseekV3Attention``).
    DeepSeek-V2, arXiv:2405.04434, section 2.1.
    """

    def __init__(
        self,
        config: MlaModelConfig,
        core: MlaCore,
        hidden_size: int,
        q_lora_rank: int | None = None,
        rope_theta: float = 10000.0,
        rope_interleave: bool = True,
        dtype: torch.dtype = torch.bfloat16,
        device: torch.device | str = "cpu",
        tp_group: ProcessGroup | None = None,
    ) -> None:
        """One layer; without ``q_lora_rank`` the query is projected in one step, as in V2-Lite.

        Over ``tp_group`` the heads are split: every rank keeps and projects with whole weights,
        attends with its own heads, and all sum what their heads contribute to the output.
        """
        super().__init__()

        def linear(inputs: int, outputs: int) -> nn.Linear:
            return nn.Linear(inputs, outputs, bias=False, dtype=dtype, device=device)

        def norm(width: int) -> nn.RMSNorm:
            return nn.RMSNorm(width, eps=1e-6, dtype=dtype, device=device)

        heads = config.num_attention_heads
        query = heads * (config.qk_nope_head_dim + config.qk_rope_head_dim)
        self.config = config
        self.core = core
        self.tp_group = tp_group
        shard = KvShard.of(tp_group)
        own = config.num_attention_heads // shard.world
        self.own_heads = slice(shard.rank * own, (shard.rank + 1) * own)
        self.rope_interleave = rope_interleave
        self.q_proj = linear(hidden_size, query) if q_lora_rank is None else None
        self.q_a_proj = None if q_lora_rank is None else linear(hidden_size, q_lora_rank)
        self.q_a_layernorm = None if q_lora_rank is None else norm(q_lora_rank)
        self.q_b_proj = None if q_lora_rank is None else linear(q_lora_rank, query)
        self.kv_a_proj_with_mqa = linear(hidden_size, config.kv_lora_rank + config.qk_rope_head_dim)
        self.kv_a_layernorm = norm(config.kv_lora_rank)
        self.kv_b_proj = linear(
            config.kv_lora_rank, heads * (config.qk_nope_head_dim + config.v_head_dim)
        )
        self.o_proj = linear(heads * config.v_head_dim, hidden_size)
        self.cos_sin_cache = nn.Buffer(
            cos_sin_cache_of(config.qk_rope_head_dim, config.context_len, rope_theta, device),
            persistent=False,
        )

    def project(
        self, hidden: torch.Tensor, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """``(q_nope[T, H, nope], q_pe[T, H, rope], latent[T, rank], k_pe[T, rope])``, rotated."""
        config = self.config
        if self.q_proj is not None:
            q = self.q_proj(hidden)
        else:
            assert self.q_a_proj is not None
            assert self.q_a_layernorm is not None
            assert self.q_b_proj is not None
            q = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(hidden)))
        q = q.view(hidden.shape[0], config.num_attention_heads, -1)
        q_nope, q_pe = q.split([config.qk_nope_head_dim, config.qk_rope_head_dim], dim=-1)
        rows = self.kv_a_proj_with_mqa(hidden)
        latent, k_pe = rows.split([config.kv_lora_rank, config.qk_rope_head_dim], dim=-1)
        neox = not self.rope_interleave
        q_pe = rotate(q_pe, positions, self.cos_sin_cache, neox)
        k_pe = rotate(k_pe[:, None], positions, self.cos_sin_cache, neox)[:, 0]
        return q_nope, q_pe, self.kv_a_layernorm(latent), k_pe

    def heads(self) -> LatentHeads:
        """The up-projection of this rank's heads, split by head."""
        config, weight = self.config, self.kv_b_proj.weight
        own = weight.view(config.num_attention_heads, -1, config.kv_lora_rank)[self.own_heads]
        return LatentHeads(own.flatten(0, 1), config.qk_nope_head_dim, config.v_head_dim)

    def forward(
        self,
        hidden: torch.Tensor,
        forward_batch: ForwardBatch,
        backend: AttentionBackend,
        form: AttentionForm,
    ) -> torch.Tensor:
        """``[T, hidden_size]`` of ``hidden[T, hidden_size]``; ``form`` is ``plan_form``'s.

        Raises:
            ValueError: the batch has no positions.
        """
        if forward_batch.positions is None:
            raise ValueError("the forward batch has no positions; the layer rotates by them")
        q_nope, q_pe, latent, k_pe = self.project(hidden, forward_batch.positions)
        own = self.own_heads
        values = self.core.attend(
            form, backend, forward_batch, self.heads(), q_nope[:, own], q_pe[:, own], latent, k_pe
        )
        if self.tp_group is None:
            whole: torch.Tensor = self.o_proj(values.flatten(1))
            return whole
        width = self.config.v_head_dim
        columns = self.o_proj.weight[:, own.start * width : own.stop * width]
        return sum_over_all(nn.functional.linear(values.flatten(1), columns), self.tp_group)
