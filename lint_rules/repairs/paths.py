"""Whether a body does something on a way that leads past some calls."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Literal

import libcst as cst

from lint_rules.repairs.source import walk

__all__ = ["ignoring"]

_State = Literal["idle", "worked", "covered"]
_Way = tuple[_State, bool]
"""What has happened on a way through the body, and whether the way ends there."""


def ignoring(node: cst.FunctionDef, calls: Collection[cst.Call]) -> bool:
    """Whether some way through a function does its work without any of ``calls``.

    Locals and checks are no work: a hook that then returns has done nothing.
    """
    ways = _through(node.body, {"idle"}, calls)
    return any(state == "worked" for state, _ in ways)


def _through(
    body: cst.BaseSuite, states: Iterable[_State], calls: Collection[cst.Call]
) -> set[_Way]:
    live: set[_State] = set(states)
    done: set[_Way] = set()
    for statement in body.body:
        ways = {way for state in live for way in _after(statement, state, calls)}
        done |= {way for way in ways if way[1]}
        live = {state for state, ended in ways if not ended}
    return done | {(state, False) for state in live}


def _after(statement: cst.CSTNode, state: _State, calls: Collection[cst.Call]) -> set[_Way]:
    if isinstance(statement, cst.SimpleStatementLine):
        for small in statement.body:
            if _holds(small, calls):
                state = "covered"
            elif state == "idle" and _works(small):
                state = "worked"
            if isinstance(small, cst.Raise):
                return set()
            if isinstance(small, cst.Return):
                return {(state, True)}
        return {(state, False)}
    heads = [c for c in statement.children if isinstance(c, cst.BaseExpression)]
    if any(_holds(head, calls) for head in heads):
        state = "covered"
    if isinstance(statement, cst.If):
        ways = _through(statement.body, [state], calls)
        other = statement.orelse
        if other is None:
            return ways | {(state, False)}
        if isinstance(other, cst.If):
            return ways | _after(other, state, calls)
        return ways | _through(other.body, [state], calls)
    if isinstance(statement, (cst.For, cst.With)):
        return _through(statement.body, [state], calls)
    if state == "idle" and isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
        return {(state, False)}
    # loops of another kind, try and match: taken as one piece of work
    return {("covered" if state == "covered" else "worked", False)}


def _holds(node: cst.CSTNode, calls: Collection[cst.Call]) -> bool:
    return any(inner is call for inner in walk(node) for call in calls)


def _works(small: cst.BaseSmallStatement) -> bool:
    if isinstance(small, cst.Return):
        return small.value is not None and not isinstance(small.value, (cst.Name, cst.BaseNumber))
    if isinstance(small, cst.Expr):
        return not isinstance(small.value, cst.BaseString)
    if isinstance(small, (cst.Assign, cst.AnnAssign)):
        return not all(isinstance(target, (cst.Name, cst.Tuple)) for target in _targets(small))
    return not isinstance(small, (cst.Assert, cst.Pass, cst.Raise, cst.Import, cst.ImportFrom))


def _targets(small: cst.Assign | cst.AnnAssign) -> Iterator[cst.BaseExpression]:
    if isinstance(small, cst.AnnAssign):
        yield small.target
    else:
        yield from (target.target for target in small.targets)
