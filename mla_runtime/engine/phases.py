"""Every phase of a request's life, against the model in float64."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from mla_runtime.dense_reference import relative_error
from mla_runtime.engine.engine import TinyEngine
from mla_runtime.engine.reference import DenseModel
from mla_runtime.phase import ForwardMode

if TYPE_CHECKING:
    from mla_runtime.engine.options import EngineOptions

__all__ = ["PhaseReport", "phase_reports", "warm"]


@dataclass(frozen=True, slots=True)
class PhaseReport:
    """One phase: its error against the float64 model and its speed."""

    phase: str
    form: str
    tokens: int
    error: float
    tokens_per_second: float


def phase_reports(engine: TinyEngine) -> list[PhaseReport]:
    """The passes of a request's life, in order."""
    options, life = engine.options, _Life(engine)
    many = [options.prompt + 3 * i for i in range(options.requests)]
    draft = [options.draft_tokens] * options.requests
    accepted = [1 + i % options.draft_tokens for i in range(options.requests)]
    one = [1] * options.requests
    reports = [life.run("prefill", ForwardMode.EXTEND, engine.random_tokens(many))]
    reports.append(
        life.run("prefix-cached prefill", ForwardMode.EXTEND, engine.random_tokens(many))
    )
    reports.append(life.run("decode", ForwardMode.DECODE, engine.random_tokens(one)))
    drafted = engine.random_tokens(draft)
    reports.append(life.run("target verify", ForwardMode.TARGET_VERIFY, drafted, accepted))
    reports.append(life.run("decode after verify", ForwardMode.DECODE, engine.random_tokens(one)))
    if set(options.kinds) == {"mla"}:
        # A draft model's layers are full attention, and so are those of a draft extend.
        new = engine.random_tokens(accepted)
        reports.append(life.run("draft extend", ForwardMode.DRAFT_EXTEND_V2, new))
    return reports


def warm(options: EngineOptions) -> None:
    """One throwaway run, so that a table times kernels and not their compilation."""
    phase_reports(TinyEngine(replace(options, prompt=8)))


class _Life:
    """Passes over an engine, each compared with the whole sequence in float64."""

    def __init__(self, engine: TinyEngine) -> None:
        self.engine = engine
        self.reference = DenseModel(engine.model)

    @torch.inference_mode()
    def run(
        self,
        phase: str,
        mode: ForwardMode,
        new_tokens: list[list[int]],
        keep: list[int] | None = None,
    ) -> PhaseReport:
        """One pass over every request, of whose tokens ``keep`` are kept, all where it is None."""
        engine = self.engine
        start = engine.now()
        out = engine.forward(mode, new_tokens)
        seconds = engine.now() - start
        expected = [
            self.reference.logits(sequence + tokens)[len(sequence) :]
            for sequence, tokens in zip(engine.requests.sequences, new_tokens, strict=True)
        ]
        if keep is not None:
            engine.backend.update_mamba_state_after_mtp_verify(
                torch.tensor(keep, device=engine.device) - 1
            )
            new_tokens = [tokens[:count] for tokens, count in zip(new_tokens, keep, strict=True)]
        engine.requests.append(new_tokens)
        tokens = out.logits.shape[0]
        return PhaseReport(
            phase,
            out.form.name,
            tokens,
            relative_error(out.logits, torch.cat(expected)),
            tokens / seconds,
        )
