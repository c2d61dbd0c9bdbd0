"""MLA101: an override that cannot be called as its parent can."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lint_rules.conditions import FALSE, formula, substitute
from lint_rules.declared import optional_arguments
from lint_rules.facts import Attr, CallEvent, Const, Expr, Function, Name
from lint_rules.gaps import arguments
from lint_rules.judge import Judge
from lint_rules.link import Klass, Member, is_abstract, kind_of, shape
from mla_guard.diagnostic import Diagnostic, Related
from mla_guard.drift import (
    KEYWORD_ONLY,
    POSITIONAL_OR_KEYWORD,
    VAR_KEYWORD,
    VAR_POSITIONAL,
    Call,
    Param,
    Shape,
    binding_errors,
    format_shape,
    misplaced_positionals,
    promised,
)
from mla_guard.dropping import drift_beyond

__all__ = ["Breach", "breaches", "check", "declaration", "promise_of"]

_AGREEING = 3
"""So many overrides that agree with each other and not with the base: the base is wrong."""


@dataclass(frozen=True, slots=True)
class _Drift:
    override: Member
    declared: Member
    reasons: tuple[str, ...]


def declaration(klass: Klass, name: str, owner: Klass | None = None) -> Member | None:
    """The nearest parent's method of that name, seen from ``klass``."""
    found = klass.after(owner or klass, name)
    return found if found is not None and found.function is not None else None


def promise_of(member: Member) -> Shape:
    """What a declaration promises; one that only raises promises nothing by ``*args, **kwargs``."""
    assert member.function is not None
    return promised(shape(member.function), variadic=not is_abstract(member.function))


@dataclass(frozen=True, slots=True)
class Breach:
    """A finding about ``override``, which lacks what ``model`` takes.

    ``parameter``: only this one of the model is missed. No ``model``: the base is what is wrong.
    """

    diagnostic: Diagnostic
    override: Member
    model: Member | None
    parameter: str = ""


def check(judge: Judge) -> Iterator[Diagnostic]:
    return (breach.diagnostic for breach in breaches(judge))


def breaches(judge: Judge) -> Iterator[Breach]:
    """Every finding, with the two methods that it is about."""
    found = list(judge.each(judge.classes, _drifts))
    yield from _outvoted(judge)
    by_declaration: dict[int, list[_Drift]] = {}
    for item in found:
        by_declaration.setdefault(id(item.declared.function), []).append(item)
    for group in by_declaration.values():
        agreed = _base_is_wrong(judge, group)
        if agreed:
            yield Breach(_at_base(judge, agreed), agreed[0].declared, None)
        for item in group:
            if item not in agreed:
                yield Breach(_at_override(judge, item), item.override, item.declared)


def _outvoted(judge: Judge) -> Iterator[Breach]:
    """Implementations of a hook that no base declares, which lack a parameter that most have."""
    families: dict[tuple[Klass | None, str], list[Member]] = {}
    for klass in judge.classes:
        called = klass.root in judge.companion_roots or klass.root in judge.view.roots
        if not called or judge.view.role_of(klass) is not None:
            continue
        for name, member in klass.own.items():
            function = member.function
            if function is None or name.startswith("_") or kind_of(function) != "method":
                continue
            if name not in judge.view.uses and klass.root in judge.view.roots:
                continue
            if klass.root is None or name not in klass.root.members:
                families.setdefault((klass.root, name), []).append(member)
    for members in families.values():
        for parameter, having in _majorities(members):
            for member in members:
                refused = judge.refusals.get(member)
                if refused is not None and parameter in refused.keywords:
                    continue  # a call passes it: MLA104 says so
                if member not in having and declaration(member.owner, member.name) is None:
                    said = _at_outvoted(judge, member, parameter, having)
                    yield Breach(said, member, having[0], parameter)


def _majorities(members: list[Member]) -> Iterator[tuple[str, list[Member]]]:
    """Optional parameters that most of some implementations take by keyword, and which do.

    One that breaks with a parent that takes it owes it all the same, unless most of them do.
    """
    taking: dict[str, list[Member]] = {}
    for member in members:
        assert member.function is not None
        for parameter in shape(member.function):
            if not parameter.required and parameter.kind in (POSITIONAL_OR_KEYWORD, KEYWORD_ONLY):
                taking.setdefault(parameter.name, []).append(member)
    for name, having in taking.items():
        lacking = [m for m in members if m not in having and not _takes(m, name)]
        breaking = [m for m in lacking if _parent_takes(m, name)]
        owing, others = len(having) + len(breaking), len(lacking) - len(breaking)
        if owing >= _AGREEING and 2 * others < owing < 2 * len(having):
            yield name, [m for m in members if m not in lacking]


