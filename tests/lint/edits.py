"""A miniature engine on disk, and random edits of it."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

__all__ = ["Tree"]

FILES = {
    "engine/base.py": """\
class AttentionBackend:
    def plan(self, batch, flag=False):
        raise NotImplementedError

    def run(self, q, k, v, save=True):
        raise NotImplementedError

    def reset(self):
        pass
""",
    "engine/pages.py": """\
from engine.base import AttentionBackend


class PagesMixin:
    def pages(self, batch):
        return self.table


class Paged(PagesMixin, AttentionBackend):
    def __init__(self, runner, skip=False):
        self.runner = runner
        self.scale = runner.config.scale
        if not skip:
            self.table = runner.table

    def plan(self, batch, flag=False):
        self.batch = self.table

    def run(self, q, k, v, save=True):
        return self.pages(q)
""",
    "engine/fast.py": """\
from engine.pages import Paged as Above


class Fast(Above):
    def __init__(self, runner):
        super().__init__(runner, skip=True)
        self.width = 4

    def plan(self, batch):
        self.batch = batch

    def helper(self, width):
        return width
""",
    "engine/slow.py": """\
import engine.pages


class Slow(engine.pages.Paged):
    def run(self, q, k, v):
        self.plan(q, flag=True)
        return q

    def extra(self, batch):
        return batch
""",
    "engine/hybrid.py": """\
from .base import AttentionBackend


class Hybrid(AttentionBackend):
    def __init__(self, full: AttentionBackend, linear: AttentionBackend):
        self.full = full
        self.linear = linear

    def plan(self, batch, flag=False):
        self.full.plan(batch, flag=flag)
        self.linear.plan(batch)

    def run(self, q, k, v, save=True):
        return self.full.run(q, k, v, save=save)
""",
    "engine/factory.py": """\
from engine.base import AttentionBackend
from engine.fast import Fast
from engine.hybrid import Hybrid
from engine.slow import Slow


def make_backend(runner) -> AttentionBackend:
    if runner.hybrid:
        return Hybrid(Fast(runner), Slow(runner))
    return Fast(runner)
""",
    "engine/runner.py": """\
from engine.config import Config
from engine.factory import make_backend


class Runner:
    def __init__(self, config: Config):
        self.config = config
        self.attn_backend = make_backend(self)

    def step(self, batch):
        self.attn_backend.plan(batch, flag=True)
        if hasattr(self.attn_backend, "extra"):
            self.attn_backend.extra(batch)
        return self.attn_backend.helper(3)
""",
    "engine/layer.py": """\
def apply(context, q):
    context.attn_backend.reset()
    return context.attn_backend.run(q, q, q, save=False)  # mla-guard: ignore[MLA102] meant
""",
    "engine/config.py": """\
class Arch:
    MLA = 1
    MHA = 2


class Config:
    def __init__(self, name):
        self.load(name)

    def load(self, name):
        if name == "old":
            self.arch = Arch.MLA
            self.scale = 1.0
        elif name == "new":
            self.arch = Arch.MLA
            self.scale = 0.5
        elif name == "newest":
            self.arch = Arch.MLA
        else:
            self.arch = Arch.MHA
