"""What a hook's body hands on: to ``super()``, and to what the instance holds.

Read from the source of the function, and only what is certain: a call counts where the body reaches
it whatever its conditions, a loop over held backends and a probe of the called hook excepted, for
what they find is known when an instance is there. What cannot be read is not there.
"""

from __future__ import annotations

import ast
import weakref
from collections.abc import Iterator, Sequence
from types import FunctionType
from typing import NamedTuple

from .drift import Call
from .method_source import source_of

__all__ = ["Handed", "handed"]

SUPER = "super()"


class Handed(NamedTuple):
    """One call that a body makes on a hook of something else.

    ``to`` is the attribute of the instance that holds the receiver, ``each`` that it holds several;
    ``super()`` stands for the next class. ``probed`` says that the call is made only where the
    receiver has the hook, ``delegated`` that :func:`~mla_guard.delegate.delegate` makes it. The
    place is that of the name that the call is written with.
    """

    to: str
    hook: str
    call: Call
    line: int
    column: int = 1
    each: bool = False
    probed: bool = False
    delegated: bool = False


_READ: weakref.WeakKeyDictionary[FunctionType, tuple[Handed, ...]] = weakref.WeakKeyDictionary()


def handed(function: FunctionType) -> tuple[Handed, ...]:
    """The certain calls of ``function``; none where its source cannot be read."""
    if function not in _READ:
        _READ[function] = _read(function)
    return _READ[function]


def _read(function: FunctionType) -> tuple[Handed, ...]:
    code = function.__code__
    if not {"super", "getattr", "delegate", "self"}.intersection(code.co_names + code.co_varnames):
        return ()
    source = source_of(function)
    if source is None or not code.co_argcount:
        return ()
    reader = _Reader(code.co_varnames[0])
    return tuple(
        found._replace(line=found.line + source.line, column=found.column + source.column)
        for found in reader.block(source.definition.body)
    )


_PERHAPS = (
    ast.BoolOp,
    ast.IfExp,
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)


