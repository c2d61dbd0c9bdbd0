"""The project linked: modules, imports, classes with their MRO, the families below each root."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from lint_rules.facts import (
    Attr,
    ClassAttr,
    ClassFacts,
    Expr,
    FileFacts,
    Function,
    IfElse,
    Import,
    Name,
    Or,
    Write,
    dotted,
)
from lint_rules.mro import linearised
from lint_rules.noted import noted
from lint_rules.stores import Stored, computes_names, stores
from mla_guard.drift import Param, Shape, without_receiver

if TYPE_CHECKING:
    from lint_rules.walked import Walked

__all__ = ["Klass", "Member", "Project", "kind_of", "shape"]

_PLAIN_BASES = {"object", "ABC", "Generic", "Protocol", "Exception", "NamedTuple"}


def kind_of(function: Function) -> str:
    """``method``, ``static``, ``class``, ``property`` or ``setter``."""
    for decorator in function.decorators:
        last = decorator.rpartition(".")[2]
        if last in {"setter", "deleter"}:
            return "setter"
        if last.endswith("property"):
            return "property"
        if last == "staticmethod":
            return "static"
        if last == "classmethod":
            return "class"
    return "method"


def is_abstract(function: Function) -> bool:
    """Declared ``@abstractmethod`` or doing nothing but raise."""
    return function.body == "raise" or any("abstract" in d for d in function.decorators)


def shape(function: Function) -> Shape:
    """The parameters that a caller of the bound method fills."""
    found: Shape | None = function.__dict__.get("shape")
    if found is None:
        full = tuple(Param(p.name, p.kind, p.required) for p in function.params)
        found = full if kind_of(function) == "static" else without_receiver(full)
        function.__dict__["shape"] = found  # many rules ask for it
    return found


@dataclass(frozen=True, slots=True)
class Member:
    """A method, property or class attribute where it is defined.

    A class attribute that is another class's function (``m = Other.m``) has both.
    """

    owner: Klass
    name: str
    function: Function | None = None
    attr: ClassAttr | None = None

    @property
    def line(self) -> int:
        item = self.attr or self.function
        return item.line if item is not None else self.owner.line

    @property
    def symbol(self) -> str:
        return f"{self.owner.qualname}.{self.name}"


@dataclass(eq=False)
class Klass:
    """A class of the project. Two classes of one name in two files are two objects.

    ``alternatives`` are what a conditional import can put in the place of one of its ``bases``.
    Where classes stand and what they derive from is known of each; what else their bodies say is
    ``noted`` when it is read.
    """

    _facts: ClassFacts
    path: str
    bases: list[Klass] = field(default_factory=list)
    alternatives: list[Klass] = field(default_factory=list)
    unresolved: list[str] = field(default_factory=list)
    _borrowed: dict[str, Member] = field(default_factory=dict)
    children: list[Klass] = field(default_factory=list)
    mro: tuple[Klass, ...] = ()
    root: Klass | None = None

    def __repr__(self) -> str:
        return f"<Klass {self.qualname} {self.path}>"

    @property
    def qualname(self) -> str:
        return self._facts.qualname

    @property
    def name(self) -> str:
        return self._facts.qualname.rpartition(".")[2]

    @property
    def line(self) -> int:
        return self.facts.line

    @noted
    def facts(self) -> ClassFacts:
        return self._facts

    @noted
    def borrowed(self) -> dict[str, Member]:
        """The methods of unrelated classes that the class body takes over by assignment."""
        return self._borrowed

    @cached_property
    def sources(self) -> frozenset[str]:
        """The files of which the bodies say what an instance has."""
        lenders = (m.owner for k in self.mro for m in k._borrowed.values())
        return frozenset(k.path for k in (*self.mro, *lenders))

    @noted
    def own(self) -> dict[str, Member]:
        """What the class body itself defines; a later definition of a name replaces an earlier."""
        found: dict[str, Member] = {}
        for attr in self.facts.attrs:
            if attr.value is not None:
                lender = self.borrowed.get(attr.name)
                function = lender.function if lender is not None else None
                found[attr.name] = Member(self, attr.name, function, attr)
        for method in self.facts.methods:
            if kind_of(method) != "setter":
                found[method.name] = Member(self, method.name, function=method)
        return found

    @noted
    def members(self) -> dict[str, Member]:
        """Every name that lookup on an instance's class finds, with the definition that wins."""
        found: dict[str, Member] = {}
        for klass in reversed(self.mro):
            found.update(klass.own)
        return found

    def method(self, name: str) -> Member | None:
        """The definition of ``name`` that an instance runs, if it is a function."""
        member = self.members.get(name)
        return member if member is not None and member.function is not None else None

    def after(self, owner: Klass, name: str) -> Member | None:
        """What ``super().name`` inside ``owner`` finds on an instance of this class."""
        mro = self.mro
        start = mro.index(owner) + 1 if owner in mro else len(mro)
        for klass in mro[start:]:
            member = klass.own.get(name)
            if member is not None:
                return member
        return None

    @noted
    def stored(self) -> Stored:
        """Every ``self.name = ...`` in any method of the MRO."""
        return Stored(self.mro)

    def writes(self, method: Function) -> dict[str, list[Write]]:
        """Every ``self.name = ...`` in a method that the class itself defines, by name."""
        found = self._writes.get(id(method))
        if found is None:
            receiver = method.params[0].name if method.params else ""
            found = self._writes[id(method)] = stores(receiver, method.code)
        return found

    @noted
    def _writes(self) -> dict[int, dict[str, list[Write]]]:
        return {}

    @noted
    def parameters(self) -> frozenset[str]:
        """The names of all parameters of the methods that the class itself defines."""
        return frozenset(p.name for method in self.facts.methods for p in method.params)

    @property
    def complete(self) -> bool:
        """Every base and every stored name is known, so that what is not found is not there."""
        return not any(klass.unresolved or klass.computes_names for klass in self.mro)

    @noted
    def computes_names(self) -> bool:
        """Whether a method stores under computed names: ``setattr(self, name, value)``."""
        return any(computes_names(method) for method in self.facts.methods)

    @cached_property
    def descendants(self) -> tuple[Klass, ...]:
        """Every class below, each once."""
        found: dict[Klass, None] = {}
        stack = list(self.children)
        while stack:
            klass = stack.pop()
            if klass not in found:
                found[klass] = None
                stack.extend(klass.children)
        return tuple(found)

    def is_a(self, other: Klass) -> bool:
        return other in self._above

    @cached_property
    def _above(self) -> frozenset[Klass]:
        return frozenset(self.mro)


