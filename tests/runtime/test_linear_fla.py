"""fla-core's adapter against the real signatures of its releases, and which kernels are chosen."""

from __future__ import annotations

import importlib
import importlib.metadata
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from mla_runtime import KernelUnavailableError
from mla_runtime.dense_reference import relative_error
from mla_runtime.linear.delta_rule import DeltaInputs, chunked, recurrent
from mla_runtime.linear.fla_kernels import FlaLibrary, FlaLinearKernels, load_fla
from mla_runtime.linear.kernels import TorchLinearKernels, linear_kernels
from mla_runtime.linear.sequences import Sequences
from tests.runtime.fake_library import Calls, entry
from tests.runtime.linear_world import FAMILIES, LinearWorld
from tests.runtime.signatures import RELEASES

CUDA = torch.device("cuda")
ENTRY = {"lightning": "simple_gla", "gdn": "gated_delta_rule", "kda": "kda"}


def fake_fla(release: str) -> tuple[FlaLibrary, Calls]:
    """The entry points of a release: its signatures and layouts, torch arithmetic."""
    calls = Calls()

    def of(name: str) -> Any:
        return entry("fla-core", release, name, calls, delta_rule)

    library = FlaLibrary(
        release,
        *(of(f"{form}_{name}") for name in ENTRIES for form in ("chunk", "fused_recurrent")),
    )
    return library, calls


ENTRIES = ("gated_delta_rule", "kda", "simple_gla")


def delta_rule(
    *,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    scale: float,
    initial_state: torch.Tensor,
    output_final_state: bool,
    beta: torch.Tensor | None = None,
    cu_seqlens: torch.Tensor | None = None,
    cu_seqlens_cpu: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """``[B, T, H, D]`` as the library has it: one length for all, or ``B = 1`` and the lengths."""
    assert output_final_state
    lens = [q.shape[1]] * q.shape[0]
    if cu_seqlens is not None:
        assert q.shape[0] == 1
        assert cu_seqlens_cpu is not None
        assert cu_seqlens.dtype == torch.int64
        assert cu_seqlens.tolist() == cu_seqlens_cpu.tolist()
        lens = cu_seqlens.diff().tolist()
    assert initial_state.shape == (len(lens), v.shape[2], q.shape[3], v.shape[3])
    assert initial_state.dtype == torch.float32
    inputs = DeltaInputs(
        q.flatten(0, 1),
        k.flatten(0, 1),
        v.flatten(0, 1),
        (g if g.dim() == 4 else g[..., None]).flatten(0, 1),
        None if beta is None else beta.flatten(0, 1),
        scale,
    )
    out, final, _ = recurrent(inputs, initial_state, Sequences.of(lens))
    return out.view(v.shape), final


def inputs_of(family: str, tokens: int) -> DeltaInputs:
    per_token = tokens, 4, 5 if family == "kda" else 1
    return DeltaInputs(
        torch.randn(tokens, 2, 5),
        torch.nn.functional.normalize(torch.randn(tokens, 2, 5), dim=-1),
        torch.randn(tokens, 4, 3),
        -torch.rand(per_token),
        None if family == "lightning" else torch.rand(tokens, 4),
        0.4,
    )


@pytest.mark.parametrize("release", RELEASES["fla-core"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_chunked_call(family: str, release: str) -> None:
    library, calls = fake_fla(release)
    x, initial, sequences = inputs_of(family, 12), torch.randn(3, 4, 5, 3), Sequences.of([5, 0, 7])
    out, final = FlaLinearKernels(library).chunked(x, initial, sequences)
    expected, expected_final = chunked(x, initial, sequences)
    assert relative_error(out, expected) <= 1e-5
    assert relative_error(final, expected_final) <= 1e-5
    assert [name for name, _ in calls.made] == [f"chunk_{ENTRY[family]}"]


@pytest.mark.parametrize("release", RELEASES["fla-core"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_recurrent_calls(family: str, release: str) -> None:
    library, calls = fake_fla(release)
    x, initial, sequences = inputs_of(family, 6), torch.randn(2, 4, 5, 3), Sequences.of([3, 3])
    kernels = FlaLinearKernels(library)
    out, final, states = kernels.recurrent(x, initial, sequences, every_state=True)
    expected, expected_final, expected_states = recurrent(x, initial, sequences, every_state=True)
    assert states is not None
    assert expected_states is not None
    for actual, value in (
        (out, expected),
        (final, expected_final),
        (states, expected_states),
    ):
        assert relative_error(actual, value) <= 1e-5
    assert [name for name, _ in calls.made] == [f"fused_recurrent_{ENTRY[family]}"] * 3
    assert kernels.recurrent(x, initial, sequences)[2] is None


@pytest.mark.parametrize("family", FAMILIES)
def test_a_backend_over_the_library(family: str) -> None:
    library, _ = fake_fla("0.6.0")
    world = LinearWorld(family)
    backend = FAMILIES[family](world.runner, kernels=FlaLinearKernels(library))
    world.draw(0, 12)
    out = [world.extended(backend, {0: (0, 5)})[0], world.verified(backend, {0: 5})[0][:2]]
    backend.update_mamba_state_after_mtp_verify(torch.tensor([1]))
    out += [world.decoded(backend, {0: 7})[0], world.extended(backend, {0: (8, 12)})[0]]
    assert relative_error(torch.cat(out), world.expected(0)) <= 1e-5


def test_no_token_calls_no_kernel() -> None:
    library, calls = fake_fla("0.6.0")
    initial = torch.randn(2, 4, 5, 3)
    out, final = FlaLinearKernels(library).chunked(
        inputs_of("gdn", 0), initial, Sequences.of([0, 0])
    )
    assert out.shape == (0, 4, 3)
    assert torch.equal(final, initial)
    assert calls.made == []


def installed(monkeypatch: pytest.MonkeyPatch, version: str | None) -> None:
    def version_of(name: str) -> str:
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(importlib.metadata, "version", version_of)


def test_the_choice_of_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "0.6.0")
    assert isinstance(linear_kernels(torch.device("cpu")), TorchLinearKernels)
    fake, _ = fake_fla("0.6.0")
    modules = {
        f"fla.ops.{name}": SimpleNamespace(
            **{f: getattr(fake, f) for f in FlaLibrary.__slots__ if f.endswith(name)}
        )
        for name in ENTRIES
    }
    monkeypatch.setattr(importlib, "import_module", modules.__getitem__)
    kernels = linear_kernels(CUDA)
    assert isinstance(kernels, FlaLinearKernels)
    assert kernels.library == fake
    installed(monkeypatch, None)
    assert isinstance(linear_kernels(CUDA), TorchLinearKernels)


@pytest.mark.parametrize("version", ["0.4.2", "0.5.1", "0.7.0", "1.0"])
def test_releases_that_are_not_known_are_not_imported(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    installed(monkeypatch, version)
    words = rf"fla-core {version} is not supported; install >=0.5.2,<0.7 \(tested: 0.6.0\)"
    with pytest.raises(KernelUnavailableError, match=words):
        linear_kernels(CUDA)


def test_a_release_that_does_not_import(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(name: str) -> None:
        raise ImportError("No module named 'triton'")

    monkeypatch.setattr(importlib, "import_module", fails)
    with pytest.raises(KernelUnavailableError, match=r"0.6.0 is installed but does not import: No"):
        load_fla("0.6.0")
