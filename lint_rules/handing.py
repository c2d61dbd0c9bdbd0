"""Which hook of which backend a call or a value is: written out, or by the guard's functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from lint_rules.facts import Attr, Call, Const, Expr, Name, last_name

__all__ = ["Target", "asked_by", "method_value"]


class Target(NamedTuple):
    """A hook of what ``base`` holds.

    ``probed``: it may turn out to be None. ``delegated``: by the guard's ``delegate`` or ``route``,
    which drop what the contract lets a wrapper drop.
    """

    base: Expr
    name: str
    probed: bool = False
    delegated: bool = False


def method_value(value: Expr) -> Target | None:
    """What ``x.hook``, ``getattr(x, "hook"[, default])`` and ``route(x, "hook")`` give."""
    if isinstance(value, Attr):
        return Target(value.value, value.name)
    if isinstance(value, Call) and (name := _named(value)) is not None:
        if value.func == Name("getattr"):
            return Target(value.args[0], name, probed=True)
        if last_name(value.func) == "route":
            return Target(value.args[0], name, delegated=True)
    return None


def asked_by(
    call: Call, bound: Mapping[str, Sequence[Target]]
) -> Iterator[tuple[Target, Call | None]]:
    """The hooks that a call reaches, and how it calls them; None where it only takes one.

    An attribute, a local of ``bound``, or what ``delegate`` and ``route`` are told.
    """
    func = call.func
    last = last_name(func)
    name = _named(call) if last in ("delegate", "route") else None
    if name is not None:
        target = Target(call.args[0], name, delegated=True)
        rest = msgspec.structs.replace(call, args=call.args[2:])
        yield target, rest if last == "delegate" else None
    elif isinstance(func, Attr):
        yield Target(func.value, func.name), call
    elif isinstance(func, Name):
        for target in bound.get(func.id, ()):
            yield target, call


def _named(call: Call) -> str | None:
    """The name that a call is told by its second argument."""
    if len(call.args) < 2 or not isinstance(call.args[1], Const):
        return None
    text = call.args[1].text
    if text[1:-1].isidentifier():
        return text[1:-1] if text[0] in "'\"" else None
    said = ast.literal_eval(text)
    return said if isinstance(said, str) else None
