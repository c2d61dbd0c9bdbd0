"""MLA304: declared routes that the base, the wrapper's code or what it can hold contradicts."""

from __future__ import annotations

from collections.abc import Iterator

from lint_rules.judge import Judge
from lint_rules.link import Klass
from lint_rules.routed import declares_routes, hooks_of, routed
from mla_guard.diagnostic import Diagnostic
from mla_guard.route_breaches import (
    Promise,
    Routed,
    breaches_with_children,
    class_route_breaches,
)

__all__ = ["check"]


def check(judge: Judge) -> Iterator[Diagnostic]:
    """Every breach, on the topmost class that has it."""
    by_class: dict[Klass, dict[str, Diagnostic]] = {}
    for klass in judge.view.backends:
        if declares_routes(klass) and (found := routed(klass, judge.places)) is not None:
            breaches = [*class_route_breaches(found), *_with_children(judge, klass, found)]
            by_class[klass] = {d.message.removeprefix(f"{found.name} "): d for d in breaches}
    for klass, said in by_class.items():
        for what, breach in said.items():
            if not any(what in by_class.get(parent, ()) for parent in klass.mro[1:]):
                yield breach


def _with_children(judge: Judge, klass: Klass, found: Routed) -> Iterator[Diagnostic]:
    wrapper = judge.view.wrapper(klass)
    inner = wrapper.inner(judge.view) if wrapper is not None else []
    hooks: dict[str, Promise] = {}
    for held in inner:
        for name, promise in hooks_of(held, judge.places).items():
            hooks.setdefault(name, promise)

    def has(name: str) -> bool:
        """Whether one of them may have the name: what cannot be known counts as having it."""
        return not inner or any(
            name in held.members
            or name in held.stored
            or any(attr.name == name for k in held.mro for attr in k.facts.attrs)
            or "__getattr__" in held.members
            or not held.complete
            for held in inner
        )

    yield from breaches_with_children(found, hooks, has)