def _takes(member: Member, parameter: str) -> bool:
    """Whether a call that passes ``parameter`` by keyword binds, as far as that goes."""
    assert member.function is not None
    return not binding_errors(shape(member.function), Call(0, (parameter,), double_star=True))


def _parent_takes(member: Member, parameter: str) -> bool:
    """Whether the method that ``member`` overrides takes ``parameter``."""
    declared = declaration(member.owner, member.name)
    return declared is not None and _takes(declared, parameter)


def _at_outvoted(judge: Judge, member: Member, parameter: str, having: list[Member]) -> Diagnostic:
    assert member.function is not None
    names = ", ".join(dict.fromkeys(m.owner.name for m in having))
    return Diagnostic(
        "MLA101",
        "warning",
        f"{member.symbol} does not take {parameter!r}, which {len(having)} other implementations "
        "of the hook do",
        judge.places.member(member),
        member.symbol,
        tuple(
            Related(judge.places.member(m), f"{m.symbol} takes {parameter!r}") for m in having[:2]
        ),
        (
            f"{member.symbol} is {format_shape(shape(member.function))}",
            f"{parameter!r} is taken by {names}",
        ),
        "Latent: no base class declares the hook, so that its callers decide; one that passes "
        f"{parameter}= raises TypeError. Take it with its default.",
    )


def _drifts(judge: Judge, klass: Klass) -> Iterator[_Drift]:
    if judge.view.in_steps(klass):
        return
    for name, member in klass.own.items():
        function = member.function
        if function is None or name.startswith("_") or is_abstract(function):
            continue
        declared = declaration(klass, name)
        if declared is None or declared.function is None:
            continue
        role = judge.view.role_of(klass)
        if role is not None and not declared.owner.is_a(role):
            continue  # the callers of an inner family declare what they hold by its own base
        kinds = {kind_of(function), kind_of(declared.function)}
        if kinds & {"property", "setter"}:
            continue
        if _promises_nothing(declared.function):
            continue
        may_drop = optional_arguments(declared.function)
        promise = promise_of(declared)
        reasons = drift_beyond(promise, shape(function), may_drop)
        if klass.root not in judge.view.roots and (
            is_abstract(declared.function) or all(r.startswith("renames") for r in reasons)
        ):
            continue  # next to the backends, hooks are called by position, and by their own bodies
        if not reasons or _own_protocol(judge, klass, member, declared):
            continue
        taken = _taken(function, declared.function)
        if drift_beyond(promise, taken, may_drop) or judge.calls_between(
            member, promise, shape(function)
        ):
            yield _Drift(member, declared, reasons)


def _taken(override: Function, declared: Function) -> Shape:
    """The parameters of an override, those optional whose declared default it would refuse anyway.

    Who leaves out an argument of which the body asserts another value is refused either way.
    """
    defaults = {p.name: p.default for p in declared.params}
    found: list[Param] = []
    last = True
    for parameter in reversed(shape(override)):
        default = defaults.get(parameter.name)
        if last and isinstance(default, Const) and _refuses(override, parameter.name, default):
            parameter = parameter._replace(required=False)
        last = last and not (parameter.required and parameter.kind != KEYWORD_ONLY)
        found.append(parameter)
    return tuple(reversed(found))


def _refuses(function: Function, name: str, value: Const) -> bool:
    """Whether a function raises where a parameter has some value."""

    def put(item: Expr) -> Expr | None:
        return value if item == Name(name) else None

    return any(
        fatal and formula(substitute(expr, put)) == FALSE for _, expr, fatal in function.conditions
    )


def _promises_nothing(declared: Function) -> bool:
    """A body-less hook with ``*args, **kwargs`` only: its arguments are the implementations'."""
    parameters = shape(declared)
    kinds = {p.kind for p in parameters}
    return declared.body != "code" and bool(kinds) and kinds <= {VAR_POSITIONAL, VAR_KEYWORD}


def _own_protocol(judge: Judge, klass: Klass, member: Member, declared: Member) -> bool:
    """Whether the class replaced what calls the hook, so that nobody calls it as declared.

    A family with keywords of its own overrides the dispatcher (``forward``) together with the
    hooks that it dispatches to (``forward_decode``).
    """
    dispatchers = [m for m in _dispatchers(declared.owner, member.name) if m.name != member.name]
    dispatched = [m for m in _dispatched(declared) if m.name != member.name]
    if not (dispatchers or dispatched) or any(
        klass.members.get(m.name) == m for m in (*dispatchers, *dispatched)
    ):
        return False
    assert member.function is not None
    mine, promise = shape(member.function), promise_of(declared)
    calls = [
        arguments(use.call)
        for use in judge.view.callers_of(klass, member.name)
        if use.call is not None
    ]
    # calls with a keyword that only the override has are meant for it: judge by those
    own = {p.name for p in mine} - {p.name for p in promise}
    meant = [c for c in calls if own & set(c.keywords) and not binding_errors(mine, c)]
    return not any(
        binding_errors(mine, call) or misplaced_positionals(promise, mine, call)
        for call in meant or calls
    )


