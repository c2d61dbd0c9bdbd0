"""Names that callers ask of a wrapper, that what it wraps has, and that it does not pass on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lint_rules.exposure import Exposure, View, Wrapper, constant_of
from lint_rules.facts import Call, Const, Expr, Name
from lint_rules.link import Klass, Member, is_abstract, kind_of, shape
from lint_rules.permissions import insists, keeps, permissions
from lint_rules.routed import declares_routes, routes_of
from lint_rules.uses import Use
from mla_guard.drift import Call as Arguments
from mla_guard.drift import binding_errors

__all__ = [
    "LINEAGES",
    "Foreign",
    "Gap",
    "arguments",
    "foreign",
    "gaps",
    "is_guarded",
    "lineages_of",
]

_FOREIGN = 3
"""A leaf of which a wrapper lacks so many hooks is not one that it wraps."""

LINEAGES = 3
"""So many unrelated backends that define a name make it a protocol, declared or not."""


@dataclass(frozen=True, slots=True)
class Gap:
    """``name`` as ``uses`` ask it of ``wrapper``, and the inner classes that implement it."""

    wrapper: Wrapper
    name: str
    exposure: Exposure
    uses: tuple[Use, ...]
    implementers: tuple[Klass, ...]
    siblings: tuple[Wrapper, ...]

    @property
    def is_hook(self) -> bool:
        """Whether the name is called (and not read as a value)."""
        return any(
            m.function is not None and kind_of(m.function) != "property"
            for k in self.implementers
            if (m := k.members.get(self.name)) is not None
        )

    @property
    def unguarded(self) -> tuple[Use, ...]:
        return tuple(u for u in self.uses if not is_guarded(u))

    @property
    def effect(self) -> str:
        """What an instance of the wrapper does at such a use: an exception's name or ``silent``."""
        if self.exposure.kind == "absent":
            return "AttributeError" if self.unguarded else "silent"
        member = self.exposure.member
        if member is not None and member.function is not None:
            if is_abstract(member.function) and kind_of(member.function) != "property":
                return "NotImplementedError"
            if member.function.body == "code":
                return "TypeError"
        return "silent"


def is_guarded(use: Use) -> bool:
    """Whether the use is a probe, or happens only after one for the same name."""
    if use.kind == "probe" or use.caught:
        return True
    if use.call is not None and isinstance(use.call.func, Name) and not use.delegated:
        return True
    if use.cond == -1:
        return False
    asked: Expr = Call(Name("hasattr"), (use.base, Const(repr(use.name))))
    return asked in use.scope.asked(use.cond)


def arguments(call: Call) -> Arguments:
    """The arguments of a call as the signature comparison takes them."""
    return Arguments(
        len(call.args),
        tuple(name for name, _ in call.keywords),
        call.star,
        call.double_star,
        tuple(a.id if isinstance(a, Name) else None for a in call.args),
    )


def gaps(view: View) -> Iterator[Gap]:
    """Every gap of every wrapper, reported on the topmost class that has it."""
    found: dict[tuple[Klass, str], Gap] = {}
    for wrapper in view.wrappers:
        if not wrapper.composes:
            continue
        strange = foreign(view, wrapper)
        routed = declares_routes(wrapper.klass)
        for name in sorted(view.uses):
            if routed and _has_routes(view, wrapper, name):
                continue
            gap = _gap(view, wrapper, name, strange)
            if gap is not None:
                found[wrapper.klass, name] = gap
    for (klass, name), gap in found.items():
        if not any((parent, name) in found for parent in klass.mro[1:]):
            yield gap


@dataclass(frozen=True, slots=True)
class Foreign:
    """Protocols of leaves that a wrapper was evidently not written for, as the names of the leaves.

    A model that brings a backend of its own calls many hooks which only that backend has; that a
    wrapper has none of them says that the two do not meet.
    """

    protocols: frozenset[frozenset[str]]

    def covers(self, lineages: frozenset[str]) -> bool:
        """Whether all of ``lineages`` belong to one such leaf."""
        return any(lineages <= protocol for protocol in self.protocols)

    def excludes(self, klass: Klass) -> bool:
        """Whether ``klass`` belongs to such a leaf."""
        return any({k.name for k in klass.mro} & protocol for protocol in self.protocols)


