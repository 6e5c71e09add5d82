"""Statistics of a sampler whose table was removed: an error, and no new table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import backcast as bc
import pytest

if TYPE_CHECKING:
    from pathlib import Path

SELECTORS: dict[str, Any] = {
    "priority": bc.Priority(alpha=0.7, table="x"),
    "rank": bc.Priority(alpha=0.7, by="rank", table="x"),
    "consume": bc.Consume(table="x"),
    "epoch": bc.Epoch(table="x"),
}


def tables(buf: bc.ReplayBuffer) -> list[str]:
    stats = buf.stats()
    return [table["name"] for kind in ("tables", "claims") for table in stats[kind]]


@pytest.mark.parametrize("name", [None, "ring"])
@pytest.mark.parametrize("select", SELECTORS)
def test_stats_do_not_make_a_removed_table_anew(
    tmp_path: Path, name: str | None, select: str
) -> None:
    place = None if name is None else tmp_path
    buf = bc.ReplayBuffer.create(name, {"obs": "f4"}, capacity=100, dir=place)
    sampler = buf.sampler(seed=1, select=SELECTORS[select])
    # Before the first row and the first draw.
    assert sampler.stats()["sampled"] == 0
    with buf.writer() as writer:
        for t in range(10):
            writer.append(obs=t, terminated=False, truncated=False)
        assert len(sampler.sample(4).index) == 4
        assert sampler.stats()["sampled"] == 4
        assert tables(buf) == ["x"]
        buf.remove_table("x")
        for read in (sampler.stats, lambda: sampler.sample(4)):
            with pytest.raises(bc.NotFoundError, match="table `x` was removed"):
                read()
            assert tables(buf) == []
        # Counts that need no table stay.
        assert sampler.sampled == 4
        again = buf.sampler(seed=1, select=SELECTORS[select])
        assert again.stats()["sampled"] == 0
        assert tables(buf) == ["x"]
        again.close()
    sampler.close()
    buf.close()
