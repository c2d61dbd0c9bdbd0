"""Expressions to facts, in evaluation order, with the path condition and what is caught.

What an expression reads, calls, probes and binds becomes an event of the function around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from lint_rules.facts import (
    And,
    Attr,
    Bind,
    Call,
    CallEvent,
    Compare,
    Const,
    Event,
    Expr,
    IfElse,
    Item,
    Name,
    Not,
    Opaque,
    Or,
    Read,
    Seq,
    Write,
    dotted,
)
from lint_rules.syntax import CONSTANT_NAMES

if TYPE_CHECKING:
    import libcst as cst
else:
    from lint_rules import nodes as cst

__all__ = ["Expressions", "Scope"]

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
_PROBES = frozenset({"hasattr", "getattr", "setattr", "exposes"})
_CONSTANTS: dict[str, Expr] = {name: Const(name) for name in CONSTANT_NAMES}
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


class Scope:
    """A function that is being read."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.conditions: list[tuple[int, Expr, bool]] = []
        self.cond = -1
        self.caught = 0
        self.refusable = 0
        self.nested = 0
        self.generator = False
        self.broken = False

    def push(self, expr: Expr, fatal: bool = False) -> None:
        self.conditions.append((self.cond, expr, fatal))
        self.cond = len(self.conditions) - 1

    def refuse(self) -> None:
        """The way to where we are ends in raising: no call gets past it under its conditions."""
        way = tuple(expr for expr, fatal in self.since(-1) if not fatal)
        if way:
            self.cond = -1
            self.push(Not(And(way)), fatal=True)

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
        plain = [
            [e for i, (e, fatal) in enumerate(way) if not i or not fatal] for way in (then, other)
        ]
        if any(len(way) > 1 for way in plain):
            self.push(Or(tuple(And(tuple(way)) for way in plain)))
        if any(fatal for way in (then, other) for _, fatal in way[1:]):
            self.push(Or(tuple(And(tuple(e for e, _ in way)) for way in (then, other))), fatal=True)


