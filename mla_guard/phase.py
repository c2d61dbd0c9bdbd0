"""In which phase is a call?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .drift import Shape
from .torch_state import stream_is_capturing

__all__ = [
    "CAPTURE",
    "FORWARD_MODES",
    "PhaseReader",
]

CAPTURE = "capture"

FORWARD_MODES: dict[str, str] = {
    "EXTEND": "prefill",
    "PREFILL": "prefill",
    "MIXED": "prefill",
    "SPLIT_PREFILL": "prefill",
    "DECODE": "decode",
    "IDLE": "idle",
    "TARGET_VERIFY": "verify",
    "DRAFT_EXTEND": "draft_extend",
    "DRAFT_EXTEND_V2": "draft_extend",
}
"""Phases of forward modes, by name; any other mode is its own name in lower case."""


class PhaseReader:
    """Tells the phase of a call of one hook from its arguments.

    ``in_capture=True`` or a capturing stream is ``"capture"``; else the forward mode decides: an
    argument ``forward_mode``, or the ``forward_mode`` of an argument such as ``forward_batch``; an
    enum member or a string. ``modes`` adds to or overrules :data:`FORWARD_MODES`.
    """

    __slots__ = ("_batch", "_capture", "_mode", "_modes")

    def __init__(self, shape: Shape, modes: Mapping[str, str]) -> None:
        # Receivers are left out of a shape and stand first in a call.
        at = {p.name: index for index, p in enumerate(shape, 1) if p.kind <= 1}
        self._capture, self._mode = at.get("in_capture"), at.get("forward_mode")
        self._batch = 0
        self._modes = {**FORWARD_MODES, **{name.upper(): phase for name, phase in modes.items()}}

    def __call__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        """The phase of a call with these arguments, receiver first; None if they do not tell."""
        at = self._capture
        in_capture = kwargs.get("in_capture") if at is None or at >= len(args) else args[at]
        if in_capture is True or stream_is_capturing():
            return CAPTURE
        mode = self._forward_mode(args, kwargs)
        name = getattr(mode, "name", mode)
        if not isinstance(name, str):
            return None
        return self._modes.get(name.upper()) or name.lower()

    def _forward_mode(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        at = self._mode
        if at is not None and at < len(args):
            return args[at]
        if "forward_mode" in kwargs:
            return kwargs["forward_mode"]
        # Where the batch stood last time it stands most likely again.
        if 0 < self._batch < len(args):
            mode = getattr(args[self._batch], "forward_mode", None)
            if mode is not None:
                return mode
        for index, value in enumerate(args[1:], 1):
            mode = getattr(value, "forward_mode", None)
            if mode is not None:
                self._batch = index
                return mode
        for value in kwargs.values():
            mode = getattr(value, "forward_mode", None)
            if mode is not None:
                return mode
        return None
