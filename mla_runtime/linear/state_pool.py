"""Where the recurrent states live: one slot per request, more for states kept of a prefix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from mla_runtime.pool import ReqToTokenPool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mla_runtime.linear.layer import LinearLayerLike

__all__ = ["HybridReqToTokenPool", "LinearStatePool", "LinearStateShape"]


@dataclass(frozen=True, slots=True)
class LinearStateShape:
    """Sizes of one layer's state; a layer without convolution has no window."""

    num_v_heads: int
    head_k_dim: int
    head_v_dim: int
    conv_dim: int = 0
    conv_window: int = 0
    """Inputs that the convolution remembers: its width less one."""

    @classmethod
    def of(cls, layer: LinearLayerLike) -> LinearStateShape:
        """The state that a layer needs."""
        weights = layer.conv_weights
        return cls(
            layer.num_v_heads,
            layer.head_k_dim,
            layer.head_v_dim,
            0 if weights is None else weights.shape[0],
            0 if weights is None else weights.shape[1] - 1,
        )


class LinearStatePool:
    """States of every linear layer, by slot; slot 0 takes the writes of padding rows.

    ``conv[layers, size + 1, conv_dim, conv_window]`` holds the last inputs of the convolution,
    newest last; ``temporal[layers, size + 1, num_v_heads, head_k_dim, head_v_dim]``, float32, the
    recurrent state. With ``draft_tokens``, ``intermediate_conv_window`` and ``intermediate_ssm``
    hold the same per step of a target verify, ``[layers, requests + 1, draft_tokens, ...]``, by
    request, row 0 again for padding. Names per SGLang's ``MambaPool`` (0.5.23,
    ``mem_cache/memory_pool.py``), which stores ``[V, K]`` where this stores ``[K, V]``.
    """

    def __init__(
        self,
        size: int,
        layer_ids: Sequence[int],
        shape: LinearStateShape,
        *,
        conv_dtype: torch.dtype = torch.float32,
        draft_tokens: int = 0,
        requests: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        """``size`` slots, zeroed; ``conv_dtype`` is best the model's.

        Raises:
            ValueError: no slot, a repeated layer, or ``draft_tokens`` without ``requests``.
        """
        if size < 1:
            raise ValueError(f"size={size}; expected at least one state slot")
        if len(set(layer_ids)) != len(layer_ids):
            raise ValueError(f"layer_ids={list(layer_ids)}; expected every layer once")
        if draft_tokens and requests < 1:
            raise ValueError(
                f"draft_tokens={draft_tokens} needs requests, the number of requests that are "
                f"verified; it is {requests}"
            )
        self.size = size
        self.shape = shape
        self.layer_ids = tuple(layer_ids)
        self.draft_tokens = draft_tokens
        self.requests = requests if draft_tokens else 0
        self._index = {layer_id: i for i, layer_id in enumerate(layer_ids)}
        # Descending, so that the lowest slot is handed out first.
        self._free = list(range(size, 0, -1))
        self._used: set[int] = set()

        layers = len(layer_ids)
        window = (shape.conv_dim, shape.conv_window)
        state = (shape.num_v_heads, shape.head_k_dim, shape.head_v_dim)
        steps = (self.requests + 1, draft_tokens)
        self.conv = torch.zeros(layers, size + 1, *window, dtype=conv_dtype, device=device)
        self.temporal = torch.zeros(layers, size + 1, *state, device=device)
        self.intermediate_conv_window = torch.zeros(
            layers, *steps, *window, dtype=conv_dtype, device=device
        )
        self.intermediate_ssm = torch.zeros(layers, *steps, *state, device=device)

    def index_of(self, layer_id: int) -> int:
        """The place of a layer in the pool's tensors.

        Raises:
            ValueError: the pool has no state for that layer.
        """
        try:
            return self._index[layer_id]
        except KeyError:
            raise ValueError(
                f"layer {layer_id} has no linear state; the pool holds layers "
                f"{list(self.layer_ids)}"
            ) from None

    @property
    def available_size(self) -> int:
        return len(self._free)

    def alloc(self, count: int = 1) -> list[int]:
        """``count`` free slots; what a slot held before is still in it.

        Raises:
            MemoryError: not enough free slots.
        """
        if count > len(self._free):
            raise MemoryError(
                f"{count} state slots are asked for, {len(self._free)} of {self.size} are free"
            )
        slots = [self._free.pop() for _ in range(count)]
        self._used.update(slots)
        return slots

    def free(self, slots: Sequence[int]) -> None:
        """Take slots back.

        Raises:
            ValueError: a slot that is not in use, or is named twice.
        """
        self._check_used(slots, f"free({list(slots)})")
        if len(set(slots)) != len(slots):
            raise ValueError(f"free({list(slots)}): expected every slot once")
        self._used.difference_update(slots)
        self._free.extend(slots)

    def copy(self, src_slots: Sequence[int], dst_slots: Sequence[int]) -> None:
        """Put the states of ``src_slots`` into ``dst_slots``, in every layer.

        A prefix hit starts a request from the state that was kept after the prefix.

        Raises:
            ValueError: not as many sources as destinations, or a slot that is not in use.
        """
        src, dst = list(src_slots), list(dst_slots)
        call = f"copy({src}, {dst})"
        self._check_used([*src, *dst], call)
        if len(src) != len(dst):
            raise ValueError(f"{call}: expected as many destinations as sources")
        self.conv[:, dst] = self.conv[:, src]
        self.temporal[:, dst] = self.temporal[:, src]

    def _check_used(self, slots: Sequence[int], call: str) -> None:
        unused = [s for s in slots if s not in self._used]
        if unused:
            raise ValueError(f"{call}: slots {unused} are not in use")

    def check_layer(self, layer: LinearLayerLike) -> None:
        """Refuse a layer whose state is of another size.

        Raises:
            ValueError: names both sizes.
        """
        shape = LinearStateShape.of(layer)
        if shape != self.shape:
            raise ValueError(
                f"layer {layer.layer_id} needs {shape}; the state pool holds {self.shape}"
            )

    def keep_windows(self, index: int, rows: torch.Tensor, windows: torch.Tensor) -> None:
        """Keep a verify's ``windows[B * D, conv_dim, conv_window]`` for verify rows ``rows[B]``."""
        by_step = windows.view(rows.shape[0], -1, *windows.shape[1:])
        kept = self.intermediate_conv_window[index]
        kept[rows, : by_step.shape[1]] = by_step.to(kept.dtype)

    def keep_states(self, index: int, rows: torch.Tensor, states: torch.Tensor) -> None:
        """Keep a verify's ``states[B, D, num_v_heads, K, V]`` for verify rows ``rows[B]``."""
        kept = self.intermediate_ssm[index]
        kept[rows, : states.shape[1]] = states.to(kept.dtype)

    def commit(self, slots: torch.Tensor, rows: torch.Tensor, steps: torch.Tensor) -> None:
        """Put step ``steps[i]`` of verify row ``rows[i]`` into slot ``slots[i]``, in every layer.

        A negative step leaves its slot as it is. Nothing is read from a GPU.

        Raises:
            ValueError: a step that the pool does not keep, where that can be seen without waiting.
        """
        if steps.device.type == "cpu" and bool((steps >= self.draft_tokens).any()):
            raise ValueError(
                f"steps {steps.tolist()} are to be committed; the state pool keeps "
                f"{self.draft_tokens} steps of a verify"
            )
        slots = torch.where(steps >= 0, slots, 0)
        steps = steps.clamp(min=0)
        self.conv[:, slots] = self.intermediate_conv_window[:, rows, steps]
        self.temporal[:, slots] = self.intermediate_ssm[:, rows, steps]


class HybridReqToTokenPool(ReqToTokenPool):
    """A request pool that also knows each request's state slot; 0 for one that has none.

    Names per SGLang's class of the same name (0.5.23, ``mem_cache/memory_pool.py``).
    """

    def __init__(
        self,
        size: int,
        max_context_len: int,
        mamba_pool: LinearStatePool,
        device: torch.device | str = "cpu",
    ) -> None:
        """``size`` requests over the states of ``mamba_pool``.

        Raises:
            ValueError: the pool's verify buffers are for fewer requests.
        """
        super().__init__(size, max_context_len, device)
        if mamba_pool.draft_tokens and mamba_pool.requests < size:
            raise ValueError(
                f"the state pool verifies {mamba_pool.requests} requests; expected at least the "
                f"{size} of the request pool"
            )
        self.mamba_pool = mamba_pool
        self.req_index_to_mamba_index_mapping = torch.zeros(size, dtype=torch.int32, device=device)
        self._slot_of: dict[int, int] = {}

    def get_mamba_indices(self, req_pool_indices: torch.Tensor) -> torch.Tensor:
        """The state slot of each request, int32 ``[B]``."""
        return self.req_index_to_mamba_index_mapping[req_pool_indices.long()]

    def alloc_mamba_slot(self, request: int) -> int:
        """Give a request its own state slot; a pass without prefix starts it from zero.

        Raises:
            ValueError: the request is out of range or has a slot.
            MemoryError: no slot is free.
        """
        if not 0 <= request < self.size or request in self._slot_of:
            held = self._slot_of.get(request)
            raise ValueError(
                f"request {request} cannot get a state slot: "
                + (f"the pool has {self.size} requests" if held is None else f"it holds {held}")
            )
        [slot] = self.mamba_pool.alloc()
        self._slot_of[request] = slot
        self.req_index_to_mamba_index_mapping[request] = slot
        return slot

    def free_mamba_slot(self, request: int) -> None:
        """Take a request's state slot back.

        Raises:
            ValueError: the request holds none.
        """
        if request not in self._slot_of:
            raise ValueError(f"request {request} holds no state slot to free")
        self.mamba_pool.free([self._slot_of.pop(request)])
        self.req_index_to_mamba_index_mapping[request] = 0
