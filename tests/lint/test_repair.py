"""Repairs on files as people write them: what is kept, what is refused, and how it is written."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from lint_rules.config import Config
from lint_rules.fix import fix
from lint_rules.fixed import FileChanged, Fixed, diff, write

BASE = """\
class AttentionBackend:
    def plan(self, batch):
        raise NotImplementedError


class FlashBackend(AttentionBackend):
    def plan(self, batch, flag: bool = False):
        self.flag = flag
"""


def repaired(directory: Path, *, select: tuple[str, ...] = (), **files: str | bytes) -> Fixed:
    """The repair of ``files``, by module name, beside the base classes."""
    (directory / "base.py").write_text(BASE)
    for name, text in files.items():
        data = text.encode() if isinstance(text, str) else text
        (directory / f"{name}.py").write_bytes(data)
    return fix([directory], Config(src=(directory,), root=directory, select=select))


def child(body: str, head: str = "def plan(self, batch):") -> str:
    return f"from base import FlashBackend\n\n\nclass Child(FlashBackend):\n    {head}\n{body}"


def after(fixed: Fixed, name: str = "child") -> str:
    [data] = [data for path, data in fixed.after.items() if Path(path).stem == name]
    return data.decode()


UP = "        super().plan(batch)\n"


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        pytest.param(
            child(UP),
            child(
                "        super().plan(batch, flag=flag)\n",
                "def plan(self, batch, flag: bool = False):",
            ),
            id="on one line",
        ),
        pytest.param(
            child(UP, "def plan(\n        self,\n        batch,  # what comes\n    ):"),
            child(
                "        super().plan(batch, flag=flag)\n",
                "def plan(\n        self,\n        batch,  # what comes\n"
                "        flag: bool = False,\n    ):",
            ),
            id="one parameter a line, with a comment on the last",
        ),
        pytest.param(
            child(UP, "def plan(\n        self,\n        batch\n    ):"),
            child(
                "        super().plan(batch, flag=flag)\n",
                "def plan(\n        self,\n        batch,\n        flag: bool = False\n    ):",
            ),
            id="one parameter a line, without a last comma",
        ),
        pytest.param(
            child(UP, "def plan(self, batch: (dict)):"),
            child(
                "        super().plan(batch, flag=flag)\n",
                "def plan(self, batch: (dict), flag: bool = False):",
            ),
            id="an annotation in parentheses",
        ),
        pytest.param(
            child("        super().plan( (batch) )  # as it is\n"),
            child(
                "        super().plan( (batch), flag=flag )  # as it is\n",
                "def plan(self, batch, flag: bool = False):",
            ),
            id="an argument in parentheses",
        ),
        pytest.param(
            child("        super().plan(batch, flag=True)\n"),
            child(
                "        super().plan(batch, flag=True)\n",
                "def plan(self, batch, flag: bool = False):",
            ),
            id="the class decides itself",
        ),
        pytest.param(
            child("        if batch.wide:\n            super().plan(batch)\n"),
            child(
                "        if batch.wide:\n            super().plan(batch, flag=flag)\n",
                "def plan(self, batch, flag: bool = False):",
            ),
            id="or does nothing",
        ),
        pytest.param(
            child("        pass\n"),
            child("        pass\n", "def plan(self, batch, flag: bool = False):"),
            id="or never does anything",
        ),
    ],
)
def test_a_parameter_is_added_and_handed_on(tmp_path: Path, before: str, expected: str) -> None:
    assert after(repaired(tmp_path, child=before)) == expected


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(child("        self.rows = batch.rows\n"), id="it would be ignored"),
        pytest.param(
            child("        if batch.wide:\n            super().plan(batch)\n            return\n"
                  "        self.rows = batch.rows\n"),
            id="it would be ignored on one way",
        ),
        pytest.param(child("        flag = batch.wide\n" + UP), id="the name is taken"),
        pytest.param(
            child("        super().plan(batch)\n", "def plan(self, batch, rows=None):"),
            id="another parameter would move",
        ),
        pytest.param(child("        super().plan(*batch)\n"), id="arguments are unpacked"),
        pytest.param(child("        batch.other.plan(batch)\n"), id="an object of unknown class"),
        pytest.param(child(UP, "def plan(self, rows):").replace("(batch)", "(rows)"), id="renamed"),
    ],
)  # fmt: skip
def test_what_is_not_mechanical_is_left(tmp_path: Path, text: str) -> None:
    fixed = repaired(tmp_path, child=text)
    assert fixed.after == {}
    assert [d.code for d in fixed.report.diagnostics] == ["MLA101"]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_bytes_outside_of_the_edit_survive(tmp_path: Path, mark: bytes, newline: bytes) -> None:
    text = child(UP).replace("from base", "# -*- coding: utf-8 -*-\n# Größe\t \nfrom base")
    text += "\n\n\nx = [1,\n 2]  # odd"
    data = mark + text.encode().replace(b"\n", newline)
    fixed = repaired(tmp_path, child=data)
    [found] = fixed.after.values()
    assert found == (
        data.replace(b"plan(self, batch)", b"plan(self, batch, flag: bool = False)").replace(
            b".plan(batch)", b".plan(batch, flag=flag)"
        )
    )


def test_overrides_below_are_widened_too(tmp_path: Path) -> None:
    below = "\n\nclass Below(Child):\n    def plan(self, batch):\n        super().plan(batch)\n"
    found = after(repaired(tmp_path, child=child(UP) + below))
    assert found.count("def plan(self, batch, flag: bool = False):") == 2
    assert found.count("super().plan(batch, flag=flag)") == 2


def test_an_annotation_that_means_nothing_here_is_left_out(tmp_path: Path) -> None:
    base = BASE.replace("flag: bool", "flag: Flag").replace(
        "class A", "from x import Flag\n\n\nclass A", 1
    )
    (tmp_path / "child.py").write_text(child(UP))
    (tmp_path / "base.py").write_text(base)
    fixed = fix([tmp_path], Config(src=(tmp_path,), root=tmp_path))
    assert "def plan(self, batch, flag=False):" in after(fixed)
    imported = child(UP).replace("from base", "from x import Flag\nfrom base")
    (tmp_path / "child.py").write_text(imported)
    fixed = fix([tmp_path], Config(src=(tmp_path,), root=tmp_path))
    assert "def plan(self, batch, flag: Flag = False):" in after(fixed)


def test_a_default_that_means_nothing_here_is_no_repair(tmp_path: Path) -> None:
    base = BASE.replace("bool = False", "bool = DEFAULT").replace(
        "class A", "DEFAULT = 1\n\n\nclass A", 1
    )
    (tmp_path / "child.py").write_text(child(UP))
    (tmp_path / "base.py").write_text(base)
    assert fix([tmp_path], Config(src=(tmp_path,), root=tmp_path)).after == {}


def test_files_outside_of_the_targets_are_not_edited(tmp_path: Path) -> None:
    below = "from child import Child\n\n\nclass Below(Child):\n    def plan(self, batch):\n" + UP
    repaired(tmp_path, child=child(UP), below=below)
    config = Config(src=(tmp_path,), root=tmp_path)
    assert fix([tmp_path / "child.py"], config).after == {}
    assert len(fix([tmp_path], config).after) == 2


def test_an_unselected_rule_repairs_nothing(tmp_path: Path) -> None:
    assert repaired(tmp_path, child=child(UP), select=("MLA202",)).after == {}


def test_an_ignored_finding_is_not_repaired(tmp_path: Path) -> None:
    text = child(UP, "def plan(self, batch):  # mla-guard: ignore[MLA101] nobody passes it")
    assert repaired(tmp_path, child=text).after == {}


MARKED = """\
import mla_guard


