"""Whether code asks if an attribute exists, so that creating it would change the answer."""

from __future__ import annotations

from lint_rules.facts import Read
from lint_rules.judge import Judge

__all__ = ["is_probed"]


def is_probed(judge: Judge, name: str) -> bool:
    """Whether some ``hasattr``, ``getattr`` with default or ``except AttributeError`` asks."""
    return any(
        isinstance(event, Read) and event.name == name and (event.probe or event.caught)
        for scope in judge.view.types.scopes()
        for event in scope.function.events
    )
