"""How a hook says that the configuration forbids what it was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mla_guard import HookContractError
from mla_guard.contract import place_of
from mla_guard.diagnostic import Diagnostic

if TYPE_CHECKING:
    from mla_runtime.base import AttentionBackend

__all__ = ["HookRefusedError"]


class HookRefusedError(HookContractError):
    """A hook was called that a flag, or what was called before, takes out of service."""


def refusal(backend: AttentionBackend, hook: str, reason: str, instead: str) -> HookRefusedError:
    """The refusal of ``hook`` by ``backend``: ``reason`` names the flag, ``instead`` the remedy."""
    symbol = f"{type(backend).__name__}.{hook}"
    return HookRefusedError(
        [
            Diagnostic(
                "MLA402",
                "error",
                f"{symbol} is out of service: {reason}",
                place_of(getattr(type(backend), hook)),
                symbol,
                hint=instead,
            )
        ]
    )
