"""What is torch doing just now, if it is there at all? It is never imported for the answer."""

from __future__ import annotations

import sys
from types import FunctionType

__all__ = ["compiling", "may_be_traced", "stream_is_capturing"]


def compiling() -> bool:
    """Whether ``torch.compile`` is tracing."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_compiling()


def may_be_traced(function: FunctionType) -> bool:
    """Whether ``torch.compile`` may have traced a function, and keep how its arguments bind.

    The tracer remembers that by function (``_spec_cache`` in PyTorch 2.13) and would not notice
    that the code was exchanged. Where it cannot be asked the answer is yes.
    """
    if "torch._dynamo" not in sys.modules:
        return False
    remembered = getattr(sys.modules.get("torch._dynamo.variables.functions"), "_spec_cache", None)
    return remembered is None or function in remembered


def stream_is_capturing() -> bool:
    """Whether the current CUDA stream records a graph."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return False
    return bool(torch.cuda.is_current_stream_capturing())