class Expressions:
    """Reads expressions; ``scope`` is the function that is being read, ``line`` the statement's."""

    def __init__(self) -> None:
        self.scope = Scope()
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
            cst.Dict: self._dict,
            cst.ListComp: self._comprehension,
            cst.SetComp: self._comprehension,
            cst.GeneratorExp: self._comprehension,
            cst.DictComp: self._dict_comprehension,
            cst.Lambda: self._lambda,
            cst.Await: lambda n: self.expr(n.expression),
            cst.Yield: self._yield,
        }

    def expr(self, node: cst.CSTNode) -> Expr:
        handler = self.handlers.get(type(node))
        if handler is not None:
            return handler(node)
        for child in node.children:
            if isinstance(child, (cst.BaseExpression, *_CARRIERS)):
                self.expr(child)
        return self.unknown()

    def unknown(self) -> Opaque:
        self.opaque += 1
        return Opaque(self.opaque)

    def _attribute(self, node: cst.Attribute) -> Expr:
        value = self.expr(node.value)
        name = node.attr.value
        scope = self.scope
        scope.events.append(Read(value, name, self.line, scope.cond, False, scope.caught > 0))
        return Attr(value, name)

    def _call(self, node: cst.Call) -> Expr:
        func = node.func
        name = func.value if isinstance(func, cst.Name) else ""
        if isinstance(func, cst.Attribute) and func.attr.value == "exposes":
            name = "exposes"
        if name in _PROBES:
            probe = self._probe("hasattr" if name == "exposes" else name, node)
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
        caught = scope.caught > 0 or scope.refusable > 0
        scope.events.append(CallEvent(call, self.line, scope.cond, caught))
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
        return self.unknown()

    def _comparison(self, node: cst.Comparison) -> Expr:
        left = self.expr(node.left)
        parts: list[Expr] = []
        for target in node.comparisons:
            right = self.expr(target.comparator)
            op = _COMPARISONS.get(type(target.operator))
            parts.append(Compare(left, op, right) if op else self.unknown())
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
            elif isinstance(element.slice, cst.Slice):
                for bound in (element.slice.lower, element.slice.upper, element.slice.step):
                    if bound is not None:
                        self.expr(bound)
                index = None
        return Item(value, index if len(node.slice) == 1 else None)

    def _walrus(self, node: cst.NamedExpr) -> Expr:
        value = self.expr(node.value)
        self.assign(node.target, value)
        return value

    def _sequence(self, node: cst.List | cst.Tuple | cst.Set) -> Expr:
        return Seq(tuple(self.expr(element.value) for element in node.elements))

    def _dict(self, node: cst.Dict) -> Expr:
        values: list[Expr] = []
        for element in node.elements:
            if isinstance(element, cst.DictElement):
                self.expr(element.key)
            values.append(self.expr(element.value))
        self.opaque += 1
        return Opaque(self.opaque, tuple(values))

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
        return self.unknown()

    def _comp_for(self, loop: cst.CompFor | None) -> None:
        while loop is not None:
            self.loop_target(loop.target, self.expr(loop.iter))
            for condition in loop.ifs:
                self.scope.push(self.expr(condition.test))
            loop = loop.inner_for_in

    def _lambda(self, node: cst.Lambda) -> Expr:
        scope = self.scope
        cond, scope.nested = scope.cond, scope.nested + 1
        self.expr(node.body)
        scope.nested -= 1
        scope.cond = cond
        return self.unknown()

    def _yield(self, node: cst.Yield) -> Expr:
        self.scope.generator = True
        if node.value is not None:
            self.expr(node.value.item if isinstance(node.value, cst.From) else node.value)
        return self.unknown()

    def _unpack(self, value: Call, count: int) -> None:
        """Note at the call that was read last into how many targets its result goes."""
        events = self.scope.events
        last = events[-1] if events else None
        if isinstance(last, CallEvent) and last.call is value:
            events[-1] = msgspec.structs.replace(last, unpacked=count)

    def loop_target(self, target: cst.BaseExpression, iterable: Expr) -> None:
        if isinstance(iterable, Call) and isinstance(target, (cst.Tuple, cst.List)):
            name, func = dotted(iterable.func), iterable.func
            if name == "zip" and len(iterable.args) == len(target.elements):
                for element, argument in zip(target.elements, iterable.args, strict=True):
                    self.assign(element.value, Item(self._gone_through(argument)))
                return
            several: Expr | None = None
            if name == "enumerate" and iterable.args:
                several = iterable.args[0]
            elif isinstance(func, Attr) and func.name == "items" and not iterable.args:
                several = func.value
            if several is not None and len(target.elements) == 2:
                self.assign(target.elements[0].value, self.unknown())
                self.assign(target.elements[1].value, Item(self._gone_through(several)))
                return
        self.assign(target, Item(self._gone_through(iterable)))

    def _gone_through(self, iterable: Expr) -> Expr:
        """What holds the elements, less what only lists them."""
        while isinstance(iterable, Call):
            if dotted(iterable.func) in {"reversed", "list", "tuple"}:
                iterable = iterable.args[0] if iterable.args else self.unknown()
            elif (
                isinstance(iterable.func, Attr)
                and iterable.func.name == "values"
                and not iterable.args
            ):
                iterable = iterable.func.value
            else:
                break
        return iterable

    def assign(
        self, target: cst.CSTNode, value: Expr | None, annotation: tuple[str, ...] = ()
    ) -> None:
        scope = self.scope
        if isinstance(target, cst.Name):
            scope.events.append(
                Bind(
                    target.value,
                    value if value is not None else self.unknown(),
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
            if isinstance(value, Call) and not any(
                isinstance(e, cst.StarredElement) for e in target.elements
            ):
                self._unpack(value, len(target.elements))
            elements: Sequence[Expr | None] = [None] * len(target.elements)
            if isinstance(value, Seq) and len(value.items) == len(target.elements):
                elements = value.items
            for element, part in zip(target.elements, elements, strict=True):
                self.assign(element.value, part)
        elif isinstance(target, cst.Subscript):
            self.expr(target)
        elif isinstance(target, cst.StarredElement):
            self.assign(target.value, None)
