"""Which of the backends that a wrapper holds has to answer."""

from __future__ import annotations

from lint_rules.exposure import Wrapper
from lint_rules.facts import Attr, Expr, Name, Seq
from lint_rules.gaps import Gap
from lint_rules.judge import Judge

__all__ = ["certain_child"]


def certain_child(judge: Judge, gap: Gap) -> str | None:
    """The only held attribute that can have what is missing, None where several can.

    A list of backends that are held under names of their own as well counts for these.
    """
    wrapper = gap.wrapper
    able = [
        attr
        for attr in wrapper.held
        if not _repeats(wrapper, attr)
        and set(gap.implementers) & set(wrapper.inside(judge.view, attr))
    ]
    if len(able) == 1 and not wrapper.held[able[0]].many:
        return able[0]
    return None


def _repeats(wrapper: Wrapper, attr: str) -> bool:
    """Whether an attribute holds nothing but what others of the wrapper hold."""
    writes = wrapper.klass.stored.get(attr, ())
    return bool(writes) and all(
        write.value is not None
        and all(
            _held_elsewhere(wrapper, attr, item)
            for item in (write.value.items if isinstance(write.value, Seq) else (None,))
        )
        for _, _, write in writes
    )


def _held_elsewhere(wrapper: Wrapper, attr: str, item: Expr | None) -> bool:
    if isinstance(item, Attr):
        return item.name in wrapper.held and item.name != attr
    return isinstance(item, Name) and any(
        write.value == item
        for other, writes in wrapper.klass.stored.items()
        if other in wrapper.held and other != attr
        for _, _, write in writes
    )
