"""Does a class keep what was promised about it?"""

from __future__ import annotations

import inspect
from typing import Any

from .book import declarations, has_body, resolve, roots_of
from .contract import Hook, attribute_shape, kind_of, place_of
from .diagnostic import Diagnostic, Place
from .drift import Shape, drift, promised
from .words import missing_hook, signature_drift

__all__ = ["class_breaches", "class_place"]


def class_place(cls: type) -> Place:
    """Where the ``class`` statement stands; ``<unknown>`` for a class without source."""
    try:
        return Place(inspect.getsourcefile(cls) or "<unknown>", inspect.getsourcelines(cls)[1])
    except (OSError, TypeError):
        return Place("<unknown>", 0)


def class_breaches(cls: type) -> list[Diagnostic]:
    """Every breach of ``cls`` as the class of an instance: required hooks and signatures."""
    variadic = all(terms.variadic for _, terms in roots_of(cls))
    found: list[Diagnostic] = []
    for name, declared in declarations(cls).items():
        resolved = resolve(cls, name)
        if resolved is None:  # pragma: no cover - a declaration stands in a class of the MRO
            continue
        owner, attribute = resolved
        if not has_body(attribute):
            found += _missing(cls, name, owner, attribute, declared)
        elif name not in _own_protocol(cls):
            found += _drifted(name, owner, attribute, declared, variadic)
    return found


def _missing(
    cls: type, name: str, owner: type, attribute: Any, declared: list[tuple[type, Hook]]
) -> list[Diagnostic]:
    needing = [(base, hook) for base, hook in declared if hook.required]
    if not needing:
        return []
    base, hook = needing[-1]
    return [
        missing_hook(
            class_name=cls.__qualname__,
            place=class_place(cls),
            hook=name,
            declared=f"{base.__qualname__}.{name}",
            declared_place=hook.place,
            reason=f"{owner.__qualname__}.{name} is None"
            if attribute is None
            else f"{owner.__qualname__}.{name} is all there is, and has no body",
        )
    ]


def _own_protocol(cls: type) -> set[str]:
    above = {k.__name__ for k in cls.__mro__}
    return {
        name
        for _, terms in roots_of(cls)
        for class_name, names in terms.own_protocol.items()
        if class_name in above
        for name in names
    }


def _drifted(
    name: str, owner: type, attribute: Any, declared: list[tuple[type, Hook]], variadic: bool
) -> list[Diagnostic]:
    shape = attribute_shape(attribute)
    found: list[Diagnostic] = []
    for base, hook in declared:
        if base is owner:
            continue
        reasons = _kind_reasons(attribute, hook)
        if not reasons and shape is not None and hook.kind != "property":
            reasons = drift(_promise(hook, shape, variadic), shape)
        if reasons:
            found.append(
                signature_drift(
                    symbol=f"{owner.__qualname__}.{name}",
                    shape=shape or (),
                    place=place_of(attribute),
                    declared=f"{base.__qualname__}.{name}",
                    declared_shape=hook.shape,
                    declared_place=hook.place,
                    reasons=reasons,
                )
            )
            break
    return found


def _promise(hook: Hook, override: Shape, variadic: bool) -> Shape:
    """What the override must accept: the declaration less what it may drop."""
    mine = {p.name for p in override}
    droppable = set(hook.optional_arguments) - mine
    return tuple(p for p in promised(hook.shape, variadic=variadic) if p.name not in droppable)


def _kind_reasons(attribute: Any, hook: Hook) -> tuple[str, ...]:
    if not callable(getattr(attribute, "__func__", attribute)) and kind_of(attribute) == "method":
        return () if hook.kind == "property" else (f"is {attribute!r}, which cannot be called",)
    kind = kind_of(attribute)
    if hook.kind in ("static", "class") and kind == "method":
        return (f"is an instance method, declared as a {hook.kind} method",)
    if hook.kind == "property" and kind != "property":
        return (f"is a {kind} method, declared as a property",)
    return ()
