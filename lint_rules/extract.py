"""One file to facts, with LibCST's native parser and without its nodes and metadata providers.

The walk is a recursion of its own, in evaluation order, that carries the path condition; the line
of a statement comes from the logical line it corresponds to (see :mod:`lint_rules.outline`).
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lint_rules.described import declares
from lint_rules.facts import Call, ClassAttr, ClassFacts, Const, Expr, FileFacts, Function, Name
from lint_rules.nodes import ParserSyntaxError, lightened, own, parsed_whole, parsing, written
from lint_rules.outline import joined, logical_lines, reduced
from lint_rules.parse import parsed
from lint_rules.reaching import flows
from lint_rules.statements import Lines, Statements
from lint_rules.syntax import annotation_names, base_name, dotted_name
from mla_guard.routes import ROUTES

if TYPE_CHECKING:
    import libcst as cst
else:
    from lint_rules import nodes as cst

__all__ = ["extract"]


class _TextNeeded(Exception):
    """What an expression is written like matters: LibCST's own nodes have to be made."""


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
        entries = logical_lines(source)
        text, lines = joined(source, entries), [entry.line for entry in entries]
    else:
        text, lines = reduced(source, wanted, whole)
    if not text.strip():
        return FileFacts(path)
    try:
        module = parsed(text)
    except ParserSyntaxError as error:
        return _unparsable(path, source, error)
    except RecursionError:
        return FileFacts(path, error="is nested too deeply to be parsed", error_line=1)
    try:
        return _Extractor(path, _Cursor(lines)).run(module)
    except _TextNeeded:
        return _Extractor(path, _Cursor(lines)).run(parsed_whole(text))
    except _Mismatch:
        return _extract_with_positions(path, source)


def _unparsable(path: str, source: str, error: ParserSyntaxError) -> FileFacts:
    line, message = error.raw_line, error.message
    try:
        with parsing() as parse:
            parse(source)
    except ParserSyntaxError as whole:
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
    from libcst import parse_module
    from libcst.metadata import MetadataWrapper, PositionProvider

    wrapper = MetadataWrapper(parse_module(source), unsafe_skip_copy=True)
    positions = _Positions(wrapper.resolve(PositionProvider))
    return _Extractor(path, positions).run(lightened(wrapper.module))


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
        found = self._positions.get(own(node))
        return found.start.line if found is not None else 1

    def finish(self) -> None:
        pass


def _is_type_checking(test: cst.BaseExpression) -> bool:
    return dotted_name(test).rpartition(".")[2] == "TYPE_CHECKING"


class _Extractor(Statements):
    """Reads a module in the nodes of :mod:`lint_rules.nodes`."""

    def __init__(self, path: str, lines: Lines) -> None:
        super().__init__(lines)
        self.path = path
        self.aliases: list[tuple[str, Expr]] = []
        self.classes: list[ClassFacts] = []
        self.functions: list[Function] = []

    def run(self, module: cst.Module) -> FileFacts:
        self._module_body(module.body, ())
        self.lines.finish()
        functions = [*self.functions, *(m for klass in self.classes for m in klass.methods)]
        return FileFacts(
            self.path,
            tuple(self.imports),
            tuple(self.stars),
            tuple(self.aliases),
            tuple(self.classes),
            tuple(self.functions),
            *flows(self.imports, self.aliases, self.classes, self.functions),
            tuple(dict.fromkeys(pair for function in functions for pair in declares(function))),
        )

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

    def _class(self, node: cst.ClassDef, inside: tuple[str, ...]) -> None:
        decorators = self._decorators(node.decorators)
        marks = tuple(
            self._dicts(d.decorator) for d in node.decorators if isinstance(d.decorator, cst.Call)
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
        return self._source(value) if name == ROUTES else self.expr(value)

    def _dicts(self, call: cst.Call) -> Call:
        """A call with those of its keywords whose values are dicts, as their source."""
        keywords = (
            (argument.keyword.value, self._source(argument.value))
            for argument in call.args
            if argument.keyword is not None and isinstance(argument.value, cst.Dict)
        )
        return Call(Name(dotted_name(call.func)), (), tuple(keywords))

    def _source(self, node: cst.BaseExpression) -> Const:
        text = written(node)
        if text is None:
            raise _TextNeeded
        return Const(text)
