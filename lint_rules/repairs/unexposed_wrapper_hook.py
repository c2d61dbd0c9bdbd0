"""MLA301: a wrapper hands the hook on that it lacks, as its other methods do."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import libcst as cst

from lint_rules.exposure import constant_of
from lint_rules.facts import Const, Return
from lint_rules.gaps import Gap, arguments, is_guarded
from lint_rules.judge import Judge
from lint_rules.link import Member, kind_of, shape
from lint_rules.repairs.children import certain_child
from lint_rules.repairs.edits import Edit, Files, NoRepair, Repair, broken, repaired
from lint_rules.repairs.guards import guard_style, guarded
from lint_rules.repairs.names import annotation_text, parameter_text
from lint_rules.repairs.neighbours import Hook, as_neighbours, neighbours
from lint_rules.repairs.source import Source, walk
from lint_rules.rules.unexposed_wrapper_hook import diagnose
from mla_guard.diagnostic import Diagnostic
from mla_guard.drift import KEYWORD_ONLY, POSITIONAL_OR_KEYWORD, Call, binding_errors

__all__ = ["permission", "repairs"]


def repairs(judge: Judge, files: Files, findings: Collection[Diagnostic]) -> Iterator[Repair]:
    faults = ((diagnose(judge, gap, "MLA301"), gap) for gap in judge.gaps if gap.is_hook)
    return repaired(findings, faults, lambda gap: [_definition(judge, files, gap)])


def permission(gap: Gap) -> bool:
    """Whether the default is a conservative yes or no, of which the wrapper may be in need."""
    member = gap.exposure.member
    return member is not None and constant_of(member) in (Const("True"), Const("False"))


def _definition(judge: Judge, files: Files, gap: Gap) -> Edit:
    klass = gap.wrapper.klass
    source = files[klass.path]
    if permission(gap):
        raise NoRepair(f"whether {klass.name} can grant {gap.name} is not for a repair to say")
    model = _model(gap)
    hook = _hook(model, gap)
    node = source.klass(klass.name, klass.line)
    child = certain_child(judge, gap)
    found = neighbours(judge, source, gap.wrapper)
    inside = gap.wrapper.inside(judge.view, child) if child else gap.wrapper.inner(judge.view)
    asks = _asks(gap, hook) and any(
        judge.view.exposure(k, gap.name).kind == "absent" for k in inside
    )
    body: Sequence[str] = ()
    if child is None:
        place, body = as_neighbours(source, node, found, hook, asks=asks)
    elif found:
        place = source.function(found[-1].name, found[-1].function.line)
    else:
        raise NoRepair(f"{klass.name} hands no hook on itself")
    indent = source.indentation(source.span(place)[0])
    inner = indent + source.module.default_indent
    if child is not None:
        body = _direct(source, node, hook, f"self.{child}", inner, asks=asks)
    lines = [indent + line for line in _header(judge, files, model, source, node, indent)]
    lines += [f"{inner}{line}" if line else "" for line in body]
    at = source.end_of_block(place.body)
    return Edit(source.path, at, at, "\n" + "\n".join(lines) + "\n", whole=True)


def _asks(gap: Gap, hook: Hook) -> bool:
    """Whether callers do without the hook where a backend has none."""
    return not hook.gives and all(is_guarded(use) for use in gap.uses)


def _functions(gap: Gap) -> list[Member]:
    found = [klass.members[gap.name] for klass in gap.implementers]
    if any(m.function is None or kind_of(m.function) != "method" for m in found):
        raise NoRepair("what the wrapped backends have is no plain method")
    return found


def _model(gap: Gap) -> Member:
    """The definition whose signature the wrapper takes: all callers and backends go by it."""
    found = list(dict.fromkeys(_functions(gap)))
    default = gap.exposure.member
    calls = [arguments(use.call) for use in gap.uses if use.call is not None]
    for model in [default] if default is not None else sorted(found, key=_size, reverse=True):
        if model.function is None or kind_of(model.function) != "method":
            continue
        mine = shape(model.function)
        if any(p.kind not in (POSITIONAL_OR_KEYWORD, KEYWORD_ONLY) for p in mine):
            continue
        handed = Call(
            sum(p.required and p.kind == POSITIONAL_OR_KEYWORD for p in mine),
            tuple(p.name for p in mine if not p.required or p.kind == KEYWORD_ONLY),
        )
        if not any(binding_errors(mine, call) for call in calls) and not any(
            m.function is None or binding_errors(shape(m.function), handed) for m in found
        ):
            return model
    raise NoRepair("no signature suits every caller and every wrapped backend")


def _size(member: Member) -> int:
    assert member.function is not None
    return len(member.function.params)


def _hook(model: Member, gap: Gap) -> Hook:
    assert model.function is not None
    mine = shape(model.function)
    gives = any(
        m.function.generator
        or any(isinstance(e, Return) and e.value != Const("None") for e in m.function.events)
        for m in _functions(gap)
        if m.function is not None
    )
    return Hook(
        gap.name,
        tuple(p.name for p in mine if p.required and p.kind == POSITIONAL_OR_KEYWORD),
        tuple(p.name for p in mine if not p.required or p.kind == KEYWORD_ONLY),
        gives,
    )


def _direct(
    source: Source, node: cst.ClassDef, hook: Hook, base: str, indent: str, *, asks: bool
) -> Sequence[str]:
    handed = [*hook.required, *(f"{name}={name}" for name in hook.optional)]
    step = source.module.default_indent
    if asks:
        style = guard_style(source, node)
        used = (*hook.required, *hook.optional)
        return guarded(
            step, base, hook.name, style, used,
            lambda called: broken(called, handed, "", indent + step, step),
        )  # fmt: skip
    head = f"{'return ' if hook.gives else ''}{base}.{hook.name}"
    return broken(head, handed, "", indent, step)


def _header(
    judge: Judge, files: Files, model: Member, source: Source, klass: cst.ClassDef, indent: str
) -> list[str]:
    assert model.function is not None
    node = files[model.owner.path].function(model.name, model.function.line)
    if node.asynchronous is not None:
        raise NoRepair(f"{model.name} is a coroutine")
    known = _annotations(source, klass)
    params = ["self"]
    for p in shape(model.function):
        if p.kind == KEYWORD_ONLY and "*" not in params:
            params.append("*")
        text = parameter_text(judge, files, model, source.path, p.name)
        params.append(f"{p.name}: {known[p.name]}" if text == p.name in known else text)
    given = annotation_text(judge, files, model, source.path, node.returns)
    tail = f" -> {given}:" if given else ":"
    return broken(f"def {model.name}", params, tail, indent, source.module.default_indent)


def _annotations(source: Source, klass: cst.ClassDef) -> dict[str, str]:
    """How the methods of the class annotate their parameters."""
    return {
        node.name.value: source.code(node.annotation.annotation)
        for node in walk(klass.body)
        if isinstance(node, cst.Param) and node.annotation is not None
    }
