"""One file to facts, with LibCST's native parser and without its metadata providers.

The walk is a recursion of its own, in evaluation order, that carries the path condition; the line
of a statement comes from the logical line it corresponds to (see :mod:`lint_rules.outline`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import libcst as cst

from lint_rules.facts import (
    And,
    Attr,
    Bind,
    Call,
    CallEvent,
    ClassAttr,
    ClassFacts,
    Compare,
    Const,
    Event,
    Expr,
    FileFacts,
    Function,
    IfElse,
    Import,
    Item,
    Name,
    Not,
    Opaque,
    Or,
    Parameter,
    Read,
    Return,
    Seq,
    Write,
    dotted,
)
from lint_rules.outline import logical_lines, reduced

__all__ = ["extract"]

_FALLS_THROUGH, _LEAVES, _RAISES = 0, 1, 2
_CAUGHT = {"AttributeError", "Exception", "BaseException", ""}
_IDENTIFIERS = re.compile(r"[A-Za-z_][\w.]*")
_COMPARISONS = {
    cst.Equal: "==",
    cst.NotEqual: "!=",
    cst.Is: "is",
    cst.IsNot: "is not",
    cst.In: "in",
    cst.NotIn: "not in",
    cst.LessThan: "<",
    cst.LessThanEqual: "<=",
    cst.GreaterThan: ">",
    cst.GreaterThanEqual: ">=",
}


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
    return FileFacts(path, error=f"does not parse: {message}", error_line=line)


def _extract_with_positions(path: str, source: str) -> FileFacts:
    from libcst.metadata import MetadataWrapper, PositionProvider

    wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
    positions = wrapper.resolve(PositionProvider)
    return _Extractor(path, _Positions(positions)).run(wrapper.module)


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


class _Scope:
    """A function that is being read."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.conditions: list[tuple[int, Expr, bool]] = []
        self.cond = -1
        self.caught = 0
        self.nested = 0
        self.generator = False

    def push(self, expr: Expr, fatal: bool = False) -> None:
        self.conditions.append((self.cond, expr, fatal))
        self.cond = len(self.conditions) - 1

    def since(self, base: int) -> list[tuple[Expr, bool]]:
        """The conditions added to ``base`` on the way to where we are, and which are fatal."""
        found: list[tuple[Expr, bool]] = []
        index = self.cond
        while index != base and index != -1:
            parent, expr, fatal = self.conditions[index]
            found.append((expr, fatal))
            index = parent
        found.reverse()
        return found

    def join(self, then: list[tuple[Expr, bool]], other: list[tuple[Expr, bool]]) -> None:
        """After both branches of an ``if`` fell through: what held on one way or the other.

        The first condition of each is the test itself or its negation. What only an assertion
        added is kept apart, since no path continues where it does not hold.
        """
        plain = [[e for i, (e, fatal) in enumerate(way) if not i or not fatal] for way in (then, other)]
        if any(len(way) > 1 for way in plain):
            self.push(Or(tuple(And(tuple(way)) for way in plain)))
        if any(fatal for way in (then, other) for _, fatal in way[1:]):
            self.push(Or(tuple(And(tuple(e for e, _ in way)) for way in (then, other))), fatal=True)


