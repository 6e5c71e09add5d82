"""Learned columns: values that learners in any process attach to rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import backcast as bc
import numpy as np
import pytest
from waits import read_line

if TYPE_CHECKING:
    from conftest import Child

COLUMNS = {"obs": "f4", "reward": "f4"}
STEP = {"reward": 1.0, "terminated": False, "truncated": False}


def fill(buf: bc.ReplayBuffer, steps: int, start: int = 0) -> None:
    """Append steps to one lane; the observation of each is its number."""
    with buf.writer() as writer:
        for t in range(start, start + steps):
            writer.append(obs=t, **STEP)


def ring(steps: int = 50, capacity: int = 100) -> bc.ReplayBuffer:
    """Create a private ring of one lane."""
    buf = bc.ReplayBuffer.create(None, COLUMNS, capacity=capacity)
    fill(buf, steps)
    return buf


def test_values_are_joined_to_batches_and_their_windows() -> None:
    buf = ring()
    table = buf.table("online", learned={"value": "f4", "visits": "u2", "good": bool})
    even = np.arange(0, 49, 2)
    assert table.update_values(even, value=even / 2, good=even % 4 == 0) == 0
    sampler = buf.sampler(seed=7, history=3, future=2, learned=table)
    batch = sampler.sample(200)
    for part, mask, first in [
        (batch, batch["mask"], -2),
        (batch["future"], batch["future_mask"], 1),
    ]:
        rows = batch.index[:, None] + first + np.arange(mask.shape[1])
        known = mask & (rows % 2 == 0) & (rows < 49)
        np.testing.assert_array_equal(part["value_set"], known)
        np.testing.assert_array_equal(part["value"], np.where(known, rows / 2, 0))
        np.testing.assert_array_equal(part["good"], known & (rows % 4 == 0))
        assert not part["visits_set"].any()
        assert part["visits"].dtype == np.uint16
    plain = buf.sampler(seed=7, history=3, future=2).sample(200)
    np.testing.assert_array_equal(plain.index, batch.index)
    assert "value" not in plain
    found = buf.sampler(learned="online").gather([4, 1_000, 5], missing="mask")
    assert found["value"].tolist() == [2, 0, 0]
    assert found["value_set"].tolist() == [True, False, False]
    values = table.values([4, 5])
    assert values["value"].tolist() == [2, 0]
    assert values["value_set"].tolist() == [True, False]
    assert values["good"].dtype == np.bool_


def test_values_of_overwritten_rows_are_dropped_and_counted() -> None:
    buf = ring(50, capacity=30)
    table = buf.table("online", learned={"value": "f4"})
    assert table.update_values([1, 48], value=[1, 2]) == 1
    assert table.stats() == {"updated": 1, "stale": 1}
    fill(buf, 30, 50)
    assert table.values([48])["value_set"].tolist() == [False]
    assert table.update_values([48, -1], value=[5, 5]) == 2
    [entry] = buf.stats()["learned"]
    assert (entry["name"], entry["columns"], entry["updated"]) == ("online", {"value": "f4"}, 1)


def test_batches_drawn_ahead_and_saved_samplers_join_values() -> None:
    buf = ring()
    table = buf.table("online", learned={"value": "i4"})
    table.update_values(np.arange(49), value=np.arange(49))
    sampler = buf.sampler(seed=3, learned=table)
    with sampler.batches(16, prefetch=2, limit=3) as batches:
        for batch in batches:
            np.testing.assert_array_equal(batch["value"], batch.index)
    state = sampler.state()
    assert state["learned"] == {"table": "online", "columns": [["value", "i4"]]}
    again = buf.sampler(state=state).sample(16)
    np.testing.assert_array_equal(again["value"], again.index)
    out = again["value"]
    assert sampler.sample(16, out=again)["value"] is out
    np.testing.assert_array_equal(out, again.index)


@pytest.mark.parametrize(
    ("learned", "part"),
    [
        ({"value": "f8"}, "8"),
        ({"obs": "f4"}, "`obs`"),
        ({"age": "i4"}, "`age`"),
        ({"next_x": "f4"}, "`next_x`"),
        ({"a-b": "f4"}, "`a-b`"),
        ({}, "0"),
        ({f"c{n}": "f4" for n in range(17)}, "17"),
        ({"v": "f4", "v_set": "f4"}, "`v`"),
    ],
)
def test_columns_that_cannot_be_are_refused(learned: dict[str, Any], part: str) -> None:
    buf = ring(3)
    with pytest.raises(bc.errors.SampleError) as raised:
        buf.table("online", learned=learned)
    assert part in str(raised.value)
    assert buf.stats()["learned"] == []


def test_other_columns_and_wrong_values_are_refused_before_anything_changes() -> None:
    buf = ring()
    table = buf.table("online", learned={"value": "f4", "visits": "u1"})
    with pytest.raises(bc.ExistsError, match=r"\bf4\b.*\bu1\b.*\bf4\b"):
        buf.table("online", learned={"value": "f4"})
    with pytest.raises(bc.NotFoundError, match="`other`"):
        buf.table("other")
    with pytest.raises(bc.NotFoundError, match=r"`other`.*online"):
        buf.sampler(learned="other")
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"value": [1.0]}, "`value`"),
        ({"value": [1, 2], "visits": [1, 256]}, "256"),
        ({"value": [1, 2], "visit": [1, 2]}, "visits"),
        ({}, "value"),
    ]
    for given, part in mistakes:
        with pytest.raises(bc.errors.SampleError) as raised:
            table.update_values([1, 2], **given)
        assert part in str(raised.value)
    with pytest.raises(bc.errors.SampleError, match=r"index\[1\] = 50\b"):
        table.update_values([1, 50], value=[1, 2])
    with pytest.raises(bc.errors.ArgumentTypeError, match=r"value=\.\.\."):
        table.update_values([1], [2.0])  # type: ignore[call-arg]
    assert not table.values(np.arange(49))["value_set"].any()
    table.close()
    with pytest.raises(bc.ClosedError, match="`table`"):
        table.values([1])


def test_snapshots_hold_values(place: Path, tmp_path: Path) -> None:
    buf = bc.ReplayBuffer.create("learned", COLUMNS, capacity=100, dir=place)
    fill(buf, 50)
    table = buf.table("online", learned={"value": "bfloat16", "good": "bool"})
    table.update_values(np.arange(0, 40, 3), good=np.ones(14, bool))
    expected = table.values(np.arange(49))
    buf.snapshot("a", store=tmp_path / "store")
    for loaded in [
        bc.ReplayBuffer.load("learned@a", "two", store=tmp_path / "store", dir=place),
        bc.ReplayBuffer.open_snapshot("learned@a", store=tmp_path / "store", dir=place),
    ]:
        found = loaded.table("online").values(np.arange(49))
        for key, values in expected.items():
            np.testing.assert_array_equal(found[key], values)


OTHER = """
import sys
import numpy as np
import backcast as bc

