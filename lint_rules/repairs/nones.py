"""Whether the code around an expression allows for its being None."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from lint_rules.repairs.source import Source

__all__ = ["allows_none"]


def allows_none(source: Source, node: cst.Attribute) -> bool:
    """Whether ``node`` is assigned or tested, or stands where a test showed that it is not None."""
    code = source.code(node)
    child: cst.CSTNode = node
    truth = True
    for above in source.above(node):
        if isinstance(above, cst.AssignTarget) and above.target is child:
            return child is node
        if isinstance(above, cst.AnnAssign) and above.target is child:
            return child is node
        if child is node and isinstance(above, cst.Comparison) and _none_test(above):
            return True
        if truth and isinstance(above, (cst.If, cst.While, cst.IfExp, cst.Assert)):
            if above.test is child:
                return True
        truth = truth and (
            isinstance(above, cst.BooleanOperation)
            or (isinstance(above, cst.UnaryOperation) and isinstance(above.operator, cst.Not))
        )
        if isinstance(above, cst.BooleanOperation) and isinstance(above.operator, cst.And):
            if above.right is child and code in _shown(source, above.left):
                return True
        if isinstance(above, (cst.If, cst.IfExp, cst.While)) and above.body is child:
            if code in _shown(source, above.test):
                return True
        if isinstance(above, cst.IndentedBlock) and _left_before(source, above, child, code):
            return True
        if isinstance(above, (cst.FunctionDef, cst.Lambda)):
            return False
        child = above
    return False


def _none_test(node: cst.Comparison) -> bool:
    if len(node.comparisons) != 1:
        return False
    target = node.comparisons[0]
    return (
        isinstance(target.operator, (cst.Is, cst.IsNot))
        and isinstance(target.comparator, cst.Name)
        and target.comparator.value == "None"
    )


def _shown(source: Source, test: cst.BaseExpression) -> Iterator[str]:
    """What cannot be None where ``test`` holds."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        yield from _shown(source, test.left)
        yield from _shown(source, test.right)
    elif isinstance(test, cst.Comparison) and _none_test(test):
        if isinstance(test.comparisons[0].operator, cst.IsNot):
            yield source.code(test.left)
    elif isinstance(test, (cst.Name, cst.Attribute)):
        yield source.code(test)


def _left_before(source: Source, block: cst.IndentedBlock, child: cst.CSTNode, code: str) -> bool:
    """Whether an earlier statement of ``block`` leaves where ``code`` is None."""
    for statement in block.body:
        if statement is child:
            return False
        if isinstance(statement, cst.If) and statement.orelse is None:
            last = statement.body.body[-1]
            leaves = isinstance(last, cst.SimpleStatementLine) and isinstance(
                last.body[-1], (cst.Return, cst.Raise, cst.Continue, cst.Break)
            )
            if leaves and code in _refuted(source, statement.test):
                return True
    return False


def _refuted(source: Source, test: cst.BaseExpression) -> Iterator[str]:
    """What cannot be None where ``test`` does not hold."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.Or):
        yield from _refuted(source, test.left)
        yield from _refuted(source, test.right)
    elif isinstance(test, cst.Comparison) and _none_test(test):
        if isinstance(test.comparisons[0].operator, cst.Is):
            yield source.code(test.left)
    elif isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        yield from _shown(source, test.expression)
