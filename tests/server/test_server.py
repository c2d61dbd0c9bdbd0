"""The language server, driven through a language client: what is shown is what a check finds."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from lsprotocol import types

from lint_rules.config import load_config
from lint_rules.run import check
from tests.server.editor import Editor, editor

BASE = """\
class AttentionBackend:
    def plan(self, batch, flag=False):
        raise NotImplementedError
"""
WIDER = BASE.replace("flag=False", "flag=False, more=None")
CHILD = """\
from engine.base import AttentionBackend


class {name}(AttentionBackend):
    def plan(self, batch, flag=False):
        self.batch = batch
"""
RUNNER = """\
from engine.base import AttentionBackend


class Runner:
    def __init__(self, attn_backend: AttentionBackend):
        self.attn_backend = attn_backend

    def step(self, batch):
        self.attn_backend.plan(batch, flag=True)
"""


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """A project with a base class, two backends that keep to it, and a caller."""
    (tmp_path / "engine").mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.mla-guard]\n")
    (tmp_path / "engine" / "base.py").write_text(BASE)
    (tmp_path / "engine" / "first.py").write_text(CHILD.format(name="First"))
    (tmp_path / "engine" / "second.py").write_text(CHILD.format(name="Second"))
    (tmp_path / "engine" / "runner.py").write_text(RUNNER)
    return tmp_path


Act = Callable[[Editor], Awaitable[None]]


def session(engine: Path, act: Act, *, related: bool = True, resolves: bool = True) -> Editor:
    """Run ``act`` in an editor whose workspace is ``engine``."""

    async def run() -> Editor:
        async with editor(engine, related=related, resolves=resolves) as client:
            await act(client)
            return client

    return asyncio.run(run())


Flat = tuple[str, int, int, str | int | None, types.DiagnosticSeverity | None, str, list[str]]


def shown(client: Editor) -> list[Flat]:
    """What the editor shows, in the words of a check."""
    return sorted(
        (
            uri,
            found.range.start.line + 1,
            found.range.start.character + 1,
            found.code,
            found.severity,
            found.message,
            [
                f"{end.location.uri}:{end.location.range.start.line + 1}:"
                f"{end.location.range.start.character + 1}: {end.message}"
                for end in found.related_information or ()
            ],
        )
        for uri, diagnostics in client.shown.items()
        for found in diagnostics
    )


def cold(engine: Path) -> list[Flat]:
    """The same of a check from nothing."""
    severities = {
        "error": types.DiagnosticSeverity.Error,
        "warning": types.DiagnosticSeverity.Warning,
    }
    report = check([engine], load_config([engine]))
    assert report.failures == ()
    return sorted(
        (
            Path(found.place.path).as_uri(),
            found.place.line,
            found.place.column,
            found.code,
            severities[found.severity],
            "\n".join(
                [
                    found.message,
                    *(f"- {reason}" for reason in found.reasons),
                    *([f"hint: {found.hint}"] if found.hint else []),
                ]
            ),
            [
                f"{Path(end.place.path).as_uri()}:{end.place.line}:{end.place.column}: "
                f"{end.message}"
                for end in found.related
            ],
        )
        for found in report.diagnostics
    )


BROKEN = {"first.py": ["MLA101"], "second.py": ["MLA101"]}


def test_an_edit_of_the_base_class_is_judged_in_files_that_are_not_open(engine: Path) -> None:
    base = engine / "engine" / "base.py"

    async def act(client: Editor) -> None:
        client.open(base)
        client.type(base, WIDER)
        await client.until(lambda: client.codes() == BROKEN)
        unsaved = shown(client)
        client.save(base, WIDER)
        assert unsaved == cold(engine)
        client.save(base, BASE)
        await client.until(lambda: client.codes() == {})
        assert cold(engine) == []

    client = session(engine, act)
    # files that had findings were told that they are gone
    assert {Path(uri).name for uri in client.shown} == {"first.py", "second.py"}
    assert client.messages == []


def test_a_diagnostic_has_both_ends_the_page_and_its_span(engine: Path) -> None:
    base, first = engine / "engine" / "base.py", engine / "engine" / "first.py"
    base.write_text(WIDER)

    async def act(client: Editor) -> None:
        await client.until(lambda: client.codes() == BROKEN)

    client = session(engine, act)
    assert shown(client) == cold(engine)
    [found] = client.shown[first.as_uri()]
    assert found.source == "mla-guard"
    assert found.range == types.Range(types.Position(4, 8), types.Position(4, 12))
    [end] = found.related_information or ()
    assert end.location == types.Location(
        base.as_uri(), types.Range(types.Position(1, 8), types.Position(1, 12))
    )
    assert found.code_description is not None
    page = Path(found.code_description.href.removeprefix("file://"))
    assert page.read_text(encoding="utf-8").startswith("# MLA101: hook-signature-drift\n")
    assert found.tags is None


def test_an_editor_without_related_information_reads_the_other_end(engine: Path) -> None:
    base = engine / "engine" / "base.py"
    base.write_text(WIDER)

    async def act(client: Editor) -> None:
        await client.until(lambda: client.codes() == BROKEN)

    client = session(engine, act, related=False)
    [found] = client.shown[(engine / "engine" / "first.py").as_uri()]
    assert found.related_information is None
    assert f"\n{base}:2:9: " in found.message


def test_hover_shows_the_contract_its_implementers_and_its_callers(engine: Path) -> None:
    first, runner = engine / "engine" / "first.py", engine / "engine" / "runner.py"
    (engine / "engine" / "other.py").write_text("def plan(self):\n    return self.plan()\n")

    def link(name: str, line: int) -> str:
        return f"[engine/{name}:{line}]({(engine / 'engine' / name).as_uri()}#L{line})"

    expected = f"""\
