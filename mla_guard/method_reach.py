"""What a method does with the object that it runs on, read from its source."""

from __future__ import annotations

import ast
import weakref
from collections.abc import Sequence
from types import FunctionType

from .method_source import source_of
from .touched import Reach, reach

__all__ = ["reach_of"]

_READ: weakref.WeakKeyDictionary[FunctionType, Reach | None] = weakref.WeakKeyDictionary()


def reach_of(function: FunctionType) -> Reach | None:
    """The reach of a method; None where its source cannot be read."""
    if function not in _READ:
        _READ[function] = _read(function)
    return _READ[function]


def _read(function: FunctionType) -> Reach | None:
    source, arguments = source_of(function), function.__code__.co_varnames
    if source is None:
        return None
    reader = _Reader(arguments[0] if function.__code__.co_argcount else "")
    reader.visit(source.definition)
    return reach(reader.reads, reader.up, reader.stores, reader.binds)


class _Reader(ast.NodeVisitor):
    """Collects what a body reads, asks of ``super()``, stores and binds."""

    def __init__(self, me: str) -> None:
        self.me = me
        self.reads: set[str] = set()
        self.up: set[str] = set()
        self.stores: list[tuple[str, frozenset[str]]] = []
        self.binds: list[tuple[str, frozenset[str]]] = []

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if self._is_me(node.value) and isinstance(node.ctx, ast.Load):
            self.reads.add(node.attr)
        elif isinstance(node.value, ast.Call) and _called(node.value) == "super":
            self.up.add(node.attr)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if _called(node) in ("getattr", "hasattr", "setattr") and len(node.args) > 1:
            about, name = node.args[:2]
            if self._is_me(about) and isinstance(name, ast.Constant):
                if _called(node) != "setattr":
                    self.reads.add(str(name.value))
                elif len(node.args) == 3:
                    self.stores.append((str(name.value), self._values(node.args[2])))
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._assign(target, node.value)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._assign(node.target, node.value)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._assign(node.target, None)
        self.generic_visit(node)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self._assign(node.target, node.value)
        self.generic_visit(node)

    def visit_For(self, node: ast.For) -> None:
        self._assign(node.target, node.iter)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self._assign(node.target, node.iter)
        self.generic_visit(node)

    def _is_me(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == self.me

    def _assign(self, target: ast.expr, value: ast.expr | None) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            values: Sequence[ast.expr | None] = [None] * len(target.elts)
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
                values = value.elts
            for part, given in zip(target.elts, values, strict=True):
                self._assign(part, given)
        elif isinstance(target, ast.Name):
            self.binds.append((target.id, self._values(value)))
        elif isinstance(target, ast.Attribute) and self._is_me(target.value):
            self.stores.append((target.attr, self._values(value)))

    def _values(self, node: ast.expr | None) -> frozenset[str]:
        """What a value is kept from: backends themselves, or hooks of them by ``route``."""
        if isinstance(node, ast.Name):
            return frozenset([node.id])
        if isinstance(node, ast.Attribute):
            return frozenset([f".{node.attr}"] if self._is_me(node.value) else ())
        parts: Sequence[ast.expr] = ()
        if isinstance(node, (ast.Tuple, ast.List)):
            parts = node.elts
        elif isinstance(node, (ast.BoolOp, ast.Dict)):
            parts = node.values
        elif isinstance(node, ast.IfExp):
            parts = (node.body, node.orelse)
        elif isinstance(node, ast.Subscript):
            parts = (node.value,)
        elif isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            parts = (node.elt,)
        elif isinstance(node, ast.Call) and _called(node) in ("list", "route", "tuple"):
            parts = node.args[:1]
        return frozenset(value for part in parts for value in self._values(part))


def _called(node: ast.Call) -> str:
    """The last part of the name that is called."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""
