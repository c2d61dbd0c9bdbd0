"""Kernel libraries that run on the CPU: real signatures, real conventions, torch arithmetic.

The adapters cannot be run without a GPU; these stand-ins hold them to what the libraries do. Each
call is bound to the signature of the release first (the lock is read from its wheel), and the
results follow the measured conventions: base-2 LSE, -5e4 or garbage for rows without a key, the
causal tile rounding of fa2 and fa3, the run-time contract of 0.7.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from mla_runtime.kernels import softmax
from mla_runtime.kernels.flashinfer_library import FlashInferLibrary
from tests.runtime.signatures import signature

if TYPE_CHECKING:
    from collections.abc import Callable

LOG2_E = math.log2(math.e)
FP8 = torch.float8_e4m3fn


@dataclass
class Calls:
    """What was called, with which arguments: name and bound arguments."""

    made: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def of(self, name: str) -> list[dict[str, Any]]:
        return [arguments for called, arguments in self.made if called == name]


def entry(
    project: str, release: str, name: str, calls: Calls, run: Callable[..., Any]
) -> Callable[..., Any]:
    """A function with the release's signature that binds its call, notes it, and runs ``run``."""
    bound_to = signature(project, release, name)
    assert bound_to is not None, f"{project} {release} has no {name}"

    def call(*args: Any, **kwargs: Any) -> Any:
        arguments = bound_to.bind(*args, **kwargs).arguments
        calls.made.append((name, dict(arguments)))
        return run(**arguments)

    call.__signature__ = bound_to  # type: ignore[attr-defined]
    return call


def flashinfer(
    release: str = "0.6.18.post1", *, tile_fault: bool = True
) -> tuple[FlashInferLibrary, Calls]:
    """The entry points of a release, and the calls made to them."""
    calls = Calls()
    project = "flashinfer-python"

    def method(name: str, run: Callable[..., Any]) -> Callable[..., Any]:
        return entry(project, release, name, calls, run)

    paged = type(
        "BatchMLAPagedAttentionWrapper",
        (),
        {
            "__init__": method("BatchMLAPagedAttentionWrapper.__init__", _paged_init),
            "plan": method("BatchMLAPagedAttentionWrapper.plan", _paged_plan),
            "run": method("BatchMLAPagedAttentionWrapper.run", _paged_run),
            "tile_fault": tile_fault,
            "calls": calls,
        },
    )
    ragged = type(
        "BatchPrefillWithRaggedKVCacheWrapper",
        (),
        {
            "__init__": method("BatchPrefillWithRaggedKVCacheWrapper.__init__", _ragged_init),
            "plan": method("BatchPrefillWithRaggedKVCacheWrapper.plan", _ragged_plan),
            "run": method("BatchPrefillWithRaggedKVCacheWrapper.run", _ragged_run),
        },
    )
    metadata = None
    if signature(project, release, "MLAPlanMetadata.csr") is not None:
        metadata = type(
            "MLAPlanMetadata",
            (),
            {
                "csr": classmethod(
                    method("MLAPlanMetadata.csr", lambda cls, **m: SimpleNamespace(**m))
                )
            },
        )
    library = FlashInferLibrary(
        version=release,
        BatchMLAPagedAttentionWrapper=paged,
        BatchPrefillWithRaggedKVCacheWrapper=ragged,
        merge_state=method("merge_state", _merge_state),
        trtllm_batch_decode_with_kv_cache_mla=method(
            "trtllm_batch_decode_with_kv_cache_mla", _trtllm_decode
        ),
        trtllm_ragged_attention_deepseek=method(
            "trtllm_ragged_attention_deepseek", _trtllm_prefill
        ),
        MLAPlanMetadata=metadata,
    )
    return library, calls


def tokenspeed(release: str = "2.0.4") -> tuple[Any, Calls]:
    """A ``tokenspeed_mla`` module of a release."""
    calls = Calls()
    project = "tokenspeed-mla"
    module = SimpleNamespace(
        tokenspeed_mla_decode=entry(
            project, release, "tokenspeed_mla_decode", calls, _tokenspeed_decode
        ),
        tokenspeed_mla_prefill=entry(
            project, release, "tokenspeed_mla_prefill", calls, _tokenspeed_prefill
        ),
        get_num_sm=lambda device: 2,
    )
    return module, calls


