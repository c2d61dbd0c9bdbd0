"""No name of an engine matters: its backends renamed, the findings are the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lint_rules.config import Config
from lint_rules.profiles import BACKEND_ROOTS, COMPANION_ROOTS
from lint_rules.run import check
from tests.field.wheels import unpacked
from tests.lint.renaming import Renaming

pytestmark = pytest.mark.field

RELEASE = "0.5.23"
READ = ("layers/attention", "model_executor", "models/deepseek_common", "speculative")


def findings(directory: Path) -> list[str]:
    """Every finding as text, without what depends on spelling: columns, and the nearest name."""
    report = check([directory], Config(src=(directory,), root=directory))
    assert report.failures == ()
    texts = (finding.text().replace(f"{directory}/", "") for finding in report.diagnostics)
    spelt = re.compile(r"(?<=\.py:)(\d+):\d+(?=:)|\n  - the nearest name that \w+ has is \w+")
    return [spelt.sub(lambda found: found[1] or "", text) for text in texts]


def test_no_name_matters(tmp_path: Path) -> None:
    release = unpacked("sglang", RELEASE)
    files = [f for folder in READ for f in sorted((release / "sglang/srt" / folder).rglob("*.py"))]
    sources = {file.relative_to(release): file.read_text(encoding="utf-8") for file in files}
    for name, text in sources.items():
        (tmp_path / "old" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "old" / name).write_text(text, encoding="utf-8")
    before = findings(tmp_path / "old")
    faulty = {Path(text.partition(":")[0]) for text in before}
    modules = {part for name in sources for part in (*name.parts, name.stem)}
    renaming = Renaming(
        [sources[name] for name in faulty], keep=[*BACKEND_ROOTS, *COMPANION_ROOTS, *modules]
    )
    for name, text in sources.items():
        (tmp_path / "new" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "new" / name).write_text(renaming.apply(text), encoding="utf-8")
    after = [renaming.undo(text) for text in findings(tmp_path / "new")]
    assert len(before) > 20
    assert len(renaming) > 900
    assert sorted(after) == sorted(before)
