"""MLA attention backends for LLM serving engines, complete whatever the flags.

Importing this package imports torch and no kernel library; those are imported when a backend is
built for a GPU.
"""

from __future__ import annotations

from mla_runtime.attention_form import AttentionForm
from mla_runtime.base import AttentionBackend
from mla_runtime.batch import ForwardBatch, VerifyInput
from mla_runtime.captured_prefill import captured_prefill
from mla_runtime.chunk_runner import FlashInferMhaChunkKVRunner
from mla_runtime.create import create_backend, create_draft_backend
from mla_runtime.cutedsl_mla import CuteDslMLABackend
from mla_runtime.errors import HookRefusedError
from mla_runtime.flashinfer_mla import FlashInferMLAAttnBackend
from mla_runtime.graph_recorder import GraphRecorder, ReboundTensorError
from mla_runtime.hybrid_attn import HybridAttnBackend
from mla_runtime.hybrid_linear import HybridLinearAttnBackend
from mla_runtime.indices_updater import (
    FlashInferMLAIndicesUpdaterDecode,
    FlashInferMLAIndicesUpdaterPrefill,
)
from mla_runtime.kernels.capability import KernelUnavailableError
from mla_runtime.latent_heads import LatentHeads
from mla_runtime.layer import MlaAttention
from mla_runtime.linear.backend import LinearAttnBackend
from mla_runtime.linear.gates import lightning_slopes
from mla_runtime.linear.gdn import GDNAttnBackend
from mla_runtime.linear.kda import KDAAttnBackend
from mla_runtime.linear.layer import LinearAttentionLayer
from mla_runtime.linear.lightning import LightningAttnBackend
from mla_runtime.linear.state_pool import (
    HybridReqToTokenPool,
    LinearStatePool,
    LinearStateShape,
)
from mla_runtime.micro_batches import split_batch
from mla_runtime.mla_core import MlaCore, plan_form
from mla_runtime.multi_step_draft import (
    CuteDslMLAMultiStepDraftBackend,
    FlashInferMLAMultiStepDraftBackend,
    TokenspeedMLAMultiStepDraftBackend,
    TorchMLAMultiStepDraftBackend,
    TRTLLMMLAMultiStepDraftBackend,
)
from mla_runtime.phase import ForwardMode
from mla_runtime.pool import MlaKvPool, ReqToTokenPool, SlotAllocator
from mla_runtime.runner import AttentionLayer, MlaModelConfig, ModelRunner
from mla_runtime.settings import EngineSettings
from mla_runtime.sharded_pool import ShardedMlaKvPool
from mla_runtime.tokenspeed_mla import TokenspeedMLABackend
from mla_runtime.torch_mla import TorchMLABackend
from mla_runtime.trtllm_mla import TRTLLMMLABackend
from mla_runtime.two_batch_overlap import TboAttnBackend

__all__ = [
    "AttentionBackend",
    "AttentionForm",
    "AttentionLayer",
    "CuteDslMLABackend",
    "CuteDslMLAMultiStepDraftBackend",
    "EngineSettings",
    "FlashInferMLAAttnBackend",
    "FlashInferMLAIndicesUpdaterDecode",
    "FlashInferMLAIndicesUpdaterPrefill",
    "FlashInferMLAMultiStepDraftBackend",
    "FlashInferMhaChunkKVRunner",
    "ForwardBatch",
    "ForwardMode",
    "GDNAttnBackend",
    "GraphRecorder",
    "HookRefusedError",
    "HybridAttnBackend",
    "HybridLinearAttnBackend",
    "HybridReqToTokenPool",
    "KDAAttnBackend",
    "KernelUnavailableError",
    "LatentHeads",
    "LightningAttnBackend",
    "LinearAttentionLayer",
    "LinearAttnBackend",
    "LinearStatePool",
    "LinearStateShape",
    "MlaAttention",
    "MlaCore",
    "MlaKvPool",
    "MlaModelConfig",
    "ModelRunner",
    "ReboundTensorError",
    "ReqToTokenPool",
    "ShardedMlaKvPool",
    "SlotAllocator",
    "TRTLLMMLABackend",
    "TRTLLMMLAMultiStepDraftBackend",
    "TboAttnBackend",
    "TokenspeedMLABackend",
    "TokenspeedMLAMultiStepDraftBackend",
    "TorchMLABackend",
    "TorchMLAMultiStepDraftBackend",
    "VerifyInput",
    "captured_prefill",
    "create_backend",
    "create_draft_backend",
    "lightning_slopes",
    "plan_form",
    "split_batch",
]
