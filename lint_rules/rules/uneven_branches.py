"""MLA206: branches that make an object one kind, of which some leave out what backends read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lint_rules.conditions import formula, negation, show
from lint_rules.described import BRANCHES, reads
from lint_rules.facts import Attr, CallEvent, Expr, Function, Name, Read, Write
from lint_rules.judge import Judge
from lint_rules.link import Klass
from lint_rules.types import Scope
from mla_guard.diagnostic import Diagnostic

__all__ = ["check"]

_DEPTH = 4
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class _Store:
    """An attribute is stored, by the method itself or by a helper that it calls.

    ``says`` is ``attr = Some.CONSTANT`` where it is that, else empty.
    """

    attr: str
    cond: int
    line: int
    says: str = ""


def check(judge: Judge) -> Iterator[Diagnostic]:
    return judge.each(judge.described, _inside)


def _inside(judge: Judge, klass: Klass) -> Iterator[Diagnostic]:
    for method in klass.facts.methods:
        stores = list(_stores(klass, method, method))
        said: dict[str, list[_Store]] = {}
        for store in stores:
            if store.says and store.cond != -1:
                said.setdefault(store.says, []).append(store)
        elsewhere = _elsewhere(klass, method)
        for branches in said.values():
            if len(branches) >= BRANCHES:
                for attr, lacking in _uneven(method, stores, branches, elsewhere):
                    readers = list(_readers(judge, judge.described[klass], attr))
                    if readers:
                        yield _diagnose(judge, klass, method, attr, branches, lacking, readers)


def _stores(klass: Klass, method: Function, aside: Function, depth: int = 0) -> Iterator[_Store]:
    """What a method stores, with what the helpers other than ``aside`` store that it calls."""
    receiver = Name(method.params[0].name) if method.params else None
    for event in method.events:
        if isinstance(event, Write) and event.target == receiver:
            yield _Store(event.name, event.cond, event.line, _says(method, event))
        elif isinstance(event, CallEvent) and isinstance(event.call.func, Attr):
            func = event.call.func
            target = klass.method(func.name) if func.value == receiver else None
            if target is None or target.function in (None, aside) or depth == _DEPTH:
                continue
            assert target.function is not None
            for inner in _stores(klass, target.function, aside, depth + 1):
                yield _Store(inner.attr, event.cond, event.line)


def _says(method: Function, write: Write) -> str:
    """``attr = Some.CONSTANT`` where what is stored belongs to something global, else empty."""
    value = write.value
    if not (isinstance(value, Attr) and isinstance(value.value, Name)):
        return ""
    own = {p.name for p in method.params} | {bind.name for bind in method.binds}
    return f"{write.name} = {show(value)}" if value.value.id not in own else ""


def _elsewhere(klass: Klass, method: Function) -> set[str]:
    """What the class, or its constructor apart from ``method``, may provide."""
    init = klass.method("__init__")
    found = set(klass.members)
    if init is not None and init.function is not None and init.function is not method:
        found |= {store.attr for store in _stores(klass, init.function, method)}
    return found


def _uneven(
    method: Function, stores: Sequence[_Store], branches: Sequence[_Store], elsewhere: set[str]
) -> Iterator[tuple[str, list[_Store]]]:
    """What most of the branches store, and those of them that nothing stores it in."""
    ways = [(store, _way(method, store.cond)) for store in stores]
    insides = [(branch, _way(method, branch.cond)) for branch in branches]
    for attr in dict.fromkeys(store.attr for store in stores if store.attr not in elsewhere):
        having, lacking = 0, []
        for branch, inside in insides:
            meeting = [w for s, w in ways if s.attr == attr and not _exclude(w, inside)]
            if not meeting:
                lacking.append(branch)
            elif any(set(inside) <= set(way) for way in meeting):
                having += 1
        if lacking and having > len(lacking):
            yield attr, lacking


def _way(method: Function, cond: int) -> list[Expr]:
    """The conditions around a place, as formulas."""
    found: list[Expr] = []
    while cond != -1:
        cond, expr, _ = method.conditions[cond]
        found.append(formula(expr))
    return found


def _exclude(one: Sequence[Expr], other: Sequence[Expr]) -> bool:
    return any(negation(part) in other for part in one)


def _readers(judge: Judge, holders: frozenset[str], attr: str) -> Iterator[tuple[Scope, Read]]:
    """Where constructors of backends, and of what stands beside them, read the attribute always."""
    for klass in judge.project.classes:
        init = klass.own.get("__init__")
        if init is None or init.function is None or klass.path not in judge.view.defining:
            continue
        for holder, read in reads(init.function):
            if holder in holders and read.name == attr and read.cond == -1:
                yield judge.view.types.scope(klass, init.function), read


def _diagnose(
    judge: Judge,
    klass: Klass,
    method: Function,
    attr: str,
    branches: list[_Store],
    lacking: list[_Store],
    readers: list[tuple[Scope, Read]],
) -> Diagnostic:
    scope, _ = readers[0]
    first, says = lacking[0], branches[0].says
    having = [branch for branch in branches if branch not in lacking]
    kind = says.partition(" ")[0]
    others = [
        judge.places.related(klass.path, b.line, kind, f"nor does this branch store {attr}")
        for b in lacking[1:_SHOWN]
    ]
    return Diagnostic(
        "MLA206",
        "error",
        f"{klass.name}.{method.name} says {says} in {len(branches)} branches and stores {attr} in "
        f"{len(having)}; {scope.symbol} reads {attr}: AttributeError after the other "
        f"{len(lacking)}",
        judge.places.at(klass.path, first.line, kind),
        f"{klass.qualname}.{method.name}",
        (
            *others,
            judge.places.related(klass.path, having[0].line, kind, f"this branch stores {attr}"),
            *(
                judge.places.related(s.path, r.line, attr, f"{s.symbol} reads it")
                for s, r in readers[:_SHOWN]
            ),
        ),
        (),
        f"Store {attr} in every branch that says {says}.",
    )
