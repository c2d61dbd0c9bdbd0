"""Repairs as an editor offers them: those of ``mla-guard check --fix``, byte for byte."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mla_guard.cli import main
from tests.server.editor import Editor
from tests.server.test_server import cold, session, shown

BASE = """\
class AttentionBackend:
    def plan(self, batch):
        raise NotImplementedError


class Wide(AttentionBackend):
    def plan(self, batch, flag=False, ratio=1.0):
        self.ratio = ratio
"""
FIRST = """\
from engine.base import Wide


class First(Wide):
    def plan(self, batch, flag=False):
        "\U0001f600"; super().plan(batch, flag)  # as it is
"""
SECOND = """\
from engine.first import First


class Second(First):
    def plan(self, batch, flag=False):
        super().plan(batch, flag)
"""
FIX_ALL = "source.fixAll.mla-guard"


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """A project whose first file has a finding, the repair of which reaches into the second."""
    top = tmp_path / "project"
    (top / "engine").mkdir(parents=True)
    (top / "pyproject.toml").write_text("[tool.mla-guard]\n")
    files = {"base.py": BASE, "first.py": FIRST.replace("\n", "\r\n"), "second.py": SECOND}
    for name, text in files.items():
        (top / "engine" / name).write_bytes(text.encode())
    return top


def texts(engine: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(engine.glob("engine/*.py"))}


def fixed(engine: Path) -> dict[str, bytes]:
    """The files as ``--fix`` leaves them in a copy of the project."""
    copy = engine.with_name("copy")
    shutil.copytree(engine, copy)
    main(["check", "--fix", "--no-cache", str(copy)])
    return texts(copy)


@pytest.mark.parametrize("resolves", [True, False])
@pytest.mark.parametrize("kind", ["quickfix", FIX_ALL])
def test_the_repair_that_is_offered_is_that_of_fix(engine: Path, resolves: bool, kind: str) -> None:
    first = engine / "engine" / "first.py"
    expected = fixed(engine)
    assert expected["second.py"] != SECOND.encode()

    async def act(client: Editor) -> None:
        client.open(first)
        await client.until(lambda: client.codes() == {"first.py": ["MLA101"]})
        [found] = client.shown[first.as_uri()]
        [action] = [
            action
            for action in await client.actions(first, found, only=kind)
            if not action.title.startswith("Ignore")
        ]
        assert (action.edit is None) == resolves
        if resolves:
            action = await client.code_action_resolve_async(action)
        assert action.edit is not None
        client.apply(action.edit)
        await client.until(lambda: client.codes() == {})
        client.save(first, client.text(first))
        assert texts(engine) == expected
        assert shown(client) == cold(engine) == []

    client = session(engine, act, resolves=resolves)
    assert client.messages == []


def test_titles_and_kinds(engine: Path) -> None:
    first = engine / "engine" / "first.py"

    async def act(client: Editor) -> None:
        client.open(first)
        await client.until(lambda: client.codes() == {"first.py": ["MLA101"]})
        [found] = client.shown[first.as_uri()]
        assert [(a.title, a.kind) for a in await client.actions(first, found)] == [
            ("Repair MLA101", "quickfix"),
            ("Ignore MLA101 here", "quickfix"),
            ("Repair what mla-guard can in this file", FIX_ALL),
        ]
        assert [a.kind for a in await client.actions(first, found, only="source")] == [FIX_ALL]
        assert await client.actions(first, found, only="refactor") == []
        assert await client.actions(engine / "engine" / "second.py") == []

    session(engine, act)


def test_text_that_was_not_checked_is_not_repaired(engine: Path) -> None:
    first = engine / "engine" / "first.py"

    async def act(client: Editor) -> None:
        client.open(first)
        await client.until(lambda: client.codes() == {"first.py": ["MLA101"]})
        [found] = client.shown[first.as_uri()]
        [before, *_] = await client.actions(first, found)
        client.type(first, client.text(first) + "# more")
        titles = [a.title for a in await client.actions(first, found)]
        late = await client.code_action_resolve_async(before)
        assert titles == ["Ignore MLA101 here"]
        assert late.edit is None

    client = session(engine, act)
    [said] = client.messages
    assert said.startswith("mla-guard: nothing was repaired: ")


OUTVOTED = """\
from engine.base import AttentionBackend


class Runner:
    backend: AttentionBackend

    def run(self, batch):
        self.backend.init_chunks(batch)


class Latent(AttentionBackend):
    def init_chunks(self, batch, dense=False):
        self.dense = dense


class Other(AttentionBackend):
    def init_chunks(self, batch, dense=False):
        self.dense = dense


class Lacking(AttentionBackend):
    def init_chunks(self, batch):
        self.chunks = batch


class One(Latent):
    def init_chunks(self, batch):
        super().init_chunks(batch)


class Two(Latent):
    def init_chunks(self, batch):
        super().init_chunks(batch)
"""


def test_a_repair_that_another_finding_would_follow_is_refused_in_words(engine: Path) -> None:
    (engine / "engine" / "first.py").unlink()
    second = engine / "engine" / "second.py"
    second.write_text(OUTVOTED)

    async def act(client: Editor) -> None:
        client.open(second)
        await client.until(lambda: client.codes() == {"second.py": ["MLA101"] * 2})
        found = client.shown[second.as_uri()][0]
        [repair, *_] = await client.actions(second, found)
        assert repair.title == "Repair MLA101"
        assert (await client.code_action_resolve_async(repair)).edit is None

    client = session(engine, act)
    assert client.messages == [
        "mla-guard: nothing was repaired: the finding would stay, or another one would come"
    ]
    assert second.read_text() == OUTVOTED
    assert main(["check", "--fix", "--no-cache", str(engine)]) == 1
    assert second.read_text() == OUTVOTED
