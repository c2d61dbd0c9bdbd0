"""What of a call a wrapper may drop, where the inner hook does not take it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeAlias

from .drift import Call, Shape, binding_errors

__all__ = ["Plan", "reduced"]

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
