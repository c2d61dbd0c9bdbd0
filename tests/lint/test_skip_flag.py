"""The skip flag that broke speculative decoding between two releases, over three files.

The parent's branch skips what inherited hooks read; the child passes the flag; the grandchild
inherits from the child.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lint_rules.config import Config
from lint_rules.run import check

BASE = """\
class AttentionBackend:
    def init_forward_metadata(self, forward_batch):
        raise NotImplementedError

    def forward_extend(self, q, k, v, forward_batch):
        raise NotImplementedError
"""
PARENT = """\
from engine.base import AttentionBackend
from engine.kernels import Decode, Indices, Ragged


class FlashInferMLAAttnBackend(AttentionBackend):
    def __init__(self, model_runner, skip_prefill=False, skip_init_workspace_buffer=False):
        self.device = model_runner.device
        if not skip_init_workspace_buffer:
            self.prefill_wrapper_ragged = Ragged(self.device)
            self.decode_wrapper = Decode(self.device)
            self.indices_updater_decode = Indices(self)

    def init_forward_metadata(self, forward_batch):
        self.indices_updater_decode.update(forward_batch, self.decode_wrapper)

    def forward_extend(self, q, k, v, forward_batch):
        return self.prefill_wrapper_ragged.run(q, k, v)
"""
CHILD = """\
from engine.parent import FlashInferMLAAttnBackend


class TRTLLMMLABackend(FlashInferMLAAttnBackend):
    def __init__(self, model_runner, skip_prefill=False{parameter}):
        super().__init__({arguments})
{body}
"""
GRANDCHILD = """\
from engine.child import TRTLLMMLABackend


class DraftBackend(TRTLLMMLABackend):
    pass


def create(model_runner):
    return DraftBackend(model_runner)
"""
KEYWORD = "model_runner, skip_prefill, skip_init_workspace_buffer=True"
ATTRIBUTES = ("prefill_wrapper_ragged", "decode_wrapper", "indices_updater_decode")
CREATED = "\n".join(f"        self.{name} = model_runner.{name}" for name in ATTRIBUTES)
LINE_OF_CALL = 6


def found(
    directory: Path,
    *,
    arguments: str,
    parameter: str = "",
    body: str = "",
    parent: str = PARENT,
    more: dict[str, str] | None = None,
) -> list[tuple[str, str, int, str]]:
    """Code, file, line and text of each finding of the engine with this child."""
    files = {
        "base.py": BASE,
        "parent.py": parent,
        "child.py": CHILD.format(arguments=arguments, parameter=parameter, body=body),
        "grandchild.py": GRANDCHILD,
        **(more or {}),
    }
    (directory / "engine").mkdir()
    for name, text in files.items():
        (directory / "engine" / name).write_text(text, encoding="utf-8")
    report = check([directory], Config(src=(directory,)))
    assert report.failures == ()
    return [(d.code, Path(d.place.path).name, d.place.line, d.text()) for d in report.diagnostics]


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(KEYWORD, id="as a keyword"),
        pytest.param("model_runner, skip_prefill, True", id="as a positional"),
    ],
)
def test_the_flag_is_found_with_what_it_skips_and_who_reads_it(
    tmp_path: Path, arguments: str
) -> None:
    [(code, file, line, text)] = found(tmp_path, arguments=arguments)
    assert (code, file, line) == ("MLA203", "child.py", LINE_OF_CALL)
    hooks = ("init_forward_metadata", "forward_extend")
    assert [name for name in (*ATTRIBUTES, *hooks) if name not in text] == []


def test_the_flag_is_found_through_a_second_level(tmp_path: Path) -> None:
    between = """\
from engine.parent import FlashInferMLAAttnBackend as Parent


class FlashInferMLAAttnBackend(Parent):
    def __init__(self, model_runner, skip_prefill=False, skip=False):
        super().__init__(model_runner, skip_prefill, skip_init_workspace_buffer=skip)
"""
    child = CHILD.format(arguments="model_runner, skip_prefill, skip=True", parameter="", body="")
    more = {"between.py": between, "child.py": child.replace("engine.parent", "engine.between")}
    [(code, file, line, text)] = found(tmp_path, arguments="", more=more)
    assert (code, file, line) == ("MLA203", "child.py", LINE_OF_CALL)
    assert [name for name in ATTRIBUTES if name not in text] == []


def test_a_child_that_creates_what_it_skips_is_clean(tmp_path: Path) -> None:
    assert found(tmp_path, arguments=KEYWORD, body=CREATED) == []


def test_only_what_is_left_out_is_reported(tmp_path: Path) -> None:
    body = "\n".join(line for line in CREATED.splitlines() if "decode_wrapper" not in line)
    [(code, _, _, text)] = found(tmp_path, arguments=KEYWORD, body=body)
    assert code == "MLA203"
    assert [name for name in ATTRIBUTES if name in text.splitlines()[0]] == ["decode_wrapper"]


def test_a_flag_that_is_the_childs_own_parameter_is_clean(tmp_path: Path) -> None:
    parameter = ", skip_init_workspace_buffer=False"
    arguments = "model_runner, skip_prefill, skip_init_workspace_buffer"
    assert found(tmp_path, arguments=arguments, parameter=parameter) == []


def test_a_flag_that_is_false_is_clean(tmp_path: Path) -> None:
    arguments = "model_runner, skip_prefill, skip_init_workspace_buffer=False"
    assert found(tmp_path, arguments=arguments) == []
