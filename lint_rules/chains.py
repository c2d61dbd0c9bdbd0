"""How each declared hook reaches each backend through the wrappers around it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lint_rules.exposure import View, Wrapper
from lint_rules.link import Klass, is_abstract
from lint_rules.routed import children_of, declares_routes, routes_of

__all__ = ["WORDS", "Chain", "chains"]

WORDS: dict[str, str] = {
    "I": "reaches an implementation there",
    "i": "reaches an inherited one",
    "r": "reaches one that only raises",
    ".": "reaches nothing",
    "-": "not routed to this child",
    "s": "the wrapper's own",
    "b": "the base's",
    "?": "no route",
}
"""What each letter of a cell says."""


@dataclass(frozen=True)
class Chain:
    """A backend of class ``leaf`` inside of wrappers: each with the attribute that holds the next.

    ``cells`` says by name how a hook or flag that is asked of the outermost wrapper gets there, in
    the letters of :data:`WORDS`.
    """

    steps: tuple[tuple[Klass, str], ...]
    leaf: Klass
    cells: Mapping[str, str]

    def __str__(self) -> str:
        return " > ".join([*(f"{k.name}.{child}" for k, child in self.steps), self.leaf.name])


def chains(view: View, classes: Iterable[Klass]) -> list[Chain]:
    """A row for each backend that a child of one of ``classes`` can be.

    Where that is a wrapper with routes of its own, a row for each backend inside of that instead;
    deeper ones are left out. Classes without routes give none.
    """
    wrappers = [w for k in classes if declares_routes(k) and (w := view.wrapper(k)) is not None]
    names = _names(wrappers)
    return [
        Chain(steps, leaf, {name: _cell(view, steps, leaf, name) for name in names})
        for wrapper in wrappers
        for steps, leaf in _inside(view, wrapper)
    ]


def _names(wrappers: Iterable[Wrapper]) -> list[str]:
    """What the wrappers route, in the order of the base's declarations, then by name."""
    routed = {name for w in wrappers for name in routes_of(w.klass)}
    declared = [
        name
        for root in dict.fromkeys(w.klass.root for w in wrappers)
        if root is not None
        for name in (*(attr.name for attr in root.facts.attrs), *root.members)
        if name in routed
    ]
    return list(dict.fromkeys([*declared, *sorted(routed)]))


def _inside(
    view: View, wrapper: Wrapper, deeper: bool = True
) -> Iterator[tuple[tuple[tuple[Klass, str], ...], Klass]]:
    for child in children_of(wrapper.klass):
        for klass in wrapper.inside(view, child) if child in wrapper.held else ():
            step = (wrapper.klass, child)
            nested = view.wrapper(klass) if declares_routes(klass) else None
            if nested is None or not children_of(klass):
                yield (step,), klass
            elif deeper:
                for steps, leaf in _inside(view, nested, deeper=False):
                    yield (step, *steps), leaf


def _cell(view: View, steps: Iterable[tuple[Klass, str]], leaf: Klass, name: str) -> str:
    for klass, child in steps:
        route = routes_of(klass).get(name)
        if route is None:
            return "?"
        if route.answer is not None:
            return "s" if route.answer == "self" else "b"
        if child not in route.children:
            return "-"
    exposure, stored = view.exposure(leaf, name), leaf.stored.get(name, ())
    member = exposure.member
    if member is not None and member.function is not None and is_abstract(member.function):
        return "r"
    if exposure.kind == "absent":
        return "."
    here = exposure.kind == "dynamic" or (member is not None and member.owner is leaf)
    return "I" if here or any(owner is leaf for owner, _, _ in stored) else "i"
