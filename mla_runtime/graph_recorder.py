"""The contract of a captured graph, held without a GPU: no replay may rebind what was captured."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch

from mla_guard.tree import within

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mla_runtime.protocols import ForwardBatchLike

__all__ = ["GraphRecorder", "ReboundTensorError"]

_PLANS = ("forward_metadata", "forward_decode_metadata")
"""Attributes in which backends keep what the kernels of a captured graph read."""


class ReboundTensorError(AssertionError):
    """A replay put another tensor or number where the captured graph has that of its capture."""


class GraphRecorder:
    """Plays an engine's capture and replay on a backend and watches its tensors.

    A captured graph keeps the addresses of the tensors it read and the numbers it was launched
    with. On capture the recorder notes the address, shape, dtype and stride of every tensor that
    the backend's metadata for that graph reaches, and every number; before each replay the backend
    plans again, and every noted path must lead to the same memory and the same number. The backend
    is any object with the graph hooks of ``AttentionBackend``.
    """

    def __init__(self, backend: Any) -> None:
        self.backend = backend
        self._captured: dict[object, dict[str, tuple[object, ...]]] = {}
        self._kept: list[torch.Tensor] = []

    def capture(self, key: object, forward_batch: ForwardBatchLike) -> None:
        """Plan for capture, run the in-graph hook, and freeze what the metadata reach."""
        self._forget_plans()
        self.backend.init_forward_metadata_out_graph(forward_batch, in_capture=True)
        self.backend.init_forward_metadata_in_graph(forward_batch)
        frozen = {}
        tensors = 0
        for path, value in self._reached():
            frozen[path] = _identity(value)
            if isinstance(value, torch.Tensor):
                tensors += 1
                # Kept alive, or freed memory could be handed out again at the same address.
                self._kept.append(value)
        if not tensors:
            raise ReboundTensorError(
                f"{type(self.backend).__name__} holds no tensor in its metadata after the capture "
                f"of {key}: nothing was frozen, so nothing can be checked"
            )
        self._captured[key] = frozen

    def replay(self, key: object, forward_batch: ForwardBatchLike) -> None:
        """Plan for a replay of ``key``.

        Raises:
            ReboundTensorError: a captured tensor was moved, reshaped or dropped, or a number
                changed.
            KeyError: ``key`` was not captured.
        """
        frozen = self._captured[key]
        self._forget_plans()
        self.backend.init_forward_metadata_out_graph(forward_batch, in_capture=False)
        now = {path: _identity(value) for path, value in self._reached()}
        moved = [
            f"{path}: captured {was}, now {now.get(path, 'nothing')}"
            for path, was in frozen.items()
            if now.get(path) != was
        ]
        if moved:
            raise ReboundTensorError(
                f"the replay of {key} rebinds what was captured: " + "; ".join(moved)
            )

    def _backends(self) -> list[Any]:
        """Those that plan: the steps of a draft chain, or the backend and all that it wraps."""
        steps = getattr(self.backend, "attn_backends", None)
        return [self.backend, *within(self.backend)] if steps is None else list(steps)

    def _forget_plans(self) -> None:
        """So that only what this pass plans is looked at: a composite does not plan on all."""
        for backend in self._backends():
            for name in _PLANS:
                if getattr(backend, name, None) is not None:
                    setattr(backend, name, None)

    def _reached(self) -> Iterator[tuple[str, torch.Tensor | int | float]]:
        for index, backend in enumerate(self._backends()):
            for name in _PLANS:
                metadata = getattr(backend, name, None)
                yield from _captured_values(f"[{index}].{name}", metadata, set())


def _captured_values(
    path: str, value: object, seen: set[int]
) -> Iterator[tuple[str, torch.Tensor | int | float]]:
    """Tensors and numbers in dataclasses and in the fixed buffers of planners, by path."""
    if isinstance(value, (torch.Tensor, int, float)):
        yield path, value
        return
    if value is None or id(value) in seen:
        return
    seen.add(id(value))
    if dataclasses.is_dataclass(value):
        for spec in dataclasses.fields(value):
            yield from _captured_values(f"{path}.{spec.name}", getattr(value, spec.name), seen)
    buffers = getattr(value, "graph_buffers", None)
    if buffers is not None:
        yield from _captured_values(f"{path}.graph_buffers", buffers, seen)


def _identity(value: torch.Tensor | int | float) -> tuple[object, ...]:
    if not isinstance(value, torch.Tensor):
        return (value,)
    tensor = value
    return tensor.data_ptr(), tuple(tensor.shape), tensor.dtype, tuple(tensor.stride())
