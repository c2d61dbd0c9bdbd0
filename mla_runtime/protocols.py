"""What the backends read of an engine's objects: nothing else has to exist on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

__all__ = [
    "ForwardBatchLike",
    "KvPoolLike",
    "LayerLike",
    "ModeLike",
    "ModelConfigLike",
    "ModelRunnerLike",
    "ReqToTokenPoolLike",
]


class ModeLike(Protocol):
    """A member of the engine's forward-mode enumeration."""

    @property
    def name(self) -> str: ...


class ModelConfigLike(Protocol):
    """Sizes of one MLA model, per SGLang's ``ModelConfig``; heads before tensor parallelism."""

    @property
    def num_attention_heads(self) -> int: ...
    @property
    def kv_lora_rank(self) -> int: ...
    @property
    def qk_nope_head_dim(self) -> int: ...
    @property
    def qk_rope_head_dim(self) -> int: ...
    @property
    def v_head_dim(self) -> int: ...
    @property
    def scaling(self) -> float: ...
    @property
    def context_len(self) -> int: ...


class ReqToTokenPoolLike(Protocol):
    """Maps a request's row and a token's position to the token's slot in the KV pool."""

    @property
    def size(self) -> int: ...
    @property
    def req_to_token(self) -> torch.Tensor:
        """``[requests, max_context]`` int32, the slot of each token."""
        ...


class LayerLike(Protocol):
    """One attention layer, per SGLang's ``RadixAttention``.

    The absorbed form has ``head_dim = kv_lora_rank + qk_rope_head_dim``, ``v_head_dim =
    kv_lora_rank`` and one KV head; the multi-head form has the model's own head sizes.
    """

    @property
    def layer_id(self) -> int: ...
    @property
    def tp_q_head_num(self) -> int: ...
    @property
    def tp_k_head_num(self) -> int: ...
    @property
    def tp_v_head_num(self) -> int: ...
    @property
    def head_dim(self) -> int: ...
    @property
    def v_head_dim(self) -> int: ...
    @property
    def scaling(self) -> float: ...
    @property
    def logit_cap(self) -> float: ...


class KvPoolLike(Protocol):
    """The paged latent cache, per SGLang's ``MLATokenToKVPool``; slot 0 takes padding writes."""

    def set_kv_buffer(
        self, layer: LayerLike, loc: torch.Tensor, cache_k: torch.Tensor, cache_v: torch.Tensor
    ) -> None: ...

    def set_mla_kv_buffer(
        self,
        layer: LayerLike,
        loc: torch.Tensor,
        cache_k_nope: torch.Tensor,
        cache_k_rope: torch.Tensor,
    ) -> None: ...

    def get_key_buffer(self, layer_id: int) -> torch.Tensor:
        """``[slots, 1, kv_lora_rank + qk_rope_head_dim]`` in the cache's dtype."""
        ...


class ModelRunnerLike(Protocol):
    """What a backend reads of an engine's model runner.

    ``kv_cache_dtype``, ``server_args``, ``tp_size``, ``attn_tp_size`` and
    ``dcp_group`` are read where they exist; see ``mla_runtime.settings`` and
    ``mla_runtime.context_parallel``.
    """

    @property
    def model_config(self) -> ModelConfigLike: ...
    @property
    def device(self) -> torch.device | str: ...
    @property
    def dtype(self) -> torch.dtype: ...
    @property
    def page_size(self) -> int: ...
    @property
    def req_to_token_pool(self) -> ReqToTokenPoolLike: ...
    @property
    def token_to_kv_pool(self) -> KvPoolLike: ...


class ForwardBatchLike(Protocol):
    """What a backend reads of an engine's forward batch; ``B`` requests, ``T`` new tokens.

    Tensors of shape ``[B]`` are integers on the backend's device; ``*_cpu`` are host mirrors.
    """

    @property
    def forward_mode(self) -> ModeLike: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def req_pool_indices(self) -> torch.Tensor: ...
    @property
    def seq_lens(self) -> torch.Tensor: ...
    @property
    def seq_lens_cpu(self) -> torch.Tensor | None: ...
    @property
    def out_cache_loc(self) -> torch.Tensor: ...
    @property
    def positions(self) -> Any: ...
    @property
    def spec_info(self) -> Any: ...
    @property
    def extend_seq_lens(self) -> torch.Tensor | None: ...
    @property
    def extend_prefix_lens(self) -> torch.Tensor | None: ...
    @property
    def extend_seq_lens_cpu(self) -> Sequence[int] | None: ...
    @property
    def extend_prefix_lens_cpu(self) -> Sequence[int] | None: ...
    @property
    def attn_attend_prefix_cache(self) -> bool | None: ...
    @property
    def mha_return_lse(self) -> bool | None: ...
    @property
    def mha_one_shot(self) -> bool | None: ...
    @property
    def num_prefix_chunks(self) -> int | None: ...
    @property
    def prefix_chunk_idx(self) -> int | None: ...
    @property
    def prefix_chunk_seq_lens(self) -> torch.Tensor | None: ...
    @property
    def prefix_chunk_cu_seq_lens(self) -> torch.Tensor | None: ...
    @property
    def prefix_chunk_max_seq_lens(self) -> Sequence[int] | None: ...
    @property
    def prefix_chunk_num_tokens(self) -> Sequence[int] | None: ...
    @property
    def prefix_chunk_has_zero_kv(self) -> Sequence[bool] | None: ...
    @property
    def tbo_children(self) -> Sequence[ForwardBatchLike] | None: ...
