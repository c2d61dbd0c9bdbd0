"""What callers ask of a backend, which classes wrap others, and what a wrapper passes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from lint_rules.conditions import formula
from lint_rules.facts import (
    And,
    Attr,
    Bind,
    Call,
    CallEvent,
    Const,
    Expr,
    IfElse,
    Item,
    Name,
    Not,
    Or,
    Read,
    Seq,
    dotted,
)
from lint_rules.handing import Target, asked_by, method_value
from lint_rules.link import Klass, Member, Project, is_abstract, kind_of, shape
from lint_rules.routed import declares_routes
from lint_rules.types import Scope, Typed, Types
from lint_rules.uses import Use, UseKind
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


@dataclass(frozen=True, slots=True)
class Exposure:
    """How an instance of a class answers to a name.

    ``own``: the class or a parent below the root defines it. ``dynamic``: its ``__getattr__`` does.
    ``default``: only the root's definition is found. ``absent``: nothing is.
    """

    kind: Literal["own", "dynamic", "default", "absent"]
    member: Member | None = None
    shadowed: bool = False


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


class View:
    """The families below the given roots, seen from their callers."""

    def __init__(self, project: Project, roots: list[Klass]) -> None:
        self.project = project
        self.roots = roots
        self.types = Types(project, roots)
        self._roles: dict[Klass, Klass | None] = {}
        self._implementers: dict[tuple[Klass, str], list[Klass]] = {}
        self._exposures: dict[tuple[Klass, str], Exposure] = {}
        self._callers: dict[tuple[Klass, str], list[Use]] = {}
        self._outside: set[str] | None = None
        self._neighbourhoods: dict[str, str] = {}
        self._built: dict[Klass, list[Construction]] = {}
        self._needed: dict[tuple[Klass, str], frozenset[str]] = {}

    @cached_property
    def backends(self) -> list[Klass]:
        return [k for k in self.project.backends if k.root in self.types.roots]

    @cached_property
    def defining(self) -> frozenset[str]:
        """The files that define a backend."""
        return frozenset(k.path for k in self.backends)

    def neighbourhood(self, path: str) -> str:
        """The folder to whose backends the code in the file ``path`` belongs, empty for any.

        Code that stands nearer to some backend than to the base class, in a folder for one platform
        say, addresses the backends of that folder.
        """
        found = self._neighbourhoods.get(path)
        if found is None:
            roots = max((_shared(path, root.path) for root in self.roots), key=len, default="")
            near = max((_shared(path, k.path) for k in self.backends), key=len, default="")
            found = self._neighbourhoods[path] = near if len(near) > len(roots) else ""
        return found

    @cached_property
    def roles(self) -> frozenset[Klass]:
        """Bases of a family within the family, with callers and signatures of their own.

        A class below the root that some backend declares as the type of what it holds, beside what
        it declares with the root: linear attention next to full attention.
        """
        found: set[Klass] = set()
        for klass in self.backends:
            declared = [k for t in self.types.held(klass).values() for k in t.classes]
            if any(k is k.root for k in declared):
                found.update(k for k in declared if k is not k.root and k.children)
        return frozenset(found)

    def role_of(self, klass: Klass) -> Klass | None:
        """The base of the inner family that ``klass`` belongs to, or None."""
        if klass not in self._roles:
            self._roles[klass] = next((k for k in klass.mro if k in self.roles), None)
        return self._roles[klass]

    def in_role(self, klass: Klass, typed: Typed) -> bool:
        """Whether code that holds ``typed`` addresses ``klass``, and not only the family around."""
        role = self.role_of(klass)
        return role is None or any(k.is_a(role) for k in typed.named)

    @cached_property
    def uses(self) -> dict[str, list[Use]]:
        """What is asked of backends, by name."""
        found: dict[str, list[Use]] = {}
        for scope in self.types.busy_scopes():
            for use in self._uses_in(scope):
                found.setdefault(use.name, []).append(use)
        return found

    def outer_uses(self, name: str) -> list[Use]:
        """Uses of ``name`` on the backend that the engine configured."""
        return [u for u in self.uses.get(name, ()) if u.typed.outer and not self._inside(u.scope)]

    def addressed(self, klass: Klass, path: str) -> bool:
        """Whether ``klass`` has all that the file ``path`` asks of the configured backend.

        A model that brings a backend of its own asks for much that only this backend has.
        """
        return all(self.exposure(klass, n).kind != "absent" for n in self._demands.get(path, ()))

    @cached_property
    def _demands(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for name, uses in self.uses.items():
            for use in uses:
                kept = use.call is not None and isinstance(use.call.func, Name)
                if use.kind == "probe" or use.caught or kept or not use.typed.outer:
                    continue
                path = use.scope.path_of(use.cond)
                if not _asks(path) and not _chosen_by_name(path):
                    found.setdefault(use.scope.path, set()).add(name)
        return found

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

    def is_helper(self, klass: Klass) -> bool:
        """Whether only backends build a class: what it asks, it asks of the one that built it."""
        built = self._building.get(klass, ())
        return bool(built) and all(self._inside(scope) for scope, _ in built)

    def _inside(self, scope: Scope) -> bool:
        return scope.klass is not None and scope.klass.root in self.types.roots

    def _uses_in(self, scope: Scope) -> Iterator[Use]:
        bound: dict[str, list[Target]] = {}
        for event in scope.function.events:
            if isinstance(event, Bind):
                target = method_value(event.value)
                if target is not None:
                    bound.setdefault(event.name, []).append(target)
            elif isinstance(event, Read):
                typed = self._single(scope, event.value)
                if typed is not None:
                    kind: UseKind = "probe" if event.probe or event.caught else "read"
                    yield Use(
                        event.name, kind, event.value, typed, scope, event.line, event.cond,
                        event.caught,
                    )  # fmt: skip
            elif isinstance(event, CallEvent):
                for target, call in asked_by(event.call, bound):
                    typed = self._single(scope, target.base)
                    if typed is not None:
                        yield Use(
                            target.name, "read" if call is None else "call", target.base, typed,
                            scope, event.line, event.cond, event.caught, call, target.delegated,
                        )  # fmt: skip

    def _single(self, scope: Scope, base: Expr) -> Typed | None:
        if isinstance(base, Name) and base.id == scope.receiver:
            return None
        typed = scope.typed(base)
        return typed if typed is not None and not typed.many else None

    def classes_of(self, expr: Expr, path: str) -> list[Klass]:
        """The classes named by the second argument of ``isinstance``."""
        if isinstance(expr, (Seq, Or)):
            return [k for item in expr.items for k in self.classes_of(item, path)]
        name = dotted(expr)
        return self.project.resolve(path, name) if name else []

    def exposure(self, klass: Klass, name: str) -> Exposure:
        """How instances of ``klass`` answer to ``name``."""
        key = (klass, name)
        found = self._exposures.get(key)
        if found is None:
            found = self._exposures[key] = self._exposure(klass, name)
        return found

    def _exposure(self, klass: Klass, name: str) -> Exposure:
        member = klass.members.get(name)
        above = set(klass.root.mro) if klass.root is not None else set()
        if any(owner not in above for owner, _, _ in klass.stored.get(name, ())):
            return Exposure("own", member)
        if member is not None and member.owner not in above:
            return Exposure("own", member)
        getter = klass.members.get("__getattr__")
        dynamic = getter is not None and getter.owner not in above
        if member is not None or klass.stored.get(name):
            return Exposure("default", member, dynamic)
        if dynamic or not klass.complete:
            return Exposure("dynamic")
        return Exposure("absent")

    def constant(self, klass: Klass, name: str) -> bool | None:
        """The truth of a class flag that is a constant of the class and never stored."""
        member = klass.members.get(name)
        if member is None:
            return None
        if member.attr is not None and not klass.stored.get(name):
            value = member.attr.value
            if isinstance(value, Const) and not self.written_outside(name):
                return formula(value) == Const("True")
        is_property = member.function is not None and kind_of(member.function) == "property"
        return _constant_return(member) if is_property else None

    def returned_constant(self, klass: Klass, name: str) -> bool | None:
        """The truth of what a method returns where that is one constant."""
        member = klass.method(name)
        return _constant_return(member) if member is not None else None

    def truth(self, expr: Expr, klass: Klass, scope: Scope, depth: int = 0) -> bool | None:
        """What a flag is where the configured backend is a ``klass``, None where that is open.

        Flags are read off the backend, or kept from it in a local or an attribute of the caller.
        """
        if depth > 4:
            return None
        if isinstance(expr, Const):
            return formula(expr) == Const("True")
        if isinstance(expr, Not):
            inner = self.truth(expr.value, klass, scope, depth + 1)
            return None if inner is None else not inner
        if isinstance(expr, (And, Or)):
            known = [self.truth(i, klass, scope, depth + 1) for i in expr.items]
            decisive = isinstance(expr, Or)
            if decisive in known:
                return decisive
            return None if None in known else not decisive
        if isinstance(expr, Attr):
            if self._configured(expr.value, klass, scope):
                return self.constant(klass, expr.name)
            if expr.value == Name(scope.receiver) and scope.klass is not None:
                kept = [
                    None if w.value is None
                    else self.truth(w.value, klass, self.types.scope(owner, method), depth + 1)
                    for owner, method, w in scope.klass.stored.get(expr.name, ())
                ]  # fmt: skip
                return kept[0] if kept and len(set(kept)) == 1 else None
        if isinstance(expr, Name):
            kept = [
                self.truth(b.value, klass, scope, depth + 1) for b in scope.binds.get(expr.id, ())
            ]
            if expr.id not in scope.params and kept and len(set(kept)) == 1:
                return kept[0]
        if isinstance(expr, Call) and isinstance(expr.func, Attr) and not expr.args:
            if self._configured(expr.func.value, klass, scope):
                return self.returned_constant(klass, expr.func.name)
        if isinstance(expr, Call) and expr.func == Name("getattr") and len(expr.args) == 3:
            base, name, default = expr.args
            if isinstance(name, Const) and self._configured(base, klass, scope):
                if self.exposure(klass, name.text[1:-1]).kind == "absent":
                    return self.truth(default, klass, scope, depth + 1)
                return self.constant(klass, name.text[1:-1])
        return None

    def _configured(self, base: Expr, klass: Klass, scope: Scope) -> bool:
        typed = self._single(scope, base)
        return typed is not None and typed.outer and typed.holds(klass)

    def written_outside(self, name: str) -> bool:
        """Whether code outside of the class stores an attribute of that name on some object."""
        if self._outside is None:
            self._outside = {
                event.name
                for scope in self.types.scopes()
                for event in scope.function.writes
                if event.target != Name(scope.receiver)
            }
        return name in self._outside

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
                        attrs = self.provenance(wrapper, target.base, scope)
                        if attrs:
                            yield Delegation(
                                target.name, attrs, target.base, scope, event.line, event.cond,
                                call, event.caught or target.probed, target.delegated,
                            )  # fmt: skip
                elif isinstance(event, Read):
                    attrs = self.provenance(wrapper, event.value, scope)
                    if attrs:
                        yield Delegation(
                            event.name, attrs, event.value, scope, event.line, event.cond, None,
                            event.probe or event.caught,
                        )  # fmt: skip

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
                and not _asks(d.scope.path_of(d.cond))
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

    @cached_property
    def _building(self) -> dict[Klass, list[tuple[Scope, CallEvent]]]:
        """The calls of the tree that build a class, by class."""
        found: dict[Klass, list[tuple[Scope, CallEvent]]] = {}
        for scope, event, classes in self.types.naming_calls:
            for klass in classes:
                found.setdefault(klass, []).append((scope, event))
        return found

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
        return any(
            klass.is_a(k) and k is not k.root
            for typed in self.types.held(klass).values()
            for k in typed.named
        )

    def same_as_root(self, klass: Klass, member: Member) -> bool:
        """Whether a definition only repeats the root's constant."""
        declared = klass.root.members.get(member.name) if klass.root is not None else None
        if declared is None:
            return False
        mine, theirs = constant_of(member), constant_of(declared)
        return mine is not None and mine == theirs


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


