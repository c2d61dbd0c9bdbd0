"""``--print-completion``: scripts that the shells themselves accept, and what bash offers."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import shtab

from mla_guard.cli import main
from mla_guard.completion import SHELLS

Capture = pytest.CaptureFixture[str]


def script(shell: str, capsys: Capture) -> str:
    with pytest.raises(SystemExit) as caught:
        main(["--print-completion", shell])
    assert caught.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_a_script(shell: str, capsys: Capture) -> None:
    assert shell in shtab.SUPPORTED_SHELLS
    text = script(shell, capsys)
    assert "write-baseline" in text
    program = shutil.which(shell)
    if program is not None and shell != "tcsh":  # tcsh cannot check without running
        subprocess.run([program, "-n"], input=text, text=True, check=True)


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("mla-guard ch", ["check"]),
        ("mla-guard check --write", ["--write-baseline"]),
        ("mla-guard check --output-format s", ["sarif"]),
        ("mla-guard check read", ["readable.py"]),
        ("mla-guard check --baseline read", ["readable.py"]),
    ],
)
def test_bash_completes(line: str, offered: list[str], capsys: Capture, tmp_path: Path) -> None:
    function = script("bash", capsys)
    (tmp_path / "readable.py").write_text("")
    words = line.split(" ")
    query = (
        f"{function}\nCOMP_WORDS=({line})\nCOMP_CWORD={len(words) - 1}\n"
        f"COMP_LINE='{line}'\nCOMP_POINT={len(line)}\n"
        '$(complete -p mla-guard | sed "s/.*-F \\([^ ]*\\).*/\\1/") mla-guard\n'
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", query], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == offered, done.stderr


def test_without_shtab_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    with pytest.raises(SystemExit) as caught:
        main(["--print-completion", "bash"])
    assert caught.value.code == 2
    assert capsys.readouterr().err.endswith(
        "--print-completion needs shtab: pip install 'mla-guard[completion]'\n"
    )
