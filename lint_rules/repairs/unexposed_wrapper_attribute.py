"""MLA302: a wrapper reads an attribute off the backend that it holds, by a property."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from lint_rules.gaps import Gap
from lint_rules.judge import Judge
from lint_rules.link import kind_of
from lint_rules.repairs.children import certain_child
from lint_rules.repairs.edits import Edit, Files, NoRepair, Repair, repaired
from lint_rules.repairs.source import Source
from lint_rules.repairs.unexposed_wrapper_hook import permission
from lint_rules.rules.unexposed_wrapper_hook import diagnose
from mla_guard.diagnostic import Diagnostic

__all__ = ["repairs"]

_AGREEING = 2
"""So many properties that read of one held backend make it the one to ask."""


def repairs(judge: Judge, files: Files, findings: Collection[Diagnostic]) -> Iterator[Repair]:
    faults = ((diagnose(judge, gap, "MLA302"), gap) for gap in judge.gaps if not gap.is_hook)
    return repaired(findings, faults, lambda gap: [_definition(judge, files, gap)])


def _definition(judge: Judge, files: Files, gap: Gap) -> Edit:
    klass, name = gap.wrapper.klass, gap.name
    if permission(gap):
        raise NoRepair(f"whether {klass.name} can grant {name} is not for a repair to say")
    if judge.view.written_outside(name) or any(
        name in below.stored for below in (klass, *klass.descendants)
    ):
        raise NoRepair(f"{name} is assigned, which a property refuses")
    source = files[klass.path]
    found = list(_properties(source, gap))
    bases = {base for _, base in found}
    child = certain_child(judge, gap)
    if child is not None:
        base = f"self.{child}"
    elif len(found) >= _AGREEING and len(bases) == 1:
        (base,) = bases
    else:
        raise NoRepair("no single backend to ask")
    if found:
        place = found[-1][0]
    else:
        init = klass.own.get("__init__")
        if init is None:
            raise NoRepair("there is no constructor to stand after")
        place = source.function("__init__", init.line)
    indent = source.indentation(source.span(place)[0])
    inner = indent + source.module.default_indent
    text = f"\n{indent}@property\n{indent}def {name}(self):\n{inner}return {base}.{name}\n"
    at = source.end_of_block(place.body)
    return Edit(source.path, at, at, text, whole=True)


def _properties(source: Source, gap: Gap) -> Iterator[tuple[cst.FunctionDef, str]]:
    """The properties of the class that read what they are called off something, and off what."""
    for name, member in gap.wrapper.klass.own.items():
        if member.function is None or kind_of(member.function) != "property":
            continue
        node = source.function(name, member.line)
        last = node.body.body[-1]
        small = last.body[0] if isinstance(last, cst.SimpleStatementLine) else None
        if isinstance(small, cst.Return) and isinstance(small.value, cst.Attribute):
            if small.value.attr.value == name:
                yield node, source.code(small.value.value)
