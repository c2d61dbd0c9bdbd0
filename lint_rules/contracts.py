"""``mla-guard contract``: the hooks of a base class or a backend, as the linter sees them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from lint_rules.chains import WORDS as CHAIN_WORDS
from lint_rules.chains import chains
from lint_rules.config import Config
from lint_rules.judge import Judge
from lint_rules.library import Library
from lint_rules.link import Klass, Member
from lint_rules.matrix import (
    LETTERS,
    WORDS,
    Cell,
    Drifted,
    Hook,
    Matrix,
    cell_of,
    declaration,
    drifted,
    hooks_of,
    matrix_of,
    signature,
    spread,
)
from lint_rules.nearest import nearest
from lint_rules.output import shown
from lint_rules.run import read_project
from lint_rules.target import inside
from lint_rules.tree import list_files

__all__ = ["ContractError", "main_contract"]

LEGEND = "  ".join(f"{letter} {WORDS[state]}" for state, letter in LETTERS.items())


class ContractError(LookupError):
    """The class or path has no hooks to show; the message says what was looked for."""


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
    drift = drifted(judge)
    if matrix:
        shown_alone = [k for k in classes if k.root is k or len(classes) == 1]
        tables = [_table(matrix_of(judge, k, drift)) for k in shown_alone]
        return "\n\n".join([*tables, *_chains(judge, classes)])
    return "\n\n".join("\n".join(_contract(judge, klass, here, drift)) for klass in classes)


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


def _contract(judge: Judge, klass: Klass, here: Path, drift: Drifted) -> Iterator[str]:
    root = klass.root or klass
    line = " < ".join(k.name for k in klass.mro if k.root is not None)
    yield f"{line}  {shown(klass.path, here)}:{klass.line}"
    for hook in hooks_of(judge, root):
        if klass is root:
            yield f"  {declaration(hook)}: {spread(judge, root, hook)}"
        else:
            member = klass.members.get(hook.name)
            place = f"  {shown(member.owner.path, here)}:{member.line}" if member else ""
            words = _words(cell_of(judge, klass, hook.name, drift))
            yield f"  {_said(hook, member)}: {words}{place}"


def _said(hook: Hook, member: Member | None) -> str:
    return signature(member) if member is not None and member.function is not None else hook.name


def _words(cell: Cell) -> str:
    owner = cell.member.owner.name if cell.member is not None else ""
    return {
        "implemented": "implemented",
        "drifted": "implemented, but drifted (MLA101)",
        "inherited": f"inherited from {owner}",
        "delegated": "delegated",
        "raises": f"only the definition of {owner}, which raises",
        "absent": "absent",
    }[cell.state]


def _table(table: Matrix) -> str:
    """Rows are classes, columns the hooks, numbered above."""
    names = [f"{n:>3}  {declaration(hook)}" for n, hook in enumerate(table.hooks, start=1)]
    width = max((len(k.name) for k in table.rows), default=0)
    rows = [_row("", width, (str(n) for n in range(1, len(table.hooks) + 1)))]
    rows += [
        _row(k.name, width, (LETTERS[cell.state] for cell in cells))
        for k, cells in table.rows.items()
    ]
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
        yield "\n".join(
            "  ".join(f"{letter} {CHAIN_WORDS[letter]}" for letter in line)
            for line in ("Iir", ".-sb?")
        )


def _row(name: str, width: int, cells: Iterable[str]) -> str:
    return f"{name:<{width}} " + "".join(f"{cell:>3}" for cell in cells)
