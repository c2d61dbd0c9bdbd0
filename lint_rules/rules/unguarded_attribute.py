"""MLA202: a hook reads an attribute that only some constructions create."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lint_rules.conditions import (
    FALSE,
    atoms,
    conjunction,
    negation,
    satisfiable,
    show,
    substitute,
)
from lint_rules.facts import And, Attr, Call, Compare, Expr, Item, Name, Not, Opaque, Or
from lint_rules.flow import Creation, Flow, Reading
from lint_rules.frames import SELF
from lint_rules.judge import Judge
from lint_rules.link import Klass, Member
from mla_guard.diagnostic import Diagnostic, Related

__all__ = ["Breach", "breaches", "check"]


@dataclass(frozen=True, slots=True)
class _Finding:
    klass: Klass
    attr: str
    condition: Expr
    reading: Reading
    contradiction: Expr | None
    sibling: Reading | None


@dataclass(frozen=True, slots=True)
class Breach:
    """A finding about ``attr``, which ``owner`` creates by ``creations``."""

    diagnostic: Diagnostic
    owner: Klass
    attr: str
    creations: tuple[Creation, ...]


def check(judge: Judge) -> Iterator[Diagnostic]:
    return (breach.diagnostic for breach in breaches(judge))


def breaches(judge: Judge) -> Iterator[Breach]:
    """Every finding, with what it is about."""
    found: dict[tuple[Klass, str], list[_Finding]] = {}
    for finding in judge.each(judge.classes, _findings):
        owner = judge.flow(finding.klass).creations[finding.attr][0].owner
        found.setdefault((owner, finding.attr), []).append(finding)
    for (owner, attr), findings in found.items():
        creations = [c for f in findings for c in judge.flow(f.klass).creations[attr]]
        said = _diagnose(judge, owner, attr, findings)
        yield Breach(said, owner, attr, tuple(dict.fromkeys(creations)))


def _findings(judge: Judge, klass: Klass) -> Iterator[_Finding]:
    flow = judge.flow(klass)
    partial = {
        attr: condition
        for attr, condition in flow.partial.items()
        if condition != FALSE
        and not any(isinstance(atom, Opaque) for atom in atoms(condition))
        and not judge.view.written_outside(attr)
    }
    readings = [
        reading
        for reading in flow.readings(_entries(judge, klass), partial)
        if reading.entry.name != "__init__" or not klass.is_a(reading.owner)
    ]
    for reading in readings:
        condition = partial[reading.attr]
        if flow.guarded(reading, condition):
            continue
        kept = reading.attr in flow.conditional
        contradiction = _contradiction(flow, reading, condition) if kept else None
        sibling = None
        if contradiction is None and not (kept and _settled(flow, reading)):
            sibling = _sibling(flow, reading, condition, readings)
            if sibling is None:
                continue
        yield _Finding(klass, reading.attr, condition, reading, contradiction, sibling)


def _entries(judge: Judge, klass: Klass) -> list[Member]:
    """The hooks, and the constructor for the sake of the objects that it hands ``self`` to."""
    init = klass.method("__init__")
    return [*judge.hooks(klass), *([init] if init is not None else ())]


def _sibling(
    flow: Flow, reading: Reading, condition: Expr, readings: list[Reading]
) -> Reading | None:
    """A reading in another branch of the same method that asks what this one does not ask."""
    needed = set(atoms(condition))
    path = {flow.normal(part) for part in reading.path}
    if any(atom in needed for part in path for atom in atoms(part)):
        return None
    for other in readings:
        if other.attr != reading.attr or other.function is not reading.function:
            continue
        asked = [flow.normal(part) for part in other.path]
        if (
            any(negation(part) in path for part in asked)
            and any(atom in needed for part in asked for atom in atoms(part))
            and flow.guarded(other, condition)
        ):
            return other
    return None


def _settled(flow: Flow, reading: Reading) -> bool:
    """Whether nothing that the call decides stands between the hook's entry and the read.

    A condition on the batch may well exclude the configurations that lack the attribute; what that
    correlation is, no reader of one class can know.
    """
    path = [flow.normal(part) for part in reading.path]
    return all(_of_instance(part) and not _kept_by_hooks(flow, part) for part in path)


def _kept_by_hooks(flow: Flow, expr: Expr) -> bool:
    """Whether a condition asks for what a hook stored, which is as good as asking for the call."""
    found: list[Expr] = []

    def look(item: Expr) -> None:
        if isinstance(item, Attr) and item.value == SELF and item.name in flow.stored_later:
            found.append(item)

    substitute(expr, look)
    return bool(found)


def _of_instance(expr: Expr) -> bool:
    """Whether a condition depends on the instance and the configuration only."""
    return all(_fixed(atom) for atom in atoms(expr))


def _fixed(expr: Expr) -> bool:
    if isinstance(expr, Opaque):
        return False
    if isinstance(expr, Name):
        # names of the walk's own making are locals and parameters of a hook
        return (":" in expr.id and not expr.id.split(":")[0].isdigit()) or expr == SELF
    if isinstance(expr, Attr):
        return _fixed(expr.value) or (isinstance(expr.value, Call) and _fixed(expr.value))
    if isinstance(expr, Call):
        return not expr.args and not expr.keywords and isinstance(expr.func, Name)
    if isinstance(expr, Compare):
        return _fixed(expr.left) and (_fixed(expr.right) or _is_plain(expr.right))
    return not isinstance(expr, (Item, And, Or, Not)) and _is_plain(expr)


def _is_plain(expr: Expr) -> bool:
    return type(expr).__name__ == "Const" or isinstance(expr, (Attr, Name))


def _contradiction(flow: Flow, reading: Reading, condition: Expr) -> Expr | None:
    """A disjunct of the guards that holds only where the attribute does not exist."""
    path = [flow.normal(part) for part in reading.path]
    for index, part in enumerate(path):
        if not isinstance(part, Or):
            continue
        rest = [*path[:index], *path[index + 1 :]]
        for disjunct in part.items:
            premises = flow.premises([*rest, disjunct], condition)
            if satisfiable(premises) and not satisfiable([*premises, condition]):
                return disjunct
    whole = flow.premises(path, condition)
    if path and satisfiable(whole) and not satisfiable([*whole, condition]):
        return conjunction(path)
    return None


def _diagnose(judge: Judge, owner: Klass, attr: str, findings: list[_Finding]) -> Diagnostic:
    findings = sorted(findings, key=lambda f: (f.contradiction is None, -len(f.reading.chain)))
    first = findings[0]
    entry = _outermost(first.reading)
    creation = judge.flow(first.klass).creations[attr][0]
    condition = show(first.condition)
    related = [
        judge.places.related(
            creation.owner.path, creation.line, attr,
            f"{creation.owner.name} creates {attr} only if {condition}",
        ),
        judge.places.related(
            first.reading.owner.path, first.reading.line, attr,
            f"{first.reading.owner.name}.{first.reading.function.name} reads it",
        ),
    ]  # fmt: skip
    if first.sibling is not None:
        at = (first.sibling.owner.path, first.sibling.line)
        related.append(judge.places.related(*at, attr, f"here it is asked whether {condition}"))
    for other in findings[1:]:
        place = judge.places.member(_outermost(other.reading))
        message = f"{other.klass.name} reaches it through {_outermost(other.reading).symbol}"
        if Related(place, message) not in related and len(related) < 8:
            related.append(Related(place, message))
    reasons = [f"{attr} exists only if {condition}"]
    guards = [show(judge.flow(first.klass).normal(p)) for p in first.reading.path]
    if first.contradiction is not None:
        reasons.append(
            f"the guard `{show(first.contradiction)}` holds only where {attr} does not exist"
        )
    elif guards:
        reasons.append(f"the guards on the way do not imply it: {' and '.join(guards)}")
    else:
        reasons.append("no guard stands on the way")
    if len(first.reading.chain) > 1:
        reasons.append("through " + " -> ".join(m.symbol for m in first.reading.chain))
    absent = show(negation(first.condition))
    place = (
        judge.places.at(entry.owner.path, first.reading.line, attr)
        if len(first.reading.chain) == 1
        else judge.places.member(entry)
    )
    what = "unguarded"
    if first.contradiction is not None:
        what = "in a branch that implies that it is absent"
    elif first.sibling is not None:
        what = "without what another branch asks"
    return Diagnostic(
        "MLA202",
        "error",
        f"{entry.symbol} reads {attr} {what}: AttributeError if {absent}",
        place,
        entry.symbol,
        tuple(related),
        tuple(reasons),
        f"Create {attr} on every path of {creation.owner.name}.__init__ (as None where it is not "
        "used), or guard the read with the condition that creates it.",
    )


def _outermost(reading: Reading) -> Member:
    """The override at which the way to the read begins, the root's templates left aside."""
    for member in reading.chain:
        if member.owner is not member.owner.root:
            return member
    return reading.chain[0]
