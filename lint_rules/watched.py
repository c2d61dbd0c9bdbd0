"""The judge as a judgement sees it that is to be kept: what is asked of it is noted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from lint_rules.noted import Reads, aside

if TYPE_CHECKING:
    from lint_rules.facts import Function
    from lint_rules.flow import Flow
    from lint_rules.judge import Judge
    from lint_rules.link import Klass, Member
    from lint_rules.types import Scope
    from lint_rules.uses import Use

__all__ = ["answered", "watched"]


def answered(judge: Judge, question: str, about: Klass | str) -> object:
    """What the project answers to one of the questions that can be put again, in plain values."""
    with aside():
        return _QUESTIONS[question](judge, about)


_QUESTIONS: dict[str, Callable[[Judge, Any], object]] = {
    "hooks": lambda judge, klass: tuple(m.name for m in judge.hooks(klass)),
    "in_steps": lambda judge, klass: judge.view.in_steps(klass),
    "is_built": lambda judge, klass: judge.is_built(klass),
    "role_of": lambda judge, klass: _number(judge, judge.view.role_of(klass)),
    "is_unused": lambda judge, name: not judge.view.outer_uses(name),
    "written_outside": lambda judge, name: judge.view.written_outside(name),
}


def _number(judge: Judge, klass: Klass | None) -> int | None:
    return judge.project.classes.index(klass) if klass is not None else None


def watched(judge: Judge, reads: Reads) -> Judge:
    """``judge`` with everything that is asked of it noted in ``reads``."""
    return cast("Judge", _Judge(judge, reads))


class _Watched:
    """Stands in for ``whole``. What a subclass does not answer makes the judgement an open one."""

    def __init__(self, whole: Any, judge: Judge, reads: Reads) -> None:
        self._whole = whole
        self._judge = judge
        self._reads = reads

    def __getattr__(self, name: str) -> Any:
        self._reads.open = True
        return getattr(self._whole, name)

    def _ask(self, question: str, about: Klass | str) -> Any:
        key = (question, about)
        if key not in self._reads.asked:
            self._reads.asked[key] = answered(self._judge, question, about)
        return self._reads.asked[key]


class _Judge(_Watched):
    def __init__(self, judge: Judge, reads: Reads) -> None:
        super().__init__(judge, judge, reads)
        self.classes = judge.classes
        self.described = judge.described
        self.view = _View(judge.view, judge, reads)

    def flow(self, klass: Klass, *, defaults: bool = True) -> Flow:
        self._reads.classes.add(klass)
        return self._judge.flow(klass, defaults=defaults)

    def hooks(self, klass: Klass) -> list[Member]:
        return [klass.members[name] for name in self._ask("hooks", klass)]

    def public(self, klass: Klass) -> list[Member]:
        return self._judge.public(klass)

    def is_built(self, klass: Klass) -> bool:
        return bool(self._ask("is_built", klass))


class _View(_Watched):
    def __init__(self, view: Any, judge: Judge, reads: Reads) -> None:
        super().__init__(view, judge, reads)
        self.roots = view.roots
        self.backends = view.backends
        self.types = _Types(view.types, judge, reads)

    def in_steps(self, klass: Klass) -> bool:
        return bool(self._ask("in_steps", klass))

    def role_of(self, klass: Klass) -> Klass | None:
        number = self._ask("role_of", klass)
        return self._judge.project.classes[number] if number is not None else None

    def written_outside(self, name: str) -> bool:
        return bool(self._ask("written_outside", name))

    def constant(self, klass: Klass, name: str) -> bool | None:
        self.written_outside(name)
        return self._judge.view.constant(klass, name)

    def outer_uses(self, name: str) -> list[Use]:
        if self._ask("is_unused", name):
            return []
        self._reads.open = True
        return self._judge.view.outer_uses(name)


class _Types(_Watched):
    def scope(self, klass: Klass, function: Function) -> Scope:
        self._reads.classes.add(klass)
        return self._judge.view.types.scope(klass, function)
