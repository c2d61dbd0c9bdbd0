"""``mla-guard contract``: the hooks of a base class or a backend, as the linter sees them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lint_rules.chains import LEGEND as CHAIN_LEGEND
from lint_rules.chains import chains
from lint_rules.config import Config
from lint_rules.declared import is_optional
from lint_rules.judge import Judge
from lint_rules.library import Library
from lint_rules.link import Klass, Member, is_abstract, kind_of, shape
from lint_rules.nearest import nearest
from lint_rules.output import shown
from lint_rules.run import read_project
from lint_rules.target import inside
from lint_rules.tree import list_files
from mla_guard.drift import format_shape

__all__ = ["ContractError", "Hook", "declaration", "hooks_of", "main_contract", "spread"]

LEGEND = "I implements  i inherits  d delegates  r raises only  . absent"


class ContractError(LookupError):
    """The class or path has no hooks to show; the message says what was looked for."""


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook of a root: its declaration, or the definitions where the root declares none."""

    name: str
    declared: Member | None
    definitions: tuple[Member, ...]


def main_contract(target: str | None, matrix: bool, config: Config) -> str:
    """The text of ``mla-guard contract``.

    ``target`` is a class (simple or dotted), or a path whose classes are meant; None means every
    base class. With ``matrix``: who implements, inherits or delegates which hook, and how it
    reaches each backend through wrappers that declare routes.

    Raises :class:`ContractError`.
    """
    with Library(list_files(config.src, config), None, 0) as library:
        _, judge = read_project(library, config)
    if not judge.view.roots:
        raise ContractError("no base class of attention backends in the project")
    classes = _chosen(judge, target)
    here = Path.cwd()
    if matrix:
        tables = [_matrix(judge, k) for k in classes if k.root is k or len(classes) == 1]
        return "\n\n".join([*tables, *_chains(judge, classes)])
    return "\n\n".join("\n".join(_contract(judge, klass, here)) for klass in classes)


def _chosen(judge: Judge, target: str | None) -> list[Klass]:
    known = [*judge.view.roots, *judge.view.backends]
    if target is None:
        return list(judge.view.roots)
    if os.path.exists(target):
        top = Path(os.path.abspath(target))
        found = [k for k in known if inside(Path(k.path), top)]
        found = [k for k in found if k.root is k] or found
    else:
        found = [k for k in known if _is_named(k, target)]
    if found:
        return found
    close = nearest(target.rpartition(".")[2], {k.name for k in known})
    hint = f" (did you mean {close!r}?)" if close else ""
    raise ContractError(f"no backend class or path is named {target!r}{hint}")


def _is_named(klass: Klass, name: str) -> bool:
    module = Path(klass.path).with_suffix("").as_posix().replace("/", ".")
    return f".{module}.{klass.qualname}".endswith(f".{name}")


def hooks_of(judge: Judge, root: Klass) -> list[Hook]:
    """What the root declares, in its order, then what callers ask of backends without it."""
    found = [
        Hook(name, member, ())
        for name, member in root.members.items()
        if _is_hook(member) and not name.startswith("_")
    ]
    below = [k for k in judge.view.backends if k.root is root]
    for name in sorted(judge.view.uses):
        if name.startswith("_") or not judge.view.outer_uses(name):
            continue
        definitions = tuple(k.own[name] for k in below if name in k.own and _is_hook(k.own[name]))
        if definitions and name not in root.members:
            found.append(Hook(name, None, definitions))
    return found


def _is_hook(member: Member) -> bool:
    return member.function is not None and kind_of(member.function) in ("method", "property")


def _signature(member: Member) -> str:
    assert member.function is not None
    if kind_of(member.function) == "property":
        return f"{member.name} (property)"
    return f"{member.name}{format_shape(shape(member.function))}"


