"""Which backend serves which configuration."""

from engine.base import AttentionBackend
from engine.flashinfer_mla import FlashInferMLABackend
from engine.flashmla import FlashMLABackend
from engine.tokenspeed_mla import TokenspeedMLABackend
from engine.triton import TritonBackend
from engine.trtllm_mla import TRTLLMMLABackend
from engine.wrappers import HybridLinearBackend, SlidingWindowBackend, TwoBatchBackend

ATTENTION_BACKENDS = {
    "flashinfer": FlashInferMLABackend,
    "flashmla": FlashMLABackend,
    "tokenspeed": TokenspeedMLABackend,
    "triton": TritonBackend,
    "trtllm": TRTLLMMLABackend,
}


def create_attention_backend(runner, server_args) -> AttentionBackend:
    backend = ATTENTION_BACKENDS[server_args.attention_backend](runner)
    if runner.model_config.linear_layers:
        backend = HybridLinearBackend(backend, runner.model_config.full_layers)
    if runner.model_config.sliding_window:
        backend = SlidingWindowBackend(backend, TritonBackend(runner))
    if server_args.enable_two_batch_overlap:
        children = [ATTENTION_BACKENDS[server_args.attention_backend](runner) for _ in range(2)]
        backend = TwoBatchBackend(backend, children)
    return backend
