"""The sentences of a breach, the same in a lint finding and in the guard's refusal."""

from __future__ import annotations

from collections.abc import Iterable

from .diagnostic import Diagnostic, Place, Related
from .drift import Call, Shape, format_shape

__all__ = [
    "broken_route",
    "call_mismatch",
    "missing_attribute",
    "missing_hook",
    "signature_drift",
    "unexposed_hook",
]


def signature_drift(
    *,
    symbol: str,
    place: Place,
    declared: str,
    declared_shape: Shape,
    declared_place: Place,
    reasons: Iterable[str],
) -> Diagnostic:
    """MLA101: an override does not accept what its declaration promises."""
    why = tuple(reasons)
    return Diagnostic(
        "MLA101",
        "error",
        f"{symbol} cannot be called as {declared} can: {'; '.join(why)}",
        place,
        symbol,
        related=(
            Related(
                declared_place, f"{declared} is declared here as {format_shape(declared_shape)}"
            ),
        ),
        reasons=why,
        hint="Take the declared parameters, in their order and with their defaults.",
    )


def call_mismatch(
    *,
    caller: str,
    place: Place,
    called: str,
    callee: str,
    shape: Shape,
    callee_place: Place,
    call: Call,
    reasons: Iterable[str],
    hint: str,
) -> Diagnostic:
    """MLA102: a call, written as ``called``, that the hook's signature cannot take."""
    return Diagnostic(
        "MLA102",
        "error",
        f"{called}{call} does not bind to {callee}{format_shape(shape)}",
        place,
        caller,
        related=(Related(callee_place, f"{callee} is defined here"),),
        reasons=tuple(f"{callee} {reason}" for reason in reasons),
        hint=hint,
    )


def missing_attribute(
    *,
    symbol: str,
    place: Place,
    attribute: str,
    related: Iterable[Related] = (),
    reasons: Iterable[str] = (),
) -> Diagnostic:
    """MLA202: a hook reads an attribute that this configuration did not create."""
    return Diagnostic(
        "MLA202",
        "error",
        f"{symbol} reads {attribute} unguarded: AttributeError on this instance",
        place,
        symbol,
        related=tuple(related),
        reasons=tuple(reasons),
        hint=f"Create {attribute} on every path of __init__ (as None where it is not used), or "
        "guard the read with the condition that creates it.",
    )


def missing_hook(
    *, class_name: str, place: Place, hook: str, declared: str, declared_place: Place, reason: str
) -> Diagnostic:
    """MLA401: a required hook has no implementation."""
    return Diagnostic(
        "MLA401",
        "error",
        f"{class_name} does not implement {hook}, which {declared} requires",
        place,
        f"{class_name}.{hook}",
        related=(Related(declared_place, f"{declared} is declared here without a body"),),
        reasons=(reason,),
        hint=f"Define {class_name}.{hook}, or mark the declaration @hook(optional=True).",
    )


def unexposed_hook(
    *,
    wrapper: str,
    place: Place,
    hook: str,
    inner: str,
    inner_place: Place,
    held_as: str,
    effect: str,
) -> Diagnostic:
    """MLA301: a wrapper does not expose a hook that callers probe and its inner backend has."""
    return Diagnostic(
        "MLA301",
        "error",
        f"{wrapper} does not pass on {hook}, which callers probe and wrapped backends implement: "
        f"{effect}",
        place,
        f"{wrapper}.{hook}",
        related=(Related(inner_place, f"{inner} has it here"),),
        reasons=(f"self.{held_as} is a {inner}",),
        hint=f"Define {hook} on {wrapper} and hand it to the wrapped backend.",
    )


def unordered_hook(
    *, symbol: str, place: Place, first: str, phase: str | None, seen: Iterable[str | None]
) -> Diagnostic:
    """MLA403: a hook was called although one that must run before it did not."""
    during = f" in phase {phase}" if phase else ""
    ran = sorted(p or "an unnamed phase" for p in seen)
    return Diagnostic(
        "MLA403",
        "error",
        f"{symbol} was called before {first}{during}",
        place,
        symbol,
        reasons=(f"{first} ran in {', '.join(ran)} only" if ran else f"{first} never ran",),
        hint=f"Call {first}{during} before {symbol}.",
    )


def unmet_condition(
    *,
    kind: str,
    symbol: str,
    place: Place,
    condition: str,
    phase: str | None,
    reasons: Iterable[str],
) -> Diagnostic:
    """MLA402 for what a caller broke (``assumes``), MLA404 for what a hook did (``ensures``)."""
    during = f" in phase {phase}" if phase else ""
    if kind == "assumes":
        code, message = "MLA402", f"{symbol} was called{during} although its contract assumes"
        hint = f"Call {symbol} only where {condition} holds."
    else:
        code, message = "MLA404", f"{symbol} returned{during} without what its contract ensures:"
        hint = f"Make {symbol} establish {condition}."
    return Diagnostic(
        code, "error", f"{message} {condition}", place, symbol, reasons=tuple(reasons), hint=hint
    )


def missing_delegate(
    *, caller: str, place: Place, hook: str, held_as: str, inner: str
) -> Diagnostic:
    """MLA303: a wrapper hands a hook on to an inner backend that has none."""
    return Diagnostic(
        "MLA303",
        "error",
        f"{caller} hands {hook} to {held_as} unconditionally, but {inner}, which it holds, has "
        "none: AttributeError",
        place,
        caller,
        reasons=(f"{inner} has no {hook}",),
        hint=f"Ask first: mla_guard.exposes({held_as}, {hook!r}).",
    )


def unequal_flag(
    *,
    wrapper: str,
    place: Place,
    flag: str,
    mine: object,
    wanted: object,
    reasons: Iterable[str],
) -> Diagnostic:
    """MLA302: a wrapper's class flag does not say what its inner backends say."""
    return Diagnostic(
        "MLA302",
        "error",
        f"{wrapper} does not pass on {flag}, which callers read and wrapped backends set: "
        f"{mine!r} instead of {wanted!r}",
        place,
        f"{wrapper}.{flag}",
        reasons=tuple(reasons),
        hint=f"Set {flag} in {wrapper}.__init__ from the wrapped backends.",
    )


def broken_route(
    *, symbol: str, place: Place, said: str, related: Iterable[Related], hint: str
) -> Diagnostic:
    """MLA304: the routes that a wrapper declares and its base, its code or its children differ."""
    return Diagnostic("MLA304", "error", said, place, symbol, related=tuple(related), hint=hint)
