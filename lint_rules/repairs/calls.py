"""The calls by which a method hands its own hook on: up to a parent, or to a held backend."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property

import libcst as cst

from lint_rules.exposure import Delegation
from lint_rules.facts import Bind
from lint_rules.handing import method_value
from lint_rules.judge import Judge
from lint_rules.link import Klass, Member, shape
from lint_rules.repairs.edits import Edit, NoRepair, appended
from lint_rules.repairs.paths import ignoring
from lint_rules.repairs.source import Source, walk
from mla_guard.drift import KEYWORD_ONLY, Call, binding_errors

__all__ = ["Handed", "statement"]


class Handed:
    """Where the method ``member`` hands its hook on, and what stands there.

    The methods ``above`` take what is handed to them.
    """

    def __init__(
        self, judge: Judge, source: Source, member: Member, above: Collection[Member]
    ) -> None:
        assert member.function is not None
        self._judge = judge
        self._source = source
        self._member = member
        self._above = above
        self._function = member.function
        self._node = source.function(member.name, member.line)
        self._receiver = member.function.params[0].name if member.function.params else ""
        self._wrapper = judge.view.wrapper(member.owner)

    def edits(self, names: list[str]) -> Iterator[Edit]:
        """Hands the parameters ``names`` on by keyword, where a call does not settle them itself.

        Raises :class:`NoRepair` where a parameter is handed to nobody, or a call would break.
        """
        settled: set[str] = set()
        calls = list(self._calls())
        if ignoring(self._node, [call for call, _, _ in calls]):
            raise NoRepair(
                f"{', '.join(names)} would be taken and ignored on a way through the body"
            )
        for call, skipped, targets in calls:
            if any(a.star for a in call.args):
                raise NoRepair("arguments are handed on as *args or **kwargs")
            added = []
            for name in names:
                if self._passes(call, skipped, targets, name):
                    settled.add(name)
                    continue
                if targets is None or any(
                    target not in self._above and _refuses(target, name) for target in targets
                ):
                    raise NoRepair(f"{name} is not accepted where the hook is handed on to")
                settled.add(name)
                added.append(f"{name}={name}")
            if added:
                if not call.args:
                    raise NoRepair("the call has no arguments")
                yield appended(self._source, list(call.args), added, last=True)
        if missing := set(names) - settled:
            raise NoRepair(f"{', '.join(sorted(missing))} would be taken and ignored")

    def _passes(
        self, call: cst.Call, skipped: int, targets: list[Member] | None, name: str
    ) -> bool:
        """Whether the call already gives the parameter a value of its own."""
        if any(a.keyword is not None and a.keyword.value == name for a in call.args):
            return True
        count = sum(a.keyword is None for a in call.args) - skipped
        for target in targets or ():
            assert target.function is not None
            order = [p.name for p in shape(target.function) if p.kind < KEYWORD_ONLY]
            if name in order[:count]:
                return True
        return False

    def _calls(self) -> Iterator[tuple[cst.Call, int, list[Member] | None]]:
        """The calls, how many leading arguments are not the hook's, and what they can run.

        None where that is unknown; nothing where no backend that is held there has the hook.
        """
        name, owner = self._member.name, self._member.owner
        for node in walk(self._node.body):
            if not isinstance(node, cst.Call):
                continue
            if isinstance(node.func, cst.Attribute) and node.func.attr.value == name:
                base = node.func.value
                if isinstance(base, cst.Call) and _is(base.func, "super"):
                    yield node, 0, _function(owner.after(owner, name)) or None
                    continue
                if node.args and _is(node.args[0].value, self._receiver):
                    parent = self._parent(base)
                    if parent is not None:
                        yield node, 1, _function(parent.members.get(name)) or None
                        continue
            delegation = self._delegation(node)
            if delegation is not None:
                yield node, 2 if delegation.delegated else 0, self._targets(delegation)
            elif self._asks_for_hook(node):
                yield node, 0, None

    def _parent(self, base: cst.BaseExpression) -> Klass | None:
        """The parent that ``base`` names, as in ``Parent.hook(self)``."""
        named = self._source.code(base).rpartition(".")[2]
        return next((k for k in self._member.owner.mro[1:] if k.name == named), None)

    def _asks_for_hook(self, node: cst.Call) -> bool:
        """Whether the call runs a hook of this name on some other object."""
        func, name = node.func, self._member.name
        if isinstance(func, cst.Attribute):
            return func.attr.value == name and not _is(func.value, self._receiver)
        if isinstance(func, cst.Name) and func.value in self._taken:
            return True
        return _told(node) == name

    @cached_property
    def _taken(self) -> frozenset[str]:
        """The locals that hold a hook of this name: ``fn = getattr(inner, "hook", None)``."""
        return frozenset(
            event.name
            for event in self._function.events
            if isinstance(event, Bind)
            and (target := method_value(event.value)) is not None
            and target.name == self._member.name
        )

    def _delegation(self, node: cst.Call) -> Delegation | None:
        """What the linked project knows of the call, if it goes to a held backend."""
        if self._wrapper is None or not self._asks_for_hook(node):
            return None
        last = self._source.line(node)
        first = self._source.line(statement(self._source, node))
        for delegation in self._wrapper.delegations:
            if delegation.scope.function is self._function and delegation.call is not None:
                if delegation.name == self._member.name and first <= delegation.line <= last:
                    return delegation
        return None

    def _targets(self, delegation: Delegation) -> list[Member]:
        assert self._wrapper is not None
        view = self._judge.view
        return [
            member
            for attr in sorted(delegation.attrs)
            for klass in self._wrapper.inside(view, attr)
            if (member := klass.method(delegation.name)) is not None
        ]


def statement(source: Source, node: cst.CSTNode) -> cst.CSTNode:
    """The statement, or the head of the compound one, that ``node`` stands in."""
    for above in source.above(node):
        if isinstance(above, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            return above
    return node


def _told(node: cst.Call) -> str:
    """The hook that ``delegate(inner, "hook", ...)`` is told, empty for another call."""
    func = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
    if _is(func, "delegate") and len(node.args) > 1:
        said = node.args[1].value
        if isinstance(said, cst.SimpleString):
            return str(said.evaluated_value)
    return ""


def _is(node: cst.BaseExpression, name: str) -> bool:
    return isinstance(node, cst.Name) and node.value == name


def _function(member: Member | None) -> list[Member]:
    return [member] if member is not None and member.function is not None else []


def _refuses(target: Member, name: str) -> bool:
    assert target.function is not None
    return bool(binding_errors(shape(target.function), Call(0, (name,), double_star=True)))
