"""Names that callers ask of a wrapper, that what it wraps has, and that it does not pass on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lint_rules.exposure import Exposure, Use, View, Wrapper
from lint_rules.facts import Call, Const, Expr, Name
from lint_rules.conditions import atoms, formula
from lint_rules.link import Klass, Member, is_abstract, kind_of, shape
from mla_guard.drift import Call as Arguments
from mla_guard.drift import binding_errors

__all__ = ["Gap", "gaps"]

_FOREIGN = 3
"""A file that needs so many names which a wrapper lacks was not written for that wrapper."""

_LINEAGES = 3
"""So many unrelated backends that define a name make it a protocol, declared or not."""


@dataclass(frozen=True, slots=True)
class Gap:
    """``name`` as ``uses`` ask it of ``wrapper``; ``implementers`` are inner classes that have it."""

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
    if use.call is not None and isinstance(use.call.func, Name):
        return True
    asked: Expr = Call(Name("hasattr"), (use.base, Const(repr(use.name))))
    return any(asked in atoms(formula(part)) for part in use.scope.path_of(use.cond))


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
        if not _composes(wrapper):
            continue
        foreign = _foreign(view, wrapper)
        for name in sorted(view.uses):
            gap = _gap(view, wrapper, name, foreign)
            if gap is not None:
                found[wrapper.klass, name] = gap
    for (klass, name), gap in found.items():
        if not any((parent, name) in found for parent in klass.mro[1:]):
            yield gap


def _composes(wrapper: Wrapper) -> bool:
    """Whether it wraps whatever is configured, and is not a leaf with a helper of one kind."""
    if any(wrapper.klass.is_a(k) for t in wrapper.held.values() for k in t.classes if k.root is not k):
        return False
    return any(
        k is k.root or len(list(k.descendants)) > 1
        for typed in wrapper.held.values()
        for k in typed.classes
    )


@dataclass(frozen=True, slots=True)
class _Foreign:
    """Callers and protocols that a wrapper was evidently not written for."""

    files: frozenset[str]
    protocols: frozenset[frozenset[str]]


def _foreign(view: View, wrapper: Wrapper) -> _Foreign:
    """Files that need several names which the wrapper lacks, and leaves that only they are for."""
    by_file: dict[str, set[str]] = {}
    by_protocol: dict[frozenset[str], set[str]] = {}
    for name in view.uses:
        if view.exposure(wrapper.klass, name).kind != "absent":
            continue
        uses = [u for u in view.callers_of(wrapper.klass, name) if not is_guarded(u)]
        for use in uses:
            by_file.setdefault(use.scope.path, set()).add(name)
        if uses:
            protocol = _lineages(view.implementers(wrapper, name))
            by_protocol.setdefault(protocol, set()).add(name)
    return _Foreign(
        frozenset(path for path, names in by_file.items() if len(names) >= _FOREIGN),
        frozenset(p for p, names in by_protocol.items() if p and len(names) >= _FOREIGN),
    )


def _gap(view: View, wrapper: Wrapper, name: str, foreign: _Foreign) -> Gap | None:
    klass = wrapper.klass
    exposure = view.exposure(klass, name)
    if exposure.kind in {"own", "dynamic"} or any(name in w.held for w in view.wrappers):
        return None
    defining = {k.path for k in view.backends}
    uses = [
        u
        for u in view.callers_of(klass, name)
        if u.scope.path not in foreign.files and u.scope.path not in defining
    ]
    implementers = view.implementers(wrapper, name) if uses else []
    if not implementers:
        return None
    siblings = [
        w
        for w in view.wrappers
        if _composes(w)
        and not w.klass.is_a(klass)
        and not klass.is_a(w.klass)
        and view.exposure(w.klass, name).kind == "own"
        and _for_all(w, name)
    ]
    composites = {w.klass for w in view.wrappers if _composes(w)}
    leaves = [k for k in implementers if k not in composites]
    if not leaves:
        return None
    protocol = _lineages(leaves)
    if any(protocol <= other for other in foreign.protocols):
        return None
    lineages = len(protocol)
    if exposure.kind == "default" and not _default_matters(exposure, uses, leaves):
        return None
    gap = Gap(wrapper, name, exposure, tuple(uses), tuple(leaves), tuple(siblings))
    probing = {id(u.scope) for u in uses if u.kind == "probe"}
    if (
        (siblings and (lineages > 1 or gap.effect != "silent"))
        or lineages >= _LINEAGES
        or len(probing) > 1
    ):
        return gap
    return None


def _for_all(wrapper: Wrapper, name: str) -> bool:
    """Whether a wrapper gives the name to whatever it wraps, not to a held backend of one kind."""
    attrs = [a for d in wrapper.delegations if d.name == name for a in d.attrs]
    return not attrs or any(
        k is k.root for attr in attrs if attr in wrapper.held for k in wrapper.held[attr].classes
    )


def _lineages(leaves: Iterable[Klass]) -> frozenset[str]:
    """The topmost of the given classes, by name: platform twins of one name are one."""
    having = set(leaves)
    return frozenset(k.name for k in having if not any(p in having for p in k.mro[1:]))


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
