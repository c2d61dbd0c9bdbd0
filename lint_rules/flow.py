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
    atoms,
    conjunction,
    disjunction,
    formula,
    implies,
    negation,
    relevant,
    substitute,
    undecided,
)
from lint_rules.dispatch import Touching, calls_up, constructor, super_target
from lint_rules.facts import (
    Attr,
    Bind,
    Call,
    CallEvent,
    Compare,
    Const,
    Expr,
    Function,
    Name,
    Not,
    Read,
    Return,
    Seq,
    Write,
    dotted,
)
from lint_rules.frames import SELF, Frame, is_pure
from lint_rules.link import Klass, Member, Project, kind_of, shape
from mla_guard.drift import signature_of

__all__ = ["SELF", "Creation", "Flow", "Reading", "super_target"]

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
class _Walk:
    creations: list[Creation] = field(default_factory=list)
    visited: set[int] = field(default_factory=set)
    helpers: dict[int, set[Expr]] = field(default_factory=dict)
    constructors: list[Klass] = field(default_factory=list)
    passed: list[Passed] = field(default_factory=list)
    invariants: list[Expr] = field(default_factory=list)


def _above(function: Function, cond: int) -> Iterator[int]:
    """The indices of a condition and of those around it, -1 included."""
    while cond != -1:
        yield cond
        cond = function.conditions[cond][0]
    yield -1


def _demanded(frame: Frame) -> list[Expr]:
    """What a function raises without, whatever it is called with."""
    function = frame.function
    return [
        formula(frame.substituted(expr))
        for parent, expr, raising in function.conditions
        if raising and all(_flags(function, parent))
    ]


def _flags(function: Function, cond: int) -> Iterator[bool]:
    while cond != -1:
        cond, _, raising = function.conditions[cond]
        yield raising


