"""The bodies of functions to facts: statements in evaluation order, with the path condition.

How control leaves a suite decides under which conditions what follows it happens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from lint_rules.expressions import Expressions, Scope
from lint_rules.facts import (
    And,
    Bind,
    Call,
    Code,
    Compare,
    Const,
    Expr,
    Function,
    Import,
    Name,
    Not,
    Or,
    Return,
    named,
)
from lint_rules.stores import elsewhere, stores
from lint_rules.syntax import annotation_names, body_kind, dotted_name, handler_names, parameters

if TYPE_CHECKING:
    import libcst as cst
else:
    from lint_rules import nodes as cst

__all__ = ["Lines", "Statements"]

_ENCODER = msgspec.msgpack.Encoder()
_FALLS_THROUGH, _LEAVES, _RAISES = 0, 1, 2
_CAUGHT = {"AttributeError", "Exception", "BaseException", ""}


class Lines(Protocol):
    """Where statements and clauses stand, asked for in order."""

    def line(self, node: cst.CSTNode) -> int: ...

    def finish(self) -> None: ...


class Statements(Expressions):
    """Reads functions; what a class inside of one says is for :meth:`_class` to read."""

    def __init__(self, lines: Lines) -> None:
        super().__init__()
        self.lines = lines
        self.imports: list[Import] = []
        self.stars: list[tuple[str, int]] = []
        self.typing = 0

    def _class(self, node: cst.ClassDef, inside: tuple[str, ...]) -> None:
        raise NotImplementedError

    def _import(self, node: cst.Import | cst.ImportFrom) -> None:
        typing = self.typing > 0
        if isinstance(node, cst.Import):
            for alias in node.names:
                module = dotted_name(alias.name)
                if alias.asname is not None:
                    local = dotted_name(alias.asname.name)
                    self.imports.append(Import(local, module, "", 0, typing))
                else:
                    top = module.split(".")[0]
                    self.imports.append(Import(top, top, "", 0, typing))
            return
        module = dotted_name(node.module) if node.module is not None else ""
        level = len(node.relative)
        if isinstance(node.names, cst.ImportStar):
            self.stars.append((module, level))
            return
        for alias in node.names:
            name = dotted_name(alias.name)
            local = dotted_name(alias.asname.name) if alias.asname is not None else name
            self.imports.append(Import(local, module, name, level, typing))

    def _decorators(self, decorators: Sequence[cst.Decorator]) -> tuple[str, ...]:
        return tuple(name for name, _ in self._marks(decorators))

    def _marks(self, decorators: Sequence[cst.Decorator]) -> list[tuple[str, Call | None]]:
        """The dotted name of each decorator, and the call where it is one."""
        found: list[tuple[str, Call | None]] = []
        for decorator in decorators:
            self.line = self.lines.line(decorator)
            target = decorator.decorator
            read = self.expr(target)
            found.append(
                (
                    dotted_name(target.func if isinstance(target, cst.Call) else target),
                    read if isinstance(read, Call) else None,
                )
            )
        return found

    def _function(self, node: cst.FunctionDef, conditional: bool = False) -> Function:
        marks = self._marks(node.decorators)
        line = self.line = self.lines.line(node)
        outer, self.scope = self.scope, Scope()
        params = parameters(node.params, self.expr)
        self.scope.events.clear()
        if self._block(node.body) == _RAISES:
            self.scope.refuse()
        scope, self.scope = self.scope, outer
        code = Code(tuple(scope.events), tuple(scope.conditions))
        receiver = params[0].name if params else ""
        function = Function(
            node.name.value,
            line,
            params,
            annotation_names(node.returns.annotation) if node.returns is not None else (),
            tuple(name for name, _ in marks),
            body_kind(node.body),
            _ENCODER.encode(code),
            tuple(sorted(named(scope.events))),
            tuple(stores(receiver, code)),
            tuple(elsewhere(receiver, code)),
            scope.generator,
            tuple(call for _, call in marks if call is not None),
            conditional,
        )
        function.keep(code)
        return function

    def _block(self, body: cst.CSTNode) -> int:
        """Read a suite; whether and how control leaves it before its end."""
        if isinstance(body, cst.SimpleStatementSuite):
            return self._smalls(body.body)
        ended = _FALLS_THROUGH
        for statement in body.body if isinstance(body, cst.IndentedBlock) else ():
            if isinstance(statement, cst.SimpleStatementLine):
                self.line = self.lines.line(statement)
                ended = self._smalls(statement.body) or ended
            else:
                ended = self._compound(statement) or ended
        return ended

    def _smalls(self, statements: Sequence[cst.BaseSmallStatement]) -> int:
        ended = _FALLS_THROUGH
        for small in statements:
            ended = self._small(small) or ended
        return ended

    def _small(self, small: cst.BaseSmallStatement) -> int:
        scope = self.scope
        if isinstance(small, cst.Expr):
            self.expr(small.value)
        elif isinstance(small, cst.Assign):
            value = self.expr(small.value)
            for target in small.targets:
                self.assign(target.target, value)
        elif isinstance(small, cst.AnnAssign):
            if small.value is not None:
                value = self.expr(small.value)
                self.assign(small.target, value, annotation_names(small.annotation.annotation))
            elif isinstance(small.target, cst.Name):
                self.scope.events.append(
                    Bind(
                        small.target.value,
                        self.unknown(),
                        self.line,
                        scope.cond,
                        annotation_names(small.annotation.annotation),
                    )
                )
        elif isinstance(small, cst.AugAssign):
            self.expr(small.target)
            self.expr(small.value)
            self.assign(small.target, None)
        elif isinstance(small, cst.Return):
            value = self.expr(small.value) if small.value is not None else Const("None")
            if not scope.nested:
                scope.events.append(Return(value, self.line, scope.cond))
            return _LEAVES
        elif isinstance(small, cst.Raise):
            if small.exc is not None:
                self.expr(small.exc)
            return _RAISES
        elif isinstance(small, cst.Assert):
            test = self.expr(small.test)
            if small.msg is not None:
                cond = scope.cond
                scope.push(Not(test))
                self.expr(small.msg)
                scope.cond = cond
            scope.push(test, fatal=True)
        elif isinstance(small, (cst.Break, cst.Continue)):
            scope.broken |= isinstance(small, cst.Break)
            return _LEAVES
        elif isinstance(small, (cst.Import, cst.ImportFrom)):
            self._import(small)
        elif isinstance(small, cst.Del):
            self.expr(small.target)
        return _FALLS_THROUGH

    def _compound(self, node: cst.CSTNode) -> int:
        if isinstance(node, cst.If):
            return self._if(node)
        if isinstance(node, (cst.Try, cst.TryStar)):
            return self._try(node)
        if isinstance(node, cst.For):
            return self._for(node)
        if isinstance(node, cst.While):
            return self._while(node)
        if isinstance(node, cst.With):
            self.line = self.lines.line(node)
            for item in node.items:
                value = self.expr(item.item)
                if item.asname is not None:
                    self.assign(item.asname.name, value)
            return self._block(node.body)
        if isinstance(node, cst.FunctionDef):
            self._decorators(node.decorators)
            self.line = self.lines.line(node)
            self._nested(node.body, node.name.value)
        elif isinstance(node, cst.ClassDef):
            self._class(node, ("<locals>",))
        elif isinstance(node, cst.Match):
            return self._match(node)
        return _FALLS_THROUGH

    def _nested(self, body: cst.CSTNode, name: str) -> None:
        scope = self.scope
        cond, scope.nested = scope.cond, scope.nested + 1
        scope.events.append(Bind(name, self.unknown(), self.line, cond))
        self._block(body)
        scope.nested -= 1
        scope.cond = cond

    def _if(self, node: cst.If) -> int:
        self.line = self.lines.line(node)

        def orelse() -> int:
            if isinstance(node.orelse, cst.If):
                return self._if(node.orelse)
            if node.orelse is None:
                return _FALLS_THROUGH
            self.line = self.lines.line(node.orelse)
            return self._block(node.orelse.body)

        test = self.expr(node.test)
        if test == Name("TYPE_CHECKING") and node.orelse is None:
            # what is asserted for the type checker is what the author knows
            return self._block(node.body)
        return self._branches(test, lambda: self._block(node.body), orelse)

    def _branches(self, test: Expr, body: Callable[[], int], orelse: Callable[[], int]) -> int:
        scope = self.scope
        base = scope.cond
        scope.push(test)
        ended_then = body()
        then = scope.since(base)
        scope.cond = base
        scope.push(Not(test))
        ended_else = orelse()
        other = scope.since(base)
        scope.cond = base
        if ended_then and ended_else:
            if ended_then != ended_else:
                scope.push(test if ended_else == _RAISES else Not(test), fatal=True)
                scope.cond = base
            return min(ended_then, ended_else)
        if ended_then:
            for index, (condition, fatal) in enumerate(other):
                scope.push(condition, fatal if index else ended_then == _RAISES)
        elif ended_else:
            for index, (condition, fatal) in enumerate(then):
                scope.push(condition, fatal if index else ended_else == _RAISES)
        else:
            scope.join(then, other)
        return _FALLS_THROUGH

    def _try(self, node: cst.Try | cst.TryStar) -> int:
        scope = self.scope
        self.line = self.lines.line(node)
        base = scope.cond
        names = {name for handler in node.handlers for name in handler_names(handler.type)}
        catches, refusable = bool(_CAUGHT & names), "TypeError" in names
        scope.caught += catches
        scope.refusable += refusable
        ended = self._block(node.body)
        scope.caught -= catches
        scope.refusable -= refusable
        after_body = scope.cond
        falls_through = False
        for handler in node.handlers:
            scope.cond = base
            self.line = self.lines.line(handler)
            falls_through |= not self._block(handler.body)
        scope.cond = base if falls_through else after_body
        if node.orelse is not None:
            self.line = self.lines.line(node.orelse)
            ended = self._block(node.orelse.body) or ended
        if node.finalbody is not None:
            self.line = self.lines.line(node.finalbody)
            ended = self._block(node.finalbody.body) or ended
        return _FALLS_THROUGH if falls_through else ended

    def _for(self, node: cst.For) -> int:
        self.line = self.lines.line(node)
        self.loop_target(node.target, self.expr(node.iter))
        self._looped(node, self.scope.cond)
        return _FALLS_THROUGH

    def _while(self, node: cst.While) -> int:
        scope = self.scope
        self.line = self.lines.line(node)
        test = self.expr(node.test)
        base = scope.cond
        scope.push(test)
        broken = self._looped(node, base)
        return _LEAVES if test == Const("True") and not broken else _FALLS_THROUGH

    def _looped(self, node: cst.For | cst.While, base: int) -> bool:
        """The body of a loop and its ``else``, after which ``base`` holds; has it a ``break``?"""
        scope = self.scope
        outer, scope.broken = scope.broken, False
        self._block(node.body)
        broken, scope.broken = scope.broken, outer
        scope.cond = base
        if node.orelse is not None:
            self.line = self.lines.line(node.orelse)
            self._block(node.orelse.body)
            scope.cond = base
        return broken

    def _match(self, node: cst.Match) -> int:
        self.line = self.lines.line(node)
        return self._cases(self.expr(node.subject), node.cases)

    def _cases(self, subject: Expr, cases: Sequence[cst.MatchCase]) -> int:
        if not cases:
            return _FALLS_THROUGH
        scope, case = self.scope, cases[0]
        self.line = self.lines.line(case)
        test = self._pattern(subject, case.pattern)
        if test == Const("True") and case.guard is None:  # the last one, which always matches
            return self._block(case.body)
        if case.guard is not None:
            base = scope.cond
            scope.push(test)
            test = And((test, self.expr(case.guard)))
            scope.cond = base
        return self._branches(
            test, lambda: self._block(case.body), lambda: self._cases(subject, cases[1:])
        )

    def _pattern(self, subject: Expr, pattern: cst.MatchPattern) -> Expr:
        """What ``case pattern`` asks of ``subject``, as far as it is modelled."""
        if isinstance(pattern, cst.MatchValue):
            return Compare(subject, "==", self.expr(pattern.value))
        if isinstance(pattern, cst.MatchSingleton):
            return Compare(subject, "is", self.expr(pattern.value))
        if isinstance(pattern, cst.MatchOr):
            return Or(tuple(self._pattern(subject, p.pattern) for p in pattern.patterns))
        if isinstance(pattern, cst.MatchAs):
            if pattern.name is not None:
                self.assign(pattern.name, subject)
            if pattern.pattern is None:
                return Const("True")
            return self._pattern(subject, pattern.pattern)
        return self.unknown()