def _dispatched(dispatcher: Member) -> list[Member]:
    """The raise-only hooks that ``dispatcher`` calls on its own instance."""
    function = dispatcher.function
    assert function is not None
    return [
        m
        for m in dispatcher.owner.members.values()
        if m.function is not None and is_abstract(m.function) and _calls(function, m.name)
    ]


def _dispatchers(owner: Klass, name: str) -> list[Member]:
    return [
        m
        for k in owner.mro
        for m in k.own.values()
        if m.function is not None and _calls(m.function, name)
    ]


def _calls(function: Function, name: str) -> bool:
    receiver = Name(function.params[0].name) if function.params else None
    return any(
        isinstance(e, CallEvent)
        and isinstance(e.call.func, Attr)
        and e.call.func.name == name
        and e.call.func.value == receiver
        for e in function.events
    )


def _base_is_wrong(judge: Judge, group: list[_Drift]) -> list[_Drift]:
    """The overrides that differ from the declaration in the same way, where nothing keeps to it.

    Neither another override does, nor a call.
    """
    declared = group[0].declared
    by_reasons: dict[tuple[str, ...], list[_Drift]] = {}
    for item in group:
        by_reasons.setdefault(item.reasons, []).append(item)
    agreed = max(by_reasons.values(), key=len)
    drifting = {item.override.owner for item in group}
    keeping = [
        k
        for k in declared.owner.descendants
        if (m := k.own.get(declared.name)) is not None
        and m.function is not None
        and not is_abstract(m.function)
        and k not in drifting
        and declaration(k, declared.name) == declared
    ]
    if len(agreed) < _AGREEING or keeping or any(_relied_on(judge, item) for item in agreed):
        return []
    return agreed


def _at_base(judge: Judge, group: list[_Drift]) -> Diagnostic:
    declared, first = group[0].declared, group[0].override
    assert declared.function is not None
    assert first.function is not None
    return Diagnostic(
        "MLA101",
        "warning",
        f"{declared.symbol} promises {format_shape(promise_of(declared))}, "
        f"but {len(group)} overrides agree on another signature: {'; '.join(group[0].reasons)}",
        judge.places.member(declared),
        declared.symbol,
        tuple(
            Related(judge.places.member(item.override), f"{item.override.symbol} overrides it")
            for item in group
        ),
        (
            f"{first.symbol} takes {format_shape(shape(first.function))}",
            *(f"each override {reason}" for reason in group[0].reasons),
        ),
        "Declare on the base what the overrides take. "
        "Latent: a call by the names of the base raises TypeError.",
    )


def _relied_on(judge: Judge, item: _Drift) -> list[tuple[str, int, Call]]:
    """The calls in the tree that keep to the declaration and that the override breaks."""
    assert item.override.function is not None
    mine, promise = shape(item.override.function), promise_of(item.declared)
    return judge.calls_between(item.override, promise, mine)


def _what(promise: Shape, mine: Shape, call: Call) -> str:
    if binding_errors(mine, call):
        return "a call that the override refuses"
    moved = ", ".join(misplaced_positionals(promise, mine, call))
    return f"a call whose {moved} the override takes for another parameter"


def _at_override(judge: Judge, item: _Drift) -> Diagnostic:
    override, declared = item.override, item.declared
    assert override.function is not None
    mine, promise = shape(override.function), promise_of(declared)
    breaking = _relied_on(judge, item)
    related = [
        Related(
            judge.places.member(declared),
            f"{declared.symbol} is declared here as {format_shape(promise)}",
        )
    ]
    for path, line, call in breaking[:3]:
        related.append(judge.places.related(path, line, override.name, _what(promise, mine, call)))
    hint = "Take the declared parameters, in their order and with their defaults."
    if not breaking:
        hint = (
            "Latent: no call was found that reaches it; one that relies on the declaration "
            f"raises TypeError or fills other parameters. {hint}"
        )
    return Diagnostic(
        "MLA101",
        "error" if breaking else "warning",
        f"{override.symbol} cannot be called as {declared.symbol} can: {'; '.join(item.reasons)}",
        judge.places.member(override),
        override.symbol,
        tuple(related),
        item.reasons,
        hint,
    )