class Project:
    """Facts linked into classes; names resolve as Python would import them.

    ``roots`` are the simple or dotted names of base classes; every class of such a name that some
    other class of the project derives from is the root of a family; below a second such class, a
    family of its own begins. Each of ``pairs`` names two classes that stand in for each other: a
    family whose root is the first of them. Classes of no family that backends read of are
    ``described``, with the names under which they do.
    """

    def __init__(
        self,
        files: Iterable[FileFacts],
        roots: Sequence[str],
        pairs: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.files = {facts.path: facts for facts in files if not facts.error}
        self._by_stem: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        for path in self.files:
            parts = _module_parts(path)
            if parts:
                self._by_stem.setdefault(parts[-1], []).append((parts, path))
        self.classes: list[Klass] = []
        self._local: dict[str, dict[str, list[Klass]]] = {}
        self._imports: dict[str, dict[str, list[Import]]] = {}
        self._aliases: dict[str, dict[str, list[Expr]]] = {}
        self.functions: dict[str, dict[str, Function]] = {}
        for path, facts in self.files.items():
            local = self._local.setdefault(path, {})
            for class_facts in facts.classes:
                klass = Klass(class_facts, path)
                self.classes.append(klass)
                local.setdefault(klass.qualname, []).append(klass)
                if klass.qualname != klass.name:
                    local.setdefault(klass.name, []).append(klass)
            imports = self._imports.setdefault(path, {})
            for entry in facts.imports:
                imports.setdefault(entry.local, []).append(entry)
            aliases = self._aliases.setdefault(path, {})
            for name, value in facts.aliases:
                aliases.setdefault(name, []).append(value)
            self.functions[path] = {f.name: f for f in facts.functions}
        self._resolved: dict[tuple[str, str], list[Klass]] = {}
        self._link(roots)
        self.described: dict[Klass, frozenset[str]] = {}
        self.stand_ins = [pair for names in pairs if (pair := self._stand_ins(*names))]

    def _stand_ins(self, *names: str) -> tuple[Klass, Klass] | None:
        """The classes of a pair, made a family; None where one is not, or belongs to another."""
        classes = [k for k in self.classes if k.qualname in names and k.root is None]
        if sorted(k.qualname for k in classes) != sorted(names):
            return None
        first, other = sorted(classes, key=lambda k: names.index(k.qualname))
        for klass in (first, *first.descendants, other, *other.descendants):
            klass.root = klass.root or first
        return first, other

    def _link(self, roots: Sequence[str]) -> None:
        for klass in self.classes:
            for base in klass.facts.bases:
                found = [k for k in self.resolve(klass.path, base) if k is not klass]
                if found and not self._only_for_types(klass.path, base):
                    klass.bases.append(found[0])
                    klass.alternatives += found[1:]
                    found[0].children.append(klass)
                elif base.rpartition(".")[2] not in _PLAIN_BASES:
                    klass.unresolved.append(base)
        for klass in self.classes:
            klass.mro = linearised(klass)
        for klass in self.classes:
            klass._borrowed = self._borrowed(klass)
        simple = {name.rpartition(".")[2] for name in roots}
        self.roots = [
            k
            for k in self.classes
            if k.name in simple and any(_names(k, name) for name in roots) and k.children
        ]
        among = set(self.roots)
        for root in self.roots:
            for klass in (root, *root.descendants):
                klass.root = next(k for k in klass.mro if k in among)

    def _borrowed(self, klass: Klass) -> dict[str, Member]:
        """The methods of unrelated classes that the class body takes over by assignment."""
        found: dict[str, Member] = {}
        for attr in klass.facts.attrs:
            lender, _, name = dotted(attr.value).rpartition(".") if attr.value else ("", "", "")
            for other in self.resolve(klass.path, lender) if lender else ():
                for parent in other.mro if not klass.is_a(other) else ():
                    for method in parent.facts.methods:
                        if method.name == name and kind_of(method) == "method":
                            found.setdefault(attr.name, Member(parent, name, function=method))
        return found

    def family(self, root: Klass) -> list[Klass]:
        """The classes below ``root``, in file and line order."""
        return sorted(root.descendants, key=lambda k: (k.path, k.line))

    @cached_property
    def backends(self) -> list[Klass]:
        """Every class below a root, in file and line order."""
        return sorted(
            {k for root in self.roots for k in root.descendants}, key=lambda k: (k.path, k.line)
        )

    def module(self, path: str, module: str, level: int) -> list[str]:
        """The files that ``from <level dots>module import`` in ``path`` can mean."""
        if level:
            here = list(_module_parts(path))
            if not path.endswith("__init__.py"):
                here = here[:-1]
            here = here[: len(here) - (level - 1)] if level > 1 else here
            parts = (*here, *(module.split(".") if module else ()))
        else:
            parts = tuple(module.split("."))
        if not parts:
            return []
        best: list[str] = []
        longest = 0
        for candidate, file in self._by_stem.get(parts[-1], ()):
            common = 0
            for a, b in zip(reversed(candidate), reversed(parts), strict=False):
                if a != b:
                    break
                common += 1
            if common == min(len(candidate), len(parts)) and common >= longest:
                best = [file] if common > longest else [*best, file]
                longest = common
        return best

    @cached_property
    def class_names(self) -> frozenset[str]:
        """Every name that can mean a class somewhere: its own, and those by other names."""
        onwards: dict[str, list[str]] = {}
        for imports in self._imports.values():
            for local, entries in imports.items():
                for entry in entries:
                    if entry.name and entry.name != local:
                        onwards.setdefault(entry.name, []).append(local)
        for aliases in self._aliases.values():
            for alias, values in aliases.items():
                for value in values:
                    for target in _alternatives(value):
                        onwards.setdefault(target.rpartition(".")[2], []).append(alias)
        found = {klass.name for klass in self.classes}
        queue = list(found)
        while queue:
            new = set(onwards.get(queue.pop(), ())) - found
            found |= new
            queue += new
        return frozenset(found)

    @cached_property
    def walked(self) -> Walked:
        """What a walk over all functions tells."""
        from lint_rules.walked import Walked  # which is made of what is defined here

        return Walked(self)

    def resolve(self, path: str, name: str) -> list[Klass]:
        """The classes that the dotted ``name`` can mean in the file ``path``."""
        key = (path, name)
        if key not in self._resolved:
            self._resolved[key] = []
            self._resolved[key] = list(dict.fromkeys(self._resolve(path, name)))
        return self._resolved[key]

    def _resolve(self, path: str, name: str) -> Iterator[Klass]:
        local = self._local.get(path, {})
        if name in local:
            yield from local[name]
            return
        head, _, rest = name.partition(".")
        for value in self._aliases.get(path, {}).get(head, ()):
            for target in _alternatives(value):
                yield from self.resolve(path, f"{target}.{rest}" if rest else target)
        for entry in self._imports.get(path, {}).get(head, ()):
            yield from self._imported(path, entry, rest)
        if not rest:
            for module, level in self.files[path].stars if path in self.files else ():
                for file in self.module(path, module, level):
                    yield from self.resolve(file, name)

    def _only_for_types(self, path: str, name: str) -> bool:
        """Whether ``name`` is imported for type checkers alone: no base class at run time."""
        head = name.partition(".")[0]
        entries = self._imports.get(path, {}).get(head, ())
        return bool(entries) and all(e.typing for e in entries) and head not in self._local[path]

    def _imported(self, path: str, entry: Import, rest: str) -> Iterator[Klass]:
        if entry.name:
            found = False
            for file in self.module(path, entry.module, entry.level):
                for klass in self.resolve(file, f"{entry.name}.{rest}" if rest else entry.name):
                    found = True
                    yield klass
            if not found and rest:
                inner = f"{entry.module}.{entry.name}" if entry.module else entry.name
                for file in self.module(path, inner, entry.level):
                    yield from self.resolve(file, rest)
            elif not found and (entry.level or entry.module.split(".")[0] in self.folders):
                yield from self._unique(entry.name)
        elif rest:
            parts = rest.split(".")
            for cut in range(len(parts) - 1, -1, -1):
                module = ".".join([entry.module, *parts[:cut]])
                for file in self.module(path, module, 0):
                    yield from self.resolve(file, ".".join(parts[cut:]))

    def _unique(self, name: str) -> Iterator[Klass]:
        """A class of that name where the project has one only: a re-export that was not read."""
        named = self._named.get(name, ())
        if len(named) == 1:
            yield named[0]

    @cached_property
    def folders(self) -> frozenset[str]:
        """The names of the folders and modules that can be imported from here."""
        return frozenset(part for path in self.files for part in _module_parts(path))

    @cached_property
    def _named(self) -> dict[str, list[Klass]]:
        found: dict[str, list[Klass]] = {}
        for klass in self.classes:
            found.setdefault(klass.name, []).append(klass)
        return found

    def function(self, path: str, name: str) -> tuple[str, Function] | None:
        """The module-level function that ``name`` means in the file ``path``, with its file."""
        return self._function(path, name, 0)

    def _function(self, path: str, name: str, depth: int) -> tuple[str, Function] | None:
        own = self.functions.get(path, {}).get(name)
        if own is not None:
            return path, own
        if depth > 4:
            return None
        for entry in self._imports.get(path, {}).get(name, ()):
            if entry.name:
                for file in self.module(path, entry.module, entry.level):
                    found = self._function(file, entry.name, depth + 1)
                    if found is not None:
                        return found
        return None

    def is_module(self, path: str, name: str) -> bool:
        """Whether ``name`` was bound by an import of a module in the file ``path``."""
        return any(not entry.name for entry in self._imports.get(path, {}).get(name, ()))


def _alternatives(value: Expr) -> Iterator[str]:
    if isinstance(value, (Name, Attr)):
        name = dotted(value)
        if name:
            yield name
    elif isinstance(value, IfElse):
        yield from _alternatives(value.then)
        yield from _alternatives(value.other)
    elif isinstance(value, Or):
        for item in value.items:
            yield from _alternatives(item)


def _names(klass: Klass, name: str) -> bool:
    """Whether the root name ``name``, simple or dotted, means ``klass``."""
    module, _, simple = name.rpartition(".")
    if simple != klass.name:
        return False
    if not module:
        return True
    parts = _module_parts(klass.path)
    wanted = tuple(module.split("."))
    size = min(len(parts), len(wanted))
    return parts[-size:] == wanted[-size:]


def _module_parts(path: str) -> tuple[str, ...]:
    parts = path.removesuffix(".py").replace("\\", "/").split("/")
    if parts and parts[-1] == "__init__":
        parts = parts[:-1]
    return tuple(p for p in parts if p not in ("", "."))
