"""MLA303: a wrapper asks whether the held backend has the hook before it hands the hook on."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from lint_rules.gaps import is_guarded
from lint_rules.judge import Judge
from lint_rules.repairs.calls import statement
from lint_rules.repairs.edits import Edit, Files, NoRepair, Repair, repaired
from lint_rules.repairs.guards import guard_style, guarded_call
from lint_rules.repairs.source import Source, walk
from lint_rules.rules.over_promising_delegation import Breach, breaches
from mla_guard.diagnostic import Diagnostic

__all__ = ["repairs"]


def repairs(judge: Judge, files: Files, findings: Collection[Diagnostic]) -> Iterator[Repair]:
    faults = ((breach.diagnostic, breach) for breach in breaches(judge))
    return repaired(findings, faults, lambda breach: _guarded(judge, files, breach))


def _guarded(judge: Judge, files: Files, breach: Breach) -> Iterator[Edit]:
    delegation, klass = breach.delegation, breach.wrapper.klass
    name = delegation.name
    if breach.diagnostic.severity == "warning" or klass.root not in judge.view.roots:
        raise NoRepair("who calls the wrapper's hook and counts on an answer is not known")
    for use in judge.view.callers_of(klass, name):
        if not is_guarded(use) and any(use.admits(k, judge.view) for k in breach.lacking):
            raise NoRepair(f"{use.scope.symbol} calls {name} on any backend")
    source = files[klass.path]
    function = source.function(delegation.scope.function.name, delegation.scope.function.line)
    style = guard_style(source, source.klass(klass.name, klass.line))
    lines = {
        d.line
        for d in breach.wrapper.delegations
        if d.scope.function is delegation.scope.function and d.name == name and not d.optional
    }
    calls = [
        node
        for node in walk(function.body)
        if isinstance(node, cst.Call)
        and isinstance(node.func, cst.Attribute)
        and node.func.attr.value == name
        and source.line(statement(source, node)) in lines
    ]
    if not calls:
        raise NoRepair("the delegation is not written as a call of an attribute")
    for call in calls:
        yield _around(source, function, call, style)


def _around(source: Source, function: cst.FunctionDef, call: cst.Call, style: str) -> Edit:
    line = statement(source, call)
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        raise NoRepair("the delegation shares its line")
    small = line.body[0]
    if not isinstance(small, cst.Expr) or small.value is not call:
        raise NoRepair("the result of the hook is used")
    start, end = source.span(line)
    used = {n.value for n in walk(function) if isinstance(n, cst.Name)}
    text = guarded_call(source, call, style, used, source.indentation(start))
    return Edit(source.path, start, end, text)
