"""Whether a prefill is being captured: then its kernels must not depend on which prefixes exist."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["captured_prefill", "in_captured_prefill"]

_captured: ContextVar[bool] = ContextVar("mla_runtime_captured_prefill", default=False)


def in_captured_prefill() -> bool:
    """True inside ``captured_prefill()``: extend batches take the paged absorbed kernel."""
    return _captured.get()


@contextmanager
def captured_prefill() -> Iterator[None]:
    """Around the capture and each replay of a piecewise or breakable prefill graph."""
    token = _captured.set(True)
    try:
        yield
    finally:
        _captured.reset(token)
