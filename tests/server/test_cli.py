"""``mla-guard server`` where the language server's library is not installed."""

from __future__ import annotations

import sys

import pytest

from mla_guard.cli import main


@pytest.mark.parametrize("missing", ["lsprotocol", "pygls"])
def test_a_missing_library_is_named(
    missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in list(sys.modules):
        if name.startswith(("lint_rules.server", "lsprotocol", "pygls")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    assert main(["server"]) == 2
    assert capsys.readouterr() == (
        "",
        "mla-guard: error: the language server needs pygls: install mla-guard[server]\n",
    )
