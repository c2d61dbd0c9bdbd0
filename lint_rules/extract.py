"""One file to facts, with LibCST's native parser and without its metadata providers.

The walk is a recursion of its own, in evaluation order, that carries the path condition; the line
of a statement comes from the logical line it corresponds to (see :mod:`lint_rules.outline`).
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import libcst as cst

from lint_rules.expressions import Expressions, Scope
from lint_rules.facts import (
    And,
    Bind,
    Call,
    ClassAttr,
    ClassFacts,
    Compare,
    Const,
    Expr,
    FileFacts,
    Function,
    Import,
    Name,
    Not,
    Or,
    Return,
)
from lint_rules.outline import logical_lines, reduced
from lint_rules.reaching import flows
from lint_rules.syntax import (
    annotation_names,
    base_name,
    body_kind,
    dotted_name,
    handler_names,
    parameters,
)
from mla_guard.routes import ROUTES

__all__ = ["extract"]

_FALLS_THROUGH, _LEAVES, _RAISES = 0, 1, 2
_CAUGHT = {"AttributeError", "Exception", "BaseException", ""}


class _Mismatch(Exception):
    """Logical lines and statements disagree: positions have to come from LibCST itself."""


def extract(
    path: str,
    source: str,
    wanted: Callable[[str], bool] | None = None,
    whole: Callable[[str], bool] | None = None,
) -> FileFacts:
    """The facts of ``source``.

    With ``wanted`` and ``whole`` only the statements that they ask for are parsed (see
    :func:`lint_rules.outline.reduced`). A file that does not parse gives facts with ``error``.
    """
    if wanted is None or whole is None:
        text, lines = source, [entry.line for entry in logical_lines(source)]
    else:
        text, lines = reduced(source, wanted, whole)
    if not text.strip():
        return FileFacts(path)
    try:
        with _unvalidated():
            module = cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        return _unparsable(path, source, error)
    except RecursionError:
        return FileFacts(path, error="is nested too deeply to be parsed", error_line=1)
    try:
        return _Extractor(path, _Cursor(lines)).run(module)
    except _Mismatch:
        return _extract_with_positions(path, source)


def _unparsable(path: str, source: str, error: cst.ParserSyntaxError) -> FileFacts:
    line, message = error.raw_line, error.message
    try:
        cst.parse_module(source)
    except cst.ParserSyntaxError as whole:
        line, message = whole.raw_line, whole.message
    else:  # the whole file parses: the cut was wrong, so read all of it
        return _extract_with_positions(path, source)
    try:  # the interpreter's own parser names the line and the fault in words
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(source)
    except SyntaxError as own:
        line, message = own.lineno or line, own.msg
    except ValueError as own:
        message = str(own)
    return FileFacts(path, error=f"does not parse: {message}", error_line=line)


def _extract_with_positions(path: str, source: str) -> FileFacts:
    from libcst.metadata import MetadataWrapper, PositionProvider

    wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
    positions = wrapper.resolve(PositionProvider)
    return _Extractor(path, _Positions(positions)).run(wrapper.module)


@contextmanager
def _unvalidated() -> Iterator[None]:
    """Parse without validating each node, which takes a sixth of the time.

    LibCST validates nodes when they are made, those of its own parser as well (the comment in its
    ``CSTNode.__post_init__`` says so); what a parser made of a text needs none.
    """
    original = cst.CSTNode.__post_init__
    cst.CSTNode.__post_init__ = lambda self: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        cst.CSTNode.__post_init__ = original  # type: ignore[method-assign]


class _Cursor:
    """Hands out the lines of statements and clauses in order."""

    def __init__(self, lines: Sequence[int]) -> None:
        self._lines = lines
        self._next = 0

    def line(self, node: cst.CSTNode) -> int:
        if self._next >= len(self._lines):
            raise _Mismatch
        line = self._lines[self._next]
        self._next += 1
        return line

    def finish(self) -> None:
        if self._next != len(self._lines):
            raise _Mismatch


class _Positions:
    def __init__(self, positions: Any) -> None:
        self._positions = positions

    def line(self, node: cst.CSTNode) -> int:
        found = self._positions.get(node)
        return found.start.line if found is not None else 1

    def finish(self) -> None:
        pass


def _is_type_checking(test: cst.BaseExpression) -> bool:
    return dotted_name(test).rpartition(".")[2] == "TYPE_CHECKING"


def _source(node: cst.BaseExpression) -> Const:
    return Const(cst.Module([]).code_for_node(node))


def _dicts(call: cst.Call) -> Call:
    """A call with those of its keywords whose values are dicts, as their source."""
    keywords = (
        (argument.keyword.value, _source(argument.value))
        for argument in call.args
        if argument.keyword is not None and isinstance(argument.value, cst.Dict)
    )
    return Call(Name(dotted_name(call.func)), (), tuple(keywords))


class _Extractor(Expressions):
    def __init__(self, path: str, lines: _Cursor | _Positions) -> None:
        super().__init__()
        self.path = path
        self.lines = lines
        self.imports: list[Import] = []
        self.stars: list[tuple[str, int]] = []
        self.aliases: list[tuple[str, Expr]] = []
        self.classes: list[ClassFacts] = []
        self.functions: list[Function] = []
        self.typing = 0

    def run(self, module: cst.Module) -> FileFacts:
        self._module_body(module.body, ())
        self.lines.finish()
        return FileFacts(
            self.path,
            tuple(self.imports),
            tuple(self.stars),
            tuple(self.aliases),
            tuple(self.classes),
            tuple(self.functions),
            *flows(self.imports, self.aliases, self.classes, self.functions),
        )

    # Statements outside functions: imports, aliases, classes and functions.

    def _module_body(self, body: Sequence[cst.CSTNode], inside: tuple[str, ...]) -> None:
        for statement in body:
            if isinstance(statement, cst.SimpleStatementLine):
                self.line = self.lines.line(statement)
                for small in statement.body:
                    self._module_small(small)
            elif isinstance(statement, cst.ClassDef):
                self._class(statement, inside)
            elif isinstance(statement, cst.FunctionDef):
                self.functions.append(self._function(statement))
            else:
                self._clauses(statement, lambda b: self._module_body(b, inside))

    def _module_small(self, small: cst.CSTNode) -> None:
        if isinstance(small, (cst.Import, cst.ImportFrom)):
            self._import(small)
        elif isinstance(small, cst.Assign):
            value = self.expr(small.value)
            for target in small.targets:
                if isinstance(target.target, cst.Name):
                    self.aliases.append((target.target.value, value))
        elif isinstance(small, cst.AnnAssign) and small.value is not None:
            if isinstance(small.target, cst.Name):
                self.aliases.append((small.target.value, self.expr(small.value)))
        elif isinstance(small, cst.Expr):
            self.expr(small.value)

    def _clauses(self, node: cst.CSTNode, visit: Callable[[Sequence[cst.CSTNode]], None]) -> None:
        """Every suite of a compound statement, conditions left aside."""
        self.line = self.lines.line(node)
        suites: list[Any] = []
        if isinstance(node, (cst.Try, cst.TryStar)):
            suites = [*node.handlers, node.orelse, node.finalbody]
        elif isinstance(node, (cst.If, cst.For, cst.While)):
            suites = [node.orelse]
        elif isinstance(node, cst.Match):
            suites = list(node.cases)
        body = getattr(node, "body", None)
        if body is not None:
            typing = isinstance(node, cst.If) and _is_type_checking(node.test)
            self.typing += typing
            self._suite(body, visit)
            self.typing -= typing
        for clause in suites:
            if clause is None:
                continue
            if isinstance(clause, cst.If):
                self._clauses(clause, visit)
            else:
                self.line = self.lines.line(clause)
                self._suite(clause.body, visit)

    def _suite(self, body: cst.CSTNode, visit: Callable[[Sequence[cst.CSTNode]], None]) -> None:
        if isinstance(body, cst.IndentedBlock):
            visit(body.body)
        elif isinstance(body, cst.SimpleStatementSuite):
            for small in body.body:
                self._module_small(small)

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

    def _class(self, node: cst.ClassDef, inside: tuple[str, ...]) -> None:
        decorators = self._decorators(node.decorators)
        marks = tuple(
            _dicts(d.decorator) for d in node.decorators if isinstance(d.decorator, cst.Call)
        )
        line = self.line = self.lines.line(node)
        bases = tuple(
            base
            for argument in node.bases
            if argument.star == "" and (base := base_name(argument.value))
        )
        attrs: list[ClassAttr] = []
        methods: list[Function] = []
        qualified = (*inside, node.name.value)
        index = len(self.classes)

        def member(body: Sequence[cst.CSTNode], conditional: bool = False) -> None:
            for statement in body:
                if isinstance(statement, cst.SimpleStatementLine):
                    self.line = self.lines.line(statement)
                    for small in statement.body:
                        self._class_small(small, attrs)
                elif isinstance(statement, cst.FunctionDef):
                    methods.append(self._function(statement, conditional))
                elif isinstance(statement, cst.ClassDef):
                    self._class(statement, qualified)
                else:
                    self._clauses(statement, lambda b: member(b, True))

        if isinstance(node.body, cst.IndentedBlock):
            member(node.body.body)
        elif isinstance(node.body, cst.SimpleStatementSuite):
            for small in node.body.body:
                self._class_small(small, attrs)
        self.classes.insert(
            index,
            ClassFacts(
                ".".join(qualified), line, bases, decorators, tuple(attrs), tuple(methods), marks
            ),
        )

    def _class_small(self, small: cst.CSTNode, attrs: list[ClassAttr]) -> None:
        if isinstance(small, cst.AnnAssign) and isinstance(small.target, cst.Name):
            name = small.target.value
            attrs.append(
                ClassAttr(
                    name,
                    self.line,
                    self._class_value(name, small.value) if small.value is not None else None,
                    annotation_names(small.annotation.annotation),
                )
            )
        elif isinstance(small, cst.Assign):
            names = [t.target.value for t in small.targets if isinstance(t.target, cst.Name)]
            value = self._class_value(names[0] if names else "", small.value)
            attrs += [ClassAttr(name, self.line, value) for name in names]
        elif isinstance(small, (cst.Import, cst.ImportFrom)):
            self._import(small)

    def _class_value(self, name: str, value: cst.BaseExpression) -> Expr:
        """What a name in a class body is; of declared routes, the source of the whole literal."""
        return _source(value) if name == ROUTES else self.expr(value)

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

    # Functions.

    def _function(self, node: cst.FunctionDef, conditional: bool = False) -> Function:
        marks = self._marks(node.decorators)
        line = self.line = self.lines.line(node)
        outer, self.scope = self.scope, Scope()
        params = parameters(node.params, self.expr)
        self.scope.events.clear()
        self._block(node.body)
        scope, self.scope = self.scope, outer
        return Function(
            node.name.value,
            line,
            params,
            annotation_names(node.returns.annotation) if node.returns is not None else (),
            tuple(name for name, _ in marks),
            body_kind(node.body),
            tuple(scope.events),
            tuple(scope.conditions),
            scope.generator,
            tuple(call for _, call in marks if call is not None),
            conditional,
        )

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
        scope = self.scope
        self.line = self.lines.line(node)
        self.loop_target(node.target, self.expr(node.iter))
        base = scope.cond
        self._block(node.body)
        scope.cond = base
        if node.orelse is not None:
            self.line = self.lines.line(node.orelse)
            self._block(node.orelse.body)
            scope.cond = base
        return _FALLS_THROUGH

    def _while(self, node: cst.While) -> int:
        scope = self.scope
        self.line = self.lines.line(node)
        test = self.expr(node.test)
        base = scope.cond
        scope.push(test)
        self._block(node.body)
        scope.cond = base
        if node.orelse is not None:
            self.line = self.lines.line(node.orelse)
            self._block(node.orelse.body)
            scope.cond = base
        return _LEAVES if test == Const("True") else _FALLS_THROUGH

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
