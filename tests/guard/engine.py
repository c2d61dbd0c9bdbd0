"""Load modules of an unpacked engine release with everything else that they import stubbed.

Only class bodies matter to the guard: functions and attributes of other modules are stand-ins that
can be called, subscripted, decorated with and subclassed, and that are false.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from abc import ABCMeta
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["loaded", "stub"]


HIDDEN = ("flashinfer", "functorch", "msgspec", "numpy", "pydantic", "torch", "triton")
"""Packages that may be there, and are stubbed all the same."""


class _Meta(ABCMeta):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _made(f"{cls.__name__}.{name}")

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and (callable(args[0]) or _is_method(args[0])):
            return args[0]  # used as a decorator
        return super().__call__()

    def __getitem__(cls, item: Any) -> Any:
        return cls

    def __or__(cls, other: Any) -> Any:
        return cls

    __ror__ = __add__ = __radd__ = __or__

    def __bool__(cls) -> bool:
        return False

    def __iter__(cls) -> Iterator[Any]:
        return iter(())


def _is_method(value: Any) -> bool:
    return isinstance(value, (staticmethod, classmethod, property))


class _Stub(metaclass=_Meta):
    def __init_subclass__(cls, **kwargs: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Stub()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and (callable(args[0]) or _is_method(args[0])):
            return args[0]
        return _Stub()

    def _again(self, *_: Any) -> Any:
        return _Stub()

    __getitem__ = __add__ = __radd__ = __mul__ = __rmul__ = __sub__ = __rsub__ = _again
    __floordiv__ = __rfloordiv__ = __truediv__ = __or__ = __ror__ = __and__ = __neg__ = _again
    __mod__ = __pow__ = __rpow__ = __lshift__ = _again

    def __setitem__(self, key: Any, value: Any) -> None: ...

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None: ...

    def _no(self, *_: object) -> bool:
        return False

    __bool__ = __lt__ = __gt__ = __le__ = __ge__ = __contains__ = _no

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __index__(self) -> int:
        return 1

    __int__ = __index__


def stub() -> Any:
    """An object that has every attribute and takes every call."""
    return _Stub()


def _made(name: str) -> _Meta:
    return _Meta(name.rpartition(".")[2], (_Stub,), {"__module__": "stub"})


class _StubModule(ModuleType):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__ = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = _made(name)
        setattr(self, name, made)
        return made


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the named modules under ``root`` and answers for every other absent module."""

    def __init__(self, root: Path, real: Callable[[str], bool], given: Mapping[str, Any]) -> None:
        self.root, self.real, self.given = root, real, given

    def find_spec(
        self, name: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        file = self.root.joinpath(*name.split(".")).with_suffix(".py")
        if self.real(name) and file.is_file():
            return importlib.util.spec_from_file_location(name, file)
        if name.partition(".")[0] in sys.stdlib_module_names:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = _StubModule(spec.name)
        for name, value in self.given.items():
            where, _, attribute = name.rpartition(".")
            if where == spec.name:
                setattr(module, attribute, value)
        return module

    def exec_module(self, module: ModuleType) -> None: ...


@contextmanager
def loaded(
    root: Path, modules: Iterable[str], given: Mapping[str, Any] | None = None
) -> Iterator[dict[str, ModuleType]]:
    """The named modules of the release unpacked under ``root``, and no trace of them afterwards.

    ``given`` replaces attributes of stubbed modules, by dotted name.
    """
    modules = list(modules)
    before = dict(sys.modules)
    for name in before:
        if name.partition(".")[0] in HIDDEN:
            del sys.modules[name]
    finder = _Finder(root, set(modules).__contains__, given or {})
    sys.meta_path.insert(0, finder)
    try:
        yield {name: importlib.import_module(name) for name in modules}
    finally:
        sys.meta_path.remove(finder)
        for name in set(sys.modules) - before.keys():
            del sys.modules[name]
        sys.modules.update(before)
