"""Where an argument points, and which project stands around it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lint_rules.target import TargetError, project_of, resolve, resolve_targets

SEARCHED = f"(packages are looked for in {sys.prefix})"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment with a package, a namespace package over two entries, and a module."""
    site = tmp_path / "venv" / "site-packages"
    (site / "someengine" / "srt" / "layers").mkdir(parents=True)
    (site / "someengine" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (site / "someengine" / "srt" / "layers" / "backend.py").write_text("")
    (site / "somemodule.py").write_text("raise RuntimeError('imported')\n")
    for entry in (site, tmp_path / "more"):
        (entry / "somenamespace" / "part").mkdir(parents=True)
        monkeypatch.syspath_prepend(str(entry))
    return site


def test_a_package_is_found_without_being_imported(site: Path, tmp_path: Path) -> None:
    assert resolve("someengine", tmp_path) == (site / "someengine",)
    assert resolve("someengine.srt.layers", tmp_path) == (site / "someengine/srt/layers",)
    backend = site / "someengine/srt/layers/backend.py"
    assert resolve("someengine.srt.layers.backend", tmp_path) == (backend,)
    assert resolve("somemodule", tmp_path) == (site / "somemodule.py",)
    assert not {"someengine", "somemodule"} & set(sys.modules)


def test_a_namespace_package_is_several_directories(site: Path, tmp_path: Path) -> None:
    more = tmp_path / "more" / "somenamespace"
    assert set(resolve("somenamespace", tmp_path)) == {site / "somenamespace", more}
    parts = {site / "somenamespace/part", more / "part"}
    assert set(resolve("somenamespace.part", tmp_path)) == parts


def test_a_path_wins_over_a_package(site: Path, tmp_path: Path) -> None:
    (tmp_path / "someengine").mkdir()
    assert resolve("someengine", tmp_path) == (tmp_path / "someengine",)


def test_duplicates_are_dropped_and_paths_made_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path)
    assert resolve_targets(["a", "./a", "a/../a", str(tmp_path)]) == (tmp_path / "a", tmp_path)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("no/such.py", "no such file or directory: 'no/such.py'"),
        (
            "nosuch",
            f"no file, directory or installed package is named 'nosuch' {SEARCHED}",
        ),
        (
            "sys",
            f"no file, directory or installed package is named 'sys' {SEARCHED}",
        ),
        (
            "someengine.nosuch",
            f"no file, directory or installed package is named 'someengine.nosuch' {SEARCHED}",
        ),
        ("notes.txt", "'notes.txt' is neither a directory nor a Python file"),
    ],
)
def test_what_is_not_there_is_named(
    site: Path, tmp_path: Path, argument: str, message: str
) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(TargetError) as caught:
        resolve(argument, tmp_path)
    assert str(caught.value) == message


def test_an_installed_package_is_a_project_of_its_own(site: Path, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    assert project_of(site / "someengine/srt/layers/backend.py") == site / "someengine"
    assert project_of(site / "someengine") == site / "someengine"
    assert project_of(tmp_path / "src" / "plugin.py") == tmp_path


def test_without_a_pyproject_a_target_stands_alone(tmp_path: Path) -> None:
    assert project_of(tmp_path / "a" / "b.py") == tmp_path / "a" / "b.py"