```python
AttentionBackend.plan(batch, flag=...)
```
Hook of `AttentionBackend`: required; 2 of 2 classes define it.

Declared in `AttentionBackend`: {link("base.py", 2)}

Implemented by:

- `First` {link("first.py", 5)}
- `Second` {link("second.py", 5)}

Called from:

- `Runner.step` {link("runner.py", 9)}"""

    async def act(client: Editor) -> None:
        client.open(first)
        client.open(runner)
        for path, line, start in ((first, 4, 8), (runner, 8, 26)):
            for character in (start, start + 4):
                found = await client.hover(path, line, character)
                assert found is not None
                assert found.contents == types.MarkupContent(types.MarkupKind.Markdown, expected)
                assert found.range == types.Range(
                    types.Position(line, start), types.Position(line, start + 4)
                )
        assert await client.hover(first, 4, 5) is None  # the keyword
        assert await client.hover(first, 99, 0) is None  # no such line
        assert await client.hover(engine / "engine" / "other.py", 0, 4) is None  # no backend's

    session(engine, act)


def test_settings_and_files_that_come_and_go_are_honoured(engine: Path) -> None:
    base, third = engine / "engine" / "base.py", engine / "engine" / "third.py"
    settings = engine / "pyproject.toml"
    base.write_text(WIDER)

    async def act(client: Editor) -> None:
        await client.until(lambda: client.codes() == BROKEN)
        await client.until(lambda: bool(client.watched))
        third.write_text(CHILD.format(name="Third").replace(", flag=False", ""))
        client.changed_on_disk(third, types.FileChangeType.Created)
        # three that agree against the base: it is the base that is reported
        await client.until(lambda: "third.py" in client.codes())
        assert shown(client) == cold(engine)
        third.unlink()
        client.changed_on_disk(third, types.FileChangeType.Deleted)
        await client.until(lambda: client.codes() == BROKEN)
        settings.write_text("[tool.mla-guard]\nignore = ['MLA101']\n")
        client.changed_on_disk(settings, types.FileChangeType.Changed)
        await client.until(lambda: client.codes() == {})

    client = session(engine, act)
    assert client.watched == ["**/*.py", "**/pyproject.toml", "**/.gitignore"]


def test_a_setting_that_cannot_be_used_is_shown_once_and_then_repaired(engine: Path) -> None:
    settings = engine / "pyproject.toml"
    (engine / "engine" / "base.py").write_text(WIDER)
    settings.write_text("[tool.mla-guard]\nignor = ['MLA101']\n")
    said = f"mla-guard: {settings}: [tool.mla-guard]: unknown key 'ignor' (did you mean 'ignore'?)"

    async def act(client: Editor) -> None:
        await client.until(lambda: len(client.messages) == 2)
        client.open(engine / "engine" / "base.py")
        settings.write_text("[tool.mla-guard]\n")
        client.changed_on_disk(settings, types.FileChangeType.Changed)
        await client.until(lambda: client.codes() == BROKEN)

    client = session(engine, act)
    assert client.messages == [said, f"log: {said}"]


def test_text_that_does_not_parse_yet_leaves_the_other_findings(engine: Path) -> None:
    base, first = engine / "engine" / "base.py", engine / "engine" / "first.py"
    base.write_text(WIDER)

    async def act(client: Editor) -> None:
        client.open(first)
        await client.until(lambda: client.codes() == BROKEN)
        client.type(first, first.read_text() + "    def half(self\n")
        await client.until(lambda: client.codes() == {**BROKEN, "first.py": ["None"]})
        [found] = client.shown[first.as_uri()]
        assert found.message.startswith("cannot be checked: ")
        client.type(first, first.read_text().replace("flag=False", "flag=False, more=None"))
        await client.until(lambda: client.codes() == {"second.py": ["MLA101"]})

    session(engine, act)


def test_a_backend_outside_of_the_workspace_is_checked_with_its_project(
    engine: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (engine / "engine" / "base.py").write_text(WIDER)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    note = f"log: mla-guard: {elsewhere}: no base class of attention backends: nothing to check"

    async def act(client: Editor) -> None:
        await client.until(lambda: client.messages == [note])
        client.open(engine / "engine" / "first.py")
        await client.until(lambda: client.codes() == BROKEN)

    session(elsewhere, act)


def test_columns_are_counted_as_the_editor_counts_them(engine: Path) -> None:
    runner = engine / "engine" / "runner.py"
    before = 'return "\U0001f600", self.attn_backend.'
    call = f"{before}plan(batch, wrong=1)"
    runner.write_text(RUNNER.replace("self.attn_backend.plan(batch, flag=True)", call))

    async def act(client: Editor) -> None:
        await client.until(lambda: bool(client.codes()))

    client = session(engine, act)
    [found] = client.shown[runner.as_uri()]
    assert found.code == "MLA102"
    in_utf_16 = 8 + len(before) + 1
    assert found.range == types.Range(
        types.Position(8, in_utf_16), types.Position(8, in_utf_16 + 4)
    )


@pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="needs /proc to find the worker process"
)
def test_a_check_that_dies_is_told_and_the_next_one_works(engine: Path) -> None:
    base = engine / "engine" / "base.py"
    said = "the check ended with exit code -9; it starts anew with the next change"

    async def act(client: Editor) -> None:
        client.open(base)
        client.type(base, WIDER)
        await client.until(lambda: client.codes() == BROKEN)
        assert client.server_pid is not None
        tasks = Path(f"/proc/{client.server_pid}/task")
        [worker] = [pid for task in tasks.iterdir() for pid in _words(task / "children")]
        os.kill(int(worker), signal.SIGKILL)
        client.type(base, BASE)
        await client.until(lambda: len(client.messages) == 2)
        assert client.codes() == BROKEN
        client.type(base, BASE + "\n")
        await client.until(lambda: client.codes() == {})

    client = session(engine, act)
    assert client.messages == [f"mla-guard: {said}", f"log: mla-guard: {said}"]


def _words(path: Path) -> list[str]:
    return path.read_text(encoding="ascii").split()


def test_the_ignore_that_is_offered_takes_the_finding_away(engine: Path) -> None:
    base, first = engine / "engine" / "base.py", engine / "engine" / "first.py"
    base.write_text(WIDER)

    async def act(client: Editor) -> None:
        client.open(first)
        await client.until(lambda: client.codes() == BROKEN)
        [found] = client.shown[first.as_uri()]
        [action] = [a for a in await client.actions(first, found) if a.edit is not None]
        assert action.title == "Ignore MLA101 here"
        assert action.kind == types.CodeActionKind.QuickFix
        assert list(action.diagnostics or ()) == [found]
        assert action.edit is not None
        end = types.Position(4, 38)
        assert action.edit.changes is not None
        [(uri, edits)] = action.edit.changes.items()
        comment = "  # mla-guard: ignore[MLA101] reason"
        assert (uri, list(edits)) == (
            first.as_uri(),
            [types.TextEdit(types.Range(end, end), comment)],
        )
        lines = first.read_text().split("\n")
        lines[4] += comment
        client.type(first, "\n".join(lines))
        await client.until(lambda: client.codes() == {"second.py": ["MLA101"]})

    session(engine, act)