class AttentionBackend:
    @mla_guard.hook(optional_arguments="flag")
    def plan(self, batch, flag: bool = False, depth: int = 0):
        raise NotImplementedError


class FlashBackend(AttentionBackend):
    def plan(self, batch, flag: bool = False, depth: int = 0):
        self.flag = flag
"""


def test_what_the_contract_lets_drop_may_be_ignored(tmp_path: Path) -> None:
    (tmp_path / "base.py").write_text(MARKED.replace(", depth: int = 0", ""))
    text = child("        self.rows = batch.rows\n")
    (tmp_path / "child.py").write_text(text)
    config = Config(src=(tmp_path,), root=tmp_path)
    found = after(fix([tmp_path], config))
    assert found == text.replace("plan(self, batch)", "plan(self, batch, flag: bool = False)")
    (tmp_path / "child.py").write_text(child(UP))
    assert "super().plan(batch, flag=flag)" in after(fix([tmp_path], config))


def test_what_an_override_may_drop_is_not_added(tmp_path: Path) -> None:
    text = child(UP).replace("FlashBackend", "AttentionBackend")
    (tmp_path / "base.py").write_text(MARKED)
    (tmp_path / "child.py").write_text(text)
    found = after(fix([tmp_path], Config(src=(tmp_path,), root=tmp_path)))
    assert found == text.replace("batch)", "batch, depth: int = 0)", 1).replace(
        "plan(batch)", "plan(batch, depth=depth)"
    )


NONE = """\
from base import AttentionBackend


class Child(AttentionBackend):
    def __init__(self, runner):
        if runner.chunked:
            self.cache = runner.cache

    def plan(self, batch):
        {}
