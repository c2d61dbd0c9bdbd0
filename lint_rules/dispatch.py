"""Which function a call inside a method runs, on an instance of a given class."""

from __future__ import annotations

from lint_rules.facts import Attr, Call, CallEvent, Function, Name, Read, dotted
from lint_rules.link import Klass, Member, Project

__all__ = ["Touching", "calls_up", "constructor", "super_target"]


def super_target(call: Call, owner: Klass, klass: Klass, receiver: str) -> Member | None:
    """What ``super().m()``, ``super(C, self).m()`` or ``C.m(self)`` runs on a ``klass``."""
    func = call.func
    if not isinstance(func, Attr):
        return None
    base = func.value
    if isinstance(base, Call) and base.func == Name("super"):
        if not base.args:
            return klass.after(owner, func.name)
        named = dotted(base.args[0])
        for candidate in klass.mro:
            if candidate.name == named.rpartition(".")[2]:
                return klass.after(candidate, func.name)
        return None
    named = dotted(base)
    if named and call.args and call.args[0] == Name(receiver):
        for candidate in klass.mro[1:]:
            if candidate.name == named.rpartition(".")[2]:
                return candidate.members.get(func.name)
    return None


def calls_up(klass: Klass, member: Member, function: Function) -> bool:
    """Whether ``member`` runs ``function`` through a chain of ``super()`` calls."""
    current: Member | None = member
    for _ in range(len(klass.mro)):
        if current is None or current.function is None:
            return False
        if current.function is function:
            return True
        receiver = current.function.params[0].name if current.function.params else ""
        current = next(
            (
                target
                for event in current.function.events
                if isinstance(event, CallEvent)
                and (target := super_target(event.call, current.owner, klass, receiver)) is not None
                and target.name == function.name
            ),
            None,
        )
    return False


def constructor(project: Project, klass: Klass, path: str, call: Call) -> Member | None:
    """The constructor of another class of the project, where the call hands it an argument."""
    name = dotted(call.func)
    if not name or not (call.args or call.keywords):
        return None
    classes = project.resolve(path, name)
    if len(classes) != 1 or klass.is_a(classes[0]) or classes[0].root is not None:
        return None
    return classes[0].method("__init__")


class Touching:
    """Which methods of a class read some attributes, directly or through what they call."""

    def __init__(self, project: Project, klass: Klass, wanted: frozenset[str]) -> None:
        self._project = project
        self._klass = klass
        self._wanted = wanted
        self._known: dict[int, bool] = {}

    def reaches(self, member: Member) -> bool:
        function = member.function
        if function is None:
            return False
        known = self._known.get(id(function))
        if known is not None:
            return known
        self._known[id(function)] = False
        found = self._reaches(member, function)
        self._known[id(function)] = found
        return found

    def _reaches(self, member: Member, function: Function) -> bool:
        receiver = function.params[0].name if function.params else ""
        for event in function.events:
            if isinstance(event, Read):
                if event.name in self._wanted:
                    return True
                target = self._klass.members.get(event.name)
                if (
                    target is not None
                    and target.function is not None
                    and target.function is not function
                ):
                    if event.value == Name(receiver) and self.reaches(target):
                        return True
            elif isinstance(event, CallEvent):
                target = super_target(event.call, member.owner, self._klass, receiver)
                func = event.call.func
                if target is None and isinstance(func, Attr):
                    if func.name in self._wanted:
                        return True
                    target = self._klass.method(func.name)
                if target is None:
                    target = constructor(self._project, self._klass, member.owner.path, event.call)
                if target is not None and self.reaches(target):
                    return True
        return False
