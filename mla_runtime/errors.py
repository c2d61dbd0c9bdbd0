"""How a hook says that the configuration forbids what it was asked."""

from __future__ import annotations

__all__ = ["HookRefusedError"]


class HookRefusedError(RuntimeError):
    """A hook was called that a flag of this configuration takes out of service."""

    def __init__(self, backend: object, hook: str, reason: str, instead: str) -> None:
        super().__init__(f"{type(backend).__name__}.{hook} refused: {reason}; {instead}")
        self.hook = hook
