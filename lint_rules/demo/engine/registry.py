"""Which backend serves which configuration."""

from engine.base import AttentionBackend
from engine.wrappers import (
    HybridLinearBackend,
    PhaseBackend,
    SlidingWindowBackend,
    TwoBatchBackend,
)

ATTENTION_BACKENDS = {}


def register_attention_backend(name):
    def decorator(create):
        ATTENTION_BACKENDS[name] = create
        return create

    return decorator


@register_attention_backend("flashinfer")
def create_flashinfer_backend(runner):
    from engine.flashinfer_mla import FlashInferMLABackend

    return FlashInferMLABackend(runner)


@register_attention_backend("flashmla")
def create_flashmla_backend(runner):
    from engine.flashmla import FlashMLABackend

    return FlashMLABackend(runner)


@register_attention_backend("hip")
def create_hip_backend(runner):
    from engine.hip_mla import HipMLABackend

    return HipMLABackend(runner)


@register_attention_backend("tokenspeed")
def create_tokenspeed_backend(runner):
    from engine.tokenspeed_mla import TokenspeedMLABackend

    return TokenspeedMLABackend(runner)


@register_attention_backend("triton")
def create_triton_backend(runner):
    from engine.triton import TritonBackend

    return TritonBackend(runner)


@register_attention_backend("trtllm")
def create_trtllm_backend(runner):
    from engine.trtllm_mla import TRTLLMMLABackend

    return TRTLLMMLABackend(runner)


def create_attention_backend(runner, server_args) -> AttentionBackend:
    create = ATTENTION_BACKENDS[server_args.attention_backend]
    backend = create(runner)
    if server_args.decode_attention_backend:
        backend = PhaseBackend(
            backend, ATTENTION_BACKENDS[server_args.decode_attention_backend](runner)
        )
    if runner.model_config.linear_layers:
        backend = HybridLinearBackend(backend, runner.model_config.full_layers)
    if runner.model_config.sliding_window:
        backend = SlidingWindowBackend(backend, create_triton_backend(runner))
    if server_args.enable_two_batch_overlap:
        backend = TwoBatchBackend(backend, [create(runner) for _ in range(2)])
    return backend
