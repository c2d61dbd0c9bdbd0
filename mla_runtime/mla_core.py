"""One layer's attention in whichever form: from projected heads to values, through a backend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from mla_runtime.attention_form import AttentionForm
from mla_runtime.kernels.softmax import accumulation_dtype, merge_state

if TYPE_CHECKING:
    from mla_runtime.base import AttentionBackend, Output
    from mla_runtime.batch import ForwardBatch
    from mla_runtime.latent_heads import LatentHeads
    from mla_runtime.pool import MlaKvPool
    from mla_runtime.runner import AttentionLayer

__all__ = ["MlaCore", "plan_form"]

_MERGES_IN_16_BIT = 4
"""Each merge rounds the running output; with more chunks it is kept in float32."""


def plan_form(
    backend: AttentionBackend,
    forward_batch: ForwardBatch,
    req_to_token: torch.Tensor,
    capacity: int,
    form: AttentionForm | None = None,
) -> AttentionForm:
    """Plan the multi-head form where it is taken: once per batch, after its metadata.

    ``form`` overrides the backend's preference; ``capacity`` is the size of a prefix chunk in
    tokens. Returns the form that every layer of this pass takes.
    """
    form = backend.preferred_form(forward_batch) if form is None else form
    forward_batch.attn_attend_prefix_cache = None
    forward_batch.mha_return_lse = False
    if form is AttentionForm.MLA:
        return form
    forward_batch.mha_one_shot = form is AttentionForm.MHA_ONE_SHOT
    if not any(forward_batch.extend_prefix_lens_cpu or ()):
        return form
    if forward_batch.mha_one_shot:
        forward_batch.num_prefix_chunks = 0
    else:
        forward_batch.prepare_chunked_prefix_cache_info(req_to_token, capacity)
    backend.init_mha_chunk_metadata(forward_batch)
    return form


@dataclass(frozen=True, slots=True)
class MlaCore:
    """The attention of one layer, without projections of hidden states."""

    absorbed: AttentionLayer
    multi_head: AttentionLayer
    pool: MlaKvPool
    req_to_token: torch.Tensor

    def attend(
        self,
        form: AttentionForm,
        backend: AttentionBackend,
        forward_batch: ForwardBatch,
        heads: LatentHeads,
        q_nope: torch.Tensor,
        q_pe: torch.Tensor,
        latent: torch.Tensor,
        k_pe: torch.Tensor,
    ) -> torch.Tensor:
        """``[T, H, v]`` of ``q_nope[T, H, nope]``, ``q_pe[T, H, rope]``, both rotated already.

        ``latent[T, kv_lora_rank]`` and ``k_pe[T, rope]`` are the new tokens' rows, written to the
        cache on the way.
        """
        if form is AttentionForm.MLA:
            out = _tensor(
                backend.forward(
                    heads.absorb(q_nope),
                    latent[:, None],
                    latent[:, None],
                    self.absorbed,
                    forward_batch,
                    q_rope=q_pe,
                    k_rope=k_pe[:, None],
                )
            )
            return heads.values(out.view(out.shape[0], heads.num_heads, -1))
        self.pool.set_mla_kv_buffer(
            self.absorbed, forward_batch.out_cache_loc, latent[:, None], k_pe[:, None]
        )
        q = torch.cat([q_nope, q_pe], dim=-1)
        if not any(forward_batch.extend_prefix_lens_cpu or ()):
            return self._run(backend, forward_batch, heads, q, latent, k_pe)
        if form is AttentionForm.MHA_ONE_SHOT:
            forward_batch.set_attn_attend_prefix_cache(False)
            slots = forward_batch.fetch_mha_one_shot_kv_indices(self.req_to_token)
            return self._run(backend, forward_batch, heads, q, *self._cached(slots, q.dtype))
        return self._over_chunks(backend, forward_batch, heads, q, latent, k_pe)

    def _over_chunks(
        self,
        backend: AttentionBackend,
        forward_batch: ForwardBatch,
        heads: LatentHeads,
        q: torch.Tensor,
        latent: torch.Tensor,
        k_pe: torch.Tensor,
    ) -> torch.Tensor:
        forward_batch.mha_return_lse = True
        forward_batch.set_attn_attend_prefix_cache(False)
        out, lse = _state(self._forward(backend, forward_batch, heads, q, latent, k_pe))
        chunks = forward_batch.prefix_chunk_kv_indices or ()
        merge = backend.merge_state
        if len(chunks) > _MERGES_IN_16_BIT:
            out, merge = out.to(accumulation_dtype(out.dtype)), merge_state
        forward_batch.set_attn_attend_prefix_cache(True)
        for chunk, slots in enumerate(chunks):
            forward_batch.set_prefix_chunk_idx(chunk)
            state = self._forward(backend, forward_batch, heads, q, *self._cached(slots, q.dtype))
            out, lse = merge(*_state(state), out, lse)
        return out.to(q.dtype)

    def _run(
        self,
        backend: AttentionBackend,
        forward_batch: ForwardBatch,
        heads: LatentHeads,
        q: torch.Tensor,
        latent: torch.Tensor,
        k_pe: torch.Tensor,
    ) -> torch.Tensor:
        out = _tensor(self._forward(backend, forward_batch, heads, q, latent, k_pe))
        return out.view(q.shape[0], heads.num_heads, self.multi_head.v_head_dim)

    def _forward(
        self,
        backend: AttentionBackend,
        forward_batch: ForwardBatch,
        heads: LatentHeads,
        q: torch.Tensor,
        latent: torch.Tensor,
        k_pe: torch.Tensor,
    ) -> Output:
        k_nope, v = heads.expand(latent)
        k = torch.cat([k_nope, k_pe[:, None].expand(-1, heads.num_heads, -1)], dim=-1)
        return backend.forward(
            q, k, v.contiguous(), self.multi_head, forward_batch, save_kv_cache=False
        )

    def _cached(self, slots: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        latent, k_pe = self.pool.get_mla_kv_buffer(self.absorbed, slots.long(), dtype)
        return latent[:, 0], k_pe[:, 0]


def _tensor(output: Output) -> torch.Tensor:
    if isinstance(output, tuple):
        raise TypeError("the backend returned (out, lse) where the LSE was not asked for")
    return output


def _state(output: Output) -> tuple[torch.Tensor, torch.Tensor]:
    if not isinstance(output, tuple):
        raise TypeError("the backend returned no LSE where a merge needs it")
    return output
