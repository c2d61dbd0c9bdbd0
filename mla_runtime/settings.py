"""The engine's configuration, as far as an MLA backend depends on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mla_runtime.chunked_prefix import DEFAULT_CHUNK_CAPACITY

if TYPE_CHECKING:
    import torch

    from mla_runtime.protocols import ModelRunnerLike

__all__ = ["EngineSettings", "MlaShape", "attention_tp_size"]


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Flags of the engine, named as SGLang's ``ServerArgs`` names them."""

    flashinfer_mla_disable_ragged: bool = False
    """Extend always through the paged absorbed kernel, never through the ragged one."""
    disable_chunked_prefix_cache: bool = False
    """A cached prefix is attended in the absorbed form, never expanded chunk by chunk."""
    disaggregation_mode: str = "null"
    """``"decode"``: this worker receives finished KV and never prefills a prompt."""
    speculative_num_draft_tokens: int | None = None
    """Draft tokens per request in target verify and in a captured draft extend."""
    chunked_prefix_cache_threshold: int = 8192
    """Cached tokens of a batch from which on the planned backends expand a prefix."""
    prefix_chunk_capacity: int = DEFAULT_CHUNK_CAPACITY
    """Tokens of a prefix that are expanded at once, over all requests."""
    dcp_comm_backend: str = "a2a"
    """How the ranks of a sharded cache combine partial outputs; see ``HeadExchange``."""

    @classmethod
    def of(cls, runner: ModelRunnerLike) -> EngineSettings:
        """The settings of a runner, from its ``server_args`` where it has them."""
        args = getattr(runner, "server_args", None)
        default = cls()
        return cls(
            flashinfer_mla_disable_ragged=bool(
                getattr(args, "flashinfer_mla_disable_ragged", False)
            ),
            disable_chunked_prefix_cache=bool(getattr(args, "disable_chunked_prefix_cache", False)),
            disaggregation_mode=str(
                getattr(args, "disaggregation_mode", default.disaggregation_mode)
            ),
            speculative_num_draft_tokens=getattr(args, "speculative_num_draft_tokens", None),
            chunked_prefix_cache_threshold=getattr(
                args, "chunked_prefix_cache_threshold", default.chunked_prefix_cache_threshold
            ),
            prefix_chunk_capacity=getattr(
                args, "prefix_chunk_capacity", default.prefix_chunk_capacity
            ),
            dcp_comm_backend=getattr(args, "dcp_comm_backend", default.dcp_comm_backend),
        )

    @property
    def enable_chunk_kv(self) -> bool:
        """Whether the engine expands a cached prefix chunk by chunk."""
        return (
            self.disaggregation_mode != "decode"
            and not self.disable_chunked_prefix_cache
            and not self.flashinfer_mla_disable_ragged
        )


@dataclass(frozen=True, slots=True)
class MlaShape:
    """Sizes of the attention that one rank computes."""

    num_heads: int
    """Query heads of this rank."""
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    scaling: float
    """Multiplies the scores before the softmax."""
    q_dtype: torch.dtype
    kv_dtype: torch.dtype
    page_size: int
    """Tokens per page of the pool."""
    context_len: int

    @property
    def head_dim_qk(self) -> int:
        """Size of a query or key head in the multi-head form."""
        return self.qk_nope_head_dim + self.qk_rope_head_dim

    @property
    def kv_cache_dim(self) -> int:
        """Size of one cached row in the absorbed form."""
        return self.kv_lora_rank + self.qk_rope_head_dim

    @classmethod
    def of(cls, runner: ModelRunnerLike) -> MlaShape:
        """The shape that a runner's model has on its rank.

        Raises:
            ValueError: the heads do not divide by the attention's tensor-parallel size.
        """
        config = runner.model_config
        tp_size = attention_tp_size(runner)
        if config.num_attention_heads % tp_size:
            raise ValueError(
                f"num_attention_heads={config.num_attention_heads} does not divide by the "
                f"attention's tensor-parallel size {tp_size}"
            )
        return cls(
            num_heads=config.num_attention_heads // tp_size,
            kv_lora_rank=config.kv_lora_rank,
            qk_nope_head_dim=config.qk_nope_head_dim,
            qk_rope_head_dim=config.qk_rope_head_dim,
            v_head_dim=config.v_head_dim,
            scaling=config.scaling,
            q_dtype=runner.dtype,
            kv_dtype=getattr(runner, "kv_cache_dtype", None) or runner.dtype,
            page_size=runner.page_size,
            context_len=config.context_len,
        )


def attention_tp_size(runner: ModelRunnerLike) -> int:
    """Ranks over which attention heads are split: with DP attention, fewer than ``tp_size``."""
    explicit = getattr(runner, "attn_tp_size", None)
    if explicit is not None:
        return int(explicit)
    tp_size = int(getattr(runner, "tp_size", 1))
    args = getattr(runner, "server_args", None)
    if getattr(args, "enable_dp_attention", False):
        return max(1, tp_size // int(getattr(args, "dp_size", 1)))
    return tp_size
