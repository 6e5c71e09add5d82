"""Rings without a name: their memory is allocated at creation, or they are refused."""

from __future__ import annotations

import sys
from pathlib import Path

import backcast as bc
import pytest


@pytest.mark.parametrize("capacity", [10**8, 10**9])
def test_more_than_the_machine_has_is_refused(capacity: int) -> None:
    with pytest.raises(bc.errors.SpaceError):
        bc.ReplayBuffer.create(None, {"obs": ("u1", (4, 84, 84))}, capacity=capacity)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_all_of_it_is_resident_after_create() -> None:
    def resident() -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * 4096

    before = resident()
    with bc.ReplayBuffer.create(None, {"obs": ("u1", (1 << 16,))}, capacity=1_000) as buf:
        allocated = buf.stats()["bytes_allocated"]
        assert allocated > 60 << 20
        assert resident() - before > allocated * 9 // 10


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_huge_pages_are_requested_for_all_of_it() -> None:
    """The kernel marks the mappings for which huge pages were requested with `hg`."""

    def requested() -> int:
        total, size = 0, 0
        for line in Path("/proc/self/smaps").read_text().splitlines():
            name, _, rest = line.partition(":")
            if name == "Size":
                size = int(rest.split()[0]) << 10
            elif name == "VmFlags" and "hg" in rest.split():
                total += size
        return total

    before = requested()
    with bc.ReplayBuffer.create(None, {"obs": ("u1", (1 << 16,))}, capacity=1_000) as buf:
        assert requested() - before >= buf.stats()["bytes_allocated"] * 9 // 10