class _Extractor:
    def __init__(self, path: str, lines: _Cursor | _Positions) -> None:
        self.path = path
        self.lines = lines
        self.imports: list[Import] = []
        self.stars: list[tuple[str, int]] = []
        self.aliases: list[tuple[str, Expr]] = []
        self.classes: list[ClassFacts] = []
        self.functions: list[Function] = []
        self.scope = _Scope()
        self.line = 1
        self.opaque = 0
        self.handlers: dict[type, Callable[[Any], Expr]] = {
            cst.Name: lambda n: _CONSTANTS.get(n.value) or Name(n.value),
            cst.Attribute: self._attribute,
            cst.Call: self._call,
            cst.BooleanOperation: self._boolean,
            cst.UnaryOperation: self._unary,
            cst.Comparison: self._comparison,
            cst.IfExp: self._ifexp,
            cst.Subscript: self._subscript,
            cst.NamedExpr: self._walrus,
            cst.SimpleString: lambda n: Const(repr(n.evaluated_value)),
            cst.Integer: lambda n: Const(n.value),
            cst.Float: lambda n: Const(n.value),
            cst.List: self._sequence,
            cst.Tuple: self._sequence,
            cst.Set: self._sequence,
            cst.ListComp: self._comprehension,
            cst.SetComp: self._comprehension,
            cst.GeneratorExp: self._comprehension,
            cst.DictComp: self._dict_comprehension,
            cst.Lambda: self._lambda,
            cst.Await: lambda n: self.expr(n.expression),
            cst.Yield: self._yield,
        }

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
            self._suite(body, visit)
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
        if isinstance(node, cst.Import):
            for alias in node.names:
                module = _dotted_node(alias.name)
                if alias.asname is not None:
                    self.imports.append(Import(_dotted_node(alias.asname.name), module, "", 0))
                else:
                    top = module.split(".")[0]
                    self.imports.append(Import(top, top, "", 0))
            return
        module = _dotted_node(node.module) if node.module is not None else ""
        level = len(node.relative)
        if isinstance(node.names, cst.ImportStar):
            self.stars.append((module, level))
            return
        for alias in node.names:
            name = _dotted_node(alias.name)
            local = _dotted_node(alias.asname.name) if alias.asname is not None else name
            self.imports.append(Import(local, module, name, level))

    def _class(self, node: cst.ClassDef, inside: tuple[str, ...]) -> None:
        decorators = self._decorators(node.decorators)
        line = self.line = self.lines.line(node)
        bases = tuple(
            base
            for argument in node.bases
            if argument.star == "" and (base := _base_name(argument.value))
        )
        attrs: list[ClassAttr] = []
        methods: list[Function] = []
        qualified = (*inside, node.name.value)
        index = len(self.classes)

        def member(body: Sequence[cst.CSTNode]) -> None:
            for statement in body:
                if isinstance(statement, cst.SimpleStatementLine):
                    self.line = self.lines.line(statement)
                    for small in statement.body:
                        self._class_small(small, attrs)
                elif isinstance(statement, cst.FunctionDef):
                    methods.append(self._function(statement))
                elif isinstance(statement, cst.ClassDef):
                    self._class(statement, qualified)
                else:
                    self._clauses(statement, member)

        if isinstance(node.body, cst.IndentedBlock):
            member(node.body.body)
        elif isinstance(node.body, cst.SimpleStatementSuite):
            for small in node.body.body:
                self._class_small(small, attrs)
        self.classes.insert(
            index,
            ClassFacts(
                ".".join(qualified), line, bases, decorators, tuple(attrs), tuple(methods)
            ),
        )

    def _class_small(self, small: cst.CSTNode, attrs: list[ClassAttr]) -> None:
        if isinstance(small, cst.AnnAssign) and isinstance(small.target, cst.Name):
            value = self.expr(small.value) if small.value is not None else None
            attrs.append(
                ClassAttr(
                    small.target.value, self.line, value, _annotation(small.annotation.annotation)
                )
            )
        elif isinstance(small, cst.Assign):
            value = self.expr(small.value)
            for target in small.targets:
                if isinstance(target.target, cst.Name):
                    attrs.append(ClassAttr(target.target.value, self.line, value))
        elif isinstance(small, (cst.Import, cst.ImportFrom)):
            self._import(small)

    def _decorators(self, decorators: Sequence[cst.Decorator]) -> tuple[str, ...]:
        names = []
        for decorator in decorators:
            self.line = self.lines.line(decorator)
            target = decorator.decorator
            if isinstance(target, cst.Call):
                target = target.func
            names.append(_dotted_node(target))
        return tuple(names)

    # Functions.

    def _function(self, node: cst.FunctionDef) -> Function:
        decorators = self._decorators(node.decorators)
        line = self.line = self.lines.line(node)
        outer, self.scope = self.scope, _Scope()
        params = _parameters(node.params, self.expr)
        self.scope.events.clear()
        self._block(node.body)
        scope, self.scope = self.scope, outer
        return Function(
            node.name.value,
            line,
            params,
            _annotation(node.returns.annotation) if node.returns is not None else (),
            decorators,
            _body_kind(node.body),
            tuple(scope.events),
            tuple(scope.conditions),
            scope.generator,
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
                self._assign(target.target, value)
        elif isinstance(small, cst.AnnAssign):
            if small.value is not None:
                value = self.expr(small.value)
                self._assign(small.target, value, _annotation(small.annotation.annotation))
            elif isinstance(small.target, cst.Name):
                self.scope.events.append(
                    Bind(
                        small.target.value,
                        self._unknown(),
                        self.line,
                        scope.cond,
                        _annotation(small.annotation.annotation),
                    )
                )
        elif isinstance(small, cst.AugAssign):
            self.expr(small.target)
            self.expr(small.value)
            self._assign(small.target, None)
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
            scope.push(self.expr(small.test), fatal=True)
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
                    self._assign(item.asname.name, value)
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
        scope.events.append(Bind(name, self._unknown(), self.line, cond))
        self._block(body)
        scope.nested -= 1
        scope.cond = cond

    def _if(self, node: cst.If) -> int:
        scope = self.scope
        self.line = self.lines.line(node)
        test = self.expr(node.test)
        base = scope.cond
        scope.push(test)
        ended_then = self._block(node.body)
        then = scope.since(base)
        scope.cond = base
        scope.push(Not(test))
        ended_else = _FALLS_THROUGH
        if isinstance(node.orelse, cst.If):
            ended_else = self._if(node.orelse)
        elif node.orelse is not None:
            self.line = self.lines.line(node.orelse)
            ended_else = self._block(node.orelse.body)
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
        catches = any(_CAUGHT & _handler_names(handler.type) for handler in node.handlers)
        scope.caught += catches
        ended = self._block(node.body)
        scope.caught -= catches
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
        self._loop_target(node.target, self.expr(node.iter))
        base = scope.cond
        self._block(node.body)
        scope.cond = base
        if node.orelse is not None:
            self.line = self.lines.line(node.orelse)
            self._block(node.orelse.body)
            scope.cond = base
        return _FALLS_THROUGH

    def _loop_target(self, target: cst.BaseExpression, iterable: Expr) -> None:
        if isinstance(iterable, Call) and isinstance(target, (cst.Tuple, cst.List)):
            name = dotted(iterable.func)
            if name == "enumerate" and len(target.elements) == 2 and iterable.args:
                self._assign(target.elements[0].value, self._unknown())
                self._assign(target.elements[1].value, Item(iterable.args[0]))
                return
            if name == "zip" and len(iterable.args) == len(target.elements):
                for element, argument in zip(target.elements, iterable.args, strict=True):
                    self._assign(element.value, Item(argument))
                return
        if isinstance(iterable, Call) and dotted(iterable.func) in {"reversed", "list", "tuple"}:
            iterable = iterable.args[0] if iterable.args else self._unknown()
        self._assign(target, Item(iterable))

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
        scope = self.scope
        self.line = self.lines.line(node)
        self.expr(node.subject)
        base = scope.cond
        for case in node.cases:
            self.line = self.lines.line(case)
            scope.cond = base
            scope.push(self._unknown())
            if case.guard is not None:
                scope.push(self.expr(case.guard))
            self._block(case.body)
        scope.cond = base
        return _FALLS_THROUGH

    def _assign(
        self, target: cst.CSTNode, value: Expr | None, annotation: tuple[str, ...] = ()
    ) -> None:
        scope = self.scope
        if isinstance(target, cst.Name):
            scope.events.append(
                Bind(
                    target.value,
                    value if value is not None else self._unknown(),
                    self.line,
                    scope.cond,
                    annotation,
                )
            )
        elif isinstance(target, cst.Attribute):
            owner = self.expr(target.value)
            scope.events.append(
                Write(owner, target.attr.value, value, self.line, scope.cond, annotation)
            )
        elif isinstance(target, (cst.Tuple, cst.List)):
            elements: Sequence[Expr | None] = [None] * len(target.elements)
            if isinstance(value, Seq) and len(value.items) == len(target.elements):
                elements = value.items
            for element, part in zip(target.elements, elements, strict=True):
                self._assign(element.value, part)
        elif isinstance(target, cst.Subscript):
            self.expr(target)
        elif isinstance(target, cst.StarredElement):
            self._assign(target.value, None)

    # Expressions, in evaluation order.

    def expr(self, node: cst.CSTNode) -> Expr:
        handler = self.handlers.get(type(node))
        if handler is not None:
            return handler(node)
        for child in node.children:
            if isinstance(child, (cst.BaseExpression, *_CARRIERS)):
                self.expr(child)
        return self._unknown()

    def _unknown(self) -> Opaque:
        self.opaque += 1
        return Opaque(self.opaque)

    def _attribute(self, node: cst.Attribute) -> Expr:
        value = self.expr(node.value)
        name = node.attr.value
        scope = self.scope
        scope.events.append(
            Read(value, name, self.line, scope.cond, False, scope.caught > 0)
        )
        return Attr(value, name)

    def _call(self, node: cst.Call) -> Expr:
        func = node.func
        if isinstance(func, cst.Name) and func.value in _PROBES:
            probe = self._probe(func.value, node)
            if probe is not None:
                return probe
        target = self._callee(func)
        args: list[Expr] = []
        keywords: list[tuple[str, Expr]] = []
        star = double_star = False
        for argument in node.args:
            value = self.expr(argument.value)
            if argument.star == "*":
                star = True
            elif argument.star == "**":
                double_star = True
            elif argument.keyword is not None:
                keywords.append((argument.keyword.value, value))
            else:
                args.append(value)
        call = Call(target, tuple(args), tuple(keywords), star, double_star)
        scope = self.scope
        scope.events.append(CallEvent(call, self.line, scope.cond, scope.caught > 0))
        return call

    def _callee(self, func: cst.BaseExpression) -> Expr:
        """The called expression; the last attribute of a callee is no read of its own."""
        if isinstance(func, cst.Attribute):
            return Attr(self.expr(func.value), func.attr.value)
        return self.expr(func)

    def _probe(self, function: str, node: cst.Call) -> Expr | None:
        if len(node.args) < 2 or any(a.star or a.keyword is not None for a in node.args):
            return None
        name_node = node.args[1].value
        if not isinstance(name_node, cst.SimpleString):
            return None
        name = name_node.evaluated_value
        if not isinstance(name, str):
            return None
        scope = self.scope
        value = self.expr(node.args[0].value)
        if function == "setattr":
            if len(node.args) == 3:
                assigned = self.expr(node.args[2].value)
                scope.events.append(Write(value, name, assigned, self.line, scope.cond))
            return Const("None")
        rest = [self.expr(argument.value) for argument in node.args[2:]]
        probe = function == "hasattr" or bool(rest)
        scope.events.append(Read(value, name, self.line, scope.cond, probe, scope.caught > 0))
        if function == "getattr" and not rest:
            return Attr(value, name)
        return Call(Name(function), (value, Const(repr(name)), *rest))

    def _boolean(self, node: cst.BooleanOperation) -> Expr:
        is_and = isinstance(node.operator, cst.And)
        left = self.expr(node.left)
        scope = self.scope
        cond = scope.cond
        scope.push(left if is_and else Not(left))
        right = self.expr(node.right)
        scope.cond = cond
        kind = And if is_and else Or
        items = (*(left.items if isinstance(left, kind) else (left,)),)
        return kind((*items, *(right.items if isinstance(right, kind) else (right,))))

    def _unary(self, node: cst.UnaryOperation) -> Expr:
        value = self.expr(node.expression)
        if isinstance(node.operator, cst.Not):
            return value.value if isinstance(value, Not) else Not(value)
        if isinstance(node.operator, cst.Minus) and isinstance(value, Const):
            return Const("-" + value.text)
        return self._unknown()

    def _comparison(self, node: cst.Comparison) -> Expr:
        left = self.expr(node.left)
        parts: list[Expr] = []
        for target in node.comparisons:
            right = self.expr(target.comparator)
            op = _COMPARISONS.get(type(target.operator))
            parts.append(Compare(left, op, right) if op else self._unknown())
            left = right
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _ifexp(self, node: cst.IfExp) -> Expr:
        test = self.expr(node.test)
        scope = self.scope
        cond = scope.cond
        scope.push(test)
        then = self.expr(node.body)
        scope.cond = cond
        scope.push(Not(test))
        other = self.expr(node.orelse)
        scope.cond = cond
        return IfElse(test, then, other)

    def _subscript(self, node: cst.Subscript) -> Expr:
        value = self.expr(node.value)
        index: Expr | None = None
        for element in node.slice:
            if isinstance(element.slice, cst.Index):
                index = self.expr(element.slice.value)
            else:
                for bound in (element.slice.lower, element.slice.upper, element.slice.step):
                    if bound is not None:
                        self.expr(bound)
                index = None
        return Item(value, index if len(node.slice) == 1 else None)

    def _walrus(self, node: cst.NamedExpr) -> Expr:
        value = self.expr(node.value)
        self._assign(node.target, value)
        return value

    def _sequence(self, node: cst.List | cst.Tuple | cst.Set) -> Expr:
        return Seq(tuple(self.expr(element.value) for element in node.elements))

    def _comprehension(self, node: cst.ListComp | cst.SetComp | cst.GeneratorExp) -> Expr:
        cond = self.scope.cond
        self._comp_for(node.for_in)
        element = self.expr(node.elt)
        self.scope.cond = cond
        return Seq((element,))

    def _dict_comprehension(self, node: cst.DictComp) -> Expr:
        cond = self.scope.cond
        self._comp_for(node.for_in)
        self.expr(node.key)
        self.expr(node.value)
        self.scope.cond = cond
        return self._unknown()

    def _comp_for(self, loop: cst.CompFor | None) -> None:
        while loop is not None:
            self._loop_target(loop.target, self.expr(loop.iter))
            for condition in loop.ifs:
                self.scope.push(self.expr(condition.test))
            loop = loop.inner_for_in

    def _lambda(self, node: cst.Lambda) -> Expr:
        scope = self.scope
        cond, scope.nested = scope.cond, scope.nested + 1
        self.expr(node.body)
        scope.nested -= 1
        scope.cond = cond
        return self._unknown()

    def _yield(self, node: cst.Yield) -> Expr:
        self.scope.generator = True
        if node.value is not None:
            self.expr(node.value.item if isinstance(node.value, cst.From) else node.value)
        return self._unknown()


_PROBES = frozenset({"hasattr", "getattr", "setattr"})
_CONSTANTS: dict[str, Expr] = {name: Const(name) for name in ("None", "True", "False")}
_CARRIERS = (
    cst.Element,
    cst.DictElement,
    cst.StarredElement,
    cst.StarredDictElement,
    cst.FormattedStringExpression,
    cst.SubscriptElement,
    cst.Index,
    cst.Slice,
    cst.Arg,
)


def _dotted_node(node: cst.CSTNode | None) -> str:
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        value = _dotted_node(node.value)
        return f"{value}.{node.attr.value}" if value else ""
    return ""


def _base_name(node: cst.BaseExpression) -> str:
    """A base as a dotted name: subscripts of generics are stripped, calls give nothing."""
    while isinstance(node, cst.Subscript):
        node = node.value
    return _dotted_node(node)


def _annotation(node: cst.BaseExpression) -> tuple[str, ...]:
    """Every dotted name in an annotation, those in strings included."""
    if isinstance(node, (cst.SimpleString, cst.ConcatenatedString)):
        value = node.evaluated_value
        return tuple(_IDENTIFIERS.findall(value)) if isinstance(value, str) else ()
    name = _dotted_node(node)
    if name:
        return (name,)
    found: list[str] = []
    for child in node.children:
        if isinstance(child, cst.BaseExpression):
            found += _annotation(child)
        elif isinstance(child, (cst.SubscriptElement, cst.Element)):
            for grandchild in child.children:
                if isinstance(grandchild, cst.Index):
                    found += _annotation(grandchild.value)
                elif isinstance(grandchild, cst.BaseExpression):
                    found += _annotation(grandchild)
    return tuple(found)


def _parameters(
    params: cst.Parameters, expr: Callable[[cst.CSTNode], Expr]
) -> tuple[Parameter, ...]:
    found: list[Parameter] = []

    def add(param: cst.Param, kind: int) -> None:
        default = expr(param.default) if param.default is not None else None
        found.append(
            Parameter(
                param.name.value,
                kind,
                default is None and kind not in (2, 4),
                _annotation(param.annotation.annotation) if param.annotation is not None else (),
                default,
            )
        )

    for param in params.posonly_params:
        add(param, 0)
    for param in params.params:
        add(param, 1)
    if isinstance(params.star_arg, cst.Param):
        add(params.star_arg, 2)
    for param in params.kwonly_params:
        add(param, 3)
    if params.star_kwarg is not None:
        add(params.star_kwarg, 4)
    return tuple(found)


def _handler_names(node: cst.BaseExpression | None) -> set[str]:
    if node is None:
        return {""}
    if isinstance(node, cst.Tuple):
        return {_dotted_node(element.value).rpartition(".")[2] for element in node.elements}
    return {_dotted_node(node).rpartition(".")[2]}


def _body_kind(body: cst.BaseSuite) -> str:
    statements: list[cst.CSTNode] = []
    for entry in body.body:
        if isinstance(entry, cst.SimpleStatementLine):
            statements += entry.body
        else:
            statements.append(entry)
    meaningful = [
        s
        for s in statements
        if not isinstance(s, cst.Pass)
        and not (
            isinstance(s, cst.Expr)
            and isinstance(s.value, (cst.SimpleString, cst.ConcatenatedString, cst.Ellipsis))
        )
    ]
    if not meaningful:
        return "trivial"
    if len(meaningful) == 1:
        only = meaningful[0]
        if isinstance(only, cst.Raise):
            return "raise"
        if isinstance(only, cst.Return) and (
            only.value is None
            or isinstance(only.value, (cst.SimpleString, cst.Integer))
            or (isinstance(only.value, cst.Name) and only.value.value in _CONSTANTS)
        ):
            return "trivial"
    return "code"