class Flow:
    """The constructor and the hooks of one class, its parents' included.

    With ``defaults`` optional constructor parameters have their default, where that is a constant.
    """

    def __init__(self, project: Project, klass: Klass, *, defaults: bool = True) -> None:
        self._project = project
        self.klass = klass
        self._walk = _Walk()
        self._parameters: dict[str, Expr] = {}
        self._normal: dict[Expr, Expr] = {}
        self._meanings: dict[Expr, list[Expr]] = {}
        self._predicates: dict[tuple[str, str], Expr | None] = {}
        init = klass.method("__init__")
        if init is not None and init.function is not None:
            env = self._parameters
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

    def _frame(self, owner: Klass, function: Function, env: Mapping[str, Expr]) -> Frame:
        static = kind_of(function) == "static"
        receiver = function.params[0].name if function.params and not static else ""
        if not self.klass.is_a(owner):  # an object that is handed ``self`` is not it
            env = {**env, receiver: Name(f"{owner.name}:{receiver}")}
            receiver = ""
        return Frame(owner, owner.path, function, env, function.bound, receiver)

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
        elsewhere = negation(conjunction(path))
        self._walk.invariants += [disjunction((elsewhere, part)) for part in _demanded(frame)]
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
        self, event: CallEvent, member: Member, frame: Frame, path: list[Expr], depth: int
    ) -> None:
        call = event.call
        func = call.func
        target = super_target(call, member.owner, self.klass, frame.receiver)
        if target is None and isinstance(func, Attr) and func.value == Name(frame.receiver):
            target = self.klass.method(func.name)
        if target is None or target.function is None:
            return
        inner = conjunction((*path, *frame.condition(event.cond, fatal=False)))
        if inner == FALSE or inner in self._walk.helpers.get(id(target.function), ()):
            return
        if target.function.name != "__init__":
            self._walk.helpers.setdefault(id(target.function), set()).add(inner)
        arguments = self._bound(target, call, frame)
        if target.function.name == "__init__":
            for name, value in arguments.items():
                if isinstance(value, Const) and value.text in {"True", "False"}:
                    self._walk.passed.append(
                        Passed(member.owner, target.owner, name, value, event.line)
                    )
        self._construct(target, arguments, [inner], depth + 1)

    def _bound(self, target: Member, call: Call, frame: Frame) -> dict[str, Expr]:
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
            for _, function, _ in writes:
                if id(function) in self._walk.visited or function.name == "__init__":
                    continue
                member = klass.members.get(function.name)
                if member is None or member.function is None:
                    continue
                if member.function is function or calls_up(klass, member, function):
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
                and is_pure(only.value)
            ):
                found[attr] = only.value
        return found

    def _predicate(self, item: Attr, kind: str) -> Expr | None:
        """What a property or method without arguments returns, where it does nothing else."""
        if item.value != SELF:
            return None
        if (item.name, kind) not in self._predicates:
            self._predicates[item.name, kind] = self._returned(item.name, kind)
        return self._predicates[item.name, kind]

    def _returned(self, name: str, kind: str) -> Expr | None:
        member = self.klass.method(name)
        if member is None or member.function is None or kind_of(member.function) != kind:
            return None
        function = member.function
        returned = [e for e in function.events if isinstance(e, Return)]
        if len(returned) != 1 or any(isinstance(e, (Bind, Write)) for e in function.events):
            return None
        value = self._frame(member.owner, function, {}).substituted(returned[0].value)
        return value if returned[0].cond == -1 and is_pure(value) else None

    def normal(self, expr: Expr) -> Expr:
        """``expr`` with defined attributes replaced, as a formula."""
        found = self._normal.get(expr)
        if found is None:
            found = self._normal[expr] = self._normalized(expr)
        return found

    def _normalized(self, expr: Expr) -> Expr:
        def replace(item: Expr, seen: frozenset[str]) -> Expr | None:
            if isinstance(item, Attr) and item.value == SELF and item.name not in seen:
                definition = self.definitions.get(item.name) or self._predicate(item, "property")
                if definition is not None:
                    inner = seen | {item.name}
                    return substitute(definition, lambda e: replace(e, inner))
            if isinstance(item, Call) and item == Call(item.func) and isinstance(item.func, Attr):
                definition = self._predicate(item.func, "method")
                if definition is not None and item.func.name not in seen:
                    inner = seen | {item.func.name}
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
        return {a: c for a, c in self.partial.items() if a not in self.stored_later}

    @cached_property
    def partial(self) -> dict[str, Expr]:
        """As :attr:`conditional`, with those that a method may store after construction."""
        members = self.klass.members
        if not self.klass.complete or "__getattr__" in members:
            return {}
        found: dict[str, Expr] = {}
        for attr in self.creations:
            if attr in members:
                continue
            condition = self.condition_of(attr)
            known = relevant(self.invariants, [condition])
            if condition != TRUE and not implies(known, condition):
                found[attr] = condition
        return found

    def readings(self, entries: Iterable[Member], attrs: Iterable[str]) -> Iterator[Reading]:
        """Where the methods ``entries`` read one of ``attrs``, directly or through calls."""
        wanted = frozenset(attrs)
        if not wanted:
            return
        touching = Touching(self._project, self.klass, wanted)
        for entry in entries:
            if entry.function is not None and touching.reaches(entry):
                env = self._parameters if entry.name == "__init__" else {}
                seen: dict[int, list[frozenset[Expr]]] = {}
                yield from self._read(entry, env, (), (entry,), wanted, touching, seen)

    def _read(
        self,
        member: Member,
        env: Mapping[str, Expr],
        path: tuple[Expr, ...],
        chain: tuple[Member, ...],
        wanted: frozenset[str],
        touching: Touching,
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
        checked: list[tuple[int, list[Expr]]] = []

        def way(cond: int) -> tuple[Expr, ...]:
            """The conditions at an event, with those on which calls before it would have raised."""
            above = set(_above(function, cond))
            demanded = [e for at, found in checked if at in above for e in found]
            return (*path, *frame.condition(cond), *demanded)

        for event in function.events:
            if isinstance(event, Read):
                if event.probe or event.caught or not frame.is_self(event.value):
                    continue
                property_ = self.klass.members.get(event.name)
                if event.name in wanted:
                    yield Reading(
                        event.name,
                        way(event.cond),
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
                    inner = way(event.cond)
                    yield from self._read(
                        property_, {}, inner, (*chain, property_), wanted, touching, seen
                    )
            elif isinstance(event, CallEvent) and not event.caught:
                func = event.call.func
                if isinstance(func, Attr) and func.name in wanted:
                    if frame.is_self(func.value):
                        yield Reading(
                            func.name, way(event.cond), member.owner, function, event.line, chain
                        )
                target, arguments = self._called(event.call, member, frame)
                if target is None or target.function is None:
                    continue
                if touching.reaches(target):
                    yield from self._read(
                        target, arguments, way(event.cond), (*chain, target), wanted, touching, seen
                    )
                demanded = _demanded(self._frame(target.owner, target.function, arguments))
                if demanded:
                    checked.append((event.cond, demanded))

    def _called(
        self, call: Call, member: Member, frame: Frame
    ) -> tuple[Member | None, dict[str, Expr]]:
        target = super_target(call, member.owner, self.klass, frame.receiver)
        if target is None and isinstance(call.func, Attr):
            if frame.is_self(call.func.value):
                target = self.klass.method(call.func.name)
        if target is None:
            target = constructor(self._project, self.klass, frame.path, call)
        if target is None or target.function is None:
            return None, {}
        arguments = {
            name: value
            for name, value in self._bound(target, call, frame).items()
            if not (isinstance(value, Name) and value.id.startswith(f"{target.owner.name}:"))
        }
        return target, arguments

    def guarded(self, reading: Reading, condition: Expr) -> bool:
        """Whether the guards on the way to a reading imply ``condition``, or may well do so."""
        premises = self.premises(map(self.normal, reading.path), condition)
        return undecided((*premises, condition)) or implies(premises, condition)

    def premises(self, path: Iterable[Expr], condition: Expr = TRUE) -> list[Expr]:
        """``path`` with what construction says of the attributes in it, and of ``condition``."""
        path = list(path)
        found = [*relevant(self.invariants, (*path, condition)), *path]
        for part in list(found):
            for atom in atoms(part):
                meaning = self._meanings.get(atom)
                if meaning is None:
                    meaning = self._meanings[atom] = self._meaning(atom)
                found += meaning
        return found

    def _meaning(self, atom: Expr) -> list[Expr]:
        """``self.x`` is true, not None, or ``> 1``, only where it was assigned such a value."""
        none = isinstance(atom, Compare) and atom.op == "is" and atom.right == Const("None")
        compared = isinstance(atom, Compare) and isinstance(atom.right, Const)
        target = atom.left if isinstance(atom, Compare) and compared else atom
        if not (isinstance(target, Attr) and target.value == SELF):
            return []
        creations = self.creations.get(target.name)
        if not creations or target.name in self.stored_later or target.name in self.klass.members:
            return []

        def can(value: Expr | None) -> Expr:
            if value is None:
                return TRUE
            if isinstance(atom, Compare) and compared:
                normal = self.normal(Compare(value, atom.op, atom.right))
            else:
                normal = self.normal(value)
            held = negation(normal) if none else normal
            return held if not _mentions(held, target) else TRUE

        when = disjunction(conjunction((self.normal(c.condition), can(c.value))) for c in creations)
        found = [disjunction((atom if none else negation(atom), when))]
        if compared and not none:
            return found
        for index, creation in enumerate(creations):
            # assigned under c and not replaced later: it is not None (or false) where c holds
            if not _surely(creation.value, none):
                continue
            later = [self.normal(c.condition) for c in creations[index + 1 :]]
            held = negation(atom) if none else atom
            found.append(disjunction((negation(self.normal(creation.condition)), held, *later)))
        return found

    @cached_property
    def invariants(self) -> list[Expr]:
        """What construction asserts, so that it holds in every instance."""
        return [self.normal(part) for part in self._walk.invariants]


def _surely(value: Expr | None, not_none: bool) -> bool:
    """Whether a value is certainly not None (or, without ``not_none``, certainly true)."""
    if isinstance(value, Const):
        return value.text != "None" if not_none else formula(value) == TRUE
    if not not_none:
        return False
    if isinstance(value, Call):
        return dotted(value.func) not in {"getattr", "next"} and not dotted(value.func).endswith(
            ".get"
        )
    return isinstance(value, (Seq, Compare, Not))


def _mentions(expr: Expr, target: Expr) -> bool:
    return any(
        a == target or (isinstance(a, Compare) and target in (a.left, a.right)) for a in atoms(expr)
    )
