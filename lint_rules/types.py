"""Which expressions hold a backend: by annotation, by construction, and by names so annotated.

No name of an engine is known here. A class attribute, function or parameter annotated with a class
of a family makes its *name* evidence: ``x.attn_backend`` is a backend wherever some class of the
same tree declares ``attn_backend: AttentionBackend``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from lint_rules.evidence import Evidence
from lint_rules.facts import Attr, CallEvent, Function, Name, Seq, dotted
from lint_rules.link import Klass, Member, Project
from lint_rules.reaching import reached
from lint_rules.routed import children_of, declares_routes
from lint_rules.scope import Scope, Typed, merged
from lint_rules.walked import Site

__all__ = ["Scope", "Typed", "Types"]

_CONTAINERS = {
    "list", "List", "tuple", "Tuple", "Sequence", "Iterable", "dict", "Dict", "set", "Set",
    "Mapping", "Collection", "Iterator",
}  # fmt: skip


class Types:
    """The backends that the expressions of a project hold; ``roots`` are the families judged."""

    def __init__(self, project: Project, roots: Iterable[Klass]) -> None:
        self.project = project
        self.roots = frozenset(roots)
        self._scopes: dict[tuple[int, int], Scope] = {}
        self._held: dict[Klass, dict[str, Typed]] = {}
        self._active: set[Scope] = set()
        self._locals: dict[Scope, dict[str, Typed | None]] = {}
        self._below: dict[tuple[frozenset[Klass], str], Typed | None] = {}
        self._names: dict[str, dict[Klass, Evidence]] = {}
        self._returns: dict[str, dict[Klass, Evidence]] = {}
        self._around: dict[str, dict[str, list[Scope]]] = {}
        self.reached = self._reached()
        self._idle = self._without_backends()
        self._learnt = False
        for _ in range(3):
            before = (sum(map(len, self._names.values())), sum(map(len, self._returns.values())))
            self._held.clear()
            self._locals.clear()
            self._below.clear()
            self._learnt = False
            self._gather()
            after = (sum(map(len, self._names.values())), sum(map(len, self._returns.values())))
            if not self._learnt:
                break  # what was concluded on the way is concluded from all there is
            self._held.clear()
            self._locals.clear()
            self._below.clear()
            if before == after:
                break

    def _reached(self) -> frozenset[str]:
        """The names of attributes, functions and classes that can hold, give or be a backend."""
        families = [k for k in self.project.classes if k.root in self.roots]
        names = {k.name for k in families}
        names.update(c for k in families if declares_routes(k) for c in children_of(k))
        return reached(self.project.files.values(), names)

    def _without_backends(self) -> frozenset[int]:
        """The functions, by ``id``, none of whose expressions can hold a backend."""
        return frozenset(
            id(function)
            for facts in self.project.files.values()
            for function, names in zip(
                [*facts.functions, *(m for klass in facts.classes for m in klass.methods)],
                facts.touched,
                strict=True,
            )
            if self.reached.isdisjoint(names)
        )

    def names_in(self, scope: Scope) -> dict[str, Typed | None]:
        """What the locals of a scope hold, as far as it is known."""
        return self._locals.setdefault(scope, {})

    def scope(self, klass: Klass, function: Function) -> Scope:
        """The scope of a method where ``klass`` defines it."""
        key = (id(klass), id(function))
        found = self._scopes.get(key)
        if found is None:
            found = self._scopes[key] = Scope(self, klass.path, klass, function)
        return found

    def scopes(self) -> Sequence[Scope]:
        """Every function and method of the project."""
        return self._every

    @cached_property
    def _every(self) -> list[Scope]:
        plain = [
            self._plain(path, function)
            for path, facts in self.project.files.items()
            for function in facts.functions
        ]
        methods = [
            self.scope(klass, method)
            for klass in self.project.classes
            for method in klass.facts.methods
        ]
        return plain + methods

    def scope_at(self, site: Site) -> Scope:
        """The scope of a function or method."""
        if site.klass is None:
            return self._plain(site.path, site.function)
        return self.scope(site.klass, site.function)

    def _plain(self, path: str, function: Function) -> Scope:
        """The scope of a module-level function of the file ``path``."""
        key = (0, id(function))
        found = self._scopes.get(key)
        if found is None:
            found = self._scopes[key] = Scope(self, path, None, function)
        return found

    @cached_property
    def busy_scopes(self) -> list[Scope]:
        """Those of :meth:`scopes` in which an expression may hold a backend."""
        return [scope for scope in self.scopes() if id(scope.function) not in self._idle]

    @cached_property
    def naming_calls(self) -> list[tuple[Scope, CallEvent, list[Klass]]]:
        """The calls of the project whose callee names classes, and those."""
        return [
            (self.scope_at(site), event, classes)
            for site, event, classes in self.project.walked.calls
        ]

    def _gather(self) -> None:
        for klass in self.project.classes:
            if klass.root in self.roots:
                continue
            for attr in klass.facts.attrs:
                self._note(self._names, attr.name, self.annotated(klass.path, attr.annotation))
        for scope in self.busy_scopes:
            inside = scope.klass is not None and scope.klass.root in self.roots
            receiver = Name(scope.receiver)
            for event in scope.function.writes:
                if not (inside and event.target == receiver):
                    held = self.annotated(scope.path, event.annotation)
                    if held is None and event.value is not None:
                        held = scope.typed(event.value)
                    if held is not None and scope.typed(event.target) is None:
                        self._note(self._names, event.name, held)
            if not inside:
                self._note(self._returns, scope.function.name, scope.returns())

    def _note(self, table: dict[str, dict[Klass, Evidence]], name: str, held: Typed | None) -> None:
        if held is None:
            return
        by_root = table.setdefault(name, {})
        for root in {klass.root for klass in held.named}:
            if root is not None:
                self._learnt |= by_root.setdefault(root, Evidence()).add(held, root)

    def annotated(self, path: str, annotation: tuple[str, ...]) -> Typed | None:
        """What an annotation with the given names declares."""
        if not annotation:
            return None
        classes = [
            k
            for name in annotation
            for k in self.project.resolve(path, name)
            if k.root in self.roots
        ]
        if not classes or "type" in annotation or "Type" in annotation or "Callable" in annotation:
            return None
        many = any(name.rpartition(".")[2] in _CONTAINERS for name in annotation)
        return Typed(frozenset(classes), many)

    def annotated_class(self, path: str, annotation: tuple[str, ...]) -> Typed | None:
        """What an annotation ``type[X]`` makes the instances of."""
        if not {"type", "Type"} & {name.rpartition(".")[2] for name in annotation}:
            return None
        classes = [
            k
            for name in annotation
            for k in self.project.resolve(path, name)
            if k.root in self.roots
        ]
        return Typed(frozenset(classes)) if classes else None

    def handed_out(self, held: Typed, name: str) -> Typed | None:
        """What the classes are that the method ``name`` of what is held hands out.

        By its annotation, or else by the families of the classes that implementations return.
        """
        members = [m for k in held.named if (m := k.method(name)) is not None]
        declared = merged(
            self.annotated_class(m.owner.path, m.function.returns)
            for m in members
            if m.function is not None
        )
        if declared is not None or not members:
            return declared
        families = {
            klass.root
            for k in held.possible
            if (m := k.own.get(name)) is not None
            for klass in self._returned_classes(m)
        }
        return Typed(frozenset(k for k in families if k is not None)) if families else None

    def _returned_classes(self, member: Member) -> Iterator[Klass]:
        return (klass for klass in self._any_returned(member) if klass.root in self.roots)

    def _any_returned(self, member: Member) -> Iterator[Klass]:
        for event in member.function.returned if member.function is not None else ():
            if name := dotted(event.value):
                yield from self.project.resolve(member.owner.path, name)

    @cached_property
    def _handed_classes(self) -> list[Klass]:
        found = {
            klass
            for owner in self.project.backends
            for member in owner.own.values()
            for klass in self._any_returned(member)
        }
        return sorted(found, key=lambda k: (k.path, k.line))

    @cached_property
    def returned_classes(self) -> list[Klass]:
        """The classes, not their instances, that methods of judged families return."""
        return [klass for klass in self._handed_classes if klass.root in self.roots]

    @cached_property
    def strangers(self) -> list[Klass]:
        """Classes of no judged family that methods of judged families return.

        What an engine declares as a base class can be an instance of one of them all the same.
        """
        return [klass for klass in self._handed_classes if klass.root not in self.roots]

    def around(self, path: str) -> dict[str, list[Scope]]:
        """The module-level functions of a file, in which classes may be defined, by local."""
        found = self._around.get(path)
        if found is None:
            found = self._around[path] = {}
            for function in self.project.functions.get(path, {}).values():
                scope = self._plain(path, function)
                for name in {*scope.params, *scope.binds}:
                    found.setdefault(name, []).append(scope)
        return found

    def by_name(self, name: str, path: str) -> Typed | None:
        """What an attribute or unannotated parameter of that name holds in the file ``path``."""
        return self._nearest(self._names.get(name), path)

    def method_returns(self, name: str, path: str) -> Typed | None:
        """What a method of that name returns, on an object of unknown class."""
        return self._nearest(self._returns.get(name), path)

    def returned(self, path: str, name: str) -> Typed | None:
        """What the function that ``name`` means in ``path`` returns."""
        found = self.project.function(path, name)
        if found is None:
            return None
        file, function = found
        scope = self._plain(file, function)
        if scope in self._active:
            return None
        self._active.add(scope)
        try:
            return scope.returns()
        finally:
            self._active.discard(scope)

    def _nearest(self, by_root: dict[Klass, Evidence] | None, path: str) -> Typed | None:
        """Of several families with evidence, those whose roots stand nearest to ``path``."""
        if not by_root:
            return None
        if len(by_root) == 1:
            (only,) = by_root.values()
            return only.typed
        here = path.split("/")

        def common(root: Klass) -> int:
            count = 0
            for a, b in zip(here, root.path.split("/"), strict=False):
                if a != b:
                    break
                count += 1
            return count

        most = max(map(common, by_root))
        return merged(e.typed for root, e in by_root.items() if common(root) == most)

    def held_below(self, classes: frozenset[Klass], name: str) -> Typed | None:
        """What the attribute ``name`` holds on an instance of one of ``classes`` or below."""
        key = (classes, name)
        if key not in self._below:
            self._below[key] = None
            self._below[key] = merged(
                self.held(k).get(name) for klass in classes for k in (klass, *klass.descendants)
            )
        return self._below[key]

    def is_opened(self, owner: Typed, name: str) -> bool:
        """Whether some class that ``owner`` can be hands out what it holds by the method ``name``.

        What a caller gets by it was taken out of a wrapper, where there was one.
        """
        return any(
            isinstance(value, Attr)
            and value.value == Name(member.function.params[0].name)
            and value.name in self.held(klass)
            for klass in owner.possible
            if (member := klass.own.get(name)) is not None
            and member.function is not None
            and member.function.params
            for event in member.function.returned
            for value in (event.value.items if isinstance(event.value, Seq) else (event.value,))
        )

    def held(self, klass: Klass) -> dict[str, Typed]:
        """The attributes of a class that hold backends, its parents' included."""
        found = self._held.get(klass)
        if found is None:
            found = self._held[klass] = {}
            for owner in reversed(klass.mro):
                for attr in owner.facts.attrs:
                    typed = self.annotated(owner.path, attr.annotation)
                    if typed is not None:
                        found[attr.name] = typed
            for name in klass.stored:
                for owner, function, write in klass.stored[name] if name in self.reached else ():
                    typed = self.annotated(owner.path, write.annotation)
                    if typed is None and write.value is not None:
                        typed = self.scope(owner, function).typed(write.value)
                    if typed is not None:
                        known = found.get(name)
                        found[name] = typed.merged(known)
            for name, typed in self._appended(klass):
                found[name] = replace(typed, many=True).merged(found.get(name))
            if klass.root in self.roots and declares_routes(klass):
                for child in children_of(klass):
                    found.setdefault(child, Typed(frozenset([klass.root])))
        return found

    def _appended(self, klass: Klass) -> Iterator[tuple[str, Typed]]:
        """What methods append to a list that they keep: ``self.x.append(Backend(...))``."""
        for owner in klass.mro:
            for method in owner.facts.methods:
                for target, value in method.appended:
                    scope = self.scope(owner, method)
                    if target.value == Name(scope.receiver):
                        typed = scope.typed(value)
                        if typed is not None:
                            yield target.name, typed
