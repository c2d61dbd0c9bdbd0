"""How the methods of a wrapper ask whether a held backend has a hook."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import libcst as cst

from lint_rules.repairs.edits import NoRepair
from lint_rules.repairs.source import Source, walk

__all__ = ["guard_style", "guarded", "guarded_call"]

HASATTR = "hasattr"


def guard_style(source: Source, klass: cst.ClassDef) -> str:
    """``hasattr`` where the class asks in that way alone, else the local that holds the hook."""
    locals_: list[str] = []
    asks = False
    called = {source.code(n.func) for n in walk(klass.body) if isinstance(n, cst.Call)}
    for node in walk(klass.body):
        if isinstance(node, cst.Call) and source.code(node.func) == HASATTR:
            asks = True
        if isinstance(node, cst.Assign) and isinstance(node.value, cst.Call):
            target, call = node.targets[0].target, node.value
            if isinstance(target, cst.Name) and source.code(call.func) == "getattr":
                none = len(call.args) == 3 and source.code(call.args[2].value) == "None"
                if none and target.value in called:
                    locals_.append(target.value)
    return locals_[0] if locals_ else HASATTR if asks else "hook"


def guarded_call(
    source: Source, call: cst.Call, style: str, used: Collection[str], indent: str
) -> str:
    """The statement that makes ``call`` where its object has the attribute that it calls.

    Without the white space before its first line; later lines have ``indent``.
    """
    assert isinstance(call.func, cst.Attribute)
    base, name = source.code(call.func.value), call.func.attr.value
    arguments = source.code(call)[len(source.code(call.func)) :]
    if any(quotes in arguments for quotes in ('"""', "'''")):
        raise NoRepair("a string over several lines cannot be indented")
    step = source.module.default_indent
    lines = arguments.replace("\r\n", "\n").replace(f"\n{indent}", "\n").split("\n")
    made = guarded(step, base, name, style, used, lambda f: [f + lines[0], *lines[1:]])
    return f"\n{indent}".join(made)


def guarded(
    step: str,
    base: str,
    name: str,
    style: str,
    used: Collection[str],
    call: Callable[[str], Iterable[str]],
) -> list[str]:
    """The lines that make the ``call`` of ``base.name`` where there is such an attribute.

    ``call`` gives its lines for what is called.
    """
    if style == HASATTR:
        made = call(f"{base}.{name}")
        return [f'if hasattr({base}, "{name}"):', *(step + line for line in made)]
    local = style
    while local in used:
        local += "_"
    return [
        f'{local} = getattr({base}, "{name}", None)',
        f"if {local} is not None:",
        *(step + line for line in call(local)),
    ]
