"""The sentences of a breach, the same in a lint finding and in the guard's refusal."""

from __future__ import annotations

from collections.abc import Iterable

from .diagnostic import Diagnostic, Place, Related
from .drift import Call, Shape, format_shape

__all__ = [
    "call_mismatch",
    "missing_attribute",
    "missing_hook",
    "signature_drift",
    "unexposed_hook",
]


def signature_drift(
    *,
    symbol: str,
    shape: Shape,
    place: Place,
    declared: str,
    declared_shape: Shape,
    declared_place: Place,
    reasons: Iterable[str],
) -> Diagnostic:
    """MLA101: an override does not accept what its declaration promises."""
    return Diagnostic(
        "MLA101",
        "error",
        f"{symbol}{format_shape(shape)} does not accept what {declared} promises",
        place,
        symbol,
        related=(
            Related(declared_place, f"promised here as {declared}{format_shape(declared_shape)}"),
        ),
        reasons=tuple(reasons),
        hint=f"accept {format_shape(declared_shape)}, or change the promise in {declared}",
    )


def call_mismatch(
    *,
    caller: str,
    place: Place,
    callee: str,
    shape: Shape,
    callee_place: Place,
    call: Call,
    reasons: Iterable[str],
) -> Diagnostic:
    """MLA102: a call that the called hook's signature cannot take."""
    return Diagnostic(
        "MLA102",
        "error",
        f"{caller} calls {callee} with {call}, which {callee}{format_shape(shape)} does not accept",
        place,
        caller,
        related=(Related(callee_place, f"{callee}{format_shape(shape)} is defined here"),),
        reasons=tuple(reasons),
        hint="widen the called hook, or hand the call on with mla_guard.delegate, which drops "
        "what the contract marks optional",
    )


def missing_attribute(
    *,
    symbol: str,
    place: Place,
    attribute: str,
    related: Iterable[Related] = (),
    reasons: Iterable[str] = (),
) -> Diagnostic:
    """MLA202: a hook needs an attribute that this configuration does not create."""
    return Diagnostic(
        "MLA202",
        "error",
        f"{symbol} needs self.{attribute}, which does not exist",
        place,
        symbol,
        related=tuple(related),
        reasons=tuple(reasons),
        hint=f"create {attribute} wherever {symbol} can be called, or set it to None there",
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
        hint=f"define {class_name}.{hook}, or mark the declaration @hook(optional=True)",
    )


def unexposed_hook(
    *,
    wrapper: str,
    place: Place,
    hook: str,
    inner: str,
    inner_place: Place,
    held_as: str,
    reason: str,
) -> Diagnostic:
    """MLA301: a wrapper does not expose a hook that callers probe and its inner backend has."""
    return Diagnostic(
        "MLA301",
        "error",
        f"{wrapper} does not expose {hook}, which its inner backend {inner} ({held_as}) has",
        place,
        f"{wrapper}.{hook}",
        related=(Related(inner_place, f"{inner}.{hook} is defined here"),),
        reasons=(reason,),
        hint=f"define {wrapper}.{hook} and hand it on with mla_guard.delegate",
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
        hint=f"call {first}{during} before {symbol}",
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
        hint = f"call {symbol} only where {condition} holds"
    else:
        code, message = "MLA404", f"{symbol} returned{during} without what its contract ensures:"
        hint = f"make {symbol} establish {condition}"
    return Diagnostic(
        code, "error", f"{message} {condition}", place, symbol, reasons=tuple(reasons), hint=hint
    )


def missing_delegate(*, caller: str, place: Place, callee: str) -> Diagnostic:
    """MLA303: a wrapper hands a hook on to an inner backend that has none."""
    return Diagnostic(
        "MLA303",
        "error",
        f"{caller} hands on to {callee}, which does not exist",
        place,
        caller,
        hint="ask mla_guard.exposes(inner, hook) first, or give the inner backend the hook",
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
        f"{wrapper}.{flag} is {mine!r}, but what it wraps makes it {wanted!r}",
        place,
        f"{wrapper}.{flag}",
        reasons=tuple(reasons),
        hint=f"set {flag} in {wrapper}.__init__ from the inner backends",
    )
