"""How a wrapper's methods hand their own hooks on, and the same done for another hook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from lint_rules.exposure import Wrapper
from lint_rules.facts import Function
from lint_rules.judge import Judge
from lint_rules.link import shape
from lint_rules.repairs.edits import NoRepair, broken
from lint_rules.repairs.guards import guard_style, guarded
from lint_rules.repairs.source import Source, walk
from mla_guard.drift import POSITIONAL_OR_KEYWORD

__all__ = ["Hook", "Neighbour", "as_neighbours", "neighbours"]


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook to hand on: what callers must pass by position, and what they may pass by keyword.

    ``gives``: it returns something.
    """

    name: str
    required: tuple[str, ...]
    optional: tuple[str, ...]
    gives: bool


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A method of the wrapper that hands its own hook on."""

    name: str
    function: Function

    @property
    def required(self) -> tuple[str, ...]:
        return tuple(
            p.name for p in shape(self.function) if p.required and p.kind == POSITIONAL_OR_KEYWORD
        )


def neighbours(judge: Judge, source: Source, wrapper: Wrapper) -> list[Neighbour]:
    """The methods of the class itself that hand their own hook on, in the order of the file."""
    handing = {
        id(d.scope.function)
        for d in wrapper.delegations
        if d.call is not None and d.name == d.scope.function.name
    }
    found = [
        Neighbour(name, member.function)
        for name, member in wrapper.klass.own.items()
        if member.function is not None and id(member.function) in handing
    ]
    return sorted(found, key=lambda n: n.function.line)


def as_neighbours(
    source: Source, klass: cst.ClassDef, found: Sequence[Neighbour], hook: Hook, *, asks: bool
) -> tuple[cst.FunctionDef, Sequence[str]]:
    """The last neighbour that is called as ``hook`` is, and the lines that do the same for it.

    Raises :class:`NoRepair` where there is none, or where two of them differ.
    """
    style = guard_style(source, klass)
    bodies: list[tuple[cst.FunctionDef, tuple[str, ...]]] = []
    for neighbour in found:
        if hook.required and neighbour.required == hook.required:
            node = source.function(neighbour.name, neighbour.function.line)
            lines = _Copy(source, neighbour, node, hook, style if asks else "").lines()
            if lines:
                bodies.append((node, tuple(lines)))
    if len({lines for _, lines in bodies}) != 1:
        raise NoRepair("no single way to hand such a hook on")
    return bodies[-1]


class _Copy:
    """The body of a neighbour, with the hook put in its place."""

    def __init__(
        self, source: Source, neighbour: Neighbour, node: cst.FunctionDef, hook: Hook, style: str
    ) -> None:
        self._source = source
        self._hook = hook
        self._style = style
        self._node = node
        self._name = neighbour.name
        self._optional = {p.name for p in neighbour.function.params[1:]} - set(hook.required)
        self._step = source.module.default_indent
        self._handing = 0

    def lines(self) -> list[str]:
        """The lines of the body, empty where it does more than to hand the hook on."""
        if any(isinstance(node, cst.Comment) for node in walk(self._node.body)):
            return []
        try:
            found = list(self._block(self._node.body, 0))
        except NoRepair:
            return []
        return found if self._handing else []

    def _block(self, block: cst.BaseSuite, depth: int) -> Iterator[str]:
        if not isinstance(block, cst.IndentedBlock):
            raise NoRepair("a block on one line")
        for index, statement in enumerate(block.body):
            if depth == 0 and index == 0 and _is_docstring(statement):
                continue
            for text in self._statement(statement, depth):
                yield from text.split("\n")

    def _statement(self, statement: cst.BaseStatement, depth: int) -> Iterator[str]:
        if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
            yield from self._small(statement.body[0], depth)
        elif (isinstance(statement, cst.If) and statement.orelse is None) or (
            isinstance(statement, cst.For) and statement.orelse is None
        ):
            yield self._head(statement)
            yield from (self._step + line for line in self._block(statement.body, depth + 1))
        else:
            raise NoRepair("another kind of statement")

    def _head(self, statement: cst.If | cst.For) -> str:
        """What stands before the block of a compound statement."""
        heads = [c for c in statement.children if isinstance(c, cst.BaseExpression)]
        for head in heads:
            self._plain(head)
        start, end = self._source.span(statement)[0], self._source.span(statement.body)[0]
        return self._dedented(self._source.text[start:end].rstrip(), start)

    def _small(self, small: cst.BaseSmallStatement, depth: int) -> Iterator[str]:
        if isinstance(small, cst.Assign) and len(small.targets) == 1:
            if isinstance(small.targets[0].target, cst.Name):
                yield f"{self._plain(small.targets[0].target)} = {self._plain(small.value)}"
                return
        value = small.value if isinstance(small, (cst.Expr, cst.Return)) else None
        if not isinstance(value, cst.Call) or isinstance(small, cst.Return) != self._hook.gives:
            raise NoRepair("does something else")
        func = value.func
        if not isinstance(func, cst.Attribute) or func.attr.value != self._name:
            raise NoRepair("does something else")
        self._handing += 1
        base, handed = self._plain(func.value), list(self._arguments(value))
        indent = self._source.indentation(self._source.span(small)[0])
        if self._style:
            used = (*self._hook.required, *self._hook.optional)
            yield from guarded(
                self._step, base, self._hook.name, self._style, used,
                lambda called: broken(called, handed, "", indent + self._step, self._step),
            )  # fmt: skip
        else:
            head = f"{'return ' if self._hook.gives else ''}{base}.{self._hook.name}"
            yield from broken(head, handed, "", indent, self._step)

    def _arguments(self, call: cst.Call) -> Iterator[str]:
        for arg in call.args:
            if arg.star:
                raise NoRepair("arguments are handed on as *args or **kwargs")
            if isinstance(arg.value, cst.Name) and arg.value.value in self._optional:
                continue
            name = f"{arg.keyword.value}=" if arg.keyword is not None else ""
            yield name + self._plain(arg.value)
        yield from (f"{name}={name}" for name in self._hook.optional)

    def _plain(self, node: cst.CSTNode) -> str:
        """An expression that means the same for the other hook."""
        for inner in walk(node):
            if isinstance(inner, cst.Name) and inner.value in self._optional:
                raise NoRepair("depends on an argument that the other hook does not have")
            if isinstance(inner, cst.SimpleString):
                raise NoRepair("says a name")
        return self._dedented(self._source.code(node), self._source.span(node)[0])

    def _dedented(self, text: str, start: int) -> str:
        indent = self._source.indentation(start)
        return text.replace("\r\n", "\n").replace(f"\n{indent}", "\n")


def _is_docstring(statement: cst.BaseStatement) -> bool:
    if not isinstance(statement, cst.SimpleStatementLine):
        return False
    small = statement.body[0]
    return isinstance(small, cst.Expr) and isinstance(small.value, cst.BaseString)
