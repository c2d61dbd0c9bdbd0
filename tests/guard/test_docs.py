"""docs/guard.md: its examples run, and print what it says that they print."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import mla_guard

PAGE = Path(mla_guard.__file__).parents[1] / "docs" / "guard.md"


def fences(language: str) -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_examples_run_and_print_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, example in enumerate(fences("python")):
        path = Path("example.py")
        path.write_text(example, encoding="utf-8")
        runpy.run_path(str(path), run_name=f"example_{number}")
    [shown] = fences("text")
    assert capsys.readouterr().out == shown
