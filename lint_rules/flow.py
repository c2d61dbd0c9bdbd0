"""What a constructor creates, under which condition, and what a hook then reads.

Both walks run over the methods as an instance of one class resolves them: through ``super()``,
through helpers called on ``self``, and through the constructor of an object that is handed
``self``. Conditions are rewritten on the way: arguments replace parameters, locals their value, and
attributes that are assigned once what they were assigned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from lint_rules.conditions import (
    FALSE,
    TRUE,
    conjunction,
    disjunction,
    formula,
    implies,
    substitute,
)
from lint_rules.facts import (
    Attr,
    Bind,
    Call,
    CallEvent,
    Const,
    Expr,
    Function,
    Name,
    Opaque,
    Read,
    Write,
    dotted,
)
from lint_rules.link import Klass, Member, Project, kind_of, shape
from mla_guard.drift import signature_of

__all__ = ["SELF", "Creation", "Flow", "Reading", "super_target"]

SELF = Name("self")
_DEPTH = 9
_MOST_READINGS = 400


@dataclass(frozen=True, slots=True)
class Creation:
    """``self.attr = value`` in a constructor, and the formula under which it happens."""

    attr: str
    condition: Expr
    value: Expr | None
    owner: Klass
    line: int


@dataclass(frozen=True, slots=True)
class Reading:
    """``self.attr`` in a method that ``entry`` reaches; ``path`` are the conditions on the way."""

    attr: str
    path: tuple[Expr, ...]
    owner: Klass
    function: Function
    line: int
    chain: tuple[Member, ...]

    @property
    def entry(self) -> Member:
        return self.chain[0]


@dataclass(frozen=True, slots=True)
class Passed:
    """A constant that a constructor passes to a parent's constructor."""

    owner: Klass
    target: Klass
    parameter: str
    value: Expr
    line: int


@dataclass
class _Frame:
    owner: Klass | None
    path: str
    function: Function
    env: Mapping[str, Expr]
    binds: dict[str, list[Bind]]
    receiver: str

    def substituted(self, expr: Expr, depth: int = 0) -> Expr:
        def replace(item: Expr) -> Expr | None:
            if not isinstance(item, Name):
                return None
            if item.id == self.receiver:
                return SELF
            if item.id in self.env:
                return self.env[item.id]
            binds = self.binds.get(item.id)
            if not binds:
                return None
            if len(binds) == 1 and depth < 6 and _pure(binds[0].value):
                return self.substituted(binds[0].value, depth + 1)
            return Name(f"{id(self.function)}:{item.id}")

        return substitute(expr, replace)

    def condition(self, cond: int, *, fatal: bool = True) -> list[Expr]:
        """The condition of an event; without the *fatal* parts, those that only exclude a raise."""
        found: list[Expr] = []
        while cond != -1:
            cond, expr, raising = self.function.conditions[cond]
            if fatal or not raising:
                found.append(formula(self.substituted(expr)))
        found.reverse()
        return found


def _pure(expr: Expr) -> bool:
    """Whether reading ``expr`` twice gives the same: no arguments, nothing unknown."""
    if isinstance(expr, Opaque):
        return False
    if isinstance(expr, Call):
        name = dotted(expr.func)
        if name in {"getattr", "hasattr", "isinstance", "bool", "len", "any", "all", "max", "min"}:
            return all(_pure(a) for a in expr.args)
        return not (expr.args or expr.keywords or expr.star or expr.double_star) and _pure(expr.func)
    if isinstance(expr, (Name, Const)):
        return True
    if isinstance(expr, Attr):
        return _pure(expr.value)
    parts = [getattr(expr, f) for f in expr.__struct_fields__]
    flat: list[object] = []
    for part in parts:
        flat.extend(part if isinstance(part, tuple) else [part])
    return all(_pure(p) for p in flat if p is not None and not isinstance(p, str))  # type: ignore[arg-type]


