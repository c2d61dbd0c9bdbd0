"""What is asked of backends: every use by its name, and who asks."""

from __future__ import annotations

from collections.abc import Container, Iterator
from functools import cached_property

from lint_rules.facts import Bind, CallEvent, Expr, Name, Or, Read, Seq, dotted
from lint_rules.handing import Target, asked_by, method_value
from lint_rules.link import Klass, Project
from lint_rules.types import Scope, Typed, Types
from lint_rules.uses import Use, UseKind

__all__ = ["Asked"]


class Asked:
    """The families below the given roots, and what the tree asks of them."""

    def __init__(self, project: Project, roots: list[Klass]) -> None:
        self.project = project
        self.roots = roots
        self.types = Types(project, roots)
        self._outer: dict[str, list[Use]] = {}
        self._neighbourhoods: dict[str, str] = {}
        self._roles: dict[Klass, Klass | None] = {}

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
        folder = path.rpartition("/")[0]
        found = self._neighbourhoods.get(folder)
        if found is None:
            roots = max((_shared(path, root.path) for root in self.roots), key=len, default="")
            near = max(
                (_shared(path, file) for file in self._defining_folders), key=len, default=""
            )
            found = self._neighbourhoods[folder] = near if len(near) > len(roots) else ""
        return found

    @cached_property
    def _defining_folders(self) -> list[str]:
        """A file that defines a backend, of each folder that has one."""
        return list({path.rpartition("/")[0]: path for path in sorted(self.defining)}.values())

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
        return self.uses_of(None)

    def uses_of(self, names: Container[str] | None) -> dict[str, list[Use]]:
        """What is asked of backends by one of ``names``, or by any."""
        found: dict[str, list[Use]] = {}
        for scope in self.types.busy_scopes:
            for use in self._uses_in(scope, names):
                found.setdefault(use.name, []).append(use)
        return found

    def outer_uses(self, name: str) -> list[Use]:
        """Uses of ``name`` on the backend that the engine configured."""
        found = self._outer.get(name)
        if found is None:
            uses = self.uses.get(name, ())
            found = [use for use in uses if use.typed.outer and not self._inside(use.scope)]
            self._outer[name] = found
        return found

    def _inside(self, scope: Scope) -> bool:
        return scope.klass is not None and scope.klass.root in self.types.roots

    def _uses_in(self, scope: Scope, names: Container[str] | None) -> Iterator[Use]:
        bound: dict[str, list[Target]] = {}
        for event in scope.function.events:
            if isinstance(event, Bind):
                target = method_value(event.value)
                if target is not None:
                    bound.setdefault(event.name, []).append(target)
            elif isinstance(event, Read):
                if names is not None and event.name not in names:
                    continue
                typed = self._single(scope, event.value)
                if typed is not None:
                    kind: UseKind = "probe" if event.probe or event.caught else "read"
                    yield Use(
                        event.name, kind, event.value, typed, scope, event.line, event.cond,
                        event.caught,
                    )  # fmt: skip
            elif isinstance(event, CallEvent):
                for target, call in asked_by(event.call, bound):
                    if names is not None and target.name not in names:
                        continue
                    typed = self._single(scope, target.base)
                    if typed is not None:
                        yield Use(
                            target.name, "read" if call is None else "call", target.base, typed,
                            scope, event.line, event.cond, event.caught, call, target.delegated,
                            event.unpacked,
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

    def is_helper(self, klass: Klass) -> bool:
        """Whether only backends build a class: what it asks, it asks of the one that built it."""
        built = self._building.get(klass, ())
        return bool(built) and all(self._inside(scope) for scope, _ in built)

    @cached_property
    def _building(self) -> dict[Klass, list[tuple[Scope, CallEvent]]]:
        """The calls of the tree that build a class, by class."""
        found: dict[Klass, list[tuple[Scope, CallEvent]]] = {}
        for scope, event, classes in self.types.naming_calls:
            for klass in classes:
                found.setdefault(klass, []).append((scope, event))
        return found


def _shared(a: str, b: str) -> str:
    """The folder that two files share, with its slash."""
    shared: list[str] = []
    for mine, other in zip(a.split("/")[:-1], b.split("/")[:-1], strict=False):
        if mine != other:
            break
        shared.append(mine)
    return "/".join(shared) + "/" if shared else ""
