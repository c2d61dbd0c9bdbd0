"""The function that stands in a hook's place until its class or instance is verified.

A stand-in has the name, the signature and the kind (plain, coroutine, generator) of the function
it stands for. When it is retired it takes over the code of that function: whoever stored it, alone
or in a bound method, then runs the original without a detour.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Container, Generator
from contextlib import AbstractContextManager
from types import CodeType, FunctionType
from typing import Any, Protocol

from .caller import STAND_IN
from .contract import ORIGINAL
from .gate import Gate, gated
from .torch_state import compiling, may_be_traced

__all__ = ["StandIn", "rebuilt"]

Done = Callable[[Any], None]


class Around(Protocol):
    """What is to happen around a call: the checks before it, and ``done(result)`` after it."""

    def __call__(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], /
    ) -> AbstractContextManager[Done]: ...


_START = {"coroutine": "async def", "stream": "async def"}
_RETURN = {
    "plain": "return __mla_guard__(args, kwargs)",
    "coroutine": "return await __mla_guard__(args, kwargs)",
    "generator": "return (yield from __mla_guard__(args, kwargs))",
    # An asynchronous generator has no "yield from".
    "stream": """stream = __mla_guard__(args, kwargs)
        try:
            item = await stream.asend(None)
            while True:
                try:
                    sent = yield item
                except GeneratorExit:
                    await stream.aclose()
                    raise
                except BaseException as error:
                    item = await stream.athrow(error)
                else:
                    item = await stream.asend(sent)
        except StopAsyncIteration:
            return""",
}
_SOURCE = """
def outer({parameters}):
    {start} stand_in(*args, __mla_guard__, **kwargs):
        if 0: {use}
        {body}
"""


@functools.lru_cache(maxsize=256)
def _template(flavour: str, names: tuple[str, ...]) -> CodeType:
    """The code of a stand-in that closes over ``names``, as the function it stands for does.

    Only then can the two exchange their code, and can a debugger look into the frame.
    """
    source = _SOURCE.format(
        parameters=", ".join(names),
        start=_START.get(flavour, "def"),
        use=", ".join(names) or "pass",
        body=_RETURN[flavour],
    )
    outer = compile(source, STAND_IN, "exec").co_consts[0]
    return next(c for c in outer.co_consts if isinstance(c, CodeType))


def _flavour(function: Callable[..., Any]) -> str:
    if inspect.iscoroutinefunction(function):
        return "coroutine"
    if inspect.isasyncgenfunction(function):
        return "stream"
    return "generator" if inspect.isgeneratorfunction(function) else "plain"


class StandIn:
    """A stand-in for ``original``, which calls ``run`` (``original`` itself, or what finds it).

    ``first_call`` goes around each call of which ``idle`` does not say that it has nothing to do.
    ``armed`` are the ids of the only receivers that matter, where it is known that others do not.
    ``function`` is what to put in the original's place.
    """

    __slots__ = ("_first_call", "_idle", "_run", "function", "original", "retired")

    def __init__(
        self,
        original: Callable[..., Any],
        run: Callable[..., Any],
        idle: Callable[[tuple[Any, ...], dict[str, Any]], bool],
        first_call: Around,
        armed: Container[int] | None = None,
    ) -> None:
        self.original, self._run, self._idle, self._first_call = original, run, idle, first_call
        self.retired = False
        flavour = _flavour(original)
        call: Callable[..., Any] = {
            "coroutine": self._call_coroutine,
            "generator": self._call_generator,
            "plain": self._call,
            "stream": self._call,
        }[flavour]
        if isinstance(original, FunctionType):
            names, closure = original.__code__.co_freevars, original.__closure__
            module = original.__globals__
        else:
            names, closure, module = (), None, globals()
        stand_in = None
        if armed is not None and flavour == "plain" and isinstance(original, FunctionType):
            stand_in = gated(original, Gate(armed, call, run))
        if stand_in is None:
            code = _template(flavour, names)
            stand_in = FunctionType(code, module, original.__name__, None, closure)
            stand_in.__kwdefaults__ = {"__mla_guard__": call}
        functools.update_wrapper(stand_in, original)
        vars(stand_in)[ORIGINAL] = (stand_in, original)
        self.function = stand_in

    def retire(self, *, as_twin: bool = True) -> None:
        """Check no more; ``as_twin`` says that the original is what every holder is to run."""
        self.retired = True
        original, twin = self.original, self.function
        if not as_twin or not isinstance(original, FunctionType) or may_be_traced(twin):
            return
        # In this order: a call that comes between finds its defaults whichever code it runs.
        twin.__defaults__ = original.__defaults__
        twin.__kwdefaults__ = {**(original.__kwdefaults__ or {}), **(twin.__kwdefaults__ or {})}
        twin.__code__ = original.__code__
        twin.__kwdefaults__ = original.__kwdefaults__

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.retired or compiling() or self._idle(args, kwargs):
            return self._run(*args, **kwargs)
        with self._first_call(args, kwargs) as done:
            result = self._run(*args, **kwargs)
            done(result)
        return result

    async def _call_coroutine(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self.retired or self._idle(args, kwargs):
            return await self._run(*args, **kwargs)
        with self._first_call(args, kwargs) as done:
            result = await self._run(*args, **kwargs)
            done(result)
        return result

    def _call_generator(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Generator[Any, Any, Any]:
        if self.retired or self._idle(args, kwargs):
            return (yield from self._run(*args, **kwargs))
        with self._first_call(args, kwargs) as done:
            result = yield from self._run(*args, **kwargs)
            done(result)
        return result


def rebuilt(attribute: Any, function: Callable[..., Any]) -> Any:
    """``function`` in the kind of class attribute that ``attribute`` is."""
    if isinstance(attribute, staticmethod):
        made: Any = staticmethod(function)
    elif isinstance(attribute, classmethod):
        made = classmethod(function)
    elif isinstance(attribute, property):
        return _Property(attribute, function)
    elif isinstance(attribute, functools.cached_property):
        made = functools.cached_property(function)
        made.attrname = attribute.attrname
    else:
        return function
    vars(made)[ORIGINAL] = (made, attribute)
    return made


class _Property(property):
    """A property that remembers the one it stands for (a plain property has no ``__dict__``)."""

    def __init__(self, original: property, getter: Callable[..., Any]) -> None:
        super().__init__(getter, original.fset, original.fdel, original.__doc__)
        vars(self)[ORIGINAL] = (self, original)
