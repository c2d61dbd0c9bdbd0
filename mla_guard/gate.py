"""The stand-in of a hook whose class is verified: only some instances have something left to check.

It has the parameters of the function that it stands for, passes them on as they are, and asks one
dict whether the instance is one of those. That is what every other instance pays.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Container
from types import CodeType, FunctionType
from typing import Any

from .caller import STAND_IN

__all__ = ["Gate", "gated"]


class Gate:
    """What a stand-in asks and calls; its attributes are read on every call."""

    __slots__ = ("armed", "call", "id", "run")

    def __init__(
        self,
        armed: Container[int],
        call: Callable[[tuple[Any, ...], dict[str, Any]], Any],
        run: Callable[..., Any],
    ) -> None:
        self.armed, self.call, self.run = armed, call, run
        self.id = id  # the module of the function may call something else so


_SOURCE = """
def outer({names}):
    def stand_in({parameters}):
        if 0: {use}
        if __mla_guard__.id({me}) in __mla_guard__.armed:
            return __mla_guard__.call(({positional},), {{{keywords}}})
        return __mla_guard__.run({call})
"""


def gated(function: FunctionType, gate: Gate) -> FunctionType | None:
    """A stand-in for ``function`` behind ``gate``, or None where the receiver has no name."""
    code = function.__code__
    counts = (code.co_posonlyargcount, code.co_argcount, code.co_kwonlyargcount)
    if not code.co_argcount:
        return None
    star = bool(code.co_flags & inspect.CO_VARARGS)
    double = bool(code.co_flags & inspect.CO_VARKEYWORDS)
    size = sum(counts[1:]) + star + double
    made = _code(counts, star, double, code.co_varnames[:size], code.co_freevars)
    stand_in = FunctionType(
        made, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    stand_in.__kwdefaults__ = {**(function.__kwdefaults__ or {}), "__mla_guard__": gate}
    return stand_in


@functools.lru_cache(maxsize=256)
def _code(
    counts: tuple[int, int, int],
    star: bool,
    double: bool,
    variables: tuple[str, ...],
    names: tuple[str, ...],
) -> CodeType:
    by_position_only, by_position, by_keyword_only = counts
    positional = list(variables[:by_position])
    keywords = list(variables[by_position : by_position + by_keyword_only])
    rest = list(variables[by_position + by_keyword_only :])
    parameters = [*positional]
    if by_position_only:
        parameters.insert(by_position_only, "/")
    parameters.append(f"*{rest[0]}" if star else "*")
    parameters += [*keywords, "__mla_guard__"]
    passed, spread = list(positional), [f"{name!r}: {name}" for name in keywords]
    if star:
        passed.append(f"*{rest[0]}")
    call = [*passed, *(f"{name}={name}" for name in keywords)]
    if double:
        parameters.append(f"**{rest[-1]}")
        call.append(f"**{rest[-1]}")
        spread.append(f"**{rest[-1]}")
    source = _SOURCE.format(
        names=", ".join(names),
        parameters=", ".join(parameters),
        use=", ".join(names) or "pass",
        me=positional[0],
        positional=", ".join(passed),
        keywords=", ".join(spread),
        call=", ".join(call),
    )
    outer = compile(source, STAND_IN, "exec").co_consts[0]
    return next(c for c in outer.co_consts if isinstance(c, CodeType))
