"""What every rule is handed: the linked project, its callers, places, and shared questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from lint_rules.declared import optional_arguments
from lint_rules.exposure import View
from lint_rules.facts import Attr, CallEvent, Name
from lint_rules.flow import Flow
from lint_rules.gaps import Foreign, Gap, arguments, foreign, gaps
from lint_rules.link import Klass, Member, Project, kind_of, shape
from lint_rules.places import Places
from lint_rules.siblings import Refusal, refusals
from lint_rules.uses import Use
from mla_guard.diagnostic import Related
from mla_guard.drift import Call, Shape, binding_errors, misplaced_positionals
from mla_guard.dropping import reduced

if TYPE_CHECKING:
    from lint_rules.kept import Kept

__all__ = ["Judge"]

T = TypeVar("T")


class Judge:
    """The project as the rules see it.

    ``classes`` are all classes below a root, those of companions included; ``view`` is limited to
    the backends.
    """

    def __init__(
        self, project: Project, backend_roots: list[Klass], sources: Mapping[str, bytes]
    ) -> None:
        self.project = project
        self.sources = sources
        self.view: View = View(project, backend_roots)
        self.places = Places(sources)
        self.kept: Kept | None = None
        self._flows: dict[tuple[Klass, bool], Flow] = {}
        self._foreign: dict[Klass, Foreign] = {}
        self._inner: dict[Klass, frozenset[Klass]] = {}

    @cached_property
    def classes(self) -> list[Klass]:
        """The classes to judge: what is below a root or stands beside it."""
        return [*self.project.backends, *self.companions]

    @property
    def described(self) -> dict[Klass, frozenset[str]]:
        """The classes of no family that backends read of, with the names under which they do."""
        return self.project.described

    @cached_property
    def companion_roots(self) -> list[Klass]:
        """The roots of the hierarchies that stand beside the backends."""
        return [root for root in self.project.roots if root not in self.view.roots]

    @cached_property
    def beside(self) -> View:
        """The hierarchies that stand beside the backends, as :attr:`view` has the backends."""
        return View(self.project, self.companion_roots)

    @cached_property
    def companions(self) -> list[Klass]:
        """Classes without a root that hold several backends and answer to their hooks."""
        found: dict[Klass, None] = {}
        hooks = {name for root in self.view.roots for name in root.members}
        for klass in self.project.classes:
            if klass.root is None and any(t.many for t in self.view.types.held(klass).values()):
                own = {n for k in klass.mro for n, m in k.own.items() if m.function is not None}
                if len(own & hooks) > 1:
                    found[klass] = None
                    found.update(dict.fromkeys(klass.descendants))
        return sorted(found, key=lambda k: (k.path, k.line))

    @cached_property
    def gaps(self) -> list[Gap]:
        return list(gaps(self.view))

    @cached_property
    def refusals(self) -> dict[Member, Refusal]:
        """Undeclared hooks of companions that do not take what code outside passes to them."""
        found: dict[Member, Refusal] = {}
        for root in self.companion_roots:
            family = self.project.family(root)
            outside = [
                scope
                for scope in self.view.types.scopes()
                if scope.path not in self.view.defining
                and (scope.klass is None or scope.klass.root is None)
            ]
            for refusal in refusals(family, outside):
                found.setdefault(refusal.member, refusal)
        return found

    def foreign_to(self, klass: Klass, inner: Klass) -> bool:
        """Whether the wrapper ``klass`` was evidently not written for such as ``inner``."""
        wrapper = self.view.wrapper(klass)
        if wrapper is None:
            return False
        if klass not in self._foreign:
            self._foreign[klass] = foreign(self.view, wrapper)
        return self._foreign[klass].excludes(inner)

    def wraps(self, klass: Klass, inner: Klass) -> bool:
        """Whether code of ``klass`` can have an ``inner`` before it, where it wraps backends."""
        wrapper = self.view.wrapper(klass)
        if wrapper is None:
            return True
        if klass not in self._inner:
            self._inner[klass] = frozenset(wrapper.inner(self.view))
        return inner in self._inner[klass] and not self.foreign_to(klass, inner)

    def each(
        self, classes: Iterable[Klass], judgement: Callable[[Judge, Klass], Iterable[T]]
    ) -> Iterator[T]:
        """What ``judgement``, a function of a module, gives for each of ``classes``.

        It is not asked where it gave nothing in an earlier check, and would again (``kept``). To
        keep to that is not its business: what it reads of its arguments is noted.
        """
        if "<" in judgement.__qualname__:
            raise ValueError(f"{judgement.__qualname__} is no function of a module")
        for klass in classes:
            kept = self.kept
            yield from judgement(self, klass) if kept is None else kept.judged(klass, judgement)

    def flow(self, klass: Klass, *, defaults: bool = True) -> Flow:
        """What the constructor of ``klass`` does; ``defaults`` as :class:`Flow` has it."""
        found = self._flows.get((klass, defaults))
        if found is None:
            found = self._flows[klass, defaults] = Flow(self.project, klass, defaults=defaults)
        return found

    def hooks(self, klass: Klass) -> list[Member]:
        """The methods that the engine or a wrapper calls on an instance of ``klass``.

        Those that the base class declares, and those that some use in the tree reaches. A class
        without a base class of its own has every public method.
        """
        declared = klass.root.members if klass.root is not None else None
        return [
            m
            for m in self.public(klass)
            if declared is None
            or m.name in declared
            or any(u.admits(klass, self.view) for u in self.view.uses.get(m.name, ()))
        ]

    def public(self, klass: Klass) -> list[Member]:
        """Every public method and property of an instance of ``klass``."""
        return [
            m
            for name, m in klass.members.items()
            if m.function is not None
            and kind_of(m.function) in {"method", "property"}
            and not name.startswith("_")
        ]

    def refused(self, use: Use, klass: Klass, member: Member) -> tuple[str, ...]:
        """Why ``member``, as a ``klass`` has it, does not accept the call of ``use``."""
        assert use.call is not None
        assert member.function is not None
        call, mine = arguments(use.call), shape(member.function)
        errors = binding_errors(mine, call)
        if errors and use.delegated:
            promises = [
                (shape(m.function), optional_arguments(m.function))
                for k in klass.mro
                if (m := k.own.get(use.name)) is not None and m.function is not None
            ]
            return () if reduced(mine, call, promises) is not None else errors
        return errors

    def calls_between(
        self, override: Member, promise: Shape, mine: Shape
    ) -> list[tuple[str, int, Call]]:
        """Calls in the tree that reach ``override``, bind to ``promise`` and not so to ``mine``."""
        klass = override.owner
        below = [klass, *(k for k in klass.descendants if k.members.get(override.name) == override)]
        found: list[tuple[str, int, Call]] = []
        for use in self.view.uses.get(override.name, ()):
            inside = use.scope.klass
            if inside is not None and not self.wraps(inside, klass):
                continue
            if use.call is not None and any(use.admits(k, self.view) for k in below):
                call = arguments(use.call)
                if use.delegated and not self.refused(use, klass, override):
                    continue
                if _breaks(promise, mine, call) and not self._meant_elsewhere(call, override):
                    found.append((use.scope.path, use.line, call))
        for k in klass.mro[1:]:
            for method in k.own.values():
                if method.function is None or klass.members.get(method.name) != method:
                    continue
                receiver = method.function.params[0].name if method.function.params else ""
                for event in method.function.events:
                    if isinstance(event, CallEvent) and isinstance(event.call.func, Attr):
                        func = event.call.func
                        if func.name == override.name and func.value == Name(receiver):
                            call = arguments(event.call)
                            if _breaks(promise, mine, call):
                                found.append((k.path, event.line, call))
        return found

    def _meant_elsewhere(self, call: Call, override: Member) -> bool:
        """Whether a call has a keyword that methods of other classes of the family name alone."""
        root = override.owner.root
        if root is None or not call.keywords:
            return False
        known = {name for k in override.owner.mro for name in k.parameters}
        others = {name for k in root.descendants for name in k.parameters}
        return bool(set(call.keywords) & (others - known))

    def is_built(self, klass: Klass) -> bool:
        """Whether the tree constructs ``klass`` itself, or hands it out."""
        return klass in self.project.walked.made

    def built(self, klass: Klass) -> list[Related]:
        """Where the tree constructs ``klass`` itself, or hands it out."""
        return [
            self.places.related(site.path, line, klass.name, f"{site.symbol} {what} {klass.name}")
            for site, line, what in self.project.walked.made.get(klass, ())
        ]


def _breaks(promise: Shape, mine: Shape, call: Call) -> bool:
    """Whether ``call`` keeps to ``promise`` and fails on ``mine``, or fills other parameters."""
    if binding_errors(promise, call):
        return False
    return bool(binding_errors(mine, call) or misplaced_positionals(promise, mine, call))
