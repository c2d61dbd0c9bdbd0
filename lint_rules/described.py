"""Which classes describe the configuration that backends read in their constructors.

No such class is named here. A backend that reads ``runner.model_config.scaling`` reads it of what
some code that was read declares, or builds, under the name ``model_config``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from lint_rules.facts import Attr, Bind, Call, FileFacts, Function, Name, Read, Write, last_name

__all__ = ["BRANCHES", "declares", "described", "may_be_uneven", "reads"]

BRANCHES = 3
"""So many branches that say the same of an object make a kind of it."""

_SAYS = re.compile(rb"\n[ \t]{8,}\w+\.(\w+ = (\w+)\.\w+)[ \t]*(?:#[^\n]*)?\r?(?=\n)")
_GLOBAL = rb"^(?:class[ \t]+|(?:from[ \t]+[\w.]+[ \t]+)?import[ \t][^\n]*\b)%b\b|^    %b,[ \t]*\r?$"


def may_be_uneven(source: bytes) -> bool:
    """Whether branches of the file's methods say the same of their object, before it is parsed."""
    counted = Counter(_SAYS.findall(source))
    owners = {owner for (_, owner), count in counted.items() if count >= BRANCHES}
    return any(re.search(_GLOBAL % (owner, owner), source, re.MULTILINE) for owner in owners)


def reads(function: Function) -> Iterator[tuple[str, Read]]:
    """What a function reads of objects that others hold: the name of the holder, and the read."""
    for event in function.events:
        if isinstance(event, Read) and not (event.probe or event.caught):
            holder = last_name(event.value)
            if holder:
                yield holder, event


def described(
    files: Iterable[FileFacts], family: Iterable[str], declared: Mapping[str, set[str]]
) -> dict[tuple[str, str], set[str]]:
    """File and name of each class that constructors beside backends read of, and who holds it.

    ``family`` are the names of the backends' classes, ``declared`` the files that declare a class.
    """
    files, backends = list(files), set(family)
    holders = {
        holder
        for facts in files
        if any(klass.qualname.rpartition(".")[2] in backends for klass in facts.classes)
        for klass in facts.classes
        for method in klass.methods
        if method.name == "__init__"
        for holder, _ in reads(method)
    }
    found: dict[tuple[str, str], set[str]] = {}
    for facts in files:
        for holder, name in facts.declares:
            if holder in holders and name not in backends:
                for path in _meant(facts, name, declared.get(name, set())):
                    found.setdefault((path, name), set()).add(holder)
    return found


def _meant(facts: FileFacts, name: str, paths: set[str]) -> Iterator[str]:
    """Of the files that declare a class, those that a file imports it from; the only one anyway."""
    if len(paths) == 1:
        yield from paths
        return
    ends = ["/" + e.module.replace(".", "/") + ".py" for e in facts.imports if e.name == name]
    for path in sorted(paths):
        if path == facts.path or any(f"/{path}".endswith(end) for end in ends):
            yield path


def declares(function: Function) -> Iterator[tuple[str, str]]:
    """Names that a function declares or builds an object under, and the name of its class."""
    for parameter in function.params:
        for name in parameter.annotation:
            yield parameter.name, name.rpartition(".")[2]
    events: tuple[Bind | Write, ...] = (*function.binds, *function.writes)
    for event in events:
        for name in event.annotation:
            yield event.name, name.rpartition(".")[2]
        if isinstance(event.value, Call) and isinstance(event.value.func, (Attr, Name)):
            yield event.name, last_name(event.value.func)