"""


LEAVING = (
    "if self.cache is None {} batch.idle:\n            return\n        self.cache.update(batch)"
)


@pytest.mark.parametrize(
    ("read", "safe"),
    [
        ("return self.cache is None", True),
        ("return self.cache and 1", False),
        ("return 1 if not self.cache else 2", True),
        ("return self.cache is not None and self.cache.rows", True),
        ("return self.cache is not None or self.cache.rows", False),
        ("self.cache.update(batch)", False),
        ("if self.cache:\n            self.cache.update(batch)", True),
        ("if self.cache is None:\n            self.cache.update(batch)", False),
        (LEAVING.format("or"), True),
        (LEAVING.format("and"), False),
    ],
)
def test_none_is_stored_only_where_it_is_allowed_for(tmp_path: Path, read: str, safe: bool) -> None:
    text = NONE.format(read)
    fixed = repaired(tmp_path, child=text)
    if safe:
        stored = text.replace("        if runner", "        self.cache = None\n        if runner")
        assert after(fixed) == stored
    else:
        assert fixed.after == {}
        assert [d.code for d in fixed.report.diagnostics] == ["MLA202"]


POOLS = """\
class KVCache:
    def clear(self):
        raise NotImplementedError


class HeadPool(KVCache):
    def clear(self):
        self.rows = 0

    def move(self, rows):
        self.rows = rows


class WindowPool(KVCache):
    def clear(self):
        self.rows = 0

    def move(self, rows):
        self.rows = -rows


class LatentPool(KVCache):
    def clear(self):
        self.rows = 0


class HybridPool(KVCache):
    def __init__(self, latent):
        self.inner = LatentPool() if latent else HeadPool()

    def clear(self):
        self.inner.clear()

    def move(self, rows):
        self.inner.move(rows)
"""

ROUTER = """\
from base import AttentionBackend


class PagedAttentionBackend:
    def plan(self, batch):
        raise NotImplementedError


class RowBackend(PagedAttentionBackend):
    def plan(self, batch):
        self.rows = batch.rows

    def drop(self):
        self.rows = None


class PlainBackend(PagedAttentionBackend):
    def plan(self, batch):
        self.batch = batch


class Router(AttentionBackend):
    def __init__(self, leaf: PagedAttentionBackend):
        self.leaf = leaf

    def plan(self, batch):
        self.leaf.plan(batch)

    def drop(self):
        self.leaf.drop()
"""


def test_a_pool_is_not_made_to_ask_first(tmp_path: Path) -> None:
    fixed = repaired(tmp_path, pools=POOLS)
    assert fixed.after == {}
    assert [(d.code, d.severity) for d in fixed.report.diagnostics] == [("MLA303", "error")]


def test_between_two_families_nothing_is_made_to_ask_first(tmp_path: Path) -> None:
    base = BASE.replace(
        "        raise NotImplementedError\n",
        "        raise NotImplementedError\n\n    def drop(self):\n        return None\n",
    )
    fixed = repaired(tmp_path, router=ROUTER, base=base)
    assert fixed.after == {}
    assert [(d.code, d.severity) for d in fixed.report.diagnostics] == [("MLA303", "warning")]


def test_files_are_replaced_with_their_permissions(tmp_path: Path) -> None:
    fixed = repaired(tmp_path, child=child(UP))
    path = tmp_path / "child.py"
    path.chmod(0o750)
    link = tmp_path.parent / f"{tmp_path.name}-link.py"
    link.hardlink_to(path)
    write(fixed)
    assert path.read_text() == after(fixed)
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert link.read_text() == child(UP)  # another file now: readers of the old one keep it whole
    assert sorted(os.listdir(tmp_path)) == ["base.py", "child.py"]


def test_a_file_that_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    fixed = repaired(tmp_path, child=child(UP), other=child(UP).replace("Child", "Other"))
    assert len(fixed.after) == 2
    edited = child(UP) + "# edited\n"
    (tmp_path / "other.py").write_text(edited)
    with pytest.raises(FileChanged, match=r"other\.py was changed"):
        write(fixed)
    assert (tmp_path / "other.py").read_text() == edited
    assert (tmp_path / "child.py").read_text() == child(UP)


def test_a_difference_without_a_last_line_end_is_marked(tmp_path: Path) -> None:
    fixed = repaired(tmp_path, child=child(UP).rstrip("\n"))
    assert diff(fixed, tmp_path).splitlines() == [
        "--- child.py",
        "+++ child.py",
        "@@ -2,5 +2,5 @@",
        " ",
        " ",
        " class Child(FlashBackend):",
        "-    def plan(self, batch):",
        "-        super().plan(batch)",
        "\\ No newline at end of file",
        "+    def plan(self, batch, flag: bool = False):",
        "+        super().plan(batch, flag=flag)",
        "\\ No newline at end of file",
    ]
