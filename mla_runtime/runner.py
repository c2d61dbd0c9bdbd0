"""Plain stand-ins for an engine's model runner, configuration and layers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from mla_runtime.settings import EngineSettings

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from mla_runtime.pool import MlaKvPool, ReqToTokenPool

__all__ = ["AttentionLayer", "MlaModelConfig", "ModelRunner"]


@dataclass(frozen=True, slots=True)
class MlaModelConfig:
    """Sizes of an MLA model; the defaults are DeepSeek-V3's (arXiv:2412.19437, section 4.2)."""

    num_attention_heads: int = 128
    kv_lora_rank: int = 512
    qk_nope_head_dim: int = 128
    qk_rope_head_dim: int = 64
    v_head_dim: int = 128
    context_len: int = 4096
    softmax_scale: float | None = None

    @property
    def scaling(self) -> float:
        """Multiplies the scores; 1 / sqrt(query head size) where none is given."""
        if self.softmax_scale is not None:
            return self.softmax_scale
        return float((self.qk_nope_head_dim + self.qk_rope_head_dim) ** -0.5)

    def absorbed_layer(self, layer_id: int, num_heads: int | None = None) -> AttentionLayer:
        """The layer in the absorbed form: one shared key head of latent and rope."""
        return AttentionLayer(
            layer_id=layer_id,
            tp_q_head_num=num_heads or self.num_attention_heads,
            tp_k_head_num=1,
            tp_v_head_num=1,
            head_dim=self.kv_lora_rank + self.qk_rope_head_dim,
            v_head_dim=self.kv_lora_rank,
            scaling=self.scaling,
        )

    def mha_layer(self, layer_id: int, num_heads: int | None = None) -> AttentionLayer:
        """The layer in the multi-head form: every head with its own key and value."""
        heads = num_heads or self.num_attention_heads
        return AttentionLayer(
            layer_id=layer_id,
            tp_q_head_num=heads,
            tp_k_head_num=heads,
            tp_v_head_num=heads,
            head_dim=self.qk_nope_head_dim + self.qk_rope_head_dim,
            v_head_dim=self.v_head_dim,
            scaling=self.scaling,
        )


@dataclass(frozen=True, slots=True)
class AttentionLayer:
    """One attention layer as a backend sees it; see ``LayerLike``."""

    layer_id: int
    tp_q_head_num: int
    tp_k_head_num: int
    tp_v_head_num: int
    head_dim: int
    v_head_dim: int
    scaling: float
    logit_cap: float = 0.0


@dataclass(slots=True)
class ModelRunner:
    """What a backend needs of an engine, and no more; see ``ModelRunnerLike``."""

    model_config: MlaModelConfig
    req_to_token_pool: ReqToTokenPool
    token_to_kv_pool: MlaKvPool
    dtype: torch.dtype = torch.bfloat16
    kv_cache_dtype: torch.dtype | None = None
    page_size: int = 1
    device: torch.device | str = "cpu"
    tp_size: int = 1
    dcp_group: ProcessGroup | None = None
    """Ranks over which the cache is sharded by token; see ``dcp_group_of``."""
    server_args: EngineSettings = field(default_factory=EngineSettings)
