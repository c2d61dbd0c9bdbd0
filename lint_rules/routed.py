"""A class with declared routes as its source has it, for the judgement that the guard shares."""

from __future__ import annotations

from functools import partial

from lint_rules.declared import flags_in_source, is_hook, literal
from lint_rules.facts import (
    And,
    Attr,
    Bind,
    Call,
    CallEvent,
    ClassAttr,
    Const,
    Expr,
    Function,
    IfElse,
    Item,
    Name,
    Opaque,
    Or,
    Read,
    Seq,
    Write,
    last_name,
)
from lint_rules.link import Klass, Member
from lint_rules.places import Places
from mla_guard.diagnostic import Place
from mla_guard.route_breaches import Promise, Routed
from mla_guard.routes import ROUTES, Declared, Route, merged, read_routes
from mla_guard.touched import Definition, Reach, reach

__all__ = ["children_of", "declares_routes", "hooks_of", "routed", "routes_of"]


def declares_routes(klass: Klass) -> bool:
    """Whether ``klass`` or a class above it, below the base, declares routes."""
    return klass.root is not None and bool(_saying(klass))


def routes_of(klass: Klass) -> dict[str, Route | None]:
    """The routes of a class by name; None for a malformed one."""
    return merged([_declared(k) for k in _saying(klass)])


def children_of(klass: Klass) -> list[str]:
    """The attributes that the routes of a class name, in their order."""
    routes = [route for route in routes_of(klass).values() if route is not None]
    return list(dict.fromkeys(child for route in routes for child in route.children))


def routed(klass: Klass, places: Places) -> Routed | None:
    """``klass`` with its routes; None where it declares none below a base."""
    saying, root = _saying(klass), klass.root
    if not saying or root is None:
        return None
    below = _below(klass)
    about = next(k for k in reversed(below) if k.is_a(root) and k.is_a(saying[0]))
    promised = _promised(root, places)
    has_getter = any("__getattr__" in k.own for k in below)
    return Routed(
        name=_shown(about),
        place=partial(places.klass, about),
        base=_shown(root),
        base_place=partial(places.klass, root),
        literals=[(_shown(k), partial(places.klass, k), _declared(k)) for k in saying],
        promised=promised,
        known=lambda name: name in promised or name in root.members or name in root.stored,
        flags=flags_in_source(root.facts),
        look=partial(_look, klass, places),
        stored=_stored(below),
        is_open=not klass.complete,
        is_dynamic=has_getter,
    )


def hooks_of(klass: Klass, places: Places) -> dict[str, Promise]:
    """The functions and properties that instances of ``klass`` have from below the base."""
    found: dict[str, Promise] = {}
    for owner in _below(klass):
        for name, member in owner.own.items():
            if member.function is not None and is_hook(member.function) and name not in found:
                found[name] = Promise(_shown(owner), partial(places.member, member))
    return found


def _below(klass: Klass) -> list[Klass]:
    above = klass.root.mro if klass.root is not None else ()
    return [k for k in klass.mro if k not in above]


def _saying(klass: Klass) -> list[Klass]:
    if ROUTES not in klass.members:
        return []
    return [k for k in _below(klass) if ROUTES in k.own]


def _declared(klass: Klass) -> Declared:
    attr = klass.own[ROUTES].attr
    value = attr.value if attr is not None else None
    return read_routes(literal(value.text) if isinstance(value, Const) else None)


def _shown(klass: Klass) -> str:
    return klass.qualname.rpartition("<locals>.")[2]


def _promised(root: Klass, places: Places) -> dict[str, Promise]:
    hooks = [
        name
        for name, member in root.own.items()
        if member.function is not None and is_hook(member.function)
    ]
    found = {name: Promise(_shown(root), partial(places.member, root.own[name])) for name in hooks}
    for attr in root.facts.attrs:
        if not attr.name.startswith("_"):
            found.setdefault(attr.name, Promise(_shown(root), partial(_attr, root, attr, places)))
    for name in flags_in_source(root.facts):
        found.setdefault(name, Promise(_shown(root), partial(places.klass, root)))
    return found


def _attr(klass: Klass, attr: ClassAttr, places: Places) -> Place:
    return places.at(klass.path, attr.line, attr.name)


def _look(klass: Klass, places: Places, name: str, after: object) -> Definition | None:
    member: Member | None
    if after is None:
        member = klass.members.get(name)
    else:
        assert isinstance(after, Klass)
        member = klass.after(after, name)
    if member is None:
        return None
    function = member.function
    return Definition(
        member.owner,
        f"{_shown(member.owner)}.{name}",
        partial(places.member, member),
        member.owner in _below(klass),
        function is not None,
        (lambda: _reach(function)) if function is not None else (lambda: None),
    )


def _stored(classes: list[Klass]) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for klass in classes:
        for method in klass.facts.methods:
            for name, kept in _reach(method).stores.items():
                found[name] = found.get(name, frozenset()) | kept
    return found


def _reach(function: Function) -> Reach:
    me = Name(function.params[0].name) if function.params else Name("")
    reads: list[str] = []
    up: list[str] = []
    stores: list[tuple[str, frozenset[str]]] = []
    binds: list[tuple[str, frozenset[str]]] = []
    for event in function.events:
        if isinstance(event, Read):
            asked: Expr = Attr(event.value, event.name)
        elif isinstance(event, CallEvent):
            asked = event.call.func
        else:
            if isinstance(event, Write) and event.target == me:
                stores.append((event.name, _values(event.value, me)))
            elif isinstance(event, Bind):
                binds.append((event.name, _values(event.value, me)))
            continue
        if isinstance(asked, Attr):
            if asked.value == me:
                reads.append(asked.name)
            elif isinstance(asked.value, Call) and asked.value.func == Name("super"):
                up.append(asked.name)
    return reach(reads, up, stores, binds)


def _values(expr: Expr | None, me: Name) -> frozenset[str]:
    """What a value is kept from: backends themselves, or hooks of them by ``route``."""
    if isinstance(expr, Name):
        return frozenset([expr.id])
    if isinstance(expr, Attr):
        return frozenset([f".{expr.name}"] if expr.value == me else ())
    parts: tuple[Expr, ...] = ()
    if isinstance(expr, (Seq, Or, And)):
        parts = expr.items
    elif isinstance(expr, IfElse):
        parts = (expr.then, expr.other)
    elif isinstance(expr, Item):
        parts = (expr.value,)
    elif isinstance(expr, Opaque):
        parts = expr.values
    elif isinstance(expr, Call) and last_name(expr.func) in ("list", "route", "tuple"):
        parts = expr.args[:1]
    return frozenset(value for part in parts for value in _values(part, me))
