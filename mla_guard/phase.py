"""In which phase is a call, and may it be checked now?"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

__all__ = ["CAPTURE", "FORWARD_MODES", "compiling", "phase_of", "stream_is_capturing"]

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


def compiling() -> bool:
    """Whether ``torch.compile`` is tracing; torch is not imported for the answer."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_compiling()


def stream_is_capturing() -> bool:
    """Whether the current CUDA stream records a graph; torch is not imported for the answer."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return False
    return bool(torch.cuda.is_current_stream_capturing())


def phase_of(arguments: Mapping[str, Any], modes: Mapping[str, str]) -> str | None:
    """The phase of a call with these arguments, or None where they do not tell.

    ``in_capture=True`` or a capturing stream is ``"capture"``; else the forward mode decides: an
    argument ``forward_mode``, or ``forward_mode`` of an argument such as ``forward_batch``; an enum
    member or a string. ``modes`` adds to or overrules :data:`FORWARD_MODES`.
    """
    if arguments.get("in_capture") is True or stream_is_capturing():
        return CAPTURE
    forward_mode = arguments.get("forward_mode")
    if forward_mode is None:
        for value in arguments.values():
            forward_mode = getattr(value, "forward_mode", None)
            if forward_mode is not None:
                break
        else:
            return None
    name = getattr(forward_mode, "name", forward_mode)
    if not isinstance(name, str):
        return None
    return modes.get(name) or FORWARD_MODES.get(name.upper()) or name.lower()
