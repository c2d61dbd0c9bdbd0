"""How a wrapper hands a hook on to what it wraps."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from typing import Any

from .book import MISSING, declarations, has_body, is_replaced, resolve
from .caller import caller
from .contract import at_name, attribute_shape, name_of, place_of
from .diagnostic import Diagnostic, Place
from .drift import Call, Shape, binding_errors, drift, promised, shape_of
from .dropping import Plan, reduced
from .errors import HookAttributeError, HookCallError

__all__ = ["delegate", "delegation_breach", "exposes", "forget_plans", "route"]

_PLANS: dict[str, dict[int, dict[int | tuple[object, ...], Plan | None]]] = {}
"""By hook, class of the inner object (its id) and kind of call, None where all is passed as it is;
laid out for a fast look-up."""

_KNOWN: dict[int, weakref.ref[type]] = {}


def delegate(inner: Any, hook: str, /, *args: Any, **kwargs: Any) -> Any:
    """Call ``inner.hook(*args, **kwargs)``, less what the contract lets a wrapper drop.

    An argument is dropped only where the inner hook does not take it and the contract lists it in
    ``optional_arguments``. How a call is passed on is decided once per inner class and kind of
    call.

    Raises :class:`HookCallError` (MLA102) where the inner hook does not accept what is left, and
    :class:`HookAttributeError` (MLA303) where the inner object has no such hook.
    """
    try:
        plan = _PLANS[hook][id(type(inner))][(len(args), *kwargs) if kwargs else len(args)]
    except KeyError:
        plan = _decide(inner, hook, len(args), tuple(kwargs))
    if plan is None:
        return getattr(inner, hook)(*args, **kwargs) if kwargs else getattr(inner, hook)(*args)
    kept, by_keyword, dropped = plan
    named = {name: value for name, value in kwargs.items() if name not in dropped}
    named.update({name: args[index] for index, name in by_keyword.items()})
    return getattr(inner, hook)(*(args[index] for index in kept), **named)


def exposes(inner: Any, hook: str, /) -> bool:
    """Whether ``inner`` has a hook to call: not None, and not a default that only raises."""
    found = vars(type(inner)).get(hook, MISSING)
    if found is MISSING:
        resolved = resolve(type(inner), hook)
        found = resolved[1] if resolved is not None else getattr(inner, hook, None)
    return has_body(found)


def route(inner: Any, hook: str, /) -> Callable[..., Any]:
    """What a wrapper on the step path keeps and calls: the decision of :func:`delegate`, made now.

    Where the inner hook accepts all that the contract promises this is the bound method itself.

    Raises what :func:`delegate` raises, for every call that the contract allows.
    """
    from .judge import contract_drift, promises_variadics

    shape, place = _inner(inner, hook)
    for base, declared in declarations(type(inner)).get(hook, []):
        variadic = promises_variadics(type(inner), base, hook)
        if shape is None or not drift(promised(declared.shape, variadic=variadic), shape):
            continue
        if reasons := contract_drift(declared, shape, variadic=variadic):
            call = _fullest(declared.shape)
            raise HookCallError([_mismatch(inner, hook, shape, place, call, reasons)])
        return lambda *args, **kwargs: delegate(inner, hook, *args, **kwargs)
    bound: Callable[..., Any] = getattr(inner, hook)
    return bound


def _promises(inner: Any, hook: str) -> list[tuple[Shape, tuple[str, ...]]]:
    """The declarations of a hook: its shape, and what of it a wrapper may drop."""
    declared = declarations(type(inner)).get(hook, [])
    return [(promise.shape, promise.optional_arguments) for _, promise in declared]


def _inner(inner: Any, hook: str) -> tuple[Shape | None, Place]:
    """The shape of the inner hook, None where nothing is known about it, and where it stands."""
    resolved = resolve(type(inner), hook)
    if resolved is not None and resolved[1] is not None and not is_replaced(inner, hook):
        return attribute_shape(resolved[1]), at_name(place_of(resolved[1]), hook)
    bound = getattr(inner, hook, None)
    if bound is None:
        from .words import missing_delegate

        name, place = caller()
        what = name_of(type(inner))
        raise HookAttributeError(
            [missing_delegate(caller=name, place=place, hook=hook, held_as="inner", inner=what)]
        )
    try:
        return shape_of(inspect.signature(bound)), place_of(bound)
    except (TypeError, ValueError):
        return None, place_of(bound)


def _mismatch(
    inner: Any,
    hook: str,
    shape: Shape,
    place: Place,
    call: Call,
    reasons: tuple[str, ...],
    by: tuple[str, Place] | None = None,
) -> Diagnostic:
    from .words import call_mismatch

    name, at = by or caller()
    return call_mismatch(
        caller=name,
        place=at,
        called=hook,
        callee=f"{name_of(type(inner))}.{hook}",
        shape=shape,
        callee_place=place,
        call=call,
        reasons=reasons,
        hint="Widen the implementation, or list the argument in the contract's optional_arguments.",
    )


def _fullest(shape: Shape) -> Call:
    by_position = [p for p in shape if p.kind <= 1]
    keywords = tuple(p.name for p in shape if p.kind == 3)
    return Call(len(by_position), keywords, names=tuple(p.name for p in by_position))


def _decide(inner: Any, hook: str, positional: int, keywords: tuple[str, ...]) -> Plan | None:
    shape, place = _inner(inner, hook)
    call = Call(positional, keywords)
    plan: Plan | None = None
    if shape is not None and (reasons := binding_errors(shape, call)):
        plan = reduced(shape, call, _promises(inner, hook))
        if plan is None:
            raise HookCallError([_mismatch(inner, hook, shape, place, call, reasons)])
    if not is_replaced(inner, hook):
        key = id(type(inner))
        if key not in _KNOWN:
            _KNOWN[key] = weakref.ref(type(inner), lambda _: _forget(key))
        kind = (positional, *keywords) if keywords else positional
        _PLANS.setdefault(hook, {}).setdefault(key, {})[kind] = plan
    return plan


def delegation_breach(
    inner: Any, hook: str, call: Call, caller: str, place: Place
) -> Diagnostic | None:
    """What :func:`delegate` would refuse of a call that ``caller`` makes, or None."""
    shape, at = _inner(inner, hook)
    if shape is None or not (reasons := binding_errors(shape, call)):
        return None
    if reduced(shape, call, _promises(inner, hook)) is not None:
        return None
    return _mismatch(inner, hook, shape, at, call, reasons, (caller, place))


def _forget(key: int) -> None:
    _KNOWN.pop(key, None)
    for by_class in list(_PLANS.values()):
        by_class.pop(key, None)


def forget_plans() -> None:
    """A base was put under guard or taken out: decide anew."""
    _PLANS.clear()
