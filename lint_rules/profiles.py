"""The root classes of known engines: the only engine names that the linter knows."""

from __future__ import annotations

__all__ = ["BACKEND_ROOTS", "COMPANION_ROOTS"]

BACKEND_ROOTS: tuple[str, ...] = (
    "AttentionBackend",
    "PagedAttentionBackend",
    "AttentionImplBase",
    "AttentionImpl",
    "MLAAttentionImpl",
    "AttentionMetadataBuilder",
    "MLAPrefillBackend",
)
"""Base classes whose hooks an engine calls on whichever backend is configured."""

COMPANION_ROOTS: tuple[str, ...] = (
    "KVCache",
    "CachePool",
    "BaseSpecWorker",
    "BaseDraftWorker",
    "BaseDrafter",
)
"""Base classes next to them (KV pools, speculative workers): overrides and initialization count."""
