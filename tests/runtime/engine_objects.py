"""SGLang's own ``ForwardBatch`` and ``ForwardMode``, loaded from a release without its engine."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from types import ModuleType
from typing import Any

from mla_runtime import ForwardBatch

__all__ = ["EngineObjects", "engine_objects"]

_REAL = {
    f"sglang.srt.model_executor.{name}": f"sglang/srt/model_executor/{name}.py"
    for name in ("forward_batch_info", "forward_batch_deepseek_mha_mixin")
}
_STUBBED = ("sglang", "triton")


@dataclass(frozen=True)
class EngineObjects:
    """The two classes of one release."""

    ForwardBatch: Any
    ForwardMode: Any

    def of(self, ours: ForwardBatch, mode: str | None = None) -> Any:
        """Their batch with the content of ours, in ``mode`` or the mode of the same name.

        Every field that we set must be one that they declare.
        """
        theirs = self.ForwardBatch(
            forward_mode=self.ForwardMode[mode or ours.forward_mode.name],
            batch_size=ours.batch_size,
            input_ids=None,
            req_pool_indices=ours.req_pool_indices,
            seq_lens=ours.seq_lens,
            out_cache_loc=ours.out_cache_loc,
            seq_lens_sum=ours.seq_lens_sum,
        )
        for spec in fields(ours):
            value = getattr(ours, spec.name)
            if value is None:
                continue
            assert hasattr(theirs, spec.name), f"their ForwardBatch has no {spec.name}"
            if spec.name != "forward_mode":
                setattr(theirs, spec.name, value)
        return theirs


def engine_objects(sources: Path) -> EngineObjects:
    """Load the classes from an unpacked wheel; all other modules of the engine are stubs."""
    before = dict(sys.modules)
    for name in list(sys.modules):
        if name.split(".")[0] in _STUBBED:
            del sys.modules[name]
    finder = _Finder(sources)
    sys.meta_path.insert(0, finder)
    try:
        module = importlib.import_module("sglang.srt.model_executor.forward_batch_info")
        # The methods that would launch Triton kernels; everything else is theirs.
        own = {
            "prepare_chunked_prefix_cache_info": ForwardBatch.prepare_chunked_prefix_cache_info,
            "fetch_mha_one_shot_kv_indices": ForwardBatch.fetch_mha_one_shot_kv_indices,
        }
        return EngineObjects(type("ForwardBatch", (module.ForwardBatch,), own), module.ForwardMode)
    finally:
        sys.meta_path.remove(finder)
        for name in list(sys.modules):
            if name.split(".")[0] in _STUBBED:
                del sys.modules[name]
        sys.modules.update({n: m for n, m in before.items() if n.split(".")[0] in _STUBBED})


class _Anything:
    """Stands for whatever an engine imports: falsy, callable, a decorator that changes nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else _Anything()

    def __getitem__(self, item: Any) -> Any:
        return _Anything()

    def __bool__(self) -> bool:
        return False


class _StubModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything()


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, sources: Path) -> None:
        self.sources = sources

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name in _REAL:
            return importlib.util.spec_from_file_location(name, self.sources / _REAL[name])
        if name.split(".")[0] in _STUBBED:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        stub = _StubModule(spec.name)
        stub.__path__ = []
        return stub

    def exec_module(self, module: ModuleType) -> None:
        """A stub has no body."""
