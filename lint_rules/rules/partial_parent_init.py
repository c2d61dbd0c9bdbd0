"""MLA203: a constant passed to the parent's ``__init__`` makes it skip what is still used."""

from __future__ import annotations

from collections.abc import Iterator

from lint_rules.conditions import FALSE, satisfiable, show, undecided
from lint_rules.flow import Flow, Passed, Reading
from lint_rules.judge import Judge
from lint_rules.link import Klass
from mla_guard.diagnostic import Diagnostic, Related

__all__ = ["check"]


def check(judge: Judge) -> Iterator[Diagnostic]:
    said: set[tuple[Klass, Klass, str]] = set()
    for klass, passed, readings in judge.each(judge.classes, _losses):
        key = (passed.owner, passed.target, passed.parameter)
        if key not in said:
            said.add(key)
            yield _diagnose(judge, klass, passed, readings)


def _losses(judge: Judge, klass: Klass) -> Iterator[tuple[Klass, Passed, list[Reading]]]:
    if not klass.complete or "__getattr__" in klass.members:
        return
    flow = judge.flow(klass)
    for passed in flow.passed:
        owner = passed.owner
        if owner is not klass and owner in judge.classes and judge.is_built(owner):
            continue
        readings = _lost(judge, klass, flow, passed)
        if readings and not _handed_down(judge, klass, flow, passed, readings):
            yield klass, passed, readings


def _handed_down(
    judge: Judge, klass: Klass, flow: Flow, passed: Passed, readings: list[Reading]
) -> bool:
    """Whether the constant comes from a child, where the same loss is reported."""
    attrs = {reading.attr for reading in readings}
    return any(
        attrs <= {reading.attr for reading in _lost(judge, klass, flow, outer)}
        for outer in flow.passed
        if outer.target is passed.owner
    )


def _lost(judge: Judge, klass: Klass, flow: Flow, passed: Passed) -> list[Reading]:
    """Reads of attributes that the target creates, but not with this constant."""
    free = judge.flow(passed.target, defaults=False)
    gone = [
        attr
        for attr, creations in free.creations.items()
        if free.condition_of(attr) != FALSE
        and any(_depends(c.condition, passed) for c in creations)
        and all(c.condition == FALSE for c in flow.creations.get(attr, ()))
        and attr not in klass.members
        and attr not in flow.stored_later
        and not judge.view.written_outside(attr)
    ]
    found: list[Reading] = []
    for reading in flow.readings(judge.hooks(klass), gone):
        path = [flow.normal(part) for part in reading.path]
        premises = flow.premises(path)
        if satisfiable(premises) and not undecided(premises):
            found.append(reading)
    return found


def _depends(condition: object, passed: Passed) -> bool:
    return f":{passed.parameter}'" in repr(condition)


def _diagnose(judge: Judge, klass: Klass, passed: Passed, readings: list[Reading]) -> Diagnostic:
    attrs = list(dict.fromkeys(r.attr for r in readings))
    first = readings[0]
    init = passed.target.members["__init__"]
    flag = f"{passed.parameter}={show(passed.value)}"
    return Diagnostic(
        "MLA203",
        "error",
        f"{passed.owner.name}.__init__ passes {flag}, so that {passed.target.name}.__init__ "
        f"creates no {', '.join(attrs)}; {first.entry.symbol} reads {first.attr}: AttributeError",
        judge.places.at(passed.owner.path, passed.line, "__init__"),
        f"{passed.owner.qualname}.__init__",
        (
            Related(judge.places.member(init), f"{init.symbol} takes {passed.parameter}"),
            judge.places.related(
                first.owner.path,
                first.line,
                first.attr,
                f"{first.owner.name}.{first.function.name} reads {first.attr}",
            ),
        ),
        tuple(
            f"{attr} is read by "
            + ", ".join(dict.fromkeys(r.entry.symbol for r in readings if r.attr == attr))
            for attr in attrs
        ),
        f"Create {', '.join(attrs)} in {passed.owner.name}.__init__, or do not pass the flag"
        + (f" ({klass.name} inherits the fault)." if klass is not passed.owner else "."),
    )
