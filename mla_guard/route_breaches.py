"""MLA304: do the routes that a wrapper declares hold for its base, its own code and its children?

The guard describes an imported class and the linter one that it has read; both are judged here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .diagnostic import Diagnostic, Place, Related
from .routes import Combination, Declared, Route, merged
from .touched import Definition, touched
from .words import broken_route

__all__ = ["Promise", "Routed", "breaches_with_children", "class_route_breaches"]


class Promise(NamedTuple):
    """A hook, property or flag as the base or a child declares it; ``owner`` names the class."""

    owner: str
    place: Callable[[], Place]


@dataclass(frozen=True)
class Routed:
    """A class with declared routes below a guarded base.

    ``name`` is the class that findings are about: the topmost one of the family that has the
    nearest literal. ``literals`` come nearest first, with the class that each stands in.
    ``promised`` is what the base declares and wrappers owe a route for, ``known`` tells of any name
    whether the base has it. ``look(name, after)`` finds a name on an instance; ``stored`` are the
    attributes that methods below the base store. ``is_open``: it may have names that are not seen;
    ``is_dynamic``: its ``__getattr__`` answers for what is not found.
    """

    name: str
    place: Callable[[], Place]
    base: str
    base_place: Callable[[], Place]
    literals: Sequence[tuple[str, Callable[[], Place], Declared]]
    promised: Mapping[str, Promise]
    known: Callable[[str], bool]
    flags: Mapping[str, Combination]
    look: Callable[[str, object], Definition | None]
    stored: Mapping[str, frozenset[str]]
    is_open: bool
    is_dynamic: bool

    @property
    def is_table(self) -> bool:
        """Whether every literal can be read, so that what has no route is known."""
        return all(declared.is_table for _, _, declared in self.literals)

    @property
    def routes(self) -> dict[str, Route | None]:
        """The routes by name; None for a malformed one."""
        return merged([declared for _, _, declared in self.literals])

    @property
    def children(self) -> frozenset[str]:
        """Every attribute that some route names."""
        return frozenset(c for route in self.routes.values() if route for c in route.children)

    def breach(
        self,
        name: str,
        said: str,
        related: Sequence[Related],
        hint: str,
        at: Definition | None = None,
    ) -> Diagnostic:
        """A finding about what the class says of ``name``, or about one of its definitions."""
        place = self.place() if at is None else at.place()
        symbol = f"{self.name}.{name}" if at is None else at.symbol
        return broken_route(symbol=symbol, place=place, said=said, related=related, hint=hint)

    def base_end(self, name: str) -> Related:
        """Where the base declares ``name``, or that it does not."""
        promise = self.promised.get(name)
        if promise is not None:
            return Related(promise.place(), f"{promise.owner}.{name} is declared here")
        found = self.look(name, None)
        while found is not None and found.below:
            found = self.look(name, found.owner)
        if found is not None:
            return Related(found.place(), f"{found.symbol} is declared here")
        return Related(self.base_place(), f"{self.base} has no {name}")

    def own_end(self, name: str, route: Route) -> Related:
        """The wrapper's side of a breach in one of its definitions."""
        return Related(self.place(), f"{self.name} routes {name} to {route}")


def class_route_breaches(routed: Routed) -> Iterator[Diagnostic]:
    """What can be said of the class alone: every breach, those of malformed literals first."""
    yield from _malformed(routed)
    if not routed.is_table:
        return
    routes = routed.routes
    for name, promise in routed.promised.items():
        if name not in routes:
            yield routed.breach(
                name,
                f"{routed.name} declares no route for {name}, which {promise.owner} declares",
                [routed.base_end(name)],
                _declare(routed, name),
            )
    for name, route in routes.items():
        if route is not None:
            yield from _against_flags(routed, name, route)
            yield from _against_code(routed, name, route)