class _Reader:
    """Follows one body, statement by statement, with what its local names stand for."""

    def __init__(self, me: str) -> None:
        self.me = me
        self.held: dict[str, Handed] = {}
        self.found: set[tuple[str, str]] = set()
        self.stopped = False

    def block(self, body: Sequence[ast.stmt]) -> Iterator[Handed]:
        for statement in body:
            if self.stopped:
                return
            yield from self.statement(statement)

    def statement(self, statement: ast.stmt) -> Iterator[Handed]:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            yield from self.calls(statement.value)
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            meaning = self.receiver(statement.value)
            for target in targets:
                if isinstance(target, ast.Name):
                    self.name(target.id, meaning)
        elif isinstance(statement, (ast.Expr, ast.Return)) and statement.value is not None:
            yield from self.calls(statement.value)
            self.stopped = isinstance(statement, ast.Return)
        elif isinstance(statement, ast.For) and isinstance(statement.target, ast.Name):
            several = self.receiver(statement.iter)
            self.name(statement.target.id, several._replace(each=True) if several else None)
            if several is not None:
                yield from self.block(statement.body)
            self.stopped = self.stopped or _leaves(statement)
        elif isinstance(statement, ast.With) and not _suppresses(statement):
            yield from self.block(statement.body)
        elif isinstance(statement, ast.If) and (probe := self.probe(statement.test)) is not None:
            outside, self.found = self.found, self.found | {probe}
            yield from self.block(statement.body)
            self.found = outside
            self.stopped = self.stopped or _leaves(statement)
        elif isinstance(statement, ast.If) and (absent := self.absence(statement)) is not None:
            self.found.add(absent)
        else:
            self.stopped = _leaves(statement)

    def absence(self, statement: ast.If) -> tuple[str, str] | None:
        """What ``if x is None: return`` or ``if not hasattr(...): return`` has made sure of."""
        test = statement.test
        if statement.orelse or not isinstance(statement.body[-1], (ast.Return, ast.Raise)):
            return None
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.probe(test.operand)
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is):
            return self.probe(ast.Compare(test.left, [ast.IsNot()], test.comparators))
        return None

    def name(self, name: str, meaning: Handed | None) -> None:
        if meaning is None:
            self.held.pop(name, None)
        else:
            self.held[name] = meaning

    def receiver(self, node: ast.expr) -> Handed | None:
        """What a value is: something that the instance holds, or a hook of that."""
        nothing = Call()
        if isinstance(node, ast.Name):
            return self.held.get(node.id)
        if isinstance(node, ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id == self.me:
                return Handed(node.attr, "", nothing, node.lineno)
            if (of := self.receiver(node.value)) is not None and not of.hook:
                return of._replace(hook=node.attr, line=node.lineno)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id == "super" and not node.args:
                return Handed(SUPER, "", nothing, node.lineno)
            if node.func.id == "getattr" and len(node.args) >= 2:
                of, name = self.receiver(node.args[0]), node.args[1]
                if of is not None and not of.hook and isinstance(name, ast.Constant):
                    return of._replace(hook=str(name.value), probed=len(node.args) == 3)
        return None

    def probe(self, test: ast.expr) -> tuple[str, str] | None:
        """The receiver and the hook whose existence a test asks for, if that is all it asks."""
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot):
            right = test.comparators[0]
            if len(test.ops) > 1 or not isinstance(right, ast.Constant) or right.value is not None:
                return None
            test = test.left
        if isinstance(test, ast.Name) and (of := self.held.get(test.id)) is not None and of.probed:
            return of.to, of.hook
        if (
            isinstance(test, ast.Call)
            and isinstance(test.func, ast.Name)
            and test.func.id in ("hasattr", "exposes")
            and len(test.args) == 2
            and isinstance(test.args[1], ast.Constant)
            and (of := self.receiver(test.args[0])) is not None
        ):
            return of.to, str(test.args[1].value)
        return None

    def calls(self, expression: ast.expr) -> Iterator[Handed]:
        """The calls that evaluating an expression is certain to make."""
        if isinstance(expression, _PERHAPS):
            return
        if isinstance(expression, ast.Call):
            of = self.receiver(expression.func)
            if of is not None and of.hook:
                probed = (of.to, of.hook) in self.found
                yield _placed(of._replace(call=_call(expression), probed=probed), expression.func)
            elif (delegated := self.delegated(expression)) is not None:
                yield delegated
        for child in ast.iter_child_nodes(expression):
            if isinstance(child, ast.keyword):
                child = child.value
            if isinstance(child, ast.expr):
                yield from self.calls(child)

    def delegated(self, node: ast.Call) -> Handed | None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else None
        name = node.func.id if isinstance(node.func, ast.Name) else name
        if name != "delegate" or len(node.args) < 2 or not isinstance(node.args[1], ast.Constant):
            return None
        of = self.receiver(node.args[0])
        if of is None or of.hook:
            return None
        rest = ast.Call(node.func, node.args[2:], node.keywords)
        named = of._replace(hook=str(node.args[1].value), call=_call(rest), delegated=True)
        return _placed(named, node.func)


def _placed(found: Handed, function: ast.expr) -> Handed:
    """``found`` at the name that it is called by."""
    if isinstance(function, ast.Name):
        return found._replace(line=function.lineno, column=function.col_offset + 1)
    if isinstance(function, ast.Attribute):
        line, end = function.end_lineno or function.lineno, function.end_col_offset or 0
        column = end - len(function.attr) + 1
        return found._replace(line=line, column=column)
    return found


def _call(node: ast.Call) -> Call:
    plain = [a for a in node.args if not isinstance(a, ast.Starred)]
    return Call(
        len(plain),
        tuple(k.arg for k in node.keywords if k.arg is not None),
        star=len(plain) < len(node.args),
        double_star=any(k.arg is None for k in node.keywords),
        names=tuple(a.id if isinstance(a, ast.Name) else None for a in plain),
    )


def _suppresses(statement: ast.With) -> bool:
    """Whether what is raised inside may go no further, as with ``contextlib.suppress``."""
    names = {n.attr if isinstance(n, ast.Attribute) else getattr(n, "id", "")
             for item in statement.items for n in ast.walk(item.context_expr)}  # fmt: skip
    return bool(names & {"suppress", "raises"})


def _leaves(statement: ast.stmt) -> bool:
    """Whether a statement may end the body, so that nothing behind it is certain."""
    leaving = (ast.Return, ast.Raise, ast.Continue, ast.Break, ast.Try, ast.Match)
    return any(isinstance(node, leaving) for node in ast.walk(statement))
