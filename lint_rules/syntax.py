"""Small readings of LibCST nodes: names, annotations, parameters, bodies."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from lint_rules.facts import Expr, Parameter

if TYPE_CHECKING:
    import libcst as cst
else:
    from lint_rules import nodes as cst

__all__ = [
    "CONSTANT_NAMES",
    "annotation_names",
    "base_name",
    "body_kind",
    "dotted_name",
    "handler_names",
    "parameters",
]

CONSTANT_NAMES = ("None", "True", "False")
_IDENTIFIERS = re.compile(r"[A-Za-z_][\w.]*")


def dotted_name(node: cst.CSTNode | None) -> str:
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        value = dotted_name(node.value)
        return f"{value}.{node.attr.value}" if value else ""
    return ""


def base_name(node: cst.BaseExpression) -> str:
    """A base as a dotted name: subscripts of generics are stripped, calls give nothing."""
    while isinstance(node, cst.Subscript):
        node = node.value
    return dotted_name(node)


def annotation_names(node: cst.BaseExpression) -> tuple[str, ...]:
    """Every dotted name in an annotation, those in strings included."""
    if isinstance(node, (cst.SimpleString, cst.ConcatenatedString)):
        value = node.evaluated_value
        return tuple(_IDENTIFIERS.findall(value)) if isinstance(value, str) else ()
    name = dotted_name(node)
    if name:
        return (name,)
    found: list[str] = []
    for child in node.children:
        if isinstance(child, cst.BaseExpression):
            found += annotation_names(child)
        elif isinstance(child, (cst.SubscriptElement, cst.Element)):
            for grandchild in child.children:
                if isinstance(grandchild, cst.Index):
                    found += annotation_names(grandchild.value)
                elif isinstance(grandchild, cst.BaseExpression):
                    found += annotation_names(grandchild)
    return tuple(found)


def parameters(
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
                annotation_names(param.annotation.annotation)
                if param.annotation is not None
                else (),
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


def handler_names(node: cst.BaseExpression | None) -> set[str]:
    if node is None:
        return {""}
    if isinstance(node, cst.Tuple):
        return {dotted_name(element.value).rpartition(".")[2] for element in node.elements}
    return {dotted_name(node).rpartition(".")[2]}


def body_kind(body: cst.BaseSuite) -> str:
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
            or (isinstance(only.value, cst.Name) and only.value.value in CONSTANT_NAMES)
        ):
            return "trivial"
    return "code"