def breaches_with_children(
    routed: Routed, hooks: Mapping[str, Promise], has: Callable[[str], bool]
) -> Iterator[Diagnostic]:
    """What can be said with the backends that it holds.

    ``hooks`` are the functions and properties that their classes define below the base; ``has``
    tells whether one of them has a name at all.
    """
    if not routed.is_table:
        return
    routes = routed.routes
    for name, promise in hooks.items():
        if name not in routes and name not in routed.promised:
            yield routed.breach(
                name,
                f"{routed.name} declares no route for {name}, which {promise.owner}, a class that "
                "it can hold, defines",
                [Related(promise.place(), f"{promise.owner}.{name} is defined here")],
                _declare(routed, name),
            )
    for name in routes:
        if not routed.known(name) and not has(name):
            yield routed.breach(
                name,
                f"{routed.name} routes {name}, which neither {routed.base} nor any backend that it "
                "can hold has",
                [routed.base_end(name)],
                f"Remove {name} from {routed.name}.__mla_routes__, or correct its name.",
            )


def _declare(routed: Routed, name: str) -> str:
    return (
        f"Add {name} to {routed.name}.__mla_routes__: the child that serves it, how children "
        "combine, 'self' or 'base'."
    )


def _malformed(routed: Routed) -> Iterator[Diagnostic]:
    for owner, place, declared in routed.literals:
        for fault in declared.faults:
            yield broken_route(
                symbol=owner,
                place=place(),
                said=f"{owner}.__mla_routes__{fault.where} is {fault.found}, "
                f"expected {fault.expected}",
                related=[Related(routed.base_place(), f"{routed.base} declares the hooks")],
                hint="Write __mla_routes__ as one literal: both the linter and the guard read it.",
            )


def _against_flags(routed: Routed, name: str, route: Route) -> Iterator[Diagnostic]:
    wanted = routed.flags.get(name)
    if wanted is None or route.answer is not None or (route.combination or "same") == wanted:
        return
    yield routed.breach(
        name,
        f"{routed.name} routes {name} to {route}, but {routed.base} says that wrappers combine it "
        f"by {wanted!r}",
        [routed.base_end(name)],
        f"Write {{{wanted!r}: ...}}, and combine the flag so.",
    )


def _against_code(routed: Routed, name: str, route: Route) -> Iterator[Diagnostic]:
    found = routed.look(name, None)
    if found is None or not found.below:
        unseen = routed.is_open or (found is None and routed.is_dynamic)
        if route.answer != "base" and name not in routed.stored and not unseen:
            yield _undefined(routed, name, route, found)
        return
    if route.answer == "self":
        return
    if route.answer == "base":
        yield routed.breach(
            name,
            f"{found.symbol} replaces what the route of {name} leaves to {routed.base}",
            [routed.own_end(name, route), routed.base_end(name)],
            f"Route {name} to what {found.symbol} does, or remove {found.symbol}.",
            found,
        )
        return
    if not found.runs:
        return
    touches, whole = touched(found, routed.children, routed.stored, routed.look)
    lost = [child for child in route.children if child not in touches]
    strange = sorted(touches.difference(route.children))
    if not (lost and whole) and not strange:
        return
    ends = [routed.own_end(name, route), routed.base_end(name)]
    if lost and whole:
        yield routed.breach(
            name,
            f"{found.symbol} never touches {_attributes(lost)}, which the route of {name} names",
            ends,
            f"Hand {name} on to {_attributes(lost)}, or correct the route.",
            found,
        )
    if strange:
        yield routed.breach(
            name,
            f"{found.symbol} touches {_attributes(strange)}, which the route of {name} does not "
            "name",
            ends,
            f"Name {_attributes(strange)} in the route, or leave it alone in {found.symbol}.",
            found,
        )


def _undefined(routed: Routed, name: str, route: Route, default: Definition | None) -> Diagnostic:
    wins, instead = "there is none: AttributeError", "remove the route"
    if default is not None:
        wins = f"silently the default of {default.symbol.rpartition('.')[0]} instead"
        instead = "route it to 'base' where the default is right"
    return routed.breach(
        name,
        f"{routed.name} routes {name} to {route} but does not define it: {wins}",
        [routed.base_end(name)],
        f"Define {name} on {routed.name}, or {instead}.",
    )


def _attributes(names: Sequence[str]) -> str:
    return " and ".join(f"self.{name}" for name in names)
