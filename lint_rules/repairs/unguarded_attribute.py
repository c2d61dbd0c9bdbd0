"""MLA202: an attribute is None where it is not created, if every read of it allows for that."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from lint_rules.facts import Name, Read
from lint_rules.judge import Judge
from lint_rules.repairs.edits import Edit, Files, NoRepair, Repair, repaired
from lint_rules.repairs.nones import allows_none
from lint_rules.repairs.probes import is_probed
from lint_rules.repairs.source import Source, walk
from lint_rules.rules.unguarded_attribute import Breach, breaches
from mla_guard.diagnostic import Diagnostic

__all__ = ["repairs"]


def repairs(judge: Judge, files: Files, findings: Collection[Diagnostic]) -> Iterator[Repair]:
    faults = ((breach.diagnostic, breach) for breach in breaches(judge))
    return repaired(findings, faults, lambda breach: [_initialised(judge, files, breach)])


def _initialised(judge: Judge, files: Files, breach: Breach) -> Edit:
    owner, attr = breach.owner, breach.attr
    init = owner.own.get("__init__")
    if init is None or init.function is None or any(c.owner is not owner for c in breach.creations):
        raise NoRepair(f"{attr} is created by several classes")
    if is_probed(judge, attr) or judge.view.outer_uses(attr):
        raise NoRepair(f"{attr} is asked for from outside, or with hasattr or getattr")
    for klass in judge.project.classes:
        if not (klass.is_a(owner) or owner.is_a(klass)):
            continue
        for method in klass.facts.methods:
            receiver = Name(method.params[0].name) if method.params else None
            lines = [
                e.line
                for e in method.events
                if isinstance(e, Read) and e.name == attr and e.value == receiver
            ]
            if lines:
                source = files[klass.path]
                _check_reads(source, source.function(method.name, method.line), attr)
    source = files[owner.path]
    node = source.function("__init__", init.function.line)
    statement = _first(source, node, {c.line for c in breach.creations})
    indent = source.indentation(source.span(statement)[0])
    at = source.before(statement)
    return Edit(source.path, at, at, f"{indent}{init.function.params[0].name}.{attr} = None\n")


def _check_reads(source: Source, function: cst.FunctionDef, attr: str) -> None:
    receiver = function.params.params[0].name.value
    for node in walk(function.body):
        if (
            isinstance(node, cst.Attribute)
            and node.attr.value == attr
            and isinstance(node.value, cst.Name)
            and node.value.value == receiver
            and not allows_none(source, node)
        ):
            raise NoRepair(f"{function.name.value} would take None for {attr}")


def _first(source: Source, init: cst.FunctionDef, lines: Collection[int]) -> cst.CSTNode:
    """The statement of a constructor that holds the first of some lines."""
    if not isinstance(init.body, cst.IndentedBlock):
        raise NoRepair("the body shares the line of its head")
    held: dict[int, cst.CSTNode] = {}
    for statement in init.body.body:
        for inner in walk(statement):
            if isinstance(inner, cst.BaseSmallStatement):
                held[source.line(inner)] = statement
    if not all(line in held for line in lines):
        raise NoRepair("it is not the constructor itself that creates it")
    return held[min(lines)]
