"""Does a class keep what was promised about it?"""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

from .book import declarations, has_body, resolve, roots_of
from .contract import (
    Clause,
    Hook,
    at_name,
    attribute_shape,
    function_of,
    kind_of,
    name_of,
    place_of,
    plain,
)
from .diagnostic import Diagnostic, Place, Related
from .drift import Shape, binding_errors, promised
from .dropping import drift_beyond
from .handed import SUPER, handed
from .routes import ROUTES
from .words import call_mismatch, missing_hook, signature_drift

__all__ = ["class_breaches", "class_place", "clauses_of", "contract_drift", "held_to"]


def class_place(cls: type) -> Place:
    """Where the ``class`` statement stands; ``<unknown>`` for a class without source."""
    try:
        place = Place(inspect.getsourcefile(cls) or "<unknown>", inspect.getsourcelines(cls)[1])
        return at_name(place, cls.__name__)
    except (OSError, TypeError):
        return Place("<unknown>", 0)


def class_breaches(cls: type) -> list[Diagnostic]:
    """Every breach of ``cls`` as the class of an instance: required hooks, signatures, routes."""
    found: list[Diagnostic] = []
    for name, declared in declarations(cls).items():
        resolved = resolve(cls, name)
        if resolved is None:  # pragma: no cover - a declaration stands in a class of the MRO
            continue
        owner, attribute = resolved
        if not has_body(attribute):
            found += _missing(cls, name, owner, attribute, declared)
        elif name not in _own_protocol(cls):
            found += _drifted(cls, name, owner, attribute, declared)
            found += _super_breaches(cls, name)
    if hasattr(cls, ROUTES):
        from .routed import class_breaches_of_routes  # few classes declare any

        found += class_breaches_of_routes(cls)
    return found


def hands_on(cls: type, name: str, base: type) -> bool:
    """Whether the hook, called on an instance of ``cls``, is certain to reach that of ``base``."""
    resolved = resolve(cls, name)
    while resolved is not None and resolved[0] is not base:
        function = function_of(resolved[1])
        if function is None or not any(
            call.to == SUPER and call.hook == name for call in handed(function)
        ):
            return False
        resolved = resolve(cls, name, after=resolved[0])
    return resolved is not None


def clauses_of(cls: type) -> dict[str, list[Clause]]:
    """The clauses that bind the hooks of an instance of exactly ``cls``.

    What a declaration without a body requires binds every override. What a declaration with a body
    requires is what that body reads: it binds an override that is certain to call it. A hook
    without a body is bound by nothing.
    """
    binding: dict[str, list[Clause]] = {}
    for name, declared_by in declarations(cls).items():
        resolved = resolve(cls, name)
        if resolved is None or not has_body(resolved[1]):
            continue
        for base, hook in declared_by:
            own = not has_body(plain(vars(base)[name])) or hands_on(cls, name, base)
            clauses = [c for c in hook.clauses if c.kind != "requires" or own]
            said = binding.setdefault(name, [])
            said += [c for c in clauses if c not in said]
    return {name: clauses for name, clauses in binding.items() if clauses}


def held_to(breach: Diagnostic, cls: type, name: str, clause: Clause) -> Diagnostic:
    """``breach`` with the declaration that states the clause among its ends."""
    for base, hook in declarations(cls).get(name, ()):
        if clause in hook.clauses:
            promised_here = Related(
                at_name(hook.place, name), f"{name_of(base)}.{name} {clause.kind} {clause.text}"
            )
            return replace(breach, related=(promised_here, *breach.related))
    return breach


def _super_breaches(cls: type, name: str) -> list[Diagnostic]:
    """Calls on ``super()`` that are certain to be made and that the next class cannot take."""
    found = []
    resolved = resolve(cls, name)
    while resolved is not None:
        owner, attribute = resolved
        resolved = None
        function = function_of(attribute)
        for call in handed(function) if function is not None else ():
            following = resolve(cls, call.hook, after=owner) if call.to == SUPER else None
            shape = attribute_shape(following[1]) if following is not None else None
            if function is None or following is None or shape is None:
                continue
            if call.hook == name:
                resolved = following
            if reasons := binding_errors(shape, call.call):
                found.append(
                    call_mismatch(
                        caller=f"{name_of(owner)}.{name}",
                        place=Place(function.__code__.co_filename, call.line, call.column),
                        called=f"super().{call.hook}",
                        callee=f"{name_of(following[0])}.{call.hook}",
                        shape=shape,
                        callee_place=at_name(place_of(following[1]), call.hook),
                        call=call.call,
                        reasons=reasons,
                        hint="TypeError as soon as the call is reached.",
                    )
                )
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
            class_name=name_of(cls),
            place=class_place(cls),
            hook=name,
            declared=f"{name_of(base)}.{name}",
            declared_place=at_name(hook.place, name),
            reason=f"{name_of(owner)}.{name} is None"
            if attribute is None
            else f"{name_of(owner)}.{name} is all there is, and has no body",
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


def promises_variadics(cls: type, base: type, name: str) -> bool:
    """Whether ``*args`` and ``**kwargs`` of a declaration are a promise to callers.

    Not where a profile says that they are none, nor where the declaration has no body to pass them
    to.
    """
    return has_body(plain(vars(base)[name])) and all(t.variadic for _, t in roots_of(cls))


def _drifted(
    cls: type, name: str, owner: type, attribute: Any, declared: list[tuple[type, Hook]]
) -> list[Diagnostic]:
    shape = attribute_shape(attribute)
    found: list[Diagnostic] = []
    for base, hook in declared:
        if base is owner:
            continue
        variadic = promises_variadics(cls, base, name)
        reasons = _kind_reasons(attribute, hook)
        if not reasons and shape is not None and hook.kind != "property":
            reasons = contract_drift(hook, shape, variadic=variadic)
        if reasons:
            found.append(
                signature_drift(
                    symbol=f"{name_of(owner)}.{name}",
                    place=at_name(place_of(attribute), name),
                    declared=f"{name_of(base)}.{name}",
                    declared_shape=promised(hook.shape, variadic=variadic),
                    declared_place=at_name(hook.place, name),
                    reasons=reasons,
                )
            )
            break
    return found


def contract_drift(hook: Hook, override: Shape, *, variadic: bool) -> tuple[str, ...]:
    """How an override fails to accept what a hook promises, less what it may drop."""
    return drift_beyond(promised(hook.shape, variadic=variadic), override, hook.optional_arguments)


def _kind_reasons(attribute: Any, hook: Hook) -> tuple[str, ...]:
    if not callable(attribute) and not hasattr(attribute, "__get__"):
        return () if hook.kind == "property" else (f"is {attribute!r}, which cannot be called",)
    kind = kind_of(attribute)
    if hook.kind in ("static", "class") and kind == "method":
        return (f"is an instance method, declared as a {hook.kind} method",)
    if hook.kind == "property" and kind != "property":
        return (f"is a {kind} method, declared as a property",)
    return ()
