"""An edit breaks what a baseline knew: what the baseline holds neither moves nor stops a repair."""

from __future__ import annotations

from pathlib import Path

import pytest

from mla_guard.cli import main

BASE = """\
class AttentionBackend:
    def decode(self, q):
        raise NotImplementedError


class Runner:
    backend: AttentionBackend

    def run(self, batch):
        self.backend.init_chunks(batch)
"""
WIDE = """\
class {name}({base}):
    def init_chunks(self, batch, dense: bool = False):
        self.chunks = batch
        self.dense = dense
"""
NARROW = """\
class {name}({base}):
    def init_chunks(self, batch):
        self.chunks = batch
"""
OVERRIDE = """\
class {name}({base}):
    def init_chunks(self, batch, dense: bool = False):
        super().init_chunks(batch, dense=True)
"""
NARROWED = """\
class {name}({base}):
    def init_chunks(self, batch):
        super().init_chunks(batch, dense=True)
"""


def engine(**texts: str) -> str:
    """Modules in one: the base, and a class for each name, those with a ``_`` below ``Latent``."""
    classes = [
        text.format(
            name=name.strip("_"), base="Latent" if name.endswith("_") else "AttentionBackend"
        )
        for name, text in texts.items()
    ]
    return "\n\n".join([BASE, *classes])


def checked(capsys: pytest.CaptureFixture[str], *options: str) -> list[tuple[str, str]]:
    """Code and class of each finding that a check against the baseline reports."""
    main(["check", "--output-format", "concise", *options])
    lines = [line for line in capsys.readouterr().out.splitlines() if ": MLA" in line]
    return sorted((words[1], words[2].partition(".")[0]) for words in map(str.split, lines))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text('[tool.mla-guard]\nbaseline = "known.txt"\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path / "engine.py"


def test_an_override_that_is_narrowed_does_not_unsay_what_its_siblings_lack(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def written(override: str) -> str:
        return engine(
            Latent=WIDE, Override_=override, Other=WIDE, Third=WIDE, Fourth=WIDE,
            Lacking=NARROW, Lacking2=NARROW,
        )  # fmt: skip

    project.write_text(written(OVERRIDE))
    assert checked(capsys, "--write-baseline") == []
    known = project.with_name("known.txt").read_text()
    assert known.count("MLA101") == 2
    project.write_text(written(NARROWED))
    assert checked(capsys) == [("MLA101", "Override")]
    assert checked(capsys, "--fix") == []
    assert project.read_text() == written(OVERRIDE)


def test_what_a_repair_brings_back_is_not_new_where_the_baseline_holds_it(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def written(override: str) -> str:
        return engine(
            Latent=WIDE, One_=override, Two_=override, Other=WIDE, Lacking=NARROW
        )  # fmt: skip

    project.write_text(written(OVERRIDE))
    assert checked(capsys, "--write-baseline") == []
    assert "MLA101 Lacking.init_chunks" in project.with_name("known.txt").read_text()
    project.write_text(written(NARROWED))
    # where half of those who owe the parameter lack it, nobody is said to be outvoted
    assert checked(capsys) == [("MLA003", "nothing"), ("MLA101", "One"), ("MLA101", "Two")]
    assert checked(capsys, "--fix") == []
    assert project.read_text() == written(OVERRIDE)


DECLARING = """\
class AttentionBackend:
    def init_chunks(self, batch, dense: bool = False):
        raise NotImplementedError


class Runner:
    backend: AttentionBackend

    def run(self, batch):
        self.backend.init_chunks(batch{passed})
"""


def declared(passed: str, **texts: str) -> str:
    classes = [t.format(name=name, base="AttentionBackend") for name, t in texts.items()]
    return "\n\n".join([DECLARING.format(passed=passed), *classes])


TAKING = """\
class {name}(AttentionBackend):
    def init_chunks(self, batch, dense: bool = False):
        pass
"""
REFUSING = """\
class {name}(AttentionBackend):
    def init_chunks(self, batch):
        pass
"""


def test_overrides_that_agree_against_a_base_that_is_relied_on_are_wrong_one_by_one(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    passed = ", dense=True"
    project.write_text(declared(passed, One=TAKING, Two=REFUSING, Three=REFUSING))
    assert checked(capsys, "--write-baseline") == []
    project.write_text(declared(passed, One=REFUSING, Two=REFUSING, Three=REFUSING))
    assert checked(capsys) == [("MLA101", "One"), ("MLA102", "init_chunks(batch,")]
    assert checked(capsys, "--fix") == []
    assert project.read_text() == declared(passed, One=TAKING, Two=REFUSING, Three=REFUSING)


def test_where_nothing_relies_on_the_base_it_is_not_known_which_end_to_repair(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write_text(declared("", One=TAKING, Two=REFUSING, Three=REFUSING))
    assert checked(capsys, "--write-baseline") == []
    broken = declared("", One=REFUSING, Two=REFUSING, Three=REFUSING)
    project.write_text(broken)
    said = [("MLA003", "nothing")] * 2 + [("MLA101", "AttentionBackend")]
    assert checked(capsys) == said
    assert checked(capsys, "--fix") == said
    assert project.read_text() == broken
