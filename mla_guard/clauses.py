"""Does a clause hold on this instance, for this call?"""

from __future__ import annotations

import builtins
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from types import CodeType
from typing import Any

from .book import MISSING
from .contract import Clause, real_signature
from .diagnostic import Diagnostic, Place
from .phase import CAPTURE
from .words import missing_attribute, unmet_condition, unordered_hook

__all__ = ["bound_arguments", "broken"]

_NAMES = (
    "abs all any bool dict float getattr hasattr int isinstance len list max min range set sorted "
    "str sum tuple type zip"
)
_BUILTINS = {name: getattr(builtins, name) for name in _NAMES.split()}


@functools.lru_cache(maxsize=1024)
def _compiled(expression: str) -> CodeType:
    return compile(expression, f"<{expression}>", "eval")


def bound_arguments(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of a call by name, defaults filled in, ``**kwargs`` spread.

    Raises :class:`TypeError` where the call does not bind.
    """
    signature = real_signature(function)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    arguments: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            arguments.update(value)
        else:
            arguments[name] = value
    return arguments


def broken(
    clause: Clause,
    instance: object,
    arguments: Mapping[str, Any],
    *,
    symbol: str,
    place: Place,
    ran: Iterable[tuple[str, str | None]] = (),
    result: Any = MISSING,
) -> Diagnostic | None:
    """The breach of ``clause``, or None where it holds.

    ``ran`` holds the hooks that ran on the instance, each with its phase. A missing attribute comes
    with where it would have been created and which flags kept it from that. A condition that raises
    is broken, and the exception is the reason.
    """
    if clause.kind == "requires":
        if (missing := _missing_part(instance, clause.text)) is None:
            return None
        from .creation import creation  # reads sources: nothing for a good path

        ends, reasons = creation(instance, missing[0].split(".")[0])
        return missing_attribute(
            symbol=symbol,
            place=place,
            attribute=clause.text,
            related=ends,
            reasons=(*missing[1:], *reasons),
        )
    if clause.kind == "after":
        seen = {phase for name, phase in ran if name == clause.text}
        if clause.phase is None:
            seen.discard(CAPTURE)  # what a graph recorded did not run for this call
        if seen and (clause.phase is None or clause.phase in seen or None in seen):
            return None
        return unordered_hook(
            symbol=symbol, place=place, first=clause.text, phase=clause.phase, seen=seen
        )
    names: dict[str, Any] = {**arguments, "self": instance}
    if result is not MISSING:
        names["result"] = result
    try:
        holds = bool(_value(clause, names))
        reason = ""
    except Exception as error:  # whatever a foreign condition raises is what is wrong with it
        holds = False
        reason = f"the condition raised {type(error).__name__}: {error}"
    if holds:
        return None
    return unmet_condition(
        kind=clause.kind,
        symbol=symbol,
        place=place,
        condition=clause.text,
        phase=clause.phase,
        reasons=(reason,) if reason else _values(clause, names),
    )


def _value(clause: Clause, names: Mapping[str, Any]) -> Any:
    if clause.check is None:
        return eval(_compiled(clause.text), {"__builtins__": _BUILTINS}, dict(names))
    parameters = inspect.signature(clause.check).parameters.values()
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters):
        return clause.check(**names)
    return clause.check(**{p.name: names[p.name] for p in parameters if p.name in names})


def _values(clause: Clause, names: Mapping[str, Any]) -> tuple[str, ...]:
    """What the attributes and arguments that an expression names are on this call."""
    if clause.check is not None:
        return ()
    said = []
    for name in _compiled(clause.text).co_names:
        holder = names.get("self")
        if name in names and name != "self":
            said.append(f"{name} is {names[name]!r:.80}")
        elif name not in _BUILTINS and hasattr(holder, name):
            said.append(f"self.{name} is {getattr(holder, name)!r:.80}")
    return tuple(said)


def _missing_part(instance: object, dotted: str) -> tuple[str, ...] | None:
    """The first part of a dotted name that does not exist, and why where more can be said."""
    holder = instance
    parts = dotted.split(".")
    for index, part in enumerate(parts):
        value = getattr(holder, part, MISSING)
        if value is MISSING:
            at = ".".join(parts[: index + 1])
            if index == 0:
                return (at,)
            held = ".".join(parts[:index])
            return at, f"self.{held} is {type(holder).__name__}, which has no {part!r}"
        holder = value
    return None