buf = bc.ReplayBuffer.attach("both")
table = buf.table("online", learned={"a": "u4", "b": "u4"})
index = np.arange(900)
print("ready", flush=True)
for turn in range(2_000 if sys.argv[1] == "ends" else 10**9):
    table.update_values(index, a=index.astype("u4") + (turn % 2) * 1_000_000)
"""


def test_two_processes_set_values_at_once(place: Path, start: Callable[..., Child]) -> None:
    buf = bc.ReplayBuffer.create("both", COLUMNS, capacity=2_000, dir=place)
    fill(buf, 1_000)
    first, killed = start(OTHER, "ends"), start(OTHER, "goes on")
    for other in (first, killed):
        assert read_line(other) == "ready\n"
    table = buf.table("online", learned={"a": "u4", "b": "u4"})
    sampler = buf.sampler(seed=1, learned=table)
    index = np.arange(900)
    runs = True
    while runs:
        # The other process may have ended before the first iteration.
        runs = first.poll() is None
        table.update_values(index, b=index)
        batch = sampler.sample(256)
        known = batch["a_set"]
        assert np.isin(batch["a"][known] - batch.index[known], [0, 1_000_000]).all()
        assert (batch["b"][batch["b_set"]] == batch.index[batch["b_set"]]).all()
    assert first.returncode == 0
    killed.kill()
    killed.wait(60)
    values = table.values(index)
    assert values["a_set"].all()
    assert values["b_set"].all()
    assert np.isin(values["a"] - index, [0, 1_000_000]).all()
    assert table.stats()["stale"] == 0


def test_learned_columns_with_a_shape_are_refused_as_what_they_are() -> None:
    buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=100)
    for dtype in (("f4", (2,)), ("f4",)):
        with pytest.raises(bc.errors.SchemaError, match="`v`"):
            buf.table("v", learned={"v": dtype})
    with pytest.raises(bc.errors.SchemaError, match="'flaot32'") as raised:
        buf.table("v", learned={"v": "flaot32"})
    assert "tuple" not in str(raised.value)
