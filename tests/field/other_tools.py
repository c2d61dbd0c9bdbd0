"""Other checkers, run on a release with pinned versions and settings, and what they write."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from tests.field.pointing import Report

__all__ = ["DATA", "Outcome", "Tool", "families", "installed", "run", "tools"]

DATA = Path(__file__).with_name("side_by_side.toml")


@dataclass(frozen=True, slots=True)
class Tool:
    """A checker: ``checks`` are the names it reports under, by the kind that they are of.

    ``newest`` and ``older`` name the files that it reads of a release (see ``side_by_side.toml``).
    """

    name: str
    version: str
    newest: str
    older: str
    flags: tuple[str, ...]
    checks: dict[str, list[str]]

    @property
    def kinds(self) -> dict[str, str]:
        """Each check and its kind."""
        return {check: kind for kind, checks in self.checks.items() for check in checks}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a tool reported of ``files`` files under its relevant checks, in which time."""

    seconds: float
    files: int
    reports: list[Report]


def tools() -> list[Tool]:
    """Every checker in ``side_by_side.toml``."""
    return [
        Tool(name, **{**table, "flags": tuple(table["flags"])})
        for name, table in _data()["tools"].items()
    ]


def families() -> dict[str, list[str]]:
    """The kinds of checks that can be about a fault of each family."""
    found: dict[str, list[str]] = _data()["families"]
    return found


def _data() -> dict[str, Any]:
    return tomllib.loads(DATA.read_text(encoding="utf-8"))


def installed(directory: Path, wanted: Sequence[Tool]) -> Path:
    """The programs of a virtual environment with the pinned tools, which is made if need be.

    Raises :class:`RuntimeError` where the environment has another version of one of them.
    """
    programs = directory / ("Scripts" if sys.platform == "win32" else "bin")
    python = programs / "python"
    if not python.exists():
        venv.create(directory, with_pip=True)
        pinned = [f"{tool.name}=={tool.version}" for tool in wanted]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *pinned], check=True)
    asked = "import importlib.metadata as m, sys; print(*map(m.version, sys.argv[1:]))"
    names = [tool.name for tool in wanted]
    versions = subprocess.run(
        [python, "-c", asked, *names], capture_output=True, text=True, check=False
    )
    if versions.returncode:
        raise RuntimeError(f"{directory} lacks a tool:\n{versions.stderr.strip()}")
    for tool, version in zip(wanted, versions.stdout.split(), strict=True):
        if version != tool.version:
            raise RuntimeError(f"{directory} has {tool.name} {version}, expected {tool.version}")
    return programs


def run(tool: Tool, programs: Path, root: Path, files: Sequence[str], cache: Path) -> Outcome:
    """Run ``tool`` on ``files`` below ``root``, or read what an earlier run left in ``cache``.

    A tool that stops early is an error with its own words.
    """
    arguments = _ARGUMENTS[tool.name](tool)
    asked = json.dumps([tool.version, arguments, tool.checks, list(files)]).encode()
    kept = cache / f"{tool.name}-{root.name}-{hashlib.sha256(asked).hexdigest()[:12]}.json"
    if not kept.exists():
        started = time.perf_counter()
        output = _output(tool, programs, arguments, root, files)
        seconds = time.perf_counter() - started
        reports = [r for r in _PARSERS[tool.name](output, root) if r.check in tool.kinds]
        cache.mkdir(parents=True, exist_ok=True)
        beside = kept.with_suffix(f".{os.getpid()}")
        beside.write_text(json.dumps([seconds, len(files), reports]), encoding="utf-8")
        beside.replace(kept)
    seconds, count, lines = json.loads(kept.read_text(encoding="utf-8"))
    return Outcome(seconds, count, [Report(*line) for line in lines])