def _paged_init(self: Any, float_workspace_buffer: torch.Tensor, **options: Any) -> None:
    assert options["backend"] in ("fa2", "fa3"), "auto changes between releases"
    self._float_workspace_buffer = float_workspace_buffer
    self._int_workspace_buffer = torch.empty(0, dtype=torch.uint8)
    self._pin_memory_int_workspace_buffer = torch.empty(0, dtype=torch.uint8)
    self._use_cuda_graph = options.get("use_cuda_graph", False)
    self._kv_indices_buf = options.get("kv_indices")


def _paged_plan(self: Any, metadata: Any = None, **options: Any) -> None:
    if metadata is not None:
        options.update(vars(metadata))
        assert options["query_layout"] == options["kv_cache_layout"] == "split"
    assert options["kv_data_type"] in (torch.float16, torch.bfloat16, FP8)
    given = {
        name: options.pop(name) for name in ("qo_indptr", "kv_indptr", "kv_indices", "kv_len_arr")
    }
    assert {tensor.dtype for tensor in given.values()} == {torch.int32}
    indices = given.pop("kv_indices")
    if self._use_cuda_graph:
        self._kv_indices_buf[: len(indices)].copy_(indices)
    else:
        self._kv_indices_buf = indices.clone()

    def scheduled_alone(*arguments: Any) -> _Schedule:
        self.calls.made.append(("_cached_module.plan", {"arguments": arguments}))
        return _schedule(*arguments)

    self._cached_module = SimpleNamespace(plan=scheduled_alone)
    self._plan_info = _schedule(
        self._float_workspace_buffer,
        self._int_workspace_buffer,
        self._pin_memory_int_workspace_buffer,
        given["qo_indptr"],
        given["kv_indptr"],
        given["kv_len_arr"],
        options["num_heads"],
        options["head_dim_ckv"],
        options["causal"],
    )
    self.planned = options
    self.canonical = metadata is not None


@dataclass(frozen=True)
class _Schedule:
    """What a run reads beside the indices."""

    qo_indptr: list[int]
    kv_indptr: list[int]
    kv_len: list[int]
    num_heads: int
    causal: bool


def _schedule(
    float_workspace: torch.Tensor,
    int_workspace: torch.Tensor,
    pinned: torch.Tensor,
    qo_indptr: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_len: torch.Tensor,
    num_heads: int,
    head_dim_o: int,
    causal: bool,
) -> _Schedule:
    """``BatchMLAPagedAttentionPlan`` (``csrc/batch_mla_plan.cu``), which reads host int32."""
    for tensor in (qo_indptr, kv_indptr, kv_len):
        assert (tensor.dtype, tensor.device.type) == (torch.int32, "cpu")
    return _Schedule(qo_indptr.tolist(), kv_indptr.tolist(), kv_len.tolist(), num_heads, causal)


def _paged_run(
    self: Any,
    q_nope: torch.Tensor | None = None,
    q_pe: torch.Tensor | None = None,
    ckv_cache: torch.Tensor | None = None,
    kpe_cache: torch.Tensor | None = None,
    query: Any = None,
    kv_cache: Any = None,
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    return_lse: bool = False,
    return_lse_base_on_e: bool = False,
    ckv_scale: float | None = None,
    kpe_scale: float | None = None,
) -> Any:
    planned = self.planned
    if self.canonical:
        (q_nope, q_pe), (ckv_cache, kpe_cache) = query, kv_cache
        mode = "none" if not return_lse else "basee" if return_lse_base_on_e else "base2"
        assert mode == planned["lse_mode"], "0.7 refuses a run that differs from its plan"
    assert q_nope is not None
    assert q_pe is not None
    assert ckv_cache is not None
    assert kpe_cache is not None
    assert (ckv_cache.dtype, q_nope.dtype) == (planned["kv_data_type"], planned["q_data_type"])
    fp8 = ckv_cache.dtype == FP8
    assert (ckv_scale is not None) == (kpe_scale is not None) == fp8, "scales are for fp8 only"
    heads = q_nope.shape[1]
    schedule = self._plan_info
    assert heads == planned["num_heads"] == schedule.num_heads
    assert planned["causal"] == schedule.causal
    qo, kv = schedule.qo_indptr, schedule.kv_indptr
    assert q_nope.shape[0] == qo[-1]
    result = torch.empty(q_nope.shape, dtype=torch.float32)
    sums = torch.empty(q_nope.shape[:2], dtype=torch.float32)
    for request, length in enumerate(schedule.kv_len):
        pages = self._kv_indices_buf[kv[request] : kv[request + 1]].long()
        latent = ckv_cache[pages].flatten(0, 1)[:length].float() * (ckv_scale or 1.0)
        rope = kpe_cache[pages].flatten(0, 1)[:length].float() * (kpe_scale or 1.0)
        rows = slice(qo[request], qo[request + 1])
        q = torch.cat([q_nope[rows].float(), q_pe[rows].float()], dim=-1)
        key = torch.cat([latent, rope], dim=-1)[:, None]
        value = latent[:, None]
        result[rows], sums[rows] = softmax.attend(
            q, key, value, planned["sm_scale"], planned["causal"]
        )
        if planned["causal"] and self.tile_fault and q.shape[0] > 1:
            _lose_last_keys(q, key, value, planned["sm_scale"], result[rows], sums[rows])
    final = q_nope.new_empty(q_nope.shape) if out is None else out
    final.copy_(result)
    if not return_lse:
        return final
    sums = sums if return_lse_base_on_e else sums * LOG2_E
    return final, sums if lse is None else lse.copy_(sums)


