"""A class with declared routes as it was imported, and an instance with what it really holds."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from .book import MISSING, Terms, flags_of, resolve, roots_of
from .contract import (
    BORROWED,
    at_name,
    contract_of,
    function_of,
    name_of,
    place_of,
    plain,
)
from .diagnostic import Diagnostic, Place, Related
from .judge import class_place
from .method_reach import reach_of
from .method_source import attribute_in_source
from .route_breaches import Promise, Routed, breaches_with_children, class_route_breaches
from .routes import ROUTES, read_routes
from .touched import Definition, Reach

__all__ = ["class_breaches_of_routes", "instance_breaches_of_routes"]


def class_breaches_of_routes(cls: type) -> list[Diagnostic]:
    """Every breach between the routes that ``cls`` declares, its base and its own code."""
    routed = _routed(cls)
    return list(class_route_breaches(routed)) if routed is not None else []


def instance_breaches_of_routes(instance: object, inside: Sequence[Any]) -> list[Diagnostic]:
    """Every breach between the routes of an instance and the backends ``inside`` of it."""
    routed = _routed(type(instance))
    if routed is None:
        return []
    found = list(_without_backend(routed, instance))
    if inside:
        found += breaches_with_children(
            routed,
            _hooks_inside(type(instance), inside),
            lambda name: any(
                resolve(type(inner), name) is not None or hasattr(inner, name) for inner in inside
            ),
        )
    return found


def _without_backend(routed: Routed, instance: object) -> Iterator[Diagnostic]:
    """Attributes that routes name and in which the instance holds no backend."""
    from .tree import family_members

    routes = routed.routes
    for child in sorted(routed.children):
        value = getattr(instance, child, MISSING)
        if value is not MISSING and family_members(instance, value):
            continue
        names = [name for name, route in routes.items() if route and child in route.children]
        found = "it does not exist" if value is MISSING else f"it is of type {type(value).__name__}"
        yield routed.breach(
            child,
            f"{routed.name} holds no {routed.base} in self.{child}, to which it routes "
            f"{', '.join(names)}: {found}",
            [
                Related(
                    routed.base_place(),
                    f"children are instances of {routed.base}, one or several in a container",
                )
            ],
            f"Create self.{child} in {routed.name}.__init__, or correct the routes.",
        )


def _hooks_inside(cls: type, inside: Sequence[Any]) -> dict[str, Promise]:
    """The functions and properties that the classes of held backends define below the base."""
    above = _above(cls)
    found: dict[str, Promise] = {}
    for kind in dict.fromkeys(type(inner) for inner in inside):
        for owner in kind.__mro__:
            for name, hook in contract_of(owner).hooks.items() if owner not in above else ():
                found.setdefault(name, Promise(name_of(owner), partial(at_name, hook.place, name)))
    return found


def _above(cls: type) -> set[type]:
    return {k for root, _ in roots_of(cls) for k in root.__mro__}


def _place(owner: type, name: str, attribute: Any) -> Place:
    """Where a class body defines or annotates a name."""
    if function_of(attribute) is not None:
        return at_name(place_of(attribute), name)
    found, place = attribute_in_source(owner, name), class_place(owner)
    return Place(place.path, *found) if found is not None else place


def _routed(cls: type) -> Routed | None:
    """``cls`` with its routes; None where it declares none below a guarded base."""
    roots, above = roots_of(cls), _above(cls)
    below = [k for k in cls.__mro__ if k not in above]
    saying = [k for k in below if ROUTES in vars(k)]
    if not saying or not roots:
        return None
    base = roots[0][0]
    about = next(k for k in reversed(below) if issubclass(k, base) and issubclass(k, saying[0]))
    promised = _promised(roots)
    return Routed(
        name=name_of(about),
        place=partial(class_place, about),
        base=name_of(base),
        base_place=partial(class_place, base),
        literals=[
            (name_of(k), partial(class_place, k), read_routes(vars(k)[ROUTES])) for k in saying
        ],
        promised=promised,
        known=lambda name: name in promised or _has(base, name),
        flags=flags_of(cls),
        look=partial(_look, cls, above),
        stored=_stored(below),
        is_open=False,
        is_dynamic=any("__getattr__" in vars(k) for k in below),
    )


def _promised(roots: Sequence[tuple[type, Terms]]) -> dict[str, Promise]:
    """The hooks that guarded bases declare, their public flags, and those of their terms."""
    found: dict[str, Promise] = {}
    for root, terms in roots:
        declared = {name: vars(root)[name] for name in contract_of(root).hooks}
        for name in (*vars(root), *inspect.get_annotations(root)):
            value = vars(root).get(name)
            borrowed = name in BORROWED.get(root, ())
            if not (name.startswith("_") or borrowed or _is_nested_class(root, name, value)):
                declared.setdefault(name, value)
        for name, value in declared.items():
            found.setdefault(name, Promise(name_of(root), partial(_place, root, name, value)))
        for name in terms.flags:
            found.setdefault(name, Promise(name_of(root), partial(class_place, root)))
    return found


def _is_nested_class(root: type, name: str, value: object) -> bool:
    return isinstance(value, type) and value.__qualname__ == f"{root.__qualname__}.{name}"


def _has(base: type, name: str) -> bool:
    """Whether an instance of the base has a name, its own stores included."""
    return resolve(base, name) is not None or name in _stored(list(base.__mro__[:-1]))


def _look(cls: type, above: set[type], name: str, after: Any) -> Definition | None:
    resolved = resolve(cls, name, after)
    if resolved is None or resolved[0] is object:
        return None
    owner, attribute = resolved
    function = function_of(attribute)
    read: Callable[[], Reach | None] = (
        partial(reach_of, function) if function is not None else lambda: None
    )
    return Definition(
        owner,
        f"{name_of(owner)}.{name}",
        partial(_place, owner, name, attribute),
        owner not in above,
        function is not None,
        read,
    )


def _stored(classes: list[type]) -> dict[str, frozenset[str]]:
    """What the methods of some classes store on their object, and what they keep there."""
    found: dict[str, frozenset[str]] = {}
    for owner in classes:
        setters = (getattr(plain(a), "fset", None) for a in vars(owner).values())
        for function in map(function_of, (*vars(owner).values(), *setters)):
            if function is None:
                continue
            body = reach_of(function)
            # Without a source every name in the code may be one that is stored.
            stores: Mapping[str, frozenset[str]] = (
                body.stores
                if body is not None
                else dict.fromkeys(function.__code__.co_names, frozenset[str]())
            )
            for name, kept in stores.items():
                found[name] = found.get(name, frozenset()) | kept
    return found
