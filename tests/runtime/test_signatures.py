"""The lock of the kernel libraries' signatures is what their wheels say."""

from __future__ import annotations

import pytest

from mla_runtime.kernels.capability import KernelUnavailableError
from mla_runtime.kernels.flashinfer_library import check_version
from tests.field.wheels import unpacked
from tests.runtime.signatures import ENTRIES, RELEASES, locked, read_signatures

NOT_BEFORE_0_7 = {"MLAPlanMetadata.csr"}


@pytest.mark.parametrize(
    ("project", "release"), [(p, r) for p, releases in RELEASES.items() for r in releases]
)
def test_every_entry_is_locked(project: str, release: str) -> None:
    missing = set(ENTRIES[project]) - set(locked()[project][release])
    assert missing == (NOT_BEFORE_0_7 if release.startswith("0.6.1") else set())


@pytest.mark.field
@pytest.mark.parametrize(
    ("project", "release"), [(p, r) for p, releases in RELEASES.items() for r in releases]
)
def test_the_lock_is_what_the_wheel_says(project: str, release: str) -> None:
    assert read_signatures(project, unpacked(project, release)) == locked()[project][release]


@pytest.mark.field
def test_0_6_13_lacks_what_the_adapter_passes_and_is_refused_by_name() -> None:
    decode = read_signatures("flashinfer-python", unpacked("flashinfer-python", "0.6.13"))[
        "trtllm_batch_decode_with_kv_cache_mla"
    ]
    assert "multi_ctas_kv_counter_buffer" not in [name for name, *_ in decode]
    with pytest.raises(KernelUnavailableError, match=r"flashinfer-python 0\.6\.13 is not"):
        check_version("0.6.13")
