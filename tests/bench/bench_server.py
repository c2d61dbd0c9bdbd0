"""How long an editor waits for the language server on the release of an engine.

    python -m tests.bench.bench_server [--rounds 5] [sglang 0.5.23]

A copy of the release is opened by a language client, from an empty cache. A row has the median and
the longest of its rounds; the server has nothing else to do meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from lsprotocol import types

from tests.field.cases import package_of
from tests.server.editor import Editor, editor

_REST = 5.0
"""Seconds after which a check that was asked for is over."""
_FILES = {
    "sglang": (
        "srt/layers/attention/base_attn_backend.py",
        "srt/layers/attention/trtllm_mla_backend.py",
        "init_mha_chunk_metadata",
    ),
    "vllm": (
        "v1/attention/backend.py",
        "v1/attention/backends/mla/flashmla.py",
        "build",
    ),
}
"""The file of the base class, that of a backend, and a hook that it defines."""


def main(argv: Sequence[str] | None = None) -> int:
    """Print a table of what was measured."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("engine", nargs="?", default="sglang", choices=list(_FILES))
    parser.add_argument("release", nargs="?", default="0.5.23")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder, "project")
        package = package_of(arguments.engine, arguments.release)
        shutil.copytree(package, top / arguments.engine)
        (top / "pyproject.toml").write_text("[tool.mla-guard]\n", encoding="utf-8")
        base, backend, hook = _FILES[arguments.engine]
        measuring = _Measuring(top, top / arguments.engine / base, top / arguments.engine / backend)
        asyncio.run(measuring.run(hook, arguments.rounds))
    print(f"{arguments.engine} {arguments.release}, {os.cpu_count()} processors")
    print("| what the editor waits for | median | longest |")
    print("| --- | --- | --- |")
    for what, seconds in measuring.rows.items():
        print(f"| {what} | {_shown(statistics.median(seconds))} | {_shown(max(seconds))} |")
    return 0


def _shown(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


class _Measuring:
    """One release in an editor; ``rows`` are seconds by what was waited for."""

    def __init__(self, top: Path, base: Path, backend: Path) -> None:
        self.top, self.base, self.backend = top, base, backend
        self.rows: dict[str, list[float]] = {}

    async def run(self, hook: str, rounds: int) -> None:
        for cache in ("an empty", "a warm"):
            started = time.perf_counter()
            async with editor(self.top) as client:
                await client.until(lambda: bool(client.codes()))
                self._took(f"findings after the start, {cache} cache", started)
                if cache == "a warm":
                    await self._open(client, self.backend, self.base)
                    await self._edits(client, hook, rounds)

    async def _open(self, client: Editor, *paths: Path) -> None:
        for path in paths:
            client.open(path)
        await asyncio.sleep(_REST)

    async def _edits(self, client: Editor, hook: str, rounds: int) -> None:
        lines = client.text(self.backend).splitlines()
        [line] = [n for n, text in enumerate(lines) if text.lstrip().startswith(f"def {hook}(")]
        column = lines[line].index(hook)
        await self._hover(client, "the first hover", line, column)
        for number in range(rounds):
            for what, path in (("the base class", self.base), ("a backend", self.backend)):
                text = client.text(path).rstrip("\n") + f"\n# edit {number}\n"
                await self._news(client, f"findings after {what} is saved", path, text)
                await self._hover(client, "a hover after that", line, column)
        for _ in range(4 * rounds):
            await self._hover(client, "a hover", line, column)
        await self._repairs(client, rounds)

    async def _hover(self, client: Editor, what: str, line: int, column: int) -> None:
        started = time.perf_counter()
        assert await client.hover(self.backend, line, column) is not None
        self._took(what, started)

    async def _news(self, client: Editor, what: str, path: Path, text: str) -> None:
        before = {uri: id(found) for uri, found in client.shown.items() if found}
        started = time.perf_counter()
        client.save(path, text)
        await client.until(lambda: any(id(client.shown[uri]) != n for uri, n in before.items()))
        self._took(what, started)

    async def _repairs(self, client: Editor, rounds: int) -> None:
        repairs: list[types.CodeAction] = []
        for uri, found in client.shown.items():
            path = Path(uri.removeprefix("file://"))
            if not found or len(repairs) >= rounds or path.suffix != ".py":
                continue
            await self._open(client, path)
            started = time.perf_counter()
            offered = await client.actions(path, *found, only="quickfix")
            self._took("the actions for a file's findings", started)
            repairs += [action for action in offered if action.title.startswith("Repair")]
        for action in repairs[:rounds]:
            started = time.perf_counter()
            await client.code_action_resolve_async(action)
            self._took("the repair that was chosen", started)

    def _took(self, what: str, started: float) -> None:
        self.rows.setdefault(what, []).append(time.perf_counter() - started)


if __name__ == "__main__":
    sys.exit(main())
