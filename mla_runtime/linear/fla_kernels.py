"""fla-core's Triton kernels of the gated delta rule, on a GPU."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from mla_runtime.kernels.capability import KernelUnavailableError

if TYPE_CHECKING:
    from mla_runtime.linear.delta_rule import DeltaInputs
    from mla_runtime.linear.sequences import Sequences

__all__ = ["SUPPORTED", "FlaLibrary", "FlaLinearKernels", "installed_version", "load_fla"]

SUPPORTED = ((0, 5, 2), (0, 7))
"""From the first release, to below the second; tested with 0.6.0."""


@dataclass(frozen=True, slots=True)
class FlaLibrary:
    """Entry points of one release."""

    version: str
    chunk_gated_delta_rule: Any
    fused_recurrent_gated_delta_rule: Any
    chunk_kda: Any
    fused_recurrent_kda: Any
    chunk_simple_gla: Any
    fused_recurrent_simple_gla: Any


def installed_version() -> str | None:
    """The release of fla-core that is installed, or None."""
    try:
        return importlib.metadata.version("fla-core")
    except importlib.metadata.PackageNotFoundError:
        return None


def load_fla(version: str) -> FlaLibrary:
    """Import fla-core's kernels; they need Triton, so only for a GPU.

    Raises:
        KernelUnavailableError: not supported, or not importable.
    """
    numbers = tuple(int(n) for n in re.findall(r"\d+", version.split("+")[0])[:3])
    if not SUPPORTED[0] <= numbers < SUPPORTED[1]:
        raise KernelUnavailableError(
            f"fla-core {version} is not supported; install >=0.5.2,<0.7 (tested: 0.6.0)"
        )
    try:
        with warnings.catch_warnings():
            # The package imports far more than these kernels, and what that warns of is not ours.
            warnings.simplefilter("ignore")
            delta, kda, gla = (
                importlib.import_module(f"fla.ops.{name}")
                for name in ("gated_delta_rule", "kda", "simple_gla")
            )
    except ImportError as error:
        raise KernelUnavailableError(
            f"fla-core {version} is installed but does not import: {error}"
        ) from error
    return FlaLibrary(
        version=version,
        chunk_gated_delta_rule=delta.chunk_gated_delta_rule,
        fused_recurrent_gated_delta_rule=delta.fused_recurrent_gated_delta_rule,
        chunk_kda=kda.chunk_kda,
        fused_recurrent_kda=kda.fused_recurrent_kda,
        chunk_simple_gla=gla.chunk_simple_gla,
        fused_recurrent_simple_gla=gla.fused_recurrent_simple_gla,
    )


class FlaLinearKernels:
    """Kernels by what the inputs need: no write strength, one decay per head, or per channel.

    Inputs go in as they are; the library takes log-decays of base e, states float32
    ``[N, H_v, K, V]``, and tokens ``[1, T, ...]`` with ``cu_seqlens``.
    """

    name = "fla"

    def __init__(self, library: FlaLibrary) -> None:
        self.library = library

    def chunked(
        self, inputs: DeltaInputs, initial: torch.Tensor, sequences: Sequences
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if sequences.tokens == 0:
            return inputs.v.new_empty(inputs.v.shape), initial
        lib = self.library
        run = _choose(inputs, lib.chunk_simple_gla, lib.chunk_gated_delta_rule, lib.chunk_kda)
        out, final = run(
            **_tokens(inputs),
            scale=inputs.scale,
            initial_state=initial,
            output_final_state=True,
            cu_seqlens=sequences.cu_seqlens,
            cu_seqlens_cpu=sequences.cu_seqlens_cpu,
        )
        return out[0].to(inputs.v.dtype), final

    def recurrent(
        self,
        inputs: DeltaInputs,
        initial: torch.Tensor,
        sequences: Sequences,
        *,
        every_state: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """As ``LinearKernels.recurrent``; a state is kept by a launch per token.

        So a verify computes what the decodes that it stands for would have.
        """
        lib = self.library
        run = _choose(
            inputs,
            lib.fused_recurrent_simple_gla,
            lib.fused_recurrent_gated_delta_rule,
            lib.fused_recurrent_kda,
        )
        count, length = sequences.count, sequences.longest
        by_request = {
            name: x[0].view(count, length, *x.shape[2:]) for name, x in _tokens(inputs).items()
        }
        state, outs, states = initial, [], []
        for step in range(length):
            out, state = run(
                **{name: x[:, step : step + 1].contiguous() for name, x in by_request.items()},
                scale=inputs.scale,
                initial_state=state,
                output_final_state=True,
            )
            outs.append(out)
            states.append(state)
        out = torch.cat(outs, dim=1).flatten(0, 1).to(inputs.v.dtype)
        return out, state, torch.stack(states, dim=1) if every_state else None


def _choose(inputs: DeltaInputs, lightning: Any, per_head: Any, per_channel: Any) -> Any:
    if inputs.beta is None:
        return lightning
    return per_head if inputs.log_decay.shape[-1] == 1 else per_channel


def _tokens(inputs: DeltaInputs) -> dict[str, torch.Tensor]:
    """The arguments that have tokens, ``[1, T, ...]``, by the library's names."""
    per_channel = inputs.log_decay.shape[-1] > 1
    tokens = {
        "q": inputs.per_value_head(inputs.q),
        "k": inputs.per_value_head(inputs.k),
        "v": inputs.v,
        "g": inputs.log_decay if per_channel else inputs.log_decay[..., 0],
    }
    if inputs.beta is not None:
        tokens["beta"] = inputs.beta
    return {name: x[None] for name, x in tokens.items()}
