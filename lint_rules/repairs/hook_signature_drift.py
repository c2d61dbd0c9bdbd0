"""MLA101: an override takes the optional parameters that it lacks, and hands them on."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from lint_rules.declared import optional_arguments
from lint_rules.facts import Function
from lint_rules.judge import Judge
from lint_rules.link import Member, shape
from lint_rules.repairs.calls import Handed
from lint_rules.repairs.edits import Edit, Files, NoRepair, Repair, appended, repaired
from lint_rules.repairs.names import parameter_text
from lint_rules.repairs.source import walk
from lint_rules.rules.hook_signature_drift import breaches, declaration, promise_of
from mla_guard.diagnostic import Diagnostic
from mla_guard.drift import (
    KEYWORD_ONLY,
    POSITIONAL_OR_KEYWORD,
    VAR_KEYWORD,
    VAR_POSITIONAL,
    Call,
    Param,
    Shape,
    binding_errors,
)
from mla_guard.dropping import drift_beyond

__all__ = ["repairs"]


def repairs(judge: Judge, files: Files, findings: Collection[Diagnostic]) -> Iterator[Repair]:
    return repaired(
        findings,
        (
            (breach.diagnostic, (breach.override, breach.model, breach.parameter))
            for breach in breaches(judge)
            if breach.model is not None
        ),
        lambda wanted: _widened(judge, files, *wanted),
    )


def _widened(
    judge: Judge,
    files: Files,
    override: Member,
    model: Member,
    only: str,
    above: tuple[Member, ...] = (),
) -> Iterator[Edit]:
    """Lets an override take what its model takes, and the overrides below it as well.

    Those ``above`` take it by the same repair.
    """
    assert override.function is not None
    assert model.function is not None
    mine = shape(override.function)
    promise, may_drop = promise_of(model), optional_arguments(model.function)
    missing = _missing(mine, promise, may_drop, only)
    wide = _with(mine, missing)
    if (
        binding_errors(wide, Call(0, (only,), double_star=True))
        if only
        else drift_beyond(promise, wide, may_drop)
    ):
        raise NoRepair("more than optional parameters is missing")
    yield from _taking(judge, files, override, model, missing, above)
    may_drop = optional_arguments(override.function)
    for below in _overrides_below(override):
        assert below.function is not None
        theirs = shape(below.function)
        if drift_beyond(wide, theirs, may_drop) and not drift_beyond(mine, theirs, may_drop):
            yield from _widened(judge, files, below, model, only, (*above, override))


def _overrides_below(member: Member) -> Iterator[Member]:
    for klass in member.owner.descendants:
        own = klass.own.get(member.name)
        if own is not None and own.function is not None and declaration(klass, own.name) == member:
            yield own


def _missing(mine: Shape, promise: Shape, may_drop: Collection[str], only: str) -> list[Param]:
    names = {p.name for p in mine}
    found = [
        p
        for p in promise
        if p.name not in names and (p.name == only if only else p.name not in may_drop)
    ]
    if not found:
        raise NoRepair("nothing is missing")
    if any(p.required or p.kind not in (POSITIONAL_OR_KEYWORD, KEYWORD_ONLY) for p in found):
        raise NoRepair("what is missing is not optional")
    if any(p.kind in (VAR_POSITIONAL, VAR_KEYWORD) for p in mine):
        raise NoRepair("the parameter may arrive in *args or **kwargs")
    return found


def _with(mine: Shape, missing: list[Param]) -> Shape:
    def of(kind: int) -> list[Param]:
        return [p for p in missing if p.kind == kind]

    keywords = [p for p in mine if p.kind == KEYWORD_ONLY]
    others = [p for p in mine if p.kind != KEYWORD_ONLY]
    return (*others, *of(POSITIONAL_OR_KEYWORD), *keywords, *of(KEYWORD_ONLY))


def _taking(
    judge: Judge,
    files: Files,
    override: Member,
    model: Member,
    missing: list[Param],
    above: tuple[Member, ...],
) -> Iterator[Edit]:
    function = override.function
    assert function is not None
    source = files[override.owner.path]
    node = source.function(override.name, override.line)
    names = [p.name for p in missing]
    used = {n.value for n in walk(node.body) if isinstance(n, cst.Name)} - _keywords(node.body)
    if used & set(names):
        raise NoRepair("the body already uses a name of that kind")
    yield from _parameters(judge, files, override, model, missing, node)
    try:
        yield from list(Handed(judge, source, override, above).edits(names))
    except NoRepair:
        if not all(_may_ignore(override, function, name) for name in names):
            raise


def _keywords(body: cst.CSTNode) -> set[str]:
    """Names that stand in a body as keywords of calls only."""
    keywords = [a.keyword for a in walk(body) if isinstance(a, cst.Arg) and a.keyword is not None]
    others = {
        n.value
        for n in walk(body)
        if isinstance(n, cst.Name) and not any(n is keyword for keyword in keywords)
    }
    return {k.value for k in keywords} - others


def _may_ignore(override: Member, function: Function, name: str) -> bool:
    """Whether an implementation may take a parameter and do nothing with it.

    One that does nothing at all, and where the contract says that the argument may be dropped.
    """
    declared = [m for k in override.owner.mro if (m := k.own.get(override.name)) is not None]
    return function.body == "trivial" or any(
        m.function is not None and name in optional_arguments(m.function) for m in declared
    )


def _parameters(
    judge: Judge,
    files: Files,
    override: Member,
    model: Member,
    missing: list[Param],
    node: cst.FunctionDef,
) -> Iterator[Edit]:
    source = files[override.owner.path]
    texts = {p.name: parameter_text(judge, files, model, source.path, p.name) for p in missing}
    plain = [texts[p.name] for p in missing if p.kind == POSITIONAL_OR_KEYWORD]
    named = [texts[p.name] for p in missing if p.kind == KEYWORD_ONLY]
    params = node.params
    positional = list(params.params)
    if not positional:
        raise NoRepair("there is no parameter to stand after")
    keywords = list(params.kwonly_params)
    if keywords:
        if plain:
            yield appended(source, positional, plain, last=False)
        if named:
            yield appended(source, keywords, named, last=True)
    else:
        yield appended(source, positional, [*plain, *(["*", *named] if named else [])], last=True)
