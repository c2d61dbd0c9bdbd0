"""What callers ask of a backend, which classes wrap others, and what a wrapper passes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from lint_rules.answers import Answers, Exposure, asks, constant_of
from lint_rules.facts import (
    And,
    Attr,
    Bind,
    Call,
    CallEvent,
    Expr,
    IfElse,
    Item,
    Name,
    Or,
    Read,
    Seq,
)
from lint_rules.handing import Target, asked_by, method_value
from lint_rules.link import Klass, Project, is_abstract, kind_of, shape
from lint_rules.routed import declares_routes
from lint_rules.types import Scope, Typed
from lint_rules.uses import Use
from mla_guard.drift import signature_of

__all__ = ["Delegation", "Exposure", "View", "Wrapper", "constant_of"]


@dataclass(frozen=True, slots=True)
class Delegation:
    """A wrapper's method hands a call or read of ``name`` to held backends ``attrs``.

    ``delegated``: by the guard's ``delegate``, which drops what the contract lets it drop.
    """

    name: str
    attrs: frozenset[str]
    base: Expr
    scope: Scope
    line: int
    cond: int
    call: Call | None
    optional: bool
    delegated: bool = False


@dataclass(frozen=True, slots=True)
class Construction:
    """A wrapper is built: what one held attribute becomes.

    ``classes`` are the only ones that it can be of, empty where that is open; ``seen`` are those
    that some path hands in.
    """

    attr: str
    scope: Scope
    event: CallEvent
    classes: tuple[Klass, ...]
    seen: frozenset[Klass]


@dataclass(eq=False)
class Wrapper:
    """A backend that holds backends and hands hooks on to them."""

    klass: Klass
    held: dict[str, Typed]
    delegations: list[Delegation] = field(default_factory=list)
    _inner: list[Klass] | None = None

    @cached_property
    def composes(self) -> bool:
        """Whether it wraps whatever is configured, and is not a leaf with a helper of one kind."""
        named = [k for typed in self.held.values() for k in typed.named]
        if any(self.klass.is_a(k) for k in named if k.root is not k):
            return False
        return any(
            k is k.root or len(k.descendants) > 1
            for typed in self.held.values()
            for k in typed.classes
            if k.root is self.klass.root
        )

    def inner(self, view: View) -> list[Klass]:
        """The classes that it can hold, by declaration; never its own kind."""
        if self._inner is None:
            found = {klass for attr in self.held for klass in self.inside(view, attr)}
            self._inner = sorted(found, key=lambda k: (k.path, k.line))
        return self._inner

    def inside(self, view: View, attr: str) -> list[Klass]:
        """The classes that one held attribute can be of, as :meth:`inner` has them."""
        typed, needed = self.held[attr], view.needed(self, attr)
        return [
            klass
            for klass in view.kinds(self, attr) or typed.possible
            if not klass.is_a(self.klass)
            and klass is not klass.root
            and view.in_role(klass, typed)
            and (
                view.wrapper(klass) is not None
                or all(view.exposure(klass, name).kind != "absent" for name in needed)
            )
        ]


class View(Answers):
    """The families below the given roots, seen from their callers."""

    def __init__(self, project: Project, roots: list[Klass]) -> None:
        super().__init__(project, roots)
        self._built: dict[Klass, list[Construction]] = {}
        self._callers: dict[tuple[Klass, str], list[Use]] = {}
        self._implementers: dict[tuple[Klass, str], list[Klass]] = {}
        self._needed: dict[tuple[Klass, str], frozenset[str]] = {}
        self._in_steps: dict[Klass, bool] = {}

    @cached_property
    def wrappers(self) -> list[Wrapper]:
        """Every backend that hands at least one hook of its own name to a backend it holds.

        So is one that declares where it routes hooks to.
        """
        found: list[Wrapper] = []
        for klass in self.backends:
            wrapper = Wrapper(klass, self.types.held(klass))
            if not wrapper.held:
                continue
            wrapper.delegations = list(self._delegations(wrapper))
            if declares_routes(klass) or any(
                d.name == d.scope.function.name and d.call for d in wrapper.delegations
            ):
                found.append(wrapper)
        return found

    def wrapper(self, klass: Klass) -> Wrapper | None:
        """The wrapper that ``klass`` is, or None."""
        return self._by_class.get(klass)

    @cached_property
    def _by_class(self) -> dict[Klass, Wrapper]:
        return {w.klass: w for w in self.wrappers}

    def _delegations(self, wrapper: Wrapper) -> Iterator[Delegation]:
        for member in wrapper.klass.members.values():
            if member.function is None or member.owner.root is None:
                continue
            if member.owner is wrapper.klass.root:
                continue
            scope = self.types.scope(member.owner, member.function)
            bound: dict[str, list[Target]] = {}
            for event in member.function.events:
                if isinstance(event, Bind):
                    target = method_value(event.value)
                    if target is not None:
                        bound[event.name] = [target]
                elif isinstance(event, CallEvent):
                    for target, call in asked_by(event.call, bound):
                        attrs = self._handed_to(wrapper, target.base, scope)
                        if attrs:
                            yield Delegation(
                                target.name, attrs, target.base, scope, event.line, event.cond,
                                call, event.caught or target.probed, target.delegated,
                            )  # fmt: skip
                elif isinstance(event, Read):
                    attrs = self._handed_to(wrapper, event.value, scope)
                    if attrs:
                        yield Delegation(
                            event.name, attrs, event.value, scope, event.line, event.cond, None,
                            event.probe or event.caught,
                        )  # fmt: skip

    def _handed_to(self, wrapper: Wrapper, base: Expr, scope: Scope) -> frozenset[str]:
        """The held attributes of which ``base`` is a backend, and not the container of several."""
        typed = scope.typed(base)
        if typed is not None and typed.many:
            return frozenset()
        return self.provenance(wrapper, base, scope)

    def needed(self, wrapper: Wrapper, attr: str) -> frozenset[str]:
        """What the wrapper's own code asks of a held backend, hooks that it hands on left aside.

        An attribute that is assigned from another one (``self.active = self.backend``) is the same
        backend.
        """
        key = (wrapper.klass, attr)
        found = self._needed.get(key)
        if found is None:
            same = {attr}
            for other, writes in wrapper.klass.stored.items():
                if other in wrapper.held:
                    for owner, function, write in writes:
                        scope = self.types.scope(owner, function)
                        if write.value is not None and attr in self.provenance(
                            wrapper, write.value, scope
                        ):
                            same.add(other)
            found = self._needed[key] = frozenset(
                d.name
                for d in wrapper.delegations
                if d.attrs <= same
                and not d.optional
                and not asks(d.scope.path_of(d.cond))
                and d.name != d.scope.function.name
                and d.scope.function.name != "__init__"
            )
        return found

    def constructions(self, wrapper: Wrapper) -> list[Construction]:
        """Where the tree builds a wrapper itself, and around what."""
        found = self._built.get(wrapper.klass)
        if found is None:
            found = self._built[wrapper.klass] = list(self._constructions(wrapper))
        return found

    def _constructions(self, wrapper: Wrapper) -> Iterator[Construction]:
        init = wrapper.klass.method("__init__")
        if init is None or init.function is None:
            return
        slots = {
            write.value.id: attr
            for attr, writes in wrapper.klass.stored.items()
            for _, function, write in writes
            if function is init.function and isinstance(write.value, Name) and attr in wrapper.held
        }
        for scope, event in self._building.get(wrapper.klass, ()):
            try:
                bound = signature_of(shape(init.function)).bind_partial(
                    *event.call.args, **dict(event.call.keywords)
                )
            except TypeError:
                continue
            for parameter, value in bound.arguments.items():
                if parameter in slots:
                    classes = tuple(_exactly(scope, value, event.line))
                    typed = scope.typed(value)
                    seen = typed.exact if typed is not None else frozenset()
                    yield Construction(slots[parameter], scope, event, classes, seen)

    def shown_inside(self, wrapper: Wrapper) -> frozenset[Klass]:
        """The classes that some construction of a wrapper hands to it, as far as it is known."""
        return frozenset(k for c in self.constructions(wrapper) for k in c.seen)

    def kinds(self, wrapper: Wrapper, attr: str) -> list[Klass]:
        """The only classes that a held attribute can be of, empty where that is open.

        By a declaration narrower than the base class, or by constructions of which each is known.
        """
        typed = wrapper.held[attr]
        if not any(k is k.root for k in typed.classes):
            return [k for k in typed.possible if k is not k.root]
        built = [c.classes for c in self.constructions(wrapper) if c.attr == attr]
        if not built or not all(built):
            return []
        return sorted({k for classes in built for k in classes}, key=lambda k: (k.path, k.line))

    def provenance(
        self, wrapper: Wrapper, expr: Expr, scope: Scope, depth: int = 0
    ) -> frozenset[str]:
        """The held attributes that ``expr`` can stand for."""
        if depth > 8:
            return frozenset()

        def again(inner: Expr) -> frozenset[str]:
            return self.provenance(wrapper, inner, scope, depth + 1)

        if isinstance(expr, Attr) and expr.value == Name(scope.receiver):
            if expr.name in wrapper.held:
                return frozenset([expr.name])
            return self._given_by(wrapper, expr.name, "property", depth)
        if isinstance(expr, Name):
            return _union(again(b.value) for b in scope.binds.get(expr.id, ()))
        if isinstance(expr, Item):
            return again(expr.value)
        if isinstance(expr, (Seq, Or, And)):
            return _union(again(item) for item in expr.items)
        if isinstance(expr, IfElse):
            return again(expr.then) | again(expr.other)
        if isinstance(expr, Call) and isinstance(expr.func, Attr):
            if expr.func.value == Name(scope.receiver):
                return self._given_by(wrapper, expr.func.name, "method", depth)
        return frozenset()

    def _given_by(self, wrapper: Wrapper, name: str, kind: str, depth: int) -> frozenset[str]:
        """The held attributes that a method or property of the wrapper returns."""
        member = wrapper.klass.method(name)
        if member is None or member.function is None or kind_of(member.function) != kind:
            return frozenset()
        inner = self.types.scope(member.owner, member.function)
        return _union(
            self.provenance(wrapper, event.value, inner, depth + 1)
            for event in member.function.returned
        )

    def unwrapped(self, use: Use, wrapper: Wrapper) -> bool:
        """Whether the class around a use puts what the wrapper holds in the wrapper's place.

        ``replace(ctx, backend=ctx.backend.inner)``: what is read off ``ctx.backend`` afterwards is
        asked of the inner backend.
        """
        if use.scope.klass is None or not isinstance(use.base, Attr):
            return False
        slot = use.base.name
        return any(
            isinstance(bind.value, Attr)
            and bind.value.name in wrapper.held
            and isinstance(bind.value.value, Attr)
            and bind.value.value.name == slot
            for method in use.scope.klass.facts.methods
            for local in method.passed_on.get(slot, ())
            for bind in method.bound.get(local, ())
        )

    def callers_of(self, klass: Klass, name: str) -> list[Use]:
        """Outer uses of ``name`` that an instance of ``klass`` can reach."""
        key = (klass, name)
        found = self._callers.get(key)
        if found is None:
            outer = self.outer_uses(name)
            found = self._callers[key] = [u for u in outer if u.admits(klass, self)]
        return found

    def implementers(self, wrapper: Wrapper, name: str) -> list[Klass]:
        """Inner classes that give ``name`` a meaning of their own."""
        key = (wrapper.klass, name)
        if key not in self._implementers:
            self._implementers[key] = self._implementing(wrapper, name)
        return self._implementers[key]

    def _implementing(self, wrapper: Wrapper, name: str) -> list[Klass]:
        found: list[Klass] = []
        for klass in wrapper.inner(self):
            exposure = self.exposure(klass, name)
            if exposure.kind != "own" or self.in_steps(klass):
                continue
            member = exposure.member
            if member is not None and member.function is not None:
                if is_abstract(member.function) or self.same_as_root(klass, member):
                    continue
            elif member is not None and member.attr is not None and not klass.stored.get(name):
                if self.same_as_root(klass, member):
                    continue
            found.append(klass)
        return found

    def in_steps(self, klass: Klass) -> bool:
        """Whether a class holds backends of the kind that it derives from, one per step.

        A multi-step backend that subclasses the leaf of which it holds one per step answers to
        other callers than the leaf.
        """
        found = self._in_steps.get(klass)
        if found is None:
            found = self._in_steps[klass] = any(
                klass.is_a(k) and k is not k.root
                for typed in self.types.held(klass).values()
                for k in typed.named
            )
        return found


def _exactly(scope: Scope, value: Expr, line: int) -> list[Klass]:
    """The classes that ``value`` is built as, by assignments that stand before ``line``."""
    if isinstance(value, Name):
        if value.id in scope.params:
            return []
        binds = [b for b in scope.binds.get(value.id, ()) if b.line < line]
        found = [_exactly(scope, b.value, b.line) for b in binds]
        return [k for classes in found for k in classes] if all(found) else []
    typed = scope.typed(value)
    if typed is None or any(k is k.root for k in typed.classes):
        return []
    return sorted(typed.exact, key=lambda k: (k.path, k.line))


def _union(parts: Iterator[frozenset[str]]) -> frozenset[str]:
    result: frozenset[str] = frozenset()
    for part in parts:
        result |= part
    return result
