"""What of a hook an implementation may leave out, and a wrapper's call of it then drops."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeAlias

from .drift import Call, Shape, binding_errors, drift

__all__ = ["Plan", "drift_beyond", "reduced"]

Plan: TypeAlias = tuple[tuple[int, ...], dict[int, str], frozenset[str]]
"""Positions passed on, positions passed by keyword, keywords dropped."""


def reduced(
    shape: Shape, call: Call, promises: Iterable[tuple[Shape, Collection[str]]]
) -> Plan | None:
    """The plan that drops what the contract lets a wrapper drop, or None where that is no help.

    ``promises`` are the declarations of the hook, each with the parameters that may be dropped.
    """
    mine = {p.name for p in shape}
    for promise, optional_arguments in promises:
        if binding_errors(promise, call):
            continue
        names = [p.name for p in promise if p.kind <= 1][: call.positional]
        droppable = set(optional_arguments) - mine
        dropped = frozenset(droppable.intersection(call.keywords))
        kept: list[int] = []
        by_keyword: dict[int, str] = {}
        for index in range(call.positional):
            name = names[index] if index < len(names) else None
            if name in droppable:
                continue
            if name is not None and len(kept) < index:
                by_keyword[index] = name
            else:
                kept.append(index)
        left = Call(
            len(kept),
            (*(k for k in call.keywords if k not in dropped), *by_keyword.values()),
        )
        if not binding_errors(shape, left):
            return tuple(kept), by_keyword, dropped
    return None


def drift_beyond(
    promise: Shape, override: Shape, optional_arguments: Collection[str]
) -> tuple[str, ...]:
    """How an override fails to accept what is promised, less the parameters that it may drop."""
    droppable = set(optional_arguments) - {p.name for p in override}
    if not droppable:
        return drift(promise, override)
    reasons = drift(tuple(p for p in promise if p.name not in droppable), override)
    # Positions are said as the declaration has them, before anything is dropped.
    said = drift(promise, override) if reasons else ()
    allowed = tuple(
        f"drops {what}{name!r}" for name in droppable for what in ("", "the keyword-only ")
    )
    return tuple(r for r in said if not r.startswith(allowed)) or reasons
