"""The root classes of known engines: the only engine names that the linter knows."""

from __future__ import annotations

__all__ = ["BACKEND_ROOTS", "COMPANION_ROOTS"]

BACKEND_ROOTS: tuple[str, ...] = ("AttentionBackend",)
"""Base classes whose hooks an engine calls on whichever backend is configured."""

COMPANION_ROOTS: tuple[str, ...] = ("KVCache", "BaseSpecWorker", "BaseDraftWorker")
"""Base classes next to them (KV pools, speculative workers): overrides and initialization count."""