def foreign(view: View, wrapper: Wrapper) -> Foreign:
    """The leaves of which several hooks are called somewhere and missing on the wrapper."""
    missing: dict[frozenset[str], int] = {}
    for name in view.uses:
        if view.exposure(wrapper.klass, name).kind == "absent" and any(
            not is_guarded(u) for u in view.callers_of(wrapper.klass, name)
        ):
            protocol = lineages_of(_leaves(view, view.implementers(wrapper, name)))
            if 0 < len(protocol) <= LINEAGES:
                missing[protocol] = missing.get(protocol, 0) + 1
    return Foreign(frozenset(p for p, count in missing.items() if count >= _FOREIGN))


def _leaves(view: View, classes: Iterable[Klass]) -> list[Klass]:
    """The classes that are no composites themselves."""
    return [k for k in classes if (w := view.wrapper(k)) is None or not w.composes]


def _gap(view: View, wrapper: Wrapper, name: str, strange: Foreign) -> Gap | None:
    klass = wrapper.klass
    exposure = view.exposure(klass, name)
    if exposure.kind in {"own", "dynamic"} or any(name in w.held for w in view.wrappers):
        return None
    uses = [
        u
        for u in view.callers_of(klass, name)
        if u.scope.path not in view.defining
        and not (u.scope.klass is not None and view.is_helper(u.scope.klass))
        and not view.unwrapped(u, wrapper)
    ]
    implementers = view.implementers(wrapper, name) if uses else []
    if not implementers:
        return None
    siblings = [
        w
        for w in view.wrappers
        if w.composes
        and w.klass.root is klass.root
        and not _related(view, w.klass, klass)
        and view.exposure(w.klass, name).kind == "own"
        and _for_all(w, name)
    ]
    leaves = _leaves(view, implementers)
    if not leaves:
        # only other composites have it: the wrapper must be seen to wrap one, or a call to need one
        shown = view.shown_inside(wrapper)
        default = exposure.member
        needed = default is not None and any(_only_inner(u, default, implementers) for u in uses)
        leaves = [k for k in implementers if needed or k in shown]
    if not leaves:
        return None
    protocol = lineages_of(leaves)
    lineages = len(protocol)
    if strange.protocols:
        uses = [u for u in uses if not strange.covers(_addressed(view, [u], leaves) or protocol)]
        if not uses or strange.covers(protocol):
            return None
    if exposure.kind == "default" and not _default_matters(exposure, uses, leaves):
        return None
    gap = Gap(wrapper, name, exposure, tuple(uses), tuple(leaves), tuple(siblings))
    if gap.effect == "silent" and (_answered(view, gap) or all(map(insists, uses))):
        return None
    if gap.effect == "NotImplementedError" and _forbidden(view, gap):
        return None
    if siblings and (lineages > 1 or gap.effect != "silent" or _expected(exposure, siblings)):
        return gap
    # a protocol is what one file asks of several backends, each of which has all that it asks
    if max(len(_addressed(view, [u], leaves)) for u in uses) >= LINEAGES:
        return gap
    probing = {id(u.scope) for u in uses if u.kind == "probe"}
    definers = [
        k for k in leaves if name in k.own or any(k is o for o, _, _ in k.stored.get(name, ()))
    ]
    defined = max(
        sum(view.addressed(k, path) for k in definers) for path in {u.scope.path for u in uses}
    )
    return gap if len(probing) > 1 and defined > 1 else None


def _has_routes(view: View, wrapper: Wrapper, name: str) -> bool:
    """Whether the declared routes, or that there is none for it, settle what becomes of a name."""
    root = wrapper.klass.root
    return (
        name in routes_of(wrapper.klass)
        or (root is not None and name in root.members)
        or any(k.method(name) is not None for k in wrapper.inner(view))
    )


