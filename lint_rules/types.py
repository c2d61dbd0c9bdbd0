"""Which expressions hold a backend: by annotation, by construction, and by names so annotated.

No name of an engine is known here. A class attribute, function or parameter annotated with a class
of a family makes its *name* evidence: ``x.attn_backend`` is a backend wherever some class of the
same tree declares ``attn_backend: AttentionBackend``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from lint_rules.conditions import atoms, conjunction, formula
from lint_rules.facts import (
    And,
    Attr,
    Bind,
    Call,
    CallEvent,
    Const,
    Expr,
    Function,
    IfElse,
    Item,
    Name,
    Or,
    Parameter,
    Seq,
    dotted,
    last_name,
)
from lint_rules.link import Klass, Member, Project, kind_of
from lint_rules.reaching import reached
from lint_rules.routed import children_of, declares_routes

__all__ = ["Scope", "Typed", "Types"]

_CONTAINERS = {
    "list", "List", "tuple", "Tuple", "Sequence", "Iterable", "dict", "Dict", "set", "Set",
    "Mapping", "Collection", "Iterator",
}  # fmt: skip
_CASTS = {"cast", "typing.cast"}
_GIVING = frozenset({"getattr", "cast", "list", "tuple", "reversed", "copy"})
"""Functions of which what they are passed says what they give."""
_DEPTH = 12


@dataclass(frozen=True, slots=True)
class Typed:
    """What an expression holds: instances of ``classes`` or below, or of ``exact`` themselves.

    ``many``: several of them. ``outer`` says that it is the backend that the engine configured,
    wrappers included, and not one taken out of a wrapper.
    """

    classes: frozenset[Klass] = frozenset()
    many: bool = False
    outer: bool = True
    exact: frozenset[Klass] = frozenset()

    def merged(self, other: Typed | None) -> Typed:
        if other is None:
            return self
        return Typed(
            self.classes | other.classes,
            self.many or other.many,
            self.outer and other.outer,
            self.exact | other.exact,
        )

    def single(self, *, outer: bool | None = None) -> Typed:
        """One of several."""
        return replace(self, many=False, outer=self.outer if outer is None else outer)

    @property
    def named(self) -> frozenset[Klass]:
        """Every class that the evidence names."""
        return self.classes | self.exact

    def holds(self, klass: Klass) -> bool:
        """Whether it can be an instance of ``klass`` itself."""
        return klass in self.exact or any(klass.is_a(k) for k in self.classes)

    @property
    def possible(self) -> list[Klass]:
        """Every class of which it can be an instance, in file and line order."""
        return list(_possible(self.classes, self.exact))


@lru_cache(maxsize=256)
def _possible(classes: frozenset[Klass], exact: frozenset[Klass]) -> tuple[Klass, ...]:
    found = set(exact)
    for klass in classes:
        found.add(klass)
        found.update(klass.descendants)
    return tuple(sorted(found, key=lambda k: (k.path, k.line)))


def _merge(found: Iterable[Typed | None]) -> Typed | None:
    result: Typed | None = None
    for item in found:
        if item is not None:
            result = item if result is None else item.merged(result)
    return result


@dataclass(eq=False)
class Scope:
    """A function read in its file and class."""

    types: Types
    path: str
    klass: Klass | None
    function: Function

    @property
    def binds(self) -> dict[str, list[Bind]]:
        return self.function.bound

    @cached_property
    def params(self) -> dict[str, Parameter]:
        return {p.name: p for p in self.function.params}

    @cached_property
    def receiver(self) -> str:
        """The name of ``self`` (or ``cls``), empty for a plain function or static method."""
        if self.klass is None or not self.function.params or kind_of(self.function) == "static":
            return ""
        return self.function.params[0].name

    @property
    def symbol(self) -> str:
        name = self.function.name
        return f"{self.klass.qualname}.{name}" if self.klass is not None else name

    def single(self, name: str) -> Expr | None:
        """The value of a local that is assigned once and is no parameter."""
        binds = self.binds.get(name, ())
        if len(binds) == 1 and name not in self.params:
            return binds[0].value
        return None

    def guards(self, cond: int) -> tuple[Expr, ...]:
        """The conditions under which an event happens, as formulas all of which hold."""
        found = self._guards.get(cond)
        if found is None:
            path = conjunction(map(formula, self.path_of(cond)))
            found = self._guards[cond] = path.items if isinstance(path, And) else (path,)
        return found

    @cached_property
    def _guards(self) -> dict[int, tuple[Expr, ...]]:
        return {}

    def asked(self, cond: int) -> frozenset[Expr]:
        """The atoms of the conditions under which an event happens."""
        found = self._asked.get(cond)
        if found is None:
            parts = (atoms(formula(part)) for part in self.path_of(cond))
            found = self._asked[cond] = frozenset(atom for part in parts for atom in part)
        return found

    @cached_property
    def _asked(self) -> dict[int, frozenset[Expr]]:
        return {}

    def path_of(self, cond: int) -> list[Expr]:
        """The conditions under which an event happens, outermost first."""
        found: list[Expr] = []
        while cond != -1:
            cond, expr, _ = self.function.conditions[cond]
            found.append(expr)
        found.reverse()
        return found

    def typed(self, expr: Expr, depth: int = 0) -> Typed | None:
        """The backend that ``expr`` holds, or None."""
        if depth > _DEPTH:
            return None
        if isinstance(expr, Name):
            return self._typed_name(expr.id, depth)
        if isinstance(expr, Attr):
            return self._typed_attr(expr, depth) if expr.name in self.types.reached else None
        if isinstance(expr, Call):
            return self._typed_call(expr, depth) if self._may_give(expr.func) else None
        if isinstance(expr, Item):
            held = self.typed(expr.value, depth + 1)
            return held.single() if held is not None else None
        if isinstance(expr, Seq):
            held = _merge(self.typed(item, depth + 1) for item in expr.items)
            return replace(held, many=True) if held is not None else None
        if isinstance(expr, IfElse):
            return _merge((self.typed(expr.then, depth + 1), self.typed(expr.other, depth + 1)))
        if isinstance(expr, (Or, And)):
            return _merge(self.typed(item, depth + 1) for item in expr.items)
        return None

    def _may_give(self, func: Expr) -> bool:
        """Whether a call of ``func`` can give a backend, by names alone."""
        reached = self.types.reached
        if isinstance(func, Name):
            return (
                func.id in reached
                or func.id in _GIVING
                or func.id in self.binds
                or func.id in self.params
                or func.id in self.types.around(self.path)
            )
        if isinstance(func, Attr):
            name = func.name
            return name in reached or name in _GIVING or last_name(func.value) in reached
        return False

    def _typed_name(self, name: str, depth: int) -> Typed | None:
        if name == self.receiver and self.klass is not None:
            return None
        known = self.types.names_in(self)
        if name in known:
            return known[name]
        known[name] = None  # cuts the recursion through `x = x.inner`
        known[name] = found = self._judge_name(name, depth)
        return found

    def _judge_name(self, name: str, depth: int) -> Typed | None:
        found: Typed | None = None
        parameter = self.params.get(name)
        if parameter is not None:
            found = self.types.annotated(self.path, parameter.annotation)
            if found is None and not parameter.annotation:
                found = self.types.by_name(name, self.path)
        for bind in self.binds.get(name, ()):
            item = self.types.annotated(self.path, bind.annotation) or self.typed(
                bind.value, depth + 1
            )
            if item is not None:
                found = item.merged(found)
        return found

    def _typed_attr(self, expr: Attr, depth: int) -> Typed | None:
        if expr.value == Name(self.receiver) and self.klass is not None:
            held = self.types.held(self.klass).get(expr.name)
            member = self.klass.method(expr.name)
            if held is None and member is not None and member.function is not None:
                if kind_of(member.function) == "property":
                    return self.types.scope(member.owner, member.function).returns(depth + 1)
            return held or (None if self._kept_otherwise(expr.name) else self._outer(expr.name))
        owner = self.typed(expr.value, depth + 1)
        if owner is not None and not owner.many:
            inner = self.types.held_below(owner.named, expr.name)
            return replace(inner, outer=False) if inner is not None else None
        if isinstance(expr.value, Name) and self.types.project.is_module(self.path, expr.value.id):
            return None
        return self._outer(expr.name)

    def _kept_otherwise(self, name: str) -> bool:
        """Whether the class stores something in ``self.name`` of which nothing is known."""
        assert self.klass is not None
        return any(
            write.value is not None and write.value != Const("None")
            for _, _, write in self.klass.stored.get(name, ())
        )

    def _outer(self, name: str) -> Typed | None:
        return self.types.by_name(name, self.path)

    def _typed_call(self, expr: Call, depth: int) -> Typed | None:
        func = expr.func
        name = dotted(func)
        if name in {"getattr"} and len(expr.args) >= 2 and isinstance(expr.args[1], Const):
            attribute = expr.args[1].text[1:-1]
            return self._typed_attr(Attr(expr.args[0], attribute), depth)
        if name in _CASTS and len(expr.args) == 2:
            declared = expr.args[0]
            text = declared.text[1:-1] if isinstance(declared, Const) else dotted(declared)
            return self.types.annotated(self.path, (text,)) or self.typed(expr.args[1], depth + 1)
        if name in {"list", "tuple", "reversed", "copy", "copy.copy"} and expr.args:
            return self.typed(expr.args[0], depth + 1)
        if name:
            classes = [
                k for k in self.types.project.resolve(self.path, name) if k.root in self.types.roots
            ]
            if classes:
                return Typed(exact=frozenset(classes))
        if isinstance(func, Name):
            binds = [
                k
                for b in self.binds.get(func.id, ())
                if (n := dotted(b.value))
                for k in self.types.project.resolve(self.path, n)
                if k.root in self.types.roots
            ]
            if binds:
                return Typed(exact=frozenset(binds))
            return self.types.returned(self.path, func.id) or self.class_typed(func, depth + 1)
        if isinstance(func, Attr):
            if func.value == Name(self.receiver) and self.klass is not None:
                member = self.klass.method(func.name)
                if member is not None and member.function is not None:
                    scope = self.types.scope(member.owner, member.function)
                    return scope.returns(depth + 1)
            owner = self.typed(func.value, depth + 1)
            if owner is not None:
                return _merge(
                    self.types.scope(m.owner, m.function).returns(depth + 1)
                    for klass in owner.named
                    if (m := klass.method(func.name)) is not None and m.function is not None
                )
            constructor = self._classmethod(func)
            if constructor is not None:
                return constructor
            return self.types.method_returns(func.name, self.path)
        return None

    def class_typed(self, expr: Expr, depth: int = 0) -> Typed | None:
        """Instances of what, where ``expr`` is a class: ``type[X]`` by annotation, kept or handed.

        A name that a function around the class binds is looked for among the functions of the file.
        """
        if depth > _DEPTH:
            return None
        if isinstance(expr, Name):
            parameter = self.params.get(expr.id)
            if parameter is not None:
                return self.types.annotated_class(self.path, parameter.annotation)
            binds = self.binds.get(expr.id, ())
            if binds:
                return _merge(self.class_typed(b.value, depth + 1) for b in binds)
            return _merge(
                scope.class_typed(expr, depth + 1)
                for scope in self.types.around(self.path).get(expr.id, ())
                if scope is not self
            )
        if isinstance(expr, Attr) and expr.name not in self.types.reached:
            return None
        if isinstance(expr, Attr) and self.klass is not None and expr.value == Name(self.receiver):
            return _merge(
                self.types.annotated_class(owner.path, write.annotation)
                or (
                    self.types.scope(owner, method).class_typed(write.value, depth + 1)
                    if write.value is not None
                    else None
                )
                for owner, method, write in self.klass.stored.get(expr.name, ())
            )
        if isinstance(expr, Call) and dotted(expr.func) in _CASTS and len(expr.args) == 2:
            declared = expr.args[0]
            if isinstance(declared, Item) and declared.index is not None:
                names = (dotted(declared.value), dotted(declared.index))
                return self.types.annotated_class(self.path, names)
            return self.class_typed(expr.args[1], depth + 1)
        if isinstance(expr, Call) and isinstance(expr.func, Attr):
            base = expr.func.value
            held = self.class_typed(base, depth + 1) or self.typed(base, depth + 1)
            return self.types.handed_out(held, expr.func.name) if held is not None else None
        if isinstance(expr, Call) and isinstance(expr.func, Name):
            found = self.types.project.function(self.path, expr.func.id)
            return self.types.annotated_class(found[0], found[1].returns) if found else None
        return None

    def _classmethod(self, func: Attr) -> Typed | None:
        """``SomeBackend.create(...)``: taken to build one of its own kind, unless it says more."""
        name = dotted(func.value)
        for klass in self.types.project.resolve(self.path, name) if name else ():
            member = klass.method(func.name)
            if klass.root in self.types.roots and member is not None and member.function:
                if kind_of(member.function) == "class":
                    said = self.types.annotated(member.owner.path, member.function.returns)
                    if said is not None and any(not klass.is_a(k) for k in said.classes):
                        return said
                    return Typed(exact=frozenset([klass]))
        return None

    def returns(self, depth: int = 0) -> Typed | None:
        """What a call of this function gives."""
        inferred = _merge(self.typed(event.value, depth + 1) for event in self.function.returned)
        annotated = self.types.annotated(self.path, self.function.returns)
        if inferred is not None and annotated is not None:
            return replace(inferred.merged(annotated), outer=inferred.outer)
        return inferred or annotated


class Types:
    """The backends that the expressions of a project hold; ``roots`` are the families judged."""

    def __init__(self, project: Project, roots: Iterable[Klass]) -> None:
        self.project = project
        self.roots = frozenset(roots)
        self._scopes: dict[tuple[int, int], Scope] = {}
        self._held: dict[Klass, dict[str, Typed]] = {}
        self._active: set[object] = set()
        self._locals: dict[Scope, dict[str, Typed | None]] = {}
        self._below: dict[tuple[frozenset[Klass], str], Typed | None] = {}
        self._names: dict[str, dict[Klass, Typed]] = {}
        self._returns: dict[str, dict[Klass, Typed]] = {}
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

    def scopes(self) -> Iterator[Scope]:
        """Every function and method of the project."""
        for path, facts in self.project.files.items():
            for function in facts.functions:
                key = (0, id(function))
                found = self._scopes.get(key)
                if found is None:
                    found = self._scopes[key] = Scope(self, path, None, function)
                yield found
        for klass in self.project.classes:
            for method in klass.facts.methods:
                yield self.scope(klass, method)

    def busy_scopes(self) -> Iterator[Scope]:
        """Those of :meth:`scopes` in which an expression may hold a backend."""
        return (scope for scope in self.scopes() if id(scope.function) not in self._idle)

    @cached_property
    def naming_calls(self) -> list[tuple[Scope, CallEvent, list[Klass]]]:
        """The calls of the project whose callee names classes, and those."""
        return [
            (scope, event, classes)
            for scope in self.scopes()
            for event in scope.function.calls
            if last_name(event.call.func) in self.project.class_names
            and (name := dotted(event.call.func))
            and (classes := self.project.resolve(scope.path, name))
        ]

    def _gather(self) -> None:
        for klass in self.project.classes:
            if klass.root in self.roots:
                continue
            for attr in klass.facts.attrs:
                self._note(self._names, attr.name, self.annotated(klass.path, attr.annotation))
        for scope in self.busy_scopes():
            inside = scope.klass is not None and scope.klass.root in self.roots
            for event in scope.function.writes:
                if not (inside and event.target == Name(scope.receiver)):
                    held = self.annotated(scope.path, event.annotation)
                    if held is None and event.value is not None:
                        held = scope.typed(event.value)
                    if held is not None and scope.typed(event.target) is None:
                        self._note(self._names, event.name, held)
            if not inside:
                self._note(self._returns, scope.function.name, scope.returns())

    def _note(self, table: dict[str, dict[Klass, Typed]], name: str, held: Typed | None) -> None:
        if held is None:
            return
        by_root = table.setdefault(name, {})
        for klass in held.named:
            if klass.root is not None:
                same = Typed(
                    frozenset(k for k in held.classes if k.root is klass.root),
                    held.many,
                    held.outer,
                    frozenset(k for k in held.exact if k.root is klass.root),
                )
                known = by_root.get(klass.root)
                if known is not None:
                    same = replace(same.merged(known), outer=same.outer or known.outer)
                if same != known:
                    by_root[klass.root] = same
                    self._learnt = True

    def annotated(self, path: str, annotation: tuple[str, ...]) -> Typed | None:
        """What an annotation with the given names declares."""
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
        declared = _merge(
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
        for event in member.function.returned if member.function is not None else ():
            if name := dotted(event.value):
                for klass in self.project.resolve(member.owner.path, name):
                    if klass.root in self.roots:
                        yield klass

    @cached_property
    def returned_classes(self) -> list[Klass]:
        """The classes, not their instances, that methods of judged families return."""
        found = {
            klass
            for owner in self.project.backends
            for member in owner.own.values()
            for klass in self._returned_classes(member)
        }
        return sorted(found, key=lambda k: (k.path, k.line))

    def around(self, path: str) -> dict[str, list[Scope]]:
        """The module-level functions of a file, in which classes may be defined, by local."""
        found = self._around.get(path)
        if found is None:
            found = self._around[path] = {}
            for function in self.project.functions.get(path, {}).values():
                key = (0, id(function))
                if key not in self._scopes:
                    self._scopes[key] = Scope(self, path, None, function)
                scope = self._scopes[key]
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
        key = (0, id(function))
        scope = self._scopes.get(key)
        if scope is None:
            scope = self._scopes[key] = Scope(self, file, None, function)
        if key in self._active:
            return None
        self._active.add(key)
        try:
            return scope.returns()
        finally:
            self._active.discard(key)

    def _nearest(self, by_root: dict[Klass, Typed] | None, path: str) -> Typed | None:
        """Of several families with evidence, those whose roots stand nearest to ``path``."""
        if not by_root:
            return None
        if len(by_root) == 1:
            (only,) = by_root.values()
            return only
        here = path.split("/")

        def common(root: Klass) -> int:
            count = 0
            for a, b in zip(here, root.path.split("/"), strict=False):
                if a != b:
                    break
                count += 1
            return count

        most = max(map(common, by_root))
        return _merge(held for root, held in by_root.items() if common(root) == most)

    def held_below(self, classes: frozenset[Klass], name: str) -> Typed | None:
        """What the attribute ``name`` holds on an instance of one of ``classes`` or below."""
        key = (classes, name)
        if key not in self._below:
            self._below[key] = None
            self._below[key] = _merge(
                self.held(k).get(name) for klass in classes for k in (klass, *klass.descendants)
            )
        return self._below[key]

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
            for name, writes in klass.stored.items():
                for owner, function, write in writes:
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
                scope = self.scope(owner, method)
                for event in method.calls:
                    if len(event.call.args) != 1:
                        continue
                    func = event.call.func
                    if isinstance(func, Attr) and func.name in {"append", "add"}:
                        target = func.value
                        if isinstance(target, Attr) and target.value == Name(scope.receiver):
                            typed = scope.typed(event.call.args[0])
                            if typed is not None:
                                yield target.name, typed
