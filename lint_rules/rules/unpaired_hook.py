"""MLA308: a caller runs one half of what the base class runs as a whole, and never the other."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lint_rules.dispatch import calls_up
from lint_rules.facts import Attr, CallEvent, Function, Name, Read
from lint_rules.judge import Judge
from lint_rules.link import Klass, Member, kind_of
from lint_rules.uses import Use
from mla_guard.diagnostic import Diagnostic, Related

__all__ = ["check"]

_SHOWN = 2
_AGREEING = 2
"""So many callers that run both, and no fewer than those that do not, make two hooks a pair."""


@dataclass(frozen=True, slots=True)
class _Pair:
    """``template`` of a base class does nothing but run ``first`` and then ``second``."""

    template: Member
    first: str
    second: str


def check(judge: Judge) -> Iterator[Diagnostic]:
    for root in judge.view.roots:
        for pair in _pairs(root):
            callers = _callers(judge, pair.first)
            both = [klass for klass in callers if _runs(klass, pair.second)]
            owing = {klass: callers[klass] for klass in callers if klass not in both}
            if len(both) < max(_AGREEING, len(owing)):
                continue
            naming = {k for k in judge.project.classes if _defines(k, pair.second)}
            called = _called(naming)
            for klass, uses in owing.items():
                if not naming & set(klass.descendants) and _owes(klass, uses, pair, called):
                    yield from _judge(judge, klass, uses, pair, both)


def _pairs(root: Klass) -> Iterator[_Pair]:
    """The hooks that a method of ``root`` composes, where it does nothing else."""
    for member in root.own.values():
        function = member.function
        if function is None or kind_of(function) != "method" or not function.params:
            continue
        receiver = Name(function.params[0].name)
        hooks: list[str] = []
        for event in function.events:
            func = event.call.func if isinstance(event, CallEvent) and event.cond == -1 else None
            if not isinstance(func, Attr) or func.value != receiver or not root.method(func.name):
                break
            hooks.append(func.name)
        else:
            for first, second in itertools.pairwise(hooks):
                if first != second:
                    yield _Pair(member, first, second)


def _runs(klass: Klass, name: str) -> bool:
    """Whether a method that an instance runs, those of the base class aside, is or names ``name``.

    A parent's method that is overridden and not called up does not count.
    """
    above = set(klass.root.mro) if klass.root is not None else set()
    for owner in klass.mro:
        for method in owner.facts.methods if owner not in above else ():
            member = klass.members.get(method.name)
            if member is not None and (method.name == name or _names(method, name)):
                if member.function is method or calls_up(klass, member, method):
                    return True
    return False


def _defines(klass: Klass, name: str) -> bool:
    """Whether the class body defines ``name``, or a method of it asks for it on anything."""
    return any(method.name == name or _names(method, name) for method in klass.facts.methods)


def _names(function: Function, name: str) -> bool:
    for event in function.events:
        if type(event) is CallEvent:
            func = event.call.func
            if type(func) is Attr and func.name == name:
                return True
        elif type(event) is Read and event.name == name:
            return True
    return False


def _called(classes: Iterable[Klass]) -> frozenset[str]:
    """What some classes call on others than themselves."""
    return frozenset(
        event.call.func.name
        for klass in classes
        for method in klass.facts.methods
        for event in method.calls
        if isinstance(event.call.func, Attr)
        and not (method.params and event.call.func.value == Name(method.params[0].name))
    )


def _callers(judge: Judge, name: str) -> dict[Klass, list[Use]]:
    found: dict[Klass, list[Use]] = {}
    for use in judge.view.uses.get(name, ()):
        if use.scope.klass is not None and use.call is not None:
            found.setdefault(use.scope.klass, []).append(use)
    return found


def _owes(klass: Klass, uses: list[Use], pair: _Pair, called: frozenset[str]) -> bool:
    """Whether nobody else runs the other half: who calls a helper may do so himself.

    A backend that hands the hook on owes the other hook as well, whoever calls it.
    """
    names = {use.scope.function.name for use in uses}
    return (klass.root is not None and pair.first in names) or not names & called


def _judge(
    judge: Judge, klass: Klass, uses: list[Use], pair: _Pair, both: list[Klass]
) -> Iterator[Diagnostic]:
    if any(gap.wrapper.klass is klass and gap.name == pair.second for gap in judge.gaps):
        return  # MLA301 says that the wrapper lacks it
    for use in uses:
        working = [m for k in use.typed.possible if (m := _own(judge, k, pair.second)) is not None]
        if working:
            yield _diagnose(judge, use, pair, working, both)
            return


def _own(judge: Judge, klass: Klass, name: str) -> Member | None:
    """What a leaf itself does in ``name``."""
    member = klass.own.get(name)
    if member is None or member.function is None or member.function.body != "code":
        return None
    composite = judge.view.wrapper(klass) is not None or judge.view.in_steps(klass)
    return member if klass is not klass.root and not composite else None


def _diagnose(
    judge: Judge, use: Use, pair: _Pair, working: list[Member], both: list[Klass]
) -> Diagnostic:
    scope = use.scope
    assert scope.klass is not None
    first, second = pair.first, pair.second
    return Diagnostic(
        "MLA308",
        "warning",
        f"{scope.klass.name} runs {first} and never {second}, "
        f"which {pair.template.symbol} runs after it",
        judge.places.at(scope.path, use.line, first),
        scope.symbol,
        (
            Related(judge.places.member(pair.template), f"{pair.template.symbol} runs both"),
            *(
                Related(judge.places.member(m), f"{m.symbol} has work to do there")
                for m in working[:_SHOWN]
            ),
        ),
        (
            f"{second} is run with it by {_some(both)}",
            f"{second} does something in {_some(m.owner for m in working)}",
        ),
        f"Latent: it shows with a backend that has work in {second}. Run it after {first}.",
    )


def _some(classes: Iterable[Klass]) -> str:
    names = list(dict.fromkeys(k.name for k in classes))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