def _lose_last_keys(
    q: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float,
    out: torch.Tensor,
    lse: torch.Tensor,
) -> None:
    """What fa2 and fa3 do to a token that a query tile cuts: its last visible key is not read."""
    n, heads, _ = q.shape
    tile = 128 if n * heads > 64 else 64
    for token in range(n):
        end = (token + 1) * heads
        if (token * heads) // tile != (end - 1) // tile:
            cut = ((end - 1) // tile) * tile - token * heads
            seen = key.shape[0] - n + token
            o, s = softmax.attend(q[token : token + 1], key[:seen], value[:seen], scale, False)
            out[token, :cut], lse[token, :cut] = o[0, :cut], s[0, :cut]


def _ragged_init(self: Any, float_workspace_buffer: torch.Tensor, **options: Any) -> None:
    assert options["backend"] in ("fa2", "fa3", "cutlass"), "auto changes between releases"


def _ragged_plan(self: Any, **options: Any) -> None:
    self.planned = options


def _ragged_run(
    self: Any,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    return_lse: bool = False,
    lse_base: str = "log2",
    lse_layout: str = "NH",
) -> Any:
    planned = self.planned
    qo, kv = planned["qo_indptr"].tolist(), planned["kv_indptr"].tolist()
    assert q.shape[0] == qo[-1]
    out, lse = _ragged(q, k, v, qo, kv, planned["sm_scale"], planned["causal"])
    assert lse_base == "log2"
    lse = (lse * LOG2_E).masked_fill(lse == -math.inf, -5.0e4)
    return (out, lse) if return_lse else out


def _merge_state(
    v_a: torch.Tensor, s_a: torch.Tensor, v_b: torch.Tensor, s_b: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    assert v_a.dtype == v_b.dtype
    assert v_a.dtype in (torch.bfloat16, torch.float16)
    _, heads, dim = v_a.shape
    assert heads * dim // max(8, dim // 32) <= 1024, "invalid argument: a block of 1024 threads"
    largest = torch.maximum(s_a, s_b)
    weight_a, weight_b = torch.exp2(s_a - largest), torch.exp2(s_b - largest)
    total = weight_a + weight_b
    merged = (
        v_a.float() * (weight_a / total)[..., None] + v_b.float() * (weight_b / total)[..., None]
    )
    return merged.to(v_a.dtype), torch.log2(total) + largest


def _trtllm_decode(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    workspace_buffer: torch.Tensor,
    qk_nope_head_dim: int,
    kv_lora_rank: int,
    qk_rope_head_dim: int,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    max_seq_len: int,
    bmm1_scale: float,
    bmm2_scale: float,
    backend: str,
    return_lse: bool = False,
    return_lse_base: str | None = None,
    multi_ctas_kv_counter_buffer: torch.Tensor | None = None,
) -> Any:
    assert query.dtype == kv_cache.dtype
    assert kv_cache.shape[1] in (
        (32, 64) if backend == "trtllm-gen" else (2, 4, 8, 16, 32, 64, 128)
    )
    assert block_tables.dtype == seq_lens.dtype == torch.int32
    assert (multi_ctas_kv_counter_buffer is not None) == (backend == "trtllm-gen")
    if backend == "trtllm-gen":
        assert multi_ctas_kv_counter_buffer is not None
        assert not multi_ctas_kv_counter_buffer.any()
        assert not workspace_buffer[:1024].any(), "counters must be zero"
    else:
        workspace_buffer[:1024] = 7  # split-KV partials overwrite the buffer
    out, lse = _blocks(
        query, kv_cache, block_tables, seq_lens, max_seq_len, kv_lora_rank, bmm1_scale
    )
    natural = return_lse_base == "basee" if return_lse_base else backend == "cute-dsl"
    out = (out * bmm2_scale).to(torch.bfloat16 if query.dtype == FP8 else query.dtype)
    empty = (seq_lens == 0)[:, None, None]
    out = out.masked_fill(empty[..., None], math.nan)
    lse = (lse if natural else lse * LOG2_E).masked_fill(empty, 123.0)
    return (out, lse.flatten(0, 1)) if return_lse else out


def _trtllm_prefill(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    workspace_buffer: torch.Tensor,
    seq_lens: torch.Tensor,
    max_q_len: int,
    max_kv_len: int,
    bmm1_scale: float,
    bmm2_scale: float,
    o_sf_scale: float,
    batch_size: int,
    window_left: int,
    cum_seq_lens_q: torch.Tensor,
    cum_seq_lens_kv: torch.Tensor,
    enable_pdl: bool,
    is_causal: bool,
    return_lse: bool,
    backend: str,
    skip_all_rows_active_check: bool = True,
) -> Any:
    assert skip_all_rows_active_check, "the check waits for the device, or raises in a capture"
    assert not workspace_buffer[:1024].any(), "counters must be zero"
    qo, kv = cum_seq_lens_q.tolist(), cum_seq_lens_kv.tolist()
    assert max(b - a for a, b in itertools.pairwise(kv)) <= max_kv_len
    out, lse = _ragged(query, key, value, qo, kv, bmm1_scale, is_causal)
    lse = lse * LOG2_E
    for request, length in enumerate(seq_lens.tolist()):
        if length == 0:  # stale softmax statistics
            out[qo[request] : qo[request + 1]] = math.nan
            lse[qo[request] : qo[request + 1]] = 123.0
    return (out, lse) if return_lse else out


def _tokenspeed_decode(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    workspace_buffer: torch.Tensor,
    kv_lora_rank: int,
    qk_rope_head_dim: int,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    max_seq_len: int,
    softmax_scale: float,
    output_scale: float,
    causal_mask: bool,
    enable_pdl: bool,
    return_lse: bool = False,
) -> Any:
    assert query.dtype == kv_cache.dtype == FP8
    assert causal_mask
    assert not enable_pdl
    out, lse = _blocks(
        query, kv_cache, block_tables, seq_lens, max_seq_len, kv_lora_rank, softmax_scale
    )
    result = (out * output_scale).to(torch.bfloat16)
    return (result, lse.flatten(0, 1) * LOG2_E) if return_lse else result


def _tokenspeed_prefill(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    seq_lens: torch.Tensor,
    cum_seq_lens: torch.Tensor,
    max_seq_len: int,
    batch_size: int,
    softmax_scale: float,
    is_causal: bool,
    return_lse: bool,
    cum_seq_lens_q: torch.Tensor,
    max_seq_len_q: int,
    enable_pdl: bool,
) -> Any:
    assert query.dtype == key.dtype == value.dtype == FP8
    out, lse = _ragged(
        query.float(),
        key.float(),
        value.float(),
        cum_seq_lens_q.tolist(),
        cum_seq_lens.tolist(),
        softmax_scale,
        is_causal,
    )
    result = out.to(torch.bfloat16)
    return (result, lse) if return_lse else result


def _blocks(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    max_seq_len: int,
    rank: int,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    batch, q_len, heads, _ = query.shape
    out = torch.empty(batch, q_len, heads, rank)
    lse = torch.empty(batch, q_len, heads)
    page_size = kv_cache.shape[1]
    for request, length in enumerate(seq_lens.tolist()):
        assert length <= max_seq_len
        pages = block_tables[request, : -(-length // page_size)].long()
        assert not bool((pages < 0).any()), "a hole of the block table"
        rows = kv_cache[pages].flatten(0, 1)[:length].float()
        out[request], lse[request] = softmax.attend(
            query[request].float(), rows[:, None], rows[:, None, :rank], scale, True
        )
    return out, lse


def _ragged(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    qo: list[int],
    kv: list[int],
    scale: float,
    causal: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    out = q.new_empty(*q.shape[:2], v.shape[-1])
    lse = torch.empty(q.shape[:2])
    for request in range(len(qo) - 1):
        rows, keys = slice(qo[request], qo[request + 1]), slice(kv[request], kv[request + 1])
        part, lse[rows] = softmax.attend(
            q[rows].float(), k[keys].float(), v[keys].float(), scale, causal
        )
        out[rows] = part.to(out.dtype)
    return out, lse
