"""The two forms of MLA and the three ways through them."""

from __future__ import annotations

from enum import Enum

__all__ = ["AttentionForm"]


class AttentionForm(Enum):
    """Names per SGLang's ``AttnForwardMethod``; DeepSeek-V2, arXiv:2405.04434, 2.1 and appendix C.

    The absorbed form folds the up-projections into query and output and attends the latent cache
    itself; the multi-head form expands keys and values, which is less work when few cached tokens
    serve many queries.
    """

    MLA = "absorbed"
    MHA_ONE_SHOT = "multi-head, prefix and new tokens expanded together"
    MHA_CHUNKED_KV = "multi-head, prefix expanded chunk by chunk and merged by LSE"
