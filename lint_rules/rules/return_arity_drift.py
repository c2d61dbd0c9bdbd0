"""MLA105: a method that returns one value, where a caller or what it overrides has several."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lint_rules.conditions import formula, satisfiable, show, substitute
from lint_rules.facts import Attr, Call, Expr, Function, IfElse, Name, Return, Seq
from lint_rules.judge import Judge
from lint_rules.link import Klass, Member, is_abstract, kind_of
from lint_rules.types import Scope
from lint_rules.uses import Use
from mla_guard.diagnostic import Diagnostic, Related
from mla_guard.drift import VAR_KEYWORD

__all__ = ["check"]

_DEPTH = 6

_TENSOR_METHODS = {
    "clone", "contiguous", "flatten", "new_empty", "new_zeros", "permute", "reshape", "squeeze",
    "transpose", "unflatten", "unsqueeze", "view",
}  # fmt: skip
"""What gives one tensor, whatever it is called with."""


@dataclass(frozen=True, slots=True)
class _Several:
    """``event`` of ``member`` returns ``count`` values."""

    member: Member
    event: Return
    count: int


def check(judge: Judge) -> Iterator[Diagnostic]:
    for klass in judge.classes:
        for member in klass.own.values():
            if not _returns_one(judge, member):
                continue
            callers = [
                use
                for use in judge.view.uses.get(member.name, ())
                if use.unpacked > 1 and not use.caught and use.admits(klass, judge.view)
                if klass in use.typed.exact or not judge.view.in_steps(klass)
            ]
            overridden = _overridden(klass, member)
            several = _several(judge, overridden, member) if overridden is not None else None
            if callers or several is not None:
                yield _diagnose(judge, member, several, callers)


def _overridden(klass: Klass, member: Member) -> Member | None:
    """The next definition above, where it has a body of its own."""
    for parent in klass.mro[1:]:
        above = parent.own.get(member.name)
        if above is not None:
            body = above.function
            return above if body is not None and not is_abstract(body) else None
    return None


def _returns_one(judge: Judge, member: Member) -> bool:
    """Whether it is a method of which every value returned is certainly a single one."""
    function = member.function
    if function is None or function.generator or kind_of(function) == "property":
        return False
    scope = judge.view.types.scope(member.owner, function)
    returned = function.returned
    return bool(returned) and all(_is_one(scope, event.value) for event in returned)


def _is_one(scope: Scope, value: Expr, depth: int = 0) -> bool:
    if isinstance(value, Call):
        return isinstance(value.func, Attr) and value.func.name in _TENSOR_METHODS
    if isinstance(value, IfElse):
        return _is_one(scope, value.then, depth) and _is_one(scope, value.other, depth)
    if isinstance(value, Name) and value.id not in scope.params and depth < _DEPTH:
        binds = scope.binds.get(value.id, ())
        return bool(binds) and all(_is_one(scope, b.value, depth + 1) for b in binds)
    return False


def _several(judge: Judge, overridden: Member, member: Member) -> _Several | None:
    """A return of several values in a situation that the override meets as well."""
    function = overridden.function
    assert function is not None
    assert member.function is not None
    scope = judge.view.types.scope(overridden.owner, function)
    for event in function.returned:
        count = _count(scope, event.value)
        way = scope.path_of(event.cond)
        if count and not _told(function, member.function, way) and _meets(judge, member, way):
            return _Several(overridden, event, count)
    return None


def _count(scope: Scope, value: Expr) -> int:
    """How many values a display returns, 0 for what is none or has a single element."""
    if isinstance(value, IfElse):
        return max(_count(scope, value.then), _count(scope, value.other))
    return len(value.items) if isinstance(value, Seq) and len(value.items) > 1 else 0


def _told(function: Function, override: Function, way: list[Expr]) -> bool:
    """Whether a parameter that the override does not have asks for the values."""
    if any(p.kind == VAR_KEYWORD for p in override.params):
        return False
    own = {p.name for p in override.params}
    absent = {p.name for p in function.params[1:] if p.name not in own}
    found: list[str] = []

    def look(item: Expr) -> None:
        if isinstance(item, Name) and item.id in absent:
            found.append(item.id)

    for part in way:
        substitute(part, look)
    return bool(found)


def _meets(judge: Judge, member: Member, way: list[Expr]) -> bool:
    """Whether the override returns in such a situation, and does not raise there."""
    assert member.function is not None
    scope = judge.view.types.scope(member.owner, member.function)
    return any(
        satisfiable([formula(part) for part in (*way, *scope.path_of(event.cond))])
        for event in member.function.returned
    )


def _diagnose(
    judge: Judge, member: Member, several: _Several | None, callers: list[Use]
) -> Diagnostic:
    assert member.function is not None
    related: list[Related] = []
    reasons: list[str] = []
    what = ""
    for use in callers[:1]:
        what = f"{use.scope.symbol} unpacks {use.unpacked}: ValueError"
        message = f"{use.scope.symbol} unpacks {use.unpacked}"
        related.append(judge.places.related(use.scope.path, use.line, member.name, message))
    if several is not None:
        above, event = several.member, several.event
        assert above.function is not None
        way = judge.view.types.scope(above.owner, above.function).path_of(event.cond)
        message = f"{above.symbol} returns {several.count}"
        what = what or f"{message} on some: ValueError where a caller unpacks them"
        related.append(judge.places.related(above.owner.path, event.line, "return", message))
        when = f" where {show(formula(way[-1]))}" if way else ""
        reasons.append(f"{message} values{when}")
    line = member.function.returned[-1].line
    message = f"{member.symbol} returns one value here"
    latent = "" if callers else "Latent where no caller unpacks what this class returns. "
    return Diagnostic(
        "MLA105",
        "error" if callers else "warning",
        f"{member.symbol} returns one value on every path, {what}",
        judge.places.member(member),
        member.symbol,
        (
            *related,
            judge.places.related(member.owner.path, line, "return", message),
            *judge.built(member.owner)[:1],
        ),
        tuple(reasons),
        f"{latent}A tensor with that many rows is taken apart without an error. Return as many, "
        "or raise there.",
    )
