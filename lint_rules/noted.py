"""What a judgement reads of the bodies of classes, noted while it is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

if TYPE_CHECKING:
    from lint_rules.link import Klass

__all__ = ["Reads", "aside", "noted", "noting", "open_ended"]

T = TypeVar("T")


class Reads:
    """What a judgement has read.

    ``classes`` whose bodies it saw, ``asked`` the questions about the whole project that it put,
    with the answers, and whether it is ``open``: it read what cannot be compared later.
    """

    __slots__ = ("asked", "classes", "open")

    def __init__(self) -> None:
        self.classes: set[Klass] = set()
        self.asked: dict[tuple[str, Klass | str], object] = {}
        self.open = False


class _Notes:
    """``reads`` is of the judgement that is being made, None between two; ``classes`` are its."""

    __slots__ = ("classes", "reads")

    def __init__(self) -> None:
        self.reads: Reads | None = None
        self.classes: set[Klass] | None = None


_NOTES = _Notes()


@contextmanager
def noting(reads: Reads | None) -> Iterator[None]:
    """Have what is read meanwhile noted in ``reads``."""
    before = _NOTES.reads
    _NOTES.reads, _NOTES.classes = reads, reads.classes if reads is not None else None
    try:
        yield
    finally:
        _NOTES.reads, _NOTES.classes = before, before.classes if before is not None else None


def aside() -> AbstractContextManager[None]:
    """Have nothing noted meanwhile: the answer that is found out is compared itself."""
    return noting(None)


def open_ended() -> None:
    """Note that what is read now cannot be compared later."""
    if _NOTES.reads is not None:
        _NOTES.reads.open = True


class noted(Generic[T]):
    """A cached property of a class that follows from its body and the bodies of its parents.

    Who reads it is noted each time, not only when it is computed.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, klass: None, owner: type) -> noted[T]: ...
    @overload
    def __get__(self, klass: Klass, owner: type) -> T: ...
    def __get__(self, klass: Klass | None, owner: type) -> noted[T] | T:
        if klass is None:
            return self
        classes = _NOTES.classes
        if classes is not None:
            classes.add(klass)
        try:
            found: T = klass.__dict__[self._name]
        except KeyError:
            found = klass.__dict__[self._name] = self._compute(klass)
        return found

    def __set__(self, klass: Klass, value: T) -> None:
        raise AttributeError(f"{self._name} follows from the body of {klass}")
