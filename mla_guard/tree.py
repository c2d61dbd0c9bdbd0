"""Does a wrapper keep its promises with what it really wraps?"""

from __future__ import annotations

import dis
import gc
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

from .book import MISSING, declarations, flags_of, has_body, is_replaced, resolve, roots_of
from .contract import at_name, attribute_shape, function_of, name_of, place_of
from .delegate import delegation_breach
from .diagnostic import Diagnostic, Place
from .drift import binding_errors
from .handed import SUPER, Handed, handed
from .judge import class_place
from .routes import ROUTES
from .words import call_mismatch, missing_delegate, unequal_flag, unexposed_hook

__all__ = ["family_members", "members", "tree_breaches", "within"]


MOST_HELD = 1000
"""A container with more in it holds something else than backends."""


def members(instance: object) -> list[tuple[str, Any]]:
    """What an instance wraps: the objects of its own hierarchy that it holds, by attribute.

    Held directly or in a list, a tuple or the values of a dict. The instance's ``__dict__`` is only
    asked for where it has to be: Python 3.12 calls methods slower on an instance that once had it.
    """
    family = tuple(root for root, _ in roots_of(type(instance)))
    held = {id(inner) for inner in _held(gc.get_referents(instance), family, 2)}
    held.discard(id(instance))
    if not held:
        return []
    found: list[tuple[str, Any]] = []
    for attributes in (_stored(instance), _all(instance)):
        for name, value in attributes:
            inside = _held([value], family, 2)
            found += [(name, inner) for inner in inside if inner is not instance]
            held -= {id(inner) for inner in inside}
        if not held:
            break
        found.clear()
    return found


def family_members(instance: object, value: object) -> list[Any]:
    """What a value holds of an instance's own hierarchy: itself, or what is inside of it."""
    return _held([value], tuple(root for root, _ in roots_of(type(instance))), 2)


def _held(values: Iterable[Any], family: tuple[type, ...], depth: int) -> list[Any]:
    """The members of the family among some values and in the lists, tuples and dicts there."""
    found: list[Any] = []
    for value in values:
        kind = type(value)
        if any(root in kind.__mro__ for root in family):
            found.append(value)
        elif depth and issubclass(kind, (list, tuple, dict)) and len(value) <= MOST_HELD:
            inside = list(value.values()) if issubclass(kind, dict) else value
            found += _held(inside, family, depth - 1)
    return found


def _stored(instance: object) -> Iterator[tuple[str, Any]]:
    """The attributes of an instance whose names are stored somewhere in its class's methods."""
    for name in _stored_names(type(instance)):
        if not hasattr(getattr(type(instance), name, None), "__get__"):
            value = getattr(instance, name, MISSING)
            if value is not MISSING:
                yield name, value
    for owner in type(instance).__mro__:
        slots = vars(owner).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__"):
                value = getattr(instance, name, MISSING)
                if value is not MISSING:
                    yield name, value


_NAMES: weakref.WeakKeyDictionary[type, tuple[str, ...]] = weakref.WeakKeyDictionary()


def _stored_names(cls: type) -> tuple[str, ...]:
    if cls in _NAMES:
        return _NAMES[cls]
    names: dict[str, None] = {}
    for owner in cls.__mro__[:-1]:
        for attribute in vars(owner).values():
            function = function_of(attribute)
            if function is not None:
                names |= dict.fromkeys(
                    i.argval
                    for i in dis.get_instructions(function.__code__)
                    if i.opname == "STORE_ATTR"
                )
    _NAMES[cls] = tuple(names)
    return _NAMES[cls]


def _all(instance: object) -> Iterator[tuple[str, Any]]:
    yield from list(getattr(instance, "__dict__", {}).items())
    yield from _stored(instance)


def within(wrapper: object) -> list[Any]:
    """Everything that an instance wraps, at any depth, each object once."""
    found: dict[int, Any] = {id(wrapper): wrapper}
    waiting = [wrapper]
    while waiting:
        for _, inner in members(waiting.pop()):
            if id(inner) not in found:
                found[id(inner)] = inner
                waiting.append(inner)
    return list(found.values())[1:]


def tree_breaches(wrapper: object, *, hook: str | None = None) -> list[Diagnostic]:
    """Every breach between an instance and what it wraps, at any depth.

    With ``hook`` a hook that is handed on to nothing (MLA303) counts for that hook only: an engine
    that never calls the others is right.
    """
    found: list[Diagnostic] = []
    for outer in (wrapper, *within(wrapper)):
        has_routes = hasattr(type(outer), ROUTES)
        if inside := members(outer):
            found += _handed_on(outer, inside, hook if outer is wrapper else None)
            # Routes say of every hook whether it is passed on, those left to the base included.
            found += [] if has_routes else _unexposed(outer, inside)
            found += _flags(outer, inside)
        if has_routes:
            from .routed import instance_breaches_of_routes  # few classes declare any

            found += instance_breaches_of_routes(outer, [inner for _, inner in inside])
    return list({(d.code, d.message, d.place): d for d in found}.values())


