"""The linear-attention backends' common part: what is planned, read, and written back."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch

from mla_guard import hook
from mla_runtime.base import AttentionBackend
from mla_runtime.captured_graphs import CapturedGraphs
from mla_runtime.errors import refusal
from mla_runtime.lengths import draft_token_num
from mla_runtime.linear.contracts import gives_every_request_a_state
from mla_runtime.linear.delta_rule import DeltaInputs
from mla_runtime.linear.kernels import linear_kernels
from mla_runtime.linear.layer_inputs import mixed_projections, split_heads
from mla_runtime.linear.metadata import kind_of, plan, refill
from mla_runtime.linear.short_conv import short_conv
from mla_runtime.linear.state_pool import HybridReqToTokenPool
from mla_runtime.phase import Phase, phase_of
from mla_runtime.settings import EngineSettings

if TYPE_CHECKING:
    from typing import Any

    from mla_runtime.linear.kernels import LinearKernels
    from mla_runtime.linear.layer import LinearLayerLike
    from mla_runtime.linear.metadata import LinearMetadata
    from mla_runtime.protocols import ForwardBatchLike, LayerLike, ModelRunnerLike

__all__ = ["LinearAttnBackend"]


class LinearAttnBackend(AttentionBackend):
    """Base of the linear backends; a subclass says how its inputs are gated and normalised.

    Hooks per SGLang 0.5.23, ``MambaAttnBackendBase`` in
    ``layers/attention/hybrid_linear_attn_backend.py``. The state is one per request: a pass reads
    it where the request has tokens before the pass, starts from zero elsewhere, and writes it back;
    a target verify writes the state after each draft token beside it, and
    ``update_mamba_state_after_mtp_verify`` commits one of them.
    """

    needs_cpu_seq_lens: bool = False
    supports_cuda_graph: bool = True
    req_to_token_pool: HybridReqToTokenPool

    def __init__(
        self, model_runner: ModelRunnerLike, *, kernels: LinearKernels | None = None
    ) -> None:
        """A backend for one runner; ``kernels`` replaces the choice by device.

        Raises:
            ValueError: the runner's request pool holds no linear states.
        """
        super().__init__()
        pool = model_runner.req_to_token_pool
        if getattr(pool, "mamba_pool", None) is None:
            raise ValueError(
                f"{type(self).__name__} needs a HybridReqToTokenPool, whose mamba_pool holds the "
                f"states; the runner has a {type(pool).__name__}"
            )
        self.device = torch.device(model_runner.device)
        self.settings = EngineSettings.of(model_runner)
        self.req_to_token_pool = cast("HybridReqToTokenPool", pool)
        self.kernels = linear_kernels(self.device) if kernels is None else kernels
        self.forward_metadata: LinearMetadata | None = None
        self.verify_metadata: LinearMetadata | None = None
        """The plan of the last target verify, whatever was planned since."""
        self.captured_plans: CapturedGraphs[LinearMetadata] = CapturedGraphs()

    @hook(phase=("prefill", "decode", "verify"), ensures=gives_every_request_a_state)
    def init_forward_metadata(self, forward_batch: ForwardBatchLike) -> None:
        """Plan one eager pass; a batch without requests plans nothing.

        Raises:
            HookRefusedError: a draft extend, or a target verify without verify buffers.
            ValueError: the batch lacks the lengths of its phase, or drafts a tree.
        """
        self._served(forward_batch, "init_forward_metadata")
        if forward_batch.batch_size == 0:
            self.forward_metadata = None
            return
        self._remember(plan(forward_batch, self.req_to_token_pool, self.settings))

    def init_cuda_graph_state(
        self, max_bs: int, max_num_tokens: int, kv_indices_buf: torch.Tensor | None = None
    ) -> None:
        """Say how large captured batches get, once; a graph's tensors come with its capture.

        ``kv_indices_buf`` is for backends that read a KV cache.
        """
        self.captured_plans.reserve(max_bs)

    def init_forward_metadata_out_graph(
        self, forward_batch: ForwardBatchLike, in_capture: bool = False
    ) -> None:
        """Plan a captured decode or target verify for its capture or next replay.

        A replay changes what the tensors of its capture hold, never the tensors.

        Raises:
            HookRefusedError: another phase, a replay without capture or with another number of
                draft tokens, or no ``init_cuda_graph_state`` before.
        """
        hook = "init_forward_metadata_out_graph"
        phase = self._served(forward_batch, hook)
        if phase is Phase.EXTEND:
            raise refusal(
                self,
                hook,
                f"{forward_batch.forward_mode.name} is not captured as one graph",
                "call init_forward_metadata between the captured pieces",
            )
        metadata = self.captured_plans.find(
            self,
            phase,
            forward_batch.batch_size,
            in_capture,
            lambda: plan(forward_batch, self.req_to_token_pool, self.settings),
        )
        refill(metadata, forward_batch, self.req_to_token_pool, self.settings)
        self._remember(metadata)

    def update_mamba_state_after_mtp_verify(
        self,
        last_correct_step_indices: torch.Tensor,
        mamba_track_indices: torch.Tensor | None = None,
        mamba_steps_to_track: torch.Tensor | None = None,
        model: object = None,
        req_pool_indices: torch.Tensor | None = None,
    ) -> None:
        """Commit the state after one draft token of each request of the last target verify.

        ``last_correct_step_indices[B]``, negative to leave a request's state as it was; fewer
        than were verified leave the rest. ``mamba_track_indices[B]`` are state slots that keep a
        copy of step ``mamba_steps_to_track[B]``, negative for none. ``req_pool_indices[B]`` names
        the requests where they are not those of the last verify.

        Raises:
            HookRefusedError: no target verify was planned before.
            ValueError: more steps than verified requests, or only one of the two tracking tensors.
        """
        hook = "update_mamba_state_after_mtp_verify"
        verified = self.verify_metadata
        if verified is None:
            raise refusal(
                self, hook, "no target verify was planned", "plan and run a TARGET_VERIFY batch"
            )
        if (mamba_track_indices is None) != (mamba_steps_to_track is None):
            raise ValueError(
                "mamba_track_indices and mamba_steps_to_track belong together; one of them is None"
            )
        count = last_correct_step_indices.shape[0]
        if req_pool_indices is None:
            if count > verified.batch_size:
                raise ValueError(
                    f"{count} last_correct_step_indices for {verified.batch_size} verified requests"
                )
            slots, rows = verified.state_indices[:count], verified.verify_rows[:count]
        else:
            requests = req_pool_indices[:count].long()
            slots = self.req_to_token_pool.get_mamba_indices(requests).long()
            rows = requests + 1
        pool = self.req_to_token_pool.mamba_pool
        pool.commit(slots, rows, last_correct_step_indices.long())
        if mamba_track_indices is not None and mamba_steps_to_track is not None:
            pool.commit(mamba_track_indices.long(), rows, mamba_steps_to_track.long())

    def forward(
        self,
        q: torch.Tensor | None = None,
        k: torch.Tensor | None = None,
        v: torch.Tensor | None = None,
        layer: LayerLike | LinearLayerLike | None = None,
        forward_batch: ForwardBatchLike | None = None,
        save_kv_cache: bool = True,
        *,
        mixed_qkv: torch.Tensor | None = None,
        a: torch.Tensor | None = None,
        b: torch.Tensor | None = None,
        **kwargs: Any,
    ) -> torch.Tensor:
        """Attend in one layer: ``[T, num_v_heads * head_v_dim]``.

        ``q``, ``k`` and ``v``, ``[T, heads * head size]``, are the raw projections, or
        ``mixed_qkv[T, conv_dim]`` all three in that order. ``a`` is the input of the decay,
        ``[T, num_v_heads]`` (GDN) or ``[T, num_v_heads * head_k_dim]`` (KDA), ``b[T, num_v_heads]``
        that of the write strength; lightning attention takes neither. ``save_kv_cache=False``
        leaves the state as it was.

        Raises:
            HookRefusedError: no pass over as many tokens is planned, or a draft extend.
            ValueError: an input is missing, of another size, or not this family's.
        """
        linear, batch = self._arguments(layer, forward_batch)
        if phase_of(batch.forward_mode) is Phase.IDLE:
            mixed = mixed_projections(linear, q, k, v, mixed_qkv)
            return self._nothing(linear, mixed)
        run = self.forward_decode
        if kind_of(batch) is not Phase.DECODE:
            run = self.forward_extend
        return run(q, k, v, layer, batch, save_kv_cache, mixed_qkv=mixed_qkv, a=a, b=b, **kwargs)

    def forward_decode(
        self,
        q: torch.Tensor | None = None,
        k: torch.Tensor | None = None,
        v: torch.Tensor | None = None,
        layer: LayerLike | LinearLayerLike | None = None,
        forward_batch: ForwardBatchLike | None = None,
        save_kv_cache: bool = True,
        q_rope: torch.Tensor | None = None,
        k_rope: torch.Tensor | None = None,
        *,
        mixed_qkv: torch.Tensor | None = None,
        a: torch.Tensor | None = None,
        b: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """One token per request, from its state and into it; arguments as in ``forward``."""
        self._refuse_rope(q_rope, k_rope)
        linear, batch = self._arguments(layer, forward_batch)
        mixed = mixed_projections(linear, q, k, v, mixed_qkv)
        return self._attend("forward_decode", batch, linear, mixed, a, b, save_kv_cache)

    def forward_extend(
        self,
        q: torch.Tensor | None = None,
        k: torch.Tensor | None = None,
        v: torch.Tensor | None = None,
        layer: LayerLike | LinearLayerLike | None = None,
        forward_batch: ForwardBatchLike | None = None,
        save_kv_cache: bool = True,
        q_rope: torch.Tensor | None = None,
        k_rope: torch.Tensor | None = None,
        *,
        mixed_qkv: torch.Tensor | None = None,
        a: torch.Tensor | None = None,
        b: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Prefill, fresh or continued, and target verify; arguments as in ``forward``."""
        self._refuse_rope(q_rope, k_rope)
        linear, batch = self._arguments(layer, forward_batch)
        mixed = mixed_projections(linear, q, k, v, mixed_qkv)
        return self._attend("forward_extend", batch, linear, mixed, a, b, save_kv_cache)

    def _inputs(
        self,
        layer: LinearLayerLike,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        a: torch.Tensor | None,
        b: torch.Tensor | None,
    ) -> DeltaInputs:
        """The delta rule's inputs of convolved heads ``q``, ``k`` and ``v``, ``[T, H, D]``."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it gates its inputs")

    def _attend(
        self,
        hook: str,
        forward_batch: ForwardBatchLike,
        layer: LinearLayerLike,
        mixed: torch.Tensor,
        a: torch.Tensor | None,
        b: torch.Tensor | None,
        save_kv_cache: bool,
    ) -> torch.Tensor:
        tokens = mixed.shape[0]
        if tokens == 0 and forward_batch.batch_size == 0:
            return self._nothing(layer, mixed)
        metadata = self._planned(forward_batch, tokens, hook)
        pool = self.req_to_token_pool.mamba_pool
        pool.check_layer(layer)
        index = pool.index_of(layer.layer_id)
        slots, rows, sequences = metadata.state_indices, metadata.verify_rows, metadata.sequences
        fresh = ~metadata.has_initial_state[:, None, None]
        is_verify = metadata.phase is Phase.TARGET_VERIFY

        if layer.conv_weights is not None:
            before = pool.conv[index, slots].masked_fill(fresh, 0.0)
            mixed, after, every = short_conv(
                mixed, layer.conv_weights, layer.bias, before, sequences
            )
            if save_kv_cache and is_verify:
                pool.keep_windows(index, rows, every)
            elif save_kv_cache:
                pool.conv[index, slots] = after.to(pool.conv.dtype)

        inputs = self._inputs(layer, *split_heads(layer, mixed), a, b)
        initial = pool.temporal[index, slots].masked_fill(fresh[..., None], 0.0)
        if metadata.phase is Phase.EXTEND:
            out, final = self.kernels.chunked(inputs, initial, sequences)
        else:
            out, final, states = self.kernels.recurrent(
                inputs, initial, sequences, every_state=is_verify
            )
            if save_kv_cache and states is not None:
                pool.keep_states(index, rows, states)
        if save_kv_cache and not is_verify:
            pool.temporal[index, slots] = final.to(pool.temporal.dtype)
        return out.flatten(1)

    def _nothing(self, layer: LinearLayerLike, mixed: torch.Tensor) -> torch.Tensor:
        """The output of rows without a request."""
        return mixed.new_zeros(mixed.shape[0], layer.num_v_heads * layer.head_v_dim)

    def _planned(self, forward_batch: ForwardBatchLike, tokens: int, hook: str) -> LinearMetadata:
        """The plan of this batch, never that of another kind or size."""
        kind = self._served(forward_batch, hook)
        if (kind is Phase.DECODE) is not (hook == "forward_decode"):
            raise refusal(
                self,
                hook,
                f"the batch is {forward_batch.forward_mode.name}",
                "call forward, which chooses by the batch",
            )
        metadata = self.forward_metadata
        if (
            metadata is None
            or metadata.phase is not kind
            or metadata.batch_size != forward_batch.batch_size
            or metadata.sequences.tokens != tokens
        ):
            planned = (
                "nothing"
                if metadata is None
                else f"{metadata.phase.value} of {metadata.sequences.tokens} tokens of "
                f"{metadata.batch_size} requests"
            )
            raise refusal(
                self,
                hook,
                f"{planned} is planned, and the {forward_batch.forward_mode.name} batch has "
                f"{tokens} tokens of {forward_batch.batch_size} requests",
                "call init_forward_metadata with this batch first",
            )
        return metadata

    def _remember(self, metadata: LinearMetadata) -> None:
        self.forward_metadata = metadata
        if metadata.phase is Phase.TARGET_VERIFY:
            self.verify_metadata = metadata

    def _served(self, forward_batch: ForwardBatchLike, hook: str) -> Phase:
        """The batch's kind of pass; refuses what recurrent states cannot serve."""
        phase = kind_of(forward_batch)
        if phase is Phase.DRAFT_EXTEND:
            raise refusal(
                self,
                hook,
                f"{forward_batch.forward_mode.name} is a pass of the draft model, and the states "
                f"are the target's",
                "plan the draft model's own backend, and commit the target's states with "
                "update_mamba_state_after_mtp_verify",
            )
        if phase is Phase.TARGET_VERIFY:
            draft = draft_token_num(forward_batch)
            kept = self.req_to_token_pool.mamba_pool.draft_tokens
            if draft > kept:
                raise refusal(
                    self,
                    hook,
                    f"{draft} draft tokens are verified and the state pool keeps {kept} steps",
                    f"build the LinearStatePool with draft_tokens={draft}",
                )
        return phase

    def _planned_query_tokens(self) -> int | None:
        metadata = self.forward_metadata
        if metadata is None or metadata.phase is not Phase.EXTEND:
            return None
        return metadata.sequences.tokens

    def _arguments(
        self, layer: LayerLike | LinearLayerLike | None, forward_batch: ForwardBatchLike | None
    ) -> tuple[LinearLayerLike, ForwardBatchLike]:
        if forward_batch is None:
            raise ValueError(f"{type(self).__name__} got no forward_batch")
        if getattr(layer, "head_k_dim", None) is None:
            raise ValueError(
                f"{type(self).__name__} got a {type(layer).__name__} as layer; expected a "
                f"LinearAttentionLayer"
            )
        return cast("LinearLayerLike", layer), forward_batch

    def _refuse_rope(self, *parts: torch.Tensor | None) -> None:
        if any(part is not None for part in parts):
            raise ValueError(
                f"{type(self).__name__} got q_rope or k_rope; linear attention takes whole heads"
            )
