"""What a forward mode asks of an attention backend, whichever engine release named it."""

from __future__ import annotations

from enum import Enum, IntEnum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mla_runtime.protocols import ModeLike

__all__ = ["ForwardMode", "Phase", "phase_of"]


class Phase(Enum):
    """The five kinds of work that a backend plans for."""

    EXTEND = "extend"
    """Prefill, chunked prefill, mixed: a different number of new tokens per request."""
    DECODE = "decode"
    """One new token per request."""
    IDLE = "idle"
    """A data-parallel rank without work: rows, if any, are padding."""
    TARGET_VERIFY = "target_verify"
    """The same number of draft tokens per request, whose KV is not in ``seq_lens`` yet."""
    DRAFT_EXTEND = "draft_extend"
    """The draft model reads the accepted tokens, whose KV is in ``seq_lens`` already."""

    @property
    def is_speculative(self) -> bool:
        """Whether a request has several query tokens over the paged cache."""
        return self in (Phase.TARGET_VERIFY, Phase.DRAFT_EXTEND)


_PHASE_BY_NAME = {
    "EXTEND": Phase.EXTEND,
    "MIXED": Phase.EXTEND,
    "SPLIT_PREFILL": Phase.EXTEND,
    "DECODE": Phase.DECODE,
    "IDLE": Phase.IDLE,
    "TARGET_VERIFY": Phase.TARGET_VERIFY,
    "DRAFT_EXTEND": Phase.DRAFT_EXTEND,
    "DRAFT_EXTEND_V2": Phase.DRAFT_EXTEND,
}


def phase_of(mode: ModeLike) -> Phase:
    """The phase of an engine's forward mode, read by the mode's name.

    SGLang renumbers and removes members between releases (``DRAFT_EXTEND`` is gone in 0.5.23), so
    that neither the value nor a predicate such as ``is_draft_extend`` can be relied on.

    Raises:
        ValueError: the mode has no attention over an MLA cache (``PREBUILT``, ``DLLM_EXTEND``).
    """
    try:
        return _PHASE_BY_NAME[mode.name]
    except KeyError:
        expected = ", ".join(_PHASE_BY_NAME)
        raise ValueError(
            f"forward mode {mode.name} is not served by an MLA backend; expected one of {expected}"
        ) from None


class ForwardMode(IntEnum):
    """The package's own forward modes, for use without an engine.

    Names and predicates follow ``sglang/srt/model_executor/forward_batch_info.py`` (0.5.23).
    """

    EXTEND = auto()
    DECODE = auto()
    MIXED = auto()
    IDLE = auto()
    TARGET_VERIFY = auto()
    DRAFT_EXTEND_V2 = auto()

    def is_decode(self) -> bool:
        return self is ForwardMode.DECODE

    def is_idle(self) -> bool:
        return self is ForwardMode.IDLE

    def is_decode_or_idle(self) -> bool:
        return self in (ForwardMode.DECODE, ForwardMode.IDLE)

    def is_target_verify(self) -> bool:
        return self is ForwardMode.TARGET_VERIFY

    def is_draft_extend_v2(self) -> bool:
        return self is ForwardMode.DRAFT_EXTEND_V2

    def is_mixed(self) -> bool:
        return self is ForwardMode.MIXED

    def is_extend(self, include_draft_extend_v2: bool = False) -> bool:
        return self in (
            ForwardMode.EXTEND,
            ForwardMode.MIXED,
            ForwardMode.TARGET_VERIFY,
        ) or (include_draft_extend_v2 and self is ForwardMode.DRAFT_EXTEND_V2)