def _output(
    tool: Tool, programs: Path, arguments: Sequence[str], root: Path, files: Sequence[str]
) -> str:
    command = [str(programs / tool.name), *arguments]
    environment = {**os.environ, "MYPYPATH": "."}
    with tempfile.TemporaryDirectory() as scratch:
        if tool.name == "pyright":
            # It takes a configuration or files, not both, and no absolute paths in the former.
            below = os.path.relpath(root, scratch)
            config = {
                "include": [f"{below}/{path}" for path in files],
                "exclude": [],
                "extraPaths": [str(root)],
                "typeCheckingMode": "off",
                "useLibraryCodeForTypes": False,
                **dict.fromkeys(tool.kinds, "error"),
            }
            Path(scratch, "pyrightconfig.json").write_text(json.dumps(config), encoding="utf-8")
            command += ["--project", scratch]
            environment["NODE_OPTIONS"] = "--max-old-space-size=8192"
        else:
            command += files
        done = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, check=False
        )
    failed = done.returncode & 32 if tool.name == "pylint" else done.returncode not in (0, 1)
    if failed or not done.stdout or "unrecognized" in done.stderr:
        raise RuntimeError(
            f"{tool.name} {tool.version} on {root} exited with {done.returncode}:\n"
            f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        )
    return done.stdout


def _pylint_arguments(tool: Tool) -> list[str]:
    enabled = f"--enable={','.join(tool.kinds)}"
    return [*tool.flags, "--disable=all", enabled, "--output-format=json2"]


def _mypy_arguments(tool: Tool) -> list[str]:
    return [*tool.flags, "--output=json", "--show-error-end"]


def _pyright_arguments(tool: Tool) -> list[str]:
    return [*tool.flags, "--outputjson"]


def _ruff_arguments(tool: Tool) -> list[str]:
    selected = f"--select={','.join(tool.kinds)}"
    return ["check", *tool.flags, selected, "--output-format=json", "--exit-zero"]


def _ty_arguments(tool: Tool) -> list[str]:
    asked = [f"--error={check}" for check in tool.kinds]
    return ["check", *tool.flags, "--ignore=all", *asked, "--output-format=gitlab", "--exit-zero"]


def _parse_pylint(output: str, root: Path) -> list[Report]:
    return [
        Report(
            _below(m["path"], root),
            m["line"],
            m["endLine"] or m["line"],
            m["symbol"],
            m["message"],
        )
        for m in json.loads(output)["messages"]
    ]


def _parse_mypy(output: str, root: Path) -> list[Report]:
    found: list[Report] = []
    for line in output.splitlines():
        if not line.startswith("{"):
            continue
        message = json.loads(line)
        check = message["code"]
        if check == "misc" and "unpack" in message["message"]:
            check = "misc (unpack)"
        if message["severity"] == "error":
            text = "\n".join(filter(None, (message["message"], message["hint"])))
            end = message.get("end_line") or message["line"]
            found.append(Report(_below(message["file"], root), message["line"], end, check, text))
    return found


def _parse_pyright(output: str, root: Path) -> list[Report]:
    return [
        Report(
            _below(d["file"], root),
            d["range"]["start"]["line"] + 1,
            d["range"]["end"]["line"] + 1,
            d["rule"],
            d["message"],
        )
        for d in json.loads(output)["generalDiagnostics"]
        if "rule" in d
    ]


def _parse_ruff(output: str, root: Path) -> list[Report]:
    return [
        Report(
            _below(d["filename"], root),
            d["location"]["row"],
            d["end_location"]["row"],
            d["code"] or "invalid-syntax",
            d["message"],
        )
        for d in json.loads(output)
    ]


def _parse_ty(output: str, root: Path) -> list[Report]:
    return [
        Report(
            _below(d["location"]["path"], root),
            d["location"]["positions"]["begin"]["line"],
            d["location"]["positions"]["end"]["line"],
            d["check_name"],
            d["description"],
        )
        for d in json.loads(output)
    ]


def _below(path: str, root: Path) -> str:
    return path.removeprefix(f"{root}{os.sep}").replace(os.sep, "/")


_ARGUMENTS: dict[str, Callable[[Tool], list[str]]] = {
    "pylint": _pylint_arguments,
    "mypy": _mypy_arguments,
    "pyright": _pyright_arguments,
    "ruff": _ruff_arguments,
    "ty": _ty_arguments,
}
_PARSERS: dict[str, Callable[[str, Path], list[Report]]] = {
    "pylint": _parse_pylint,
    "mypy": _parse_mypy,
    "pyright": _parse_pyright,
    "ruff": _parse_ruff,
    "ty": _parse_ty,
}
