"""``[tool.mla-guard]``: what is read, what is reported, and what bad settings are told."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from lint_rules.config import Config, ConfigError, expand_codes, load_config
from mla_guard.diagnostic import LINT_RULES

SEARCHED = f"(packages are looked for in {sys.prefix})"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "engine" / "attention").mkdir(parents=True)
    (tmp_path / "engine" / "attention" / "backend.py").write_text("")
    (tmp_path / "plugins").mkdir()
    return tmp_path


def configure(project: Path, body: str) -> None:
    (project / "pyproject.toml").write_text(f"[tool.mla-guard]\n{body}\n", encoding="utf-8")


def test_without_any_pyproject_the_targets_are_read(project: Path) -> None:
    targets = [project / "engine" / "attention", project / "plugins"]
    assert load_config(targets) == Config(src=tuple(targets))


def test_the_nearest_project_is_read_whole(project: Path) -> None:
    (project / "pyproject.toml").write_text("[project]\nname = 'engine'\n")
    (project / "engine" / "pyproject.toml").write_text("")
    file = project / "engine" / "attention" / "backend.py"
    assert load_config([file]).src == (project / "engine",)
    assert load_config([project / "plugins"]).src == (project,)
    assert load_config([file, project / "plugins"]).src == (project,)


def test_every_key_is_read(project: Path) -> None:
    configure(
        project,
        """
        src = ["engine"]
        bases = ["AttnBase", "engine.attention.Other"]
        stand-ins = ["Algorithm | PluginAlgorithm", "Table|Tree"]
        select = ["MLA1", "unguarded-attribute"]
        ignore = ["MLA102"]
        min-severity = "error"
        exclude = ["**/testing/", "!engine/testing/keep.py"]
        baseline = "ci/known.txt"

        [tool.mla-guard.per-file-ignores]
        "engine/old/" = ["MLA2", "hook-call-mismatch"]
        """,
    )
    assert load_config([project / "engine"]) == Config(
        src=(project / "engine",),
        bases=("AttnBase", "engine.attention.Other"),
        stand_ins=(("Algorithm", "PluginAlgorithm"), ("Table", "Tree")),
        select=(*(c for c in LINT_RULES if c.startswith("MLA1")), "MLA202"),
        ignore=("MLA102",),
        min_severity="error",
        exclude=("**/testing/", "!engine/testing/keep.py"),
        per_file_ignores=(
            ("engine/old/", (*(c for c in LINT_RULES if c.startswith("MLA2")), "MLA102")),
        ),
        baseline=project / "ci" / "known.txt",
        root=project,
    )


def test_a_target_outside_src_is_read_too(project: Path) -> None:
    configure(project, 'src = ["engine"]')
    assert load_config([project / "plugins"]).src == (project / "engine", project / "plugins")
    assert load_config([project / "engine" / "attention"]).src == (project / "engine",)


def test_a_target_around_src_adds_nothing(project: Path) -> None:
    configure(project, 'src = ["engine"]')
    assert load_config([project]).src == (project / "engine",)


def test_src_may_name_an_installed_package(project: Path) -> None:
    import pluggy

    configure(project, 'src = ["engine", "pluggy"]')
    package = Path(pluggy.__file__).parent
    assert load_config([project / "engine"]).src == (project / "engine", package)


def test_two_configured_projects_are_not_mixed(project: Path) -> None:
    for name in ("engine", "plugins"):
        configure(project / name, "bases = ['Base']")
    with pytest.raises(ConfigError) as caught:
        load_config([project / "engine", project / "plugins"])
    assert str(caught.value) == (
        f"{project}/engine/pyproject.toml and {project}/plugins/pyproject.toml both have a "
        "[tool.mla-guard]: check one project at a time"
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("selct = ['MLA101']", ": unknown key 'selct' (did you mean 'select'?)"),
        (
            "paths = ['x']",
            ": unknown key 'paths' "
            "(known: src, bases, stand-ins, select, ignore, min-severity, exclude, "
            "per-file-ignores, baseline)",
        ),
        ("min_severity = 'error'", ": unknown key 'min_severity' (did you mean 'min-severity'?)"),
        ("select = 'MLA101'", ": select: 'MLA101' is not a list of strings"),
        ("bases = ['Base', 1]", ": bases: 1 is not a non-empty string"),
        (
            "bases = ['engine/Base']",
            ": bases: 'engine/Base' is not a class name, simple or dotted ('AttentionBackend', "
            "'engine.attention.AttentionBackend')",
        ),
        (
            "ignore = ['MLA11']",
            ": ignore: unknown rule 'MLA11', expected a code, a name or a prefix such as 'MLA2' "
            "(did you mean 'MLA101'?)",
        ),
        (
            "select = ['hook_signature_drift']",
            ": select: unknown rule 'hook_signature_drift', expected a code, a name or a prefix "
            "such as 'MLA2' (did you mean 'hook-signature-drift'?)",
        ),
        (
            "min-severity = 'warn'",
            ": min-severity: 'warn' is not 'error' or 'warning' (did you mean 'warning'?)",
        ),
        (
            "min-severity = 3",
            ": min-severity: 3 is not 'error' or 'warning' (known: error, warning)",
        ),
        ("src = ['engin/x']", ": src: no such file or directory: 'engin/x'"),
        (
            "src = ['engin']",
            f": src: no file, directory or installed package is named 'engin' {SEARCHED}",
        ),
        (
            "stand-ins = ['Algorithm']",
            ": stand-ins: 'Algorithm' is not a pair of class names ('Algorithm | PluginAlgorithm')",
        ),
        (
            "stand-ins = ['A | B | C']",
            ": stand-ins: 'A | B | C' is not a pair of class names ('Algorithm | PluginAlgorithm')",
        ),
        ("exclude = ['!']", ": exclude: '!' is not a gitignore pattern"),
        ("baseline = true", ": baseline: True is not the path of a file"),
        (
            "per-file-ignores = ['a.py']",
            ": per-file-ignores: ['a.py'] is not a table of patterns with lists of codes",
        ),
        (
            "per-file-ignores = {'!a.py' = ['MLA1']}",
            ": per-file-ignores: '!a.py': a pattern names the files in which codes are ignored, "
            "it cannot take files out",
        ),
        (
            "per-file-ignores = {'a.py' = ['RUF1']}",
            ": per-file-ignores: 'a.py': unknown rule 'RUF1', expected a code, a name or a prefix "
            "such as 'MLA2'",
        ),
    ],
)
def test_bad_settings_name_file_key_value_and_expectation(
    project: Path, body: str, message: str
) -> None:
    configure(project, body)
    with pytest.raises(ConfigError) as caught:
        load_config([project])
    assert str(caught.value) == f"{project}/pyproject.toml: [tool.mla-guard]{message}"


def test_a_file_that_is_not_toml_is_named(project: Path) -> None:
    configure(project, "select = [")
    prefix = re.escape(f"{project}/pyproject.toml: not valid TOML: ")
    with pytest.raises(ConfigError, match=f"^{prefix}"):
        load_config([project])


def test_a_scalar_instead_of_the_table_is_refused(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool]\nmla-guard = 1\n")
    with pytest.raises(ConfigError) as caught:
        load_config([project])
    assert str(caught.value) == f"{project}/pyproject.toml: tool.mla-guard: 1 is not a table"


def test_exclude_is_relative_to_the_project(tmp_path: Path) -> None:
    config = Config(exclude=("testing/", "/engine/old_*.py"), root=tmp_path)
    assert config.excludes(f"{tmp_path}/engine/testing/")
    assert config.excludes(f"{tmp_path}/engine/testing/base.py")
    assert not config.excludes(f"{tmp_path}/engine/testing")
    assert config.excludes(f"{tmp_path}/engine/old_backend.py")
    assert not config.excludes(f"{tmp_path}/engine/models/old_backend.py")
    assert not config.excludes("/elsewhere/testing/base.py")
    assert not Config(root=tmp_path).excludes(f"{tmp_path}/engine/testing/base.py")


def test_codes_are_ignored_in_the_files_of_a_pattern(tmp_path: Path) -> None:
    ignores = (("/old/", ("MLA101", "MLA102")), ("*_npu.py", ("MLA201",)))
    config = Config(per_file_ignores=ignores, root=tmp_path)
    ignored = [
        (path, code)
        for path in ("old/a.py", "old/a_npu.py", "new/old/a.py", "new/b_npu.py")
        for code in ("MLA101", "MLA201")
        if config.ignores_in(f"{tmp_path}/{path}", code)
    ]
    assert ignored == [
        ("old/a.py", "MLA101"),
        ("old/a_npu.py", "MLA101"),
        ("old/a_npu.py", "MLA201"),
        ("new/b_npu.py", "MLA201"),
    ]
    assert not config.ignores_in("/elsewhere/old/a.py", "MLA101")


def test_ignore_wins_over_select() -> None:
    config = Config(select=expand_codes(["MLA1", "MLA301"], "--select"), ignore=("MLA102",))
    chosen = [c for c in LINT_RULES if c.startswith("MLA1") and c != "MLA102"]
    assert [code for code in LINT_RULES if config.selects(code)] == [*chosen, "MLA301"]
    assert [code for code in LINT_RULES if Config().selects(code)] == list(LINT_RULES)


def test_min_severity_is_a_threshold() -> None:
    assert [Config(min_severity="error").shows(s) for s in ("error", "warning")] == [True, False]
    assert [Config().shows(s) for s in ("error", "warning")] == [True, True]


def test_an_empty_name_selects_nothing() -> None:
    with pytest.raises(ConfigError, match=r"^--select: unknown rule ''"):
        expand_codes([""], "--select")
