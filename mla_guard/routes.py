"""The routes that a wrapper declares: which child serves which hook, and how flags combine.

``__mla_routes__`` stands in the class body as a literal, which the linter reads from source and the
guard from the class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

__all__ = [
    "COMBINATIONS",
    "ROUTES",
    "Combination",
    "Declared",
    "Fault",
    "NoLiteral",
    "Route",
    "Routes",
    "merged",
    "read_routes",
]

ROUTES = "__mla_routes__"

Combination = Literal["any", "all", "same"]
COMBINATIONS: tuple[Combination, ...] = ("any", "all", "same")

Routes: TypeAlias = Mapping[str, str | Sequence[str] | Mapping[str, str | Sequence[str]]]
"""What ``__mla_routes__`` is: names of hooks, properties and flags to where each is served.

A string or a tuple of strings names attributes of the instance that hold a child: one that serves
the hook, or several that it is handed to. A dict names the children by phase or kind, or under the
one key ``any``, ``all`` or ``same`` those whose flags are combined so. ``"self"``: the wrapper's
own code answers. ``"base"``: the base's definition is right as it is.
"""

TABLE = "a dict of names to routes"
ENTRY = (
    "a child's attribute, a tuple of them, {phase: attributes}, "
    "{'any' or 'all' or 'same': attributes}, 'self' or 'base'"
)
NAME = "the name of a hook, a property or a flag"


class NoLiteral(NamedTuple):
    """The source of a value that cannot be read without running it."""

    text: str


class Route(NamedTuple):
    """Where a name is served: by ``children``, combined or not, by ``"self"`` or by ``"base"``."""

    children: tuple[str, ...] = ()
    combination: Combination | None = None
    answer: Literal["self", "base"] | None = None

    def __str__(self) -> str:
        if self.answer is not None:
            return repr(self.answer)
        attributes = " and ".join(f"self.{child}" for child in self.children)
        return f"{self.combination} of {attributes}" if self.combination else attributes


class Fault(NamedTuple):
    """A part of a literal that is no route: where in it, what was found and what is expected."""

    where: str
    found: str
    expected: str


class Declared(NamedTuple):
    """One literal as it was read; ``routes`` has None for an entry that is none.

    ``is_table`` is false where nothing of it could be read.
    """

    routes: Mapping[str, Route | None]
    faults: tuple[Fault, ...] = ()
    is_table: bool = True


def read_routes(value: object) -> Declared:
    """The routes that a literal declares; what is malformed in it becomes a fault."""
    if not isinstance(value, Mapping):
        return Declared({}, (Fault("", _said(value), TABLE),), is_table=False)
    routes: dict[str, Route | None] = {}
    faults: list[Fault] = []
    for name, entry in value.items():
        if not _is_name(name):
            faults.append(Fault("", f"a dict with the key {_said(name)}", NAME))
            continue
        routes[name] = _route(entry)
        if routes[name] is None:
            faults.append(Fault(f"[{name!r}]", _said(entry), ENTRY))
    return Declared(routes, tuple(faults))


def merged(declared: Sequence[Declared]) -> dict[str, Route | None]:
    """The routes of several literals, nearest class first: by name, the nearest wins."""
    return {name: route for said in reversed(declared) for name, route in said.routes.items()}


def _said(value: object) -> str:
    if isinstance(value, NoLiteral):
        return f"no literal: {_short(' '.join(value.text.split()))}"
    text = repr(value)
    return f"a {type(value).__name__}" if " at 0x" in text else _short(text)


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.isidentifier()


def _route(entry: object) -> Route | None:
    if entry == "self":
        return Route(answer="self")
    if entry == "base":
        return Route(answer="base")
    if not isinstance(entry, Mapping):
        children = _children(entry)
        return Route(children) if children else None
    several = [_children(value) for value in entry.values()]
    if not all(several) or not all(isinstance(key, str) and key for key in entry):
        return None
    combined = [how for how in COMBINATIONS if how in entry]
    if combined and len(entry) > 1:
        return None
    children = tuple(dict.fromkeys(child for some in several for child in some))
    return Route(children, combined[0] if combined else None) if children else None


def _children(value: object) -> tuple[str, ...]:
    """The attributes that a value names; none where it is malformed."""
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, (tuple, list)):
        return ()
    well_formed = all(_is_name(name) and name not in ("self", "base") for name in names)
    return tuple(dict.fromkeys(names)) if well_formed else ()
