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
    from mla_runtime.engine.model import ModelOutput
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
    options, passes = engine.options, []
    many = [options.prompt + 3 * i for i in range(options.requests)]
    draft = [options.draft_tokens] * options.requests
    accepted = [1 + i % options.draft_tokens for i in range(options.requests)]
    one = [1] * options.requests
    extend, decode, verify = ForwardMode.EXTEND, ForwardMode.DECODE, ForwardMode.TARGET_VERIFY
    passes.append(_run(engine, "prefill", extend, engine.random_tokens(many)))
    passes.append(_run(engine, "prefix-cached prefill", extend, engine.random_tokens(many)))
    passes.append(_run(engine, "decode", decode, engine.random_tokens(one)))
    passes.append(_run(engine, "target verify", verify, engine.random_tokens(draft), accepted))
    passes.append(_run(engine, "decode after verify", decode, engine.random_tokens(one)))
    if options.linear_kind is None:
        # A draft model's layers are full attention, and so are those of a draft extend.
        new = engine.random_tokens(accepted)
        passes.append(_run(engine, "draft extend", ForwardMode.DRAFT_EXTEND_V2, new))
    # From the last to the first: earlier sequences begin the later ones.
    reference = DenseModel(engine.model)
    return [one_pass.report(reference) for one_pass in reversed(passes)][::-1]


@dataclass(frozen=True, slots=True)
class _Pass:
    """What one pass put out for the tokens ``new``, after ``before``, of every request."""

    phase: str
    output: ModelOutput
    before: list[list[int]]
    new: list[list[int]]
    seconds: float

    def report(self, reference: DenseModel) -> PhaseReport:
        expected = [
            reference.logits(before + new)[len(before) :]
            for before, new in zip(self.before, self.new, strict=True)
        ]
        logits = self.output.logits
        return PhaseReport(
            self.phase,
            self.output.form.name,
            logits.shape[0],
            relative_error(logits, torch.cat(expected)),
            logits.shape[0] / self.seconds,
        )


def _run(
    engine: TinyEngine,
    phase: str,
    mode: ForwardMode,
    new: list[list[int]],
    keep: list[int] | None = None,
) -> _Pass:
    """One pass over every request, of whose tokens ``keep`` are kept, all where it is None."""
    before = [list(sequence) for sequence in engine.requests.sequences]
    start = engine.now()
    output = engine.forward(mode, new)
    seconds = engine.now() - start
    kept = new
    if keep is not None:
        engine.backend.update_mamba_state_after_mtp_verify(
            torch.tensor(keep, device=engine.device) - 1
        )
        kept = [tokens[:count] for tokens, count in zip(new, keep, strict=True)]
    engine.requests.append(kept)
    return _Pass(phase, output, before, new, seconds)


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