def _contract(judge: Judge, klass: Klass, here: Path) -> Iterator[str]:
    root = klass.root or klass
    line = " < ".join(k.name for k in klass.mro if k.root is not None)
    yield f"{line}  {shown(klass.path, here)}:{klass.line}"
    for hook in hooks_of(judge, root):
        if klass is root:
            yield f"  {declaration(hook)}: {spread(judge, root, hook)}"
        else:
            member = klass.members.get(hook.name)
            place = f"  {shown(member.owner.path, here)}:{member.line}" if member else ""
            yield f"  {_said(hook, member)}: {_words(judge, klass, hook)}{place}"


def declaration(hook: Hook) -> str:
    """The signature that the root declares, or those of the definitions below it."""
    if hook.declared is None:
        signatures = dict.fromkeys(map(_signature, hook.definitions))
        return " or ".join(signatures)
    return _signature(hook.declared)


def _said(hook: Hook, member: Member | None) -> str:
    return _signature(member) if member is not None and member.function is not None else hook.name


def spread(judge: Judge, root: Klass, hook: Hook) -> str:
    """How a root's hook is declared and how many classes below define it."""
    defining = sum(hook.name in k.own for k in judge.view.backends if k.root is root)
    if hook.declared is None:
        how = "not declared, but asked for"
    else:
        assert hook.declared.function is not None
        required = is_abstract(hook.declared.function)
        how = "required" if required else "has a default"
        if is_optional(hook.declared.function):
            how = "optional"
    return f"{how}; {defining} of {len(list(root.descendants))} classes define it"


def _letter(judge: Judge, klass: Klass, hook: Hook) -> str:
    exposure = judge.view.exposure(klass, hook.name)
    member = exposure.member
    if exposure.kind == "dynamic":
        return "d"
    wrapper = judge.view.wrapper(klass)
    if wrapper is not None and any(
        d.name == hook.name and d.scope.function.name == hook.name for d in wrapper.delegations
    ):
        return "d"
    if member is None:
        return "."
    if member.owner is klass:
        return "I"
    return "r" if member.function is not None and is_abstract(member.function) else "i"


def _words(judge: Judge, klass: Klass, hook: Hook) -> str:
    member = klass.members.get(hook.name)
    owner = member.owner.name if member is not None else ""
    return {
        "I": "implemented",
        "i": f"inherited from {owner}",
        "d": "delegated",
        "r": f"only the declaration of {owner}, which raises",
        ".": "absent",
    }[_letter(judge, klass, hook)]


def _matrix(judge: Judge, klass: Klass) -> str:
    """Rows are classes, columns the hooks, numbered above."""
    root = klass.root or klass
    hooks = hooks_of(judge, root)
    below = [k for k in (klass, *_below(klass)) if k is not root]
    below.sort(key=lambda k: (k.name, k.path))
    names = [f"{number:>3}  {declaration(hook)}" for number, hook in enumerate(hooks, start=1)]
    width = max((len(k.name) for k in below), default=0)
    rows = [_row("", width, (str(n) for n in range(1, len(hooks) + 1)))]
    rows += [_row(k.name, width, (_letter(judge, k, hook) for hook in hooks)) for k in below]
    return "\n".join([*names, "", *rows, "", LEGEND])


def _below(klass: Klass) -> list[Klass]:
    return sorted(klass.descendants, key=lambda k: (k.name, k.path))


def _chains(judge: Judge, classes: list[Klass]) -> Iterator[str]:
    """The routes of wrappers: rows are chains down to a backend, columns what they route."""
    family = dict.fromkeys(k for top in classes for k in (top, *_below(top)))
    found = chains(judge.view, family)
    if found:
        names = list(found[0].cells)
        width = max(len(str(chain)) for chain in found)
        yield "\n".join(f"{number:>3}  {name}" for number, name in enumerate(names, start=1))
        rows = [_row("", width, (str(n) for n in range(1, len(names) + 1)))]
        rows += [_row(str(chain), width, chain.cells.values()) for chain in found]
        yield "\n".join(rows)
        yield CHAIN_LEGEND


def _row(name: str, width: int, cells: Iterable[str]) -> str:
    return f"{name:<{width}} " + "".join(f"{cell:>3}" for cell in cells)
