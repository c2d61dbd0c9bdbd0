"""The two forms of MLA and the three ways through them."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mla_runtime.settings import EngineSettings

__all__ = ["AttentionForm", "planned_form"]


class AttentionForm(Enum):
    """Names per SGLang's ``AttnForwardMethod``; DeepSeek-V2, arXiv:2405.04434, 2.1 and appendix C.

    The absorbed form folds the up-projections into query and output and attends the latent cache
    itself; the multi-head form expands keys and values, which is less work when few cached tokens
    serve many queries.
    """

    MLA = "absorbed"
    MHA_ONE_SHOT = "multi-head, prefix and new tokens expanded together"
    MHA_CHUNKED_KV = "multi-head, prefix expanded chunk by chunk and merged by LSE"


def planned_form(prefix_tokens: int, new_tokens: int, settings: EngineSettings) -> AttentionForm:
    """The form of a prefill over planned kernels, by its cached and new tokens over all requests.

    Per SGLang 0.5.23, ``models/deepseek_common``: expanding a prefix pays from
    ``chunked_prefix_cache_threshold`` cached tokens on; up to ``prefix_chunk_capacity`` tokens it
    is expanded in one shot.
    """
    if settings.flashinfer_mla_disable_ragged:
        return AttentionForm.MLA
    expands = settings.enable_chunk_kv and prefix_tokens >= settings.chunked_prefix_cache_threshold
    if prefix_tokens and not expands:
        return AttentionForm.MLA
    if prefix_tokens + new_tokens <= settings.prefix_chunk_capacity:
        return AttentionForm.MHA_ONE_SHOT
    return AttentionForm.MHA_CHUNKED_KV
