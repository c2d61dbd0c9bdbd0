"""What methods store on their receiver, known by name before any of them is decoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from lint_rules.facts import Attr, Bind, CallEvent, Code, Const, Function, Item, Name, Seq, Write

if TYPE_CHECKING:
    from lint_rules.link import Klass

__all__ = ["Stored", "computes_names", "elsewhere", "stores"]


class Stored(Mapping[str, "list[tuple[Klass, Function, Write]]"]):
    """Every ``self.name = ...`` in any method of ``mro``, by name."""

    def __init__(self, mro: Iterable[Klass]) -> None:
        self._found: dict[str, list[tuple[Klass, Function, Write]]] = {}
        self._methods: dict[str, list[tuple[Klass, Function]]] = {}
        for klass in mro:
            for method in klass.facts.methods:
                for name in method.stores:
                    self._methods.setdefault(name, []).append((klass, method))

    def __getitem__(self, name: str) -> list[tuple[Klass, Function, Write]]:
        found = self._found.get(name)
        if found is None:
            found = self._found[name] = [
                (klass, method, write)
                for klass, method in self._methods[name]
                for write in klass.writes(method)[name]
            ]
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._methods

    def __iter__(self) -> Iterator[str]:
        return iter(self._methods)

    def __len__(self) -> int:
        return len(self._methods)


def stores(receiver: str, code: Code) -> dict[str, list[Write]]:
    """Every ``receiver.name = ...``, by name."""
    target = Name(receiver)
    found: dict[str, list[Write]] = {}
    for event in code.events:
        if type(event) is Write:
            if event.target == target:
                found.setdefault(event.name, []).append(event)
        elif type(event) is CallEvent:
            for name in _named_in_turn(event, code, target) or ():
                write = Write(target, name, None, event.line, event.cond)
                found.setdefault(name, []).append(write)
    return found


def elsewhere(receiver: str, code: Code) -> dict[str, None]:
    """The attributes of anything but ``receiver`` that are assigned."""
    target = Name(receiver)
    return dict.fromkeys(e.name for e in code.events if type(e) is Write and e.target != target)


def computes_names(method: Function) -> bool:
    """Whether a method stores under computed names: ``setattr(self, name, value)``."""
    if {"setattr", "update"}.isdisjoint(method.names):
        return False
    receiver = Name(method.params[0].name) if method.params else None
    for event in method.calls:
        func, args = event.call.func, event.call.args
        if func == Name("setattr") and args and args[0] == receiver:
            if _named_in_turn(event, method.code, receiver) is None:
                return True
        if receiver and func == Attr(Attr(receiver, "__dict__"), "update"):
            return True
    return False


def _named_in_turn(event: CallEvent, code: Code, receiver: Name) -> list[str] | None:
    """What ``setattr(self, name, value)`` stores where ``name`` runs through constants.

    None where that cannot be known, an empty list for any other call.
    """
    if event.call.func != Name("setattr"):
        return []
    args = event.call.args
    if len(args) != 3 or args[0] != receiver:
        return []
    binds = [e.value for e in code.events if isinstance(e, Bind) and Name(e.name) == args[1]]
    names: list[str] = []
    for value in binds:
        if not isinstance(value, Item) or not isinstance(value.value, Seq):
            return None
        for item in value.value.items:
            if not isinstance(item, Const):
                return None
            names.append(item.text[1:-1])
    return names or None