""",
    "engine/tools.py": "def add(a, b):\n    return a + b\n",
}
WORDS = (
    "plan", "run", "reset", "helper", "extra", "table", "batch", "flag", "save", "skip", "Fast",
    "Slow", "Paged", "PagesMixin", "Hybrid", "attn_backend", "make_backend", "full", "pages",
    "scale", "config", "Config", "Arch",
)  # fmt: skip
STATEMENTS = (
    "self.table = None", "self.scale = 2", "if skip:\n            self.width = 1", "self.helper(1)",
    "print(self.table)", "print(self.width)", "super().__init__(runner)", "self.pages(self.batch)",
    "if not self.skip:\n            return None", "super().plan(q)", "self.full.extra(q)",
    "if runner.config:\n            self.pool = runner", "print(self.pool)", "return q, q",
    "x = None\n        if q.is_old():\n            x = 1\n        self.x = x", "print(self.x.y)",
    "setattr(self, q, 1)", "for name in ('a', 'b'):\n            setattr(self, name, q)",
    "runner.table = 3", "self.inner = Paged(runner)",
)  # fmt: skip
MEMBERS = (
    "limit = 3",
    "def helper(self, width, height):\n        return width",
    "extra = True",
    "def __getattr__(self, name):\n        return getattr(self.full, name)",
    "def _table(self):\n        return self.table",
    "plan = Paged.plan",
    "@property\n    def width(self):\n        return self.scale",
    "def __init__(self):\n        pass",
)
BODY = re.compile(r"^    def \w+.*?:\n(?=        )", re.MULTILINE)
CLASS = re.compile(r"^class \w+.*?:\n(?:(?: .*)?\n)+", re.MULTILINE)
PARAMETER = re.compile(r", \w+(?:=\w+)?(?=[,)])")
METHOD = re.compile(r"^    def \w+.*?:\n(?:(?:        .*)?\n)+", re.MULTILINE)


class Tree:
    """The engine below ``root``; :meth:`edit` changes it as somebody at work might."""

    def __init__(self, root: Path, random: Random) -> None:
        self._root = root
        self._random = random
        self._texts = dict(FILES)
        self._broken: dict[str, str] = {}
        (root / "engine").mkdir()
        (root / "pyproject.toml").write_text("[tool.mla-guard]\n")
        for path, text in FILES.items():
            (root / path).write_text(text)

    def edit(self) -> str:
        """Do one random edit and say which."""
        kinds = [
            self._rename, self._rename_everywhere, self._drop_parameter, self._move_class,
            self._delete_file, self._restore_file, self._break, self._mend, self._drop_method,
            self._comment, self._restore_all, self._insert,
        ]  # fmt: skip
        [kind] = self._random.choices(kinds, weights=[4, 2, 5, 3, 1, 3, 2, 3, 2, 2, 1, 6])
        said = kind()
        return f"{kind.__name__.strip('_')} {said}"

    def _write(self, path: str, text: str) -> None:
        self._texts[path] = text
        (self._root / path).write_text(text)

    def _any(self) -> str:
        return self._random.choice(sorted(self._texts))

    def _rename(self) -> str:
        path, old = self._any(), self._random.choice(WORDS)
        new = self._random.choice([f"{old}_2", self._random.choice(WORDS)])
        self._write(path, re.sub(rf"\b{old}\b", new, self._texts[path]))
        return f"{old} to {new} in {path}"

    def _rename_everywhere(self) -> str:
        old = self._random.choice(WORDS)
        for path in sorted(self._texts):
            self._write(path, re.sub(rf"\b{old}\b", f"{old}_3", self._texts[path]))
        return old

    def _drop_parameter(self) -> str:
        path = self._any()
        found = list(PARAMETER.finditer(self._texts[path]))
        if found:
            start, end = self._random.choice(found).span()
            self._write(path, self._texts[path][:start] + self._texts[path][end:])
        return f"in {path}"

    def _move_class(self) -> str:
        source, target = self._any(), self._any()
        found = CLASS.findall(self._texts[source])
        if found and source != target:
            block = self._random.choice(found)
            name = block.split()[1].split("(")[0].rstrip(":")
            left = self._texts[source].replace(block, "")
            if self._random.random() < 0.5:
                module = target.removesuffix(".py").replace("/", ".")
                left = f"from {module} import {name}\n" + left
            self._write(source, left)
            self._write(target, self._texts[target] + "\n\n" + block)
        return f"from {source} to {target}"

    def _delete_file(self) -> str:
        path = self._any()
        if len(self._texts) > 3:
            (self._root / path).unlink()
            del self._texts[path]
            self._broken.pop(path, None)
        return path

    def _restore_file(self) -> str:
        path = self._random.choice(sorted(FILES))
        self._write(path, FILES[path])
        self._broken.pop(path, None)
        return path

    def _restore_all(self) -> str:
        for path, text in FILES.items():
            self._write(path, text)
        self._broken.clear()
        return ""

    def _break(self) -> str:
        path = self._any()
        self._broken.setdefault(path, self._texts[path])
        self._write(path, self._texts[path] + "\ndef (:\n")
        return path

    def _mend(self) -> str:
        if not self._broken:
            return "nothing"
        path = self._random.choice(sorted(self._broken))
        self._write(path, self._broken.pop(path))
        return path

    def _drop_method(self) -> str:
        path = self._any()
        found = METHOD.findall(self._texts[path])
        if len(found) > 1:
            self._write(path, self._texts[path].replace(self._random.choice(found), ""))
        return f"in {path}"

    def _insert(self) -> str:
        """A statement at the start of some method, or a member at the start of some class."""
        path = self._any()
        text = self._texts[path]
        if self._random.random() < 0.7:
            places, what = BODY.finditer(text), f"        {self._random.choice(STATEMENTS)}\n"
        else:
            places, what = CLASS.finditer(text), f"    {self._random.choice(MEMBERS)}\n\n"
        ends = [m.end() if m.re is BODY else text.index("\n", m.start()) + 1 for m in places]
        if ends:
            end = self._random.choice(ends)
            self._write(path, text[:end] + what + text[end:])
        return f"{what.strip()} in {path}"

    def _comment(self) -> str:
        path = self._any()
        self._write(path, "# a comment\n" + self._texts[path])
        return f"in {path}"