def _addressed(view: View, uses: Iterable[Use], leaves: Iterable[Klass]) -> frozenset[str]:
    """The lineages of those leaves that have all that the files of some uses ask of a backend."""
    paths = {u.scope.path for u in uses}
    return lineages_of(k for k in leaves if any(view.addressed(k, path) for path in paths))


def _related(view: View, a: Klass, b: Klass) -> bool:
    """Whether two wrappers have a wrapper in common that they are or derive from."""
    return any(k in b.mro and view.wrapper(k) is not None for k in a.mro)


def _expected(exposure: Exposure, siblings: list[Wrapper]) -> bool:
    """Whether two unrelated wrappers that pass a name on make the others owe it too.

    A permission (a hook without arguments that answers False unless a backend grants it) is not
    owed: the default is a conservative no.
    """
    member = exposure.member
    permission = (
        member is not None
        and member.function is not None
        and kind_of(member.function) == "method"
        and len(member.function.params) == 1
        and constant_of(member) == Const("False")
    )
    return _independent(siblings) > 1 and not permission


def _independent(siblings: list[Wrapper]) -> int:
    """How many wrappers of which none derives from another."""
    classes = {s.klass for s in siblings}
    return sum(not any(k is not o and k.is_a(o) for o in classes) for k in classes)


def _for_all(wrapper: Wrapper, name: str) -> bool:
    """Whether a wrapper gives the name to whatever it wraps, not to a held backend of one kind."""
    attrs = [a for d in wrapper.delegations if d.name == name for a in d.attrs]
    return not attrs or any(
        k is k.root for attr in attrs if attr in wrapper.held for k in wrapper.held[attr].classes
    )


def lineages_of(leaves: Iterable[Klass]) -> frozenset[str]:
    """The topmost of the given classes, by name: platform twins of one name are one."""
    having = set(leaves)
    return frozenset(k.name for k in having if not any(p in having for p in k.mro[1:]))


def _answered(view: View, gap: Gap) -> bool:
    """Whether a silent default is right, since one of the held backends always answers with it.

    A flag has to hold for all that a wrapper holds; where one of them is known to be of a kind that
    keeps the default, so is the answer. So it is for a hook where that is one leaf: a wrapper built
    around it serves the models of that leaf, of which nobody asks the hook.
    """
    member, wrapper = gap.exposure.member, gap.wrapper
    if gap.exposure.kind == "default" and member is None:
        return False
    flag = member is not None and (
        member.function is None or kind_of(member.function) == "property"
    )
    for attr, typed in wrapper.held.items():
        kinds = view.kinds(wrapper, attr)
        if not kinds or typed.many or (not flag and view.roles.intersection(kinds)):
            continue
        if all(
            view.exposure(k, gap.name).kind == "absent" or keeps(view, k, gap.name) for k in kinds
        ):
            return True
    return False


def _forbidden(view: View, gap: Gap) -> bool:
    """Whether the wrapper answers no to a flag without which nobody calls the hook."""
    root = gap.wrapper.klass.root
    definers = [k for k in gap.implementers if gap.name in k.own]
    return root is not None and any(
        keeps(view, gap.wrapper.klass, flag) for flag in permissions(view, root, definers)
    )


def _default_matters(exposure: Exposure, uses: list[Use], leaves: list[Klass]) -> bool:
    """Whether the root's default answers otherwise than the wrapped backend would.

    A default with code of its own (a template that calls other hooks) is right as it is, unless a
    call in the tree binds to the wrapped backends only.
    """
    member = exposure.member
    if member is None or member.function is None or member.function.body != "code":
        return True
    if kind_of(member.function) == "property":
        return False
    return any(_only_inner(u, member, leaves) for u in uses)


def _only_inner(use: Use, default: Member, leaves: list[Klass]) -> bool:
    if use.call is None or default.function is None:
        return False
    call = arguments(use.call)
    if not binding_errors(shape(default.function), call):
        return False
    return any(
        m.function is not None and not binding_errors(shape(m.function), call)
        for k in leaves
        if (m := k.members.get(use.name)) is not None
    )