def _handed_on(outer: object, inside: list[tuple[str, Any]], only: str | None) -> list[Diagnostic]:
    cls = type(outer)
    found = []
    for name in declarations(cls) | _declared_inside(inside):
        resolved = resolve(cls, name)
        function = function_of(resolved[1]) if resolved is not None else None
        if resolved is None or function is None:
            continue
        for call in handed(function):
            if call.to == SUPER or call.hook not in declarations(cls) | _declared_inside(inside):
                continue
            for inner in dict.fromkeys(_Same(i) for held, i in inside if held == call.to):
                breach = _misfit(
                    f"{name_of(resolved[0])}.{name}",
                    Place(function.__code__.co_filename, call.line, call.column),
                    call,
                    inner.value,
                    missing=only in (None, name),
                )
                if breach is not None:
                    found.append(breach)
    return found


class _Same:
    """An object by identity, whatever its ``__eq__`` and ``__hash__``."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def _declared_inside(inside: list[tuple[str, Any]]) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for _, inner in inside:
        names.update(declarations(type(inner)))
    return names


def _misfit(
    caller: str, place: Place, call: Handed, inner: Any, *, missing: bool
) -> Diagnostic | None:
    resolved = resolve(type(inner), call.hook)
    if resolved is None or resolved[1] is None:
        if getattr(inner, call.hook, None) is not None or call.probed or not missing:
            return None
        return missing_delegate(
            caller=caller,
            place=place,
            hook=call.hook,
            held_as=f"self.{call.to}",
            inner=name_of(type(inner)),
        )
    if is_replaced(inner, call.hook):
        return None  # replaced on the instance: what is there is not the class's hook
    if call.delegated:
        return delegation_breach(inner, call.hook, call.call, caller, place)
    shape = attribute_shape(resolved[1])
    if shape is None or not (reasons := binding_errors(shape, call.call)):
        return None
    return call_mismatch(
        caller=caller,
        place=place,
        callee=f"{name_of(resolved[0])}.{call.hook}",
        shape=shape,
        called=call.hook,
        callee_place=at_name(place_of(resolved[1]), call.hook),
        call=call.call,
        reasons=reasons,
        hint=f"TypeError as soon as self.{call.to} is a {name_of(resolved[0])}. Pass only what "
        "every backend accepts, or widen the implementation.",
    )


def _unexposed(outer: object, inside: list[tuple[str, Any]]) -> list[Diagnostic]:
    cls = type(outer)
    found = []
    probed = {
        name
        for declared_in in (declarations(cls), _declared_inside(inside))
        for name, declared_by in declared_in.items()
        if any(hook.optional for _, hook in declared_by)
    }
    for name in sorted(probed):
        for held_as, inner in inside:
            theirs = resolve(type(inner), name)
            if theirs is None or not has_body(theirs[1]):
                continue
            effect = _effect(outer, name, inner, theirs[0])
            if effect:
                found.append(
                    unexposed_hook(
                        wrapper=name_of(cls),
                        place=class_place(cls),
                        hook=name,
                        inner=name_of(theirs[0]),
                        inner_place=at_name(place_of(theirs[1]), name),
                        held_as=held_as,
                        effect=effect,
                    )
                )
                break
    return found


def _effect(outer: object, name: str, inner: Any, inner_owner: type) -> str:
    mine = resolve(type(outer), name)
    if mine is None:
        if getattr(outer, name, None) is not None:
            return ""
        return "the probe is silently False"
    owner, attribute = mine
    if isinstance(inner, owner) and inner_owner is not owner:
        return f"silently the default of {name_of(owner)} instead"
    if attribute is None or not has_body(attribute):
        return f"{name_of(owner)}.{name} has no body"
    return ""


def _flags(outer: object, inside: list[tuple[str, Any]]) -> list[Diagnostic]:
    found = []
    for name, how in flags_of(type(outer)).items():
        values = {held: getattr(inner, name) for held, inner in inside if hasattr(inner, name)}
        if not values or not hasattr(outer, name):
            continue
        mine, wanted = getattr(outer, name), next(iter(values.values()))
        if how == "same":
            # Where the inner backends differ, no value of the wrapper's is the right one.
            agrees = mine == wanted or any(value != wanted for value in values.values())
        else:
            # A need that no inner backend has costs time, a missing one is wrong; and so, the other
            # way round, with what all of them must be able to do.
            wanted = how == "any"
            agrees = bool(mine) is wanted or all(bool(v) is not wanted for v in values.values())
        if not agrees:
            found.append(
                unequal_flag(
                    wrapper=name_of(type(outer)),
                    place=class_place(type(outer)),
                    flag=name,
                    mine=mine,
                    wanted=wanted,
                    reasons=[f"{held}.{name} is {value!r}" for held, value in values.items()],
                )
            )
    return found
