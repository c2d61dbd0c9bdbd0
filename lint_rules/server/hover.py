"""What hovering over a hook's name shows: its contract, who implements it and who calls it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from lint_rules.judge import Judge
from lint_rules.link import Klass
from lint_rules.matrix import Hook, declaration, hooks_of, spread
from lint_rules.output import shown
from lint_rules.server.wire import Described, DescribeHook

__all__ = ["describe"]

_SHOWN = 12
_WORD = re.compile(r"[^\W\d]\w*")
_OWN = re.compile(r"(?:\bdef\s+|\b(?:self|cls)\.|\bsuper\(\)\.)\Z")


def describe(judge: Judge, folder: Path, asked: DescribeHook) -> Described:
    """Markdown about the hook that is named at a place of ``asked``; paths relative to ``folder``.

    A name is taken for a hook where a backend defines it or asks itself for it, and where code is
    known to ask a backend for it.
    """
    line = judge.places.line(asked.path, asked.line)
    word = next((m for m in _WORD.finditer(line) if m.start() < asked.column <= m.end() + 1), None)
    if word is None or not _is_asked(judge, asked, line[: word.start()], word.group()):
        return Described()
    said = [
        "\n".join(_lines(judge, folder, root, hook))
        for root in judge.view.roots
        for hook in hooks_of(judge, root)
        if hook.name == word.group()
    ]
    return Described("\n\n---\n\n".join(said), word.start() + 1, word.end() + 1)


def _is_asked(judge: Judge, asked: DescribeHook, before: str, name: str) -> bool:
    if _OWN.search(before) and asked.path in judge.view.defining:
        return True
    return any(
        use.scope.path == asked.path
        and asked.line in (use.line, judge.places.at(asked.path, use.line, name).line)
        for use in judge.view.uses.get(name, ())
    )


def _lines(judge: Judge, folder: Path, root: Klass, hook: Hook) -> Iterator[str]:
    yield "```python"
    yield f"{root.name}.{declaration(hook)}"
    yield "```"
    yield f"Hook of `{root.name}`: {spread(judge, root, hook)}."
    if hook.declared is not None:
        owner = hook.declared.owner
        place = judge.places.member(hook.declared)
        yield ""
        yield f"Declared in `{owner.name}`: {_link(folder, place.path, place.line)}"
    below = [k for k in judge.view.backends if k.root is root]
    implementing = [k for k in below if hook.name in k.own]
    yield from _listed(
        "Implemented by",
        (f"`{k.name}` {_link(folder, k.path, k.own[hook.name].line)}" for k in implementing),
    )
    yield from _listed(
        "Handed on by",
        (
            f"`{d.scope.symbol}` {_link(folder, d.scope.path, d.line)}"
            for wrapper in judge.view.wrappers
            if wrapper.klass.root is root
            for d in wrapper.delegations
            if d.name == hook.name
        ),
    )
    yield from _listed(
        "Called from",
        (
            f"`{use.scope.symbol}` {_link(folder, use.scope.path, use.line)}"
            for use in judge.view.outer_uses(hook.name)
            if root in {k.root for k in use.typed.named}
        ),
    )


def _listed(title: str, entries: Iterable[str]) -> Iterator[str]:
    found = sorted(dict.fromkeys(entries))
    if not found:
        return
    yield ""
    yield f"{title}:"
    yield ""
    yield from (f"- {entry}" for entry in found[:_SHOWN])
    if len(found) > _SHOWN:
        yield f"- and {len(found) - _SHOWN} more"


def _link(folder: Path, path: str, line: int) -> str:
    return f"[{shown(path, folder)}:{line}]({Path(path).as_uri()}#L{line})"
