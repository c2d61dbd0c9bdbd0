"""Signatures of the kernel libraries' entry points, read from their sources and kept in a lock."""

from __future__ import annotations

import ast
import functools
import inspect
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ENTRIES", "RELEASES", "parameters_of", "read_signatures", "signature"]

LOCK = Path(__file__).with_name("signatures.lock.json")

RELEASES: dict[str, tuple[str, ...]] = {
    "flashinfer-python": ("0.6.17", "0.6.18.post1", "0.7.2.post1", "0.7.4"),
    "tokenspeed-mla": ("0.1.9", "2.0.4"),
    "fla-core": ("0.5.2", "0.6.0"),
}
"""Releases that the adapters are bound against."""

ENTRIES: dict[str, tuple[str, ...]] = {
    "flashinfer-python": (
        "BatchMLAPagedAttentionWrapper.__init__",
        "BatchMLAPagedAttentionWrapper.plan",
        "BatchMLAPagedAttentionWrapper.run",
        "BatchPrefillWithRaggedKVCacheWrapper.__init__",
        "BatchPrefillWithRaggedKVCacheWrapper.plan",
        "BatchPrefillWithRaggedKVCacheWrapper.run",
        "MLAPlanMetadata.csr",
        "merge_state",
        "trtllm_batch_decode_with_kv_cache_mla",
        "trtllm_ragged_attention_deepseek",
    ),
    "tokenspeed-mla": ("tokenspeed_mla_decode", "tokenspeed_mla_prefill"),
    "fla-core": (
        "chunk_gated_delta_rule",
        "chunk_kda",
        "chunk_simple_gla",
        "fused_recurrent_gated_delta_rule",
        "fused_recurrent_kda",
        "fused_recurrent_simple_gla",
    ),
}

_IGNORED_DECORATORS = ("overload", "register_fake_op")


def read_signatures(project: str, root: Path) -> dict[str, list[list[Any]]]:
    """Parameters of each entry under an unpacked wheel: name, kind, whether it has a default."""
    found: dict[str, list[list[Any]]] = {}
    for path in sorted(root.rglob("*.py")):
        if "triton" in path.relative_to(root).parts:
            continue  # Triton's own merge_state is another function of the same name
        text = path.read_text(encoding="utf-8")
        names = {e: e.split(".")[0] for e in ENTRIES[project]}
        wanted = [e for e, n in names.items() if f"def {n}(" in text or f"class {n}:" in text]
        if not wanted:
            continue
        for name, node in _definitions(ast.parse(text)):
            if name in wanted and not _ignored(node):
                found[name] = _parameters(node.args)
    return found


def _definitions(module: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in module.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for member in node.body:
                if isinstance(member, ast.FunctionDef):
                    yield f"{node.name}.{member.name}", member


def _ignored(node: ast.FunctionDef) -> bool:
    return any(isinstance(d, ast.Name) and d.id in _IGNORED_DECORATORS for d in node.decorator_list)


def _parameters(args: ast.arguments) -> list[list[Any]]:
    positional = [*args.posonlyargs, *args.args]
    first_default = len(positional) - len(args.defaults)
    parameters: list[list[Any]] = [[a.arg, 1, i >= first_default] for i, a in enumerate(positional)]
    if args.vararg is not None:
        parameters.append([args.vararg.arg, 2, False])
    parameters += [
        [a.arg, 3, default is not None]
        for a, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)
    ]
    if args.kwarg is not None:
        parameters.append([args.kwarg.arg, 4, False])
    return parameters


@functools.cache
def locked() -> dict[str, dict[str, dict[str, list[list[Any]]]]]:
    """The lock: project, release, entry."""
    content: dict[str, dict[str, dict[str, list[list[Any]]]]] = json.loads(LOCK.read_text())
    return content


def signature(project: str, release: str, entry: str) -> inspect.Signature | None:
    """The signature of an entry, or None where that release has none."""
    parameters = locked()[project][release].get(entry)
    if parameters is None:
        return None
    return inspect.Signature([_parameter(*p) for p in parameters])


def parameters_of(args: ast.arguments) -> list[inspect.Parameter]:
    """The parameters of a definition; a default is there, whatever its value."""
    return [_parameter(*p) for p in _parameters(args)]


def _parameter(name: str, kind: int, has_default: bool) -> inspect.Parameter:
    default = None if has_default else inspect.Parameter.empty
    return inspect.Parameter(name, inspect._ParameterKind(kind), default=default)


def write_lock(unpacked: dict[tuple[str, str], Path]) -> None:
    """Write the lock from unpacked wheels; one line per entry, so that a drift reads as a diff."""
    lines = ["{"]
    for p, (project, releases) in enumerate(RELEASES.items()):
        lines.append(f' "{project}": {{')
        for r, release in enumerate(releases):
            entries = sorted(read_signatures(project, unpacked[project, release]).items())
            lines.append(f'  "{release}": {{')
            for e, (entry, parameters) in enumerate(entries):
                comma = "," if e < len(entries) - 1 else ""
                lines.append(f'   "{entry}": {json.dumps(parameters)}{comma}')
            lines.append("  }" + ("," if r < len(releases) - 1 else ""))
        lines.append(" }" + ("," if p < len(RELEASES) - 1 else ""))
    lines.append("}")
    LOCK.write_text("\n".join(lines) + "\n")