def _asks(path: list[Expr]) -> bool:
    """Whether a condition on the way asks what an object is or has."""
    return any(w in repr(part) for part in path for w in ("isinstance", "hasattr", "getattr"))


def _chosen_by_name(path: list[Expr]) -> bool:
    """Whether a condition on the way compares with a text, such as the name of a backend."""
    return any(f"Const(text={quote}" in repr(part) for part in path for quote in ("\"'", "'\""))


def _shared(a: str, b: str) -> str:
    """The folder that two files share, with its slash."""
    shared: list[str] = []
    for mine, other in zip(a.split("/")[:-1], b.split("/")[:-1], strict=False):
        if mine != other:
            break
        shared.append(mine)
    return "/".join(shared) + "/" if shared else ""


def _union(parts: Iterator[frozenset[str]]) -> frozenset[str]:
    result: frozenset[str] = frozenset()
    for part in parts:
        result |= part
    return result


def _constant_return(member: Member) -> bool | None:
    value = constant_of(member)
    return None if value is None else formula(value) == Const("True")


def constant_of(member: Member) -> Expr | None:
    """The constant that a class attribute is, or that a property or method returns."""
    if member.attr is not None:
        return member.attr.value if isinstance(member.attr.value, Const) else None
    assert member.function is not None
    if member.function.body == "code":
        return None
    values = [e.value for e in member.function.returned]
    if not values and member.function.body == "trivial":
        return Const("None")
    return values[0] if len(values) == 1 and isinstance(values[0], Const) else None
