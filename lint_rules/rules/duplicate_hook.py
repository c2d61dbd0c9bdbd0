"""MLA103: a hook that one class body defines twice, so that the first definition is dead."""

from __future__ import annotations

from collections.abc import Iterator

from lint_rules.facts import Attr, Call, CallEvent, Function, dotted
from lint_rules.judge import Judge
from lint_rules.link import Klass, kind_of, shape
from lint_rules.uses import Use
from mla_guard.diagnostic import Diagnostic, Related
from mla_guard.drift import format_shape

__all__ = ["check"]

_SHOWN = 4


def check(judge: Judge) -> Iterator[Diagnostic]:
    for klass in judge.classes:
        last: dict[str, Function] = {}
        for function in klass.facts.methods:
            if kind_of(function) == "setter" or function.conditional or function.decorators:
                last.pop(function.name, None)  # a property's other half, or one of several variants
                continue
            earlier = last.get(function.name)
            if earlier is not None:
                yield _diagnose(judge, klass, earlier, function)
            last[function.name] = function


def _diagnose(judge: Judge, klass: Klass, dead: Function, live: Function) -> Diagnostic:
    name = live.name
    reasons = []
    if shape(dead) != shape(live):
        reasons.append(
            f"the dead one takes {format_shape(shape(dead))}, "
            f"the living one {format_shape(shape(live))}"
        )
    lost = [n for n in _called(dead) if n not in set(_called(live))]
    if lost:
        more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
        reasons.append(f"only the dead one calls {', '.join(lost[:_SHOWN])}{more}")
    uses = _uses(judge, klass, name)
    caller = [
        judge.places.related(u.scope.path, u.line, name, f"{u.scope.symbol} runs the second")
        for u in uses[:1]
    ]
    latent = "" if caller else "Latent: no call was found that reaches it. "
    return Diagnostic(
        "MLA103",
        "error" if caller else "warning",
        f"{klass.qualname}.{name} is defined twice: the first definition is dead",
        judge.places.at(klass.path, dead.line, name),
        f"{klass.qualname}.{name}",
        (
            Related(
                judge.places.at(klass.path, live.line, name), f"{name} is replaced by this one"
            ),
            *caller,
        ),
        tuple(reasons),
        f"{latent}Keep one of the two.",
    )


def _uses(judge: Judge, klass: Klass, name: str) -> list[Use]:
    member = klass.own.get(name)
    below = [klass, *(k for k in klass.descendants if k.members.get(name) == member)]
    return [
        u
        for u in judge.view.uses.get(name, ())
        if u.call is not None and any(u.admits(k, judge.view) for k in below)
    ]


def _called(function: Function) -> dict[str, None]:
    """The names that a function calls, in order."""
    found: dict[str, None] = {}
    for event in function.events:
        if isinstance(event, CallEvent):
            found[_name(event.call)] = None
    found.pop("", None)
    return found


def _name(call: Call) -> str:
    return call.func.name if isinstance(call.func, Attr) else dotted(call.func)