def super_target(call: Call, owner: Klass, klass: Klass, receiver: str) -> Member | None:
    """What ``super().m(...)``, ``super(C, self).m(...)`` or ``C.m(self, ...)`` runs on ``klass``."""
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


def _calls_up(klass: Klass, member: Member, function: Function) -> bool:
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
                and (target := super_target(event.call, current.owner, klass, receiver))
                is not None
                and target.name == function.name
            ),
            None,
        )
    return False


@dataclass
class _Walk:
    creations: list[Creation] = field(default_factory=list)
    visited: set[int] = field(default_factory=set)
    constructors: list[Klass] = field(default_factory=list)
    passed: list[Passed] = field(default_factory=list)
    invariants: list[Expr] = field(default_factory=list)


def _flags(function: Function, cond: int) -> Iterator[bool]:
    while cond != -1:
        cond, _, raising = function.conditions[cond]
        yield raising


class Flow:
    """The constructor and the hooks of one class, its parents' included.

    With ``defaults`` optional constructor parameters have their default, where that is a constant.
    """

    def __init__(self, project: Project, klass: Klass, *, defaults: bool = True) -> None:
        self.project = project
        self.klass = klass
        self._walk = _Walk()
        init = klass.method("__init__")
        if init is not None and init.function is not None:
            env: dict[str, Expr] = {}
            for parameter in init.function.params[1:]:
                default = parameter.default
                if defaults and isinstance(default, Const) and default.text != "None":
                    env[parameter.name] = default
                else:
                    env[parameter.name] = Name(f"{init.owner.name}:{parameter.name}")
            self._construct(init, env, [], 0)
        self.creations: dict[str, list[Creation]] = {}
        for creation in self._walk.creations:
            self.creations.setdefault(creation.attr, []).append(creation)

    @property
    def constructors(self) -> list[Klass]:
        """The classes whose ``__init__`` runs, in order."""
        return self._walk.constructors

    @property
    def passed(self) -> list[Passed]:
        return self._walk.passed

    def _frame(self, owner: Klass, function: Function, env: Mapping[str, Expr]) -> _Frame:
        binds: dict[str, list[Bind]] = {}
        for event in function.events:
            if isinstance(event, Bind):
                binds.setdefault(event.name, []).append(event)
        static = kind_of(function) == "static"
        receiver = function.params[0].name if function.params and not static else ""
        return _Frame(owner, owner.path, function, env, binds, receiver)

    def _construct(
        self, member: Member, env: Mapping[str, Expr], path: list[Expr], depth: int
    ) -> None:
        function = member.function
        assert function is not None
        if depth > _DEPTH:
            return
        self._walk.visited.add(id(function))
        if function.name == "__init__":
            self._walk.constructors.append(member.owner)
        frame = self._frame(member.owner, function, env)
        if not path:
            for parent, expr, raising in function.conditions:
                if raising and all(r for r in _flags(function, parent)):
                    self._walk.invariants.append(formula(frame.substituted(expr)))
        for event in function.events:
            if isinstance(event, Write) and event.target == Name(frame.receiver):
                condition = conjunction((*path, *frame.condition(event.cond, fatal=False)))
                value = frame.substituted(event.value) if event.value is not None else None
                self._walk.creations.append(
                    Creation(event.name, condition, value, member.owner, event.line)
                )
            elif isinstance(event, CallEvent):
                self._construct_call(event, member, frame, path, depth)

    def _construct_call(
        self, event: CallEvent, member: Member, frame: _Frame, path: list[Expr], depth: int
    ) -> None:
        call = event.call
        func = call.func
        target = super_target(call, member.owner, self.klass, frame.receiver)
        if target is None and isinstance(func, Attr) and func.value == Name(frame.receiver):
            target = self.klass.method(func.name)
            if target is not None and id(target.function) in self._walk.visited:
                return
        if target is None or target.function is None:
            return
        inner = conjunction((*path, *frame.condition(event.cond, fatal=False)))
        if inner == FALSE:
            return
        arguments = self._bound(target, call, frame)
        if target.function.name == "__init__":
            for name, value in arguments.items():
                if isinstance(value, Const) and value.text in {"True", "False"}:
                    self._walk.passed.append(
                        Passed(member.owner, target.owner, name, value, event.line)
                    )
        self._construct(target, arguments, [inner], depth + 1)

    def _bound(self, target: Member, call: Call, frame: _Frame) -> dict[str, Expr]:
        """The target's parameters as the call fills them; defaults where they are constants."""
        function = target.function
        assert function is not None
        args = list(call.args)
        if isinstance(call.func, Attr) and args and args[0] == Name(frame.receiver):
            if not (isinstance(call.func.value, Call) or call.func.value == Name(frame.receiver)):
                args = args[1:]
        found: dict[str, Expr] = {}
        for parameter in function.params:
            if parameter.default is not None and isinstance(parameter.default, Const):
                found[parameter.name] = parameter.default
            else:
                found[parameter.name] = Name(f"{target.owner.name}:{parameter.name}")
        try:
            bound = signature_of(shape(function)).bind_partial(
                *[frame.substituted(a) for a in args],
                **{k: frame.substituted(v) for k, v in call.keywords},
            )
        except TypeError:
            return found
        if call.star or call.double_star:
            for parameter in function.params:
                if parameter.name not in bound.arguments:
                    found[parameter.name] = Name(f"{target.owner.name}:{parameter.name}")
        for name, value in bound.arguments.items():
            if not isinstance(value, (tuple, dict)):
                found[name] = value
        found.pop(function.params[0].name if function.params else "", None)
        return found

    @cached_property
    def stored_later(self) -> set[str]:
        """Attributes that a method outside of construction stores."""
        return {
            name
            for name, writes in self.klass.stored.items()
            if any(id(function) not in self._walk.visited for _, function, _ in writes)
        }

    @cached_property
    def stored_later_reachable(self) -> set[str]:
        """Attributes that a method which an instance still runs stores after construction."""
        klass = self.klass
        found: set[str] = set()
        for name, writes in klass.stored.items():
            for owner, function, _ in writes:
                if id(function) in self._walk.visited or function.name == "__init__":
                    continue
                member = klass.members.get(function.name)
                if member is None or member.function is None:
                    continue
                if member.function is function or _calls_up(klass, member, function):
                    found.add(name)
        return found

    @cached_property
    def definitions(self) -> dict[str, Expr]:
        """Attributes that are assigned once and unconditionally, and what they stand for."""
        found: dict[str, Expr] = {}
        for attr, creations in self.creations.items():
            only = creations[0]
            if (
                len(creations) == 1
                and only.condition == TRUE
                and only.value is not None
                and attr not in self.stored_later
                and _pure(only.value)
            ):
                found[attr] = only.value
        return found

    def normal(self, expr: Expr) -> Expr:
        """``expr`` with defined attributes replaced, as a formula."""

        def replace(item: Expr, seen: frozenset[str]) -> Expr | None:
            if isinstance(item, Attr) and item.value == SELF and item.name not in seen:
                definition = self.definitions.get(item.name)
                if definition is not None:
                    inner = seen | {item.name}
                    return substitute(definition, lambda e: replace(e, inner))
            return None

        return formula(substitute(expr, lambda e: replace(e, frozenset())))

    def condition_of(self, attr: str) -> Expr:
        """The formula under which construction creates ``attr``."""
        return disjunction(self.normal(c.condition) for c in self.creations.get(attr, ()))

    @cached_property
    def conditional(self) -> dict[str, Expr]:
        """Attributes that construction creates under a condition only, with the condition.

        Left out are those that a method stores too, that the class body or a property provides,
        and all of them where a base is unknown or ``__getattr__`` answers.
        """
        members = self.klass.members
        if not self.klass.complete or "__getattr__" in members:
            return {}
        found: dict[str, Expr] = {}
        for attr in self.creations:
            if attr in self.stored_later or attr in members:
                continue
            condition = self.condition_of(attr)
            if condition != TRUE and not implies(self.invariants, condition):
                found[attr] = condition
        return found

    def readings(self, entries: Iterable[Member], attrs: Iterable[str]) -> Iterator[Reading]:
        """Where the methods ``entries`` read one of ``attrs``, themselves or through what they call."""
        wanted = frozenset(attrs)
        if not wanted:
            return
        touching = _Touching(self.klass, wanted)
        for entry in entries:
            if entry.function is not None and touching.reaches(entry):
                seen: dict[int, list[frozenset[Expr]]] = {}
                yield from self._read(entry, {}, (), (entry,), wanted, touching, seen)

    def _read(
        self,
        member: Member,
        env: Mapping[str, Expr],
        path: tuple[Expr, ...],
        chain: tuple[Member, ...],
        wanted: frozenset[str],
        touching: _Touching,
        seen: dict[int, list[frozenset[Expr]]],
    ) -> Iterator[Reading]:
        function = member.function
        assert function is not None
        known = seen.setdefault(id(function), [])
        here = frozenset(path)
        if len(chain) > _DEPTH or any(other <= here for other in known):
            return
        known.append(here)
        frame = self._frame(member.owner, function, env)
        for event in function.events:
            if isinstance(event, Read):
                if event.probe or event.caught or frame.substituted(event.value) != SELF:
                    continue
                property_ = self.klass.members.get(event.name)
                if event.name in wanted:
                    yield Reading(
                        event.name,
                        (*path, *frame.condition(event.cond)),
                        member.owner,
                        function,
                        event.line,
                        chain,
                    )
                elif (
                    property_ is not None
                    and property_.function is not None
                    and kind_of(property_.function) == "property"
                    and touching.reaches(property_)
                ):
                    inner = (*path, *frame.condition(event.cond))
                    yield from self._read(
                        property_, {}, inner, (*chain, property_), wanted, touching, seen
                    )
            elif isinstance(event, CallEvent) and not event.caught:
                target, arguments = self._called(event.call, member, frame)
                if target is not None and touching.reaches(target):
                    inner = (*path, *frame.condition(event.cond))
                    yield from self._read(
                        target, arguments, inner, (*chain, target), wanted, touching, seen
                    )

    def _called(
        self, call: Call, member: Member, frame: _Frame
    ) -> tuple[Member | None, dict[str, Expr]]:
        target = super_target(call, member.owner, self.klass, frame.receiver)
        if target is None and isinstance(call.func, Attr):
            if frame.substituted(call.func.value) == SELF:
                target = self.klass.method(call.func.name)
        if target is None or target.function is None:
            return None, {}
        arguments = {
            name: value
            for name, value in self._bound(target, call, frame).items()
            if not (isinstance(value, Name) and value.id.startswith(f"{target.owner.name}:"))
        }
        return target, arguments

    def guarded(self, reading: Reading, condition: Expr) -> bool:
        """Whether the guards on the way to a reading imply ``condition``."""
        return implies([*self.invariants, *map(self.normal, reading.path)], condition)

    @cached_property
    def invariants(self) -> list[Expr]:
        """What construction asserts, so that it holds in every instance."""
        return [self.normal(part) for part in self._walk.invariants]


class _Touching:
    """Which methods of a class read one of some attributes, themselves or through what they call."""

    def __init__(self, klass: Klass, wanted: frozenset[str]) -> None:
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
                if target is not None and target.function is not None and target.function is not function:
                    if event.value == Name(receiver) and self.reaches(target):
                        return True
            elif isinstance(event, CallEvent):
                target = super_target(event.call, member.owner, self._klass, receiver)
                func = event.call.func
                if target is None and isinstance(func, Attr):
                    target = self._klass.method(func.name)
                if target is not None and self.reaches(target):
                    return True
        return False
