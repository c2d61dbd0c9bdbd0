"""MLA301: a wrapper that neither defines nor delegates a hook which callers use or probe."""

from __future__ import annotations

from collections.abc import Iterator

from lint_rules.exposure import Wrapper
from lint_rules.gaps import Gap, is_guarded
from lint_rules.judge import Judge
from lint_rules.link import Klass
from lint_rules.uses import Use
from mla_guard.diagnostic import Diagnostic, Related

__all__ = ["check", "diagnose"]

_SHOWN = 3


def check(judge: Judge) -> Iterator[Diagnostic]:
    for gap in judge.gaps:
        if gap.is_hook:
            yield diagnose(judge, gap, "MLA301")


def diagnose(judge: Judge, gap: Gap, code: str) -> Diagnostic:
    """The finding for a gap; hooks and attributes differ in their code only."""
    wrapper, name = gap.wrapper.klass, gap.name
    use = _telling(gap)
    related = [
        judge.places.related(
            use.scope.path, use.line, name, f"{use.scope.symbol} {_verb(use)} {name} here"
        )
    ]
    member = gap.exposure.member
    if member is not None:
        related.append(
            Related(
                judge.places.member(member), f"the default that wins is {member.symbol}, from here"
            )
        )
    definers = _definers(gap)
    for klass in definers[:_SHOWN]:
        found = klass.own.get(name)
        place = judge.places.member(found) if found is not None else judge.places.klass(klass)
        related.append(Related(place, f"{klass.name} has it here"))
    reasons = [f"{_count(gap.implementers)}: {_names(gap.implementers)}"]
    if gap.siblings:
        names = ", ".join(dict.fromkeys(s.klass.name for s in gap.siblings))
        reasons.append(f"other wrappers pass it on: {names}")
    if gap.exposure.shadowed:
        reasons.append(
            f"__getattr__ delegation does not reach {name}: the base class defines it, "
            "so that __getattr__ is never asked"
        )
    reasons += _nested(judge, gap)
    # a flag that stays at the base class's default does harm only with a backend that sets it
    latent = (
        not gap.is_hook
        and gap.exposure.kind == "default"
        and not gap.exposure.shadowed
        and gap.effect == "silent"
    )
    trigger = (
        f"Latent: it matters as soon as {wrapper.name} wraps one that sets it. " if latent else ""
    )
    return Diagnostic(
        code,
        "warning" if latent else "error",
        f"{wrapper.name} does not pass on {name}, which callers {_verb(use)[:-1]} and wrapped "
        f"backends {'implement' if gap.is_hook else 'set'}: {_effect(gap)}",
        judge.places.klass(wrapper),
        f"{wrapper.qualname}.{name}",
        tuple(related),
        tuple(reasons),
        f"{trigger}Define {name} on {wrapper.name} and hand it to the wrapped backend.",
    )


def _telling(gap: Gap) -> Use:
    """The use to show first: one that fails loudly, or else a probe."""
    if gap.exposure.kind == "absent":
        for use in gap.uses:
            if not is_guarded(use):
                return use
    for use in gap.uses:
        if use.kind == "probe":
            return use
    return gap.uses[0]


def _verb(use: Use) -> str:
    return {"call": "calls", "probe": "probes", "read": "reads"}[use.kind]


def _effect(gap: Gap) -> str:
    member = gap.exposure.member
    if gap.effect == "silent":
        if gap.exposure.kind == "absent":
            return "the probe is silently False"
        root = gap.wrapper.klass.root
        owner = member.owner if member is not None else root  # stored by the base's own methods
        assert owner is not None
        return f"silently the default of {owner.name} instead"
    if gap.effect == "AttributeError":
        return "AttributeError"
    assert member is not None
    return f"{gap.effect} from {member.symbol}"


def _definers(gap: Gap) -> list[Klass]:
    having = set(gap.implementers)
    return [k for k in gap.implementers if not any(p in having for p in k.mro[1:])]


def _count(classes: tuple[Klass, ...]) -> str:
    if len(classes) == 1:
        return "1 backend that it can wrap has it"
    return f"{len(classes)} backends that it can wrap have it"


def _names(classes: tuple[Klass, ...]) -> str:
    names = list(dict.fromkeys(k.name for k in classes))
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(names[:4]) + more


def _nested(judge: Judge, gap: Gap) -> list[str]:
    """Other wrappers that hand the name on to whatever they hold, this wrapper included."""
    outer = dict.fromkeys(
        w.klass.name
        for w in judge.view.wrappers
        if w.klass is not gap.wrapper.klass and _hands_on(w, gap)
    )
    if not outer:
        return []
    names = list(outer)
    shown = ", ".join(names[:_SHOWN]) + (
        f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    )
    return [f"lost too where it is nested in a wrapper that hands {gap.name} on: {shown}"]


def _hands_on(outer: Wrapper, gap: Gap) -> bool:
    return any(
        d.name == gap.name
        and any(outer.held[attr].holds(gap.wrapper.klass) for attr in d.attrs if attr in outer.held)
        for d in outer.delegations
    )
