"""Names of batch keys are refused as column names; older rings with such columns stay readable.

``tests/golden/names`` holds a ring that an earlier version wrote, before the seven names in
``LATER`` were reserved. It has observations with goals, rewards, and an int32 column of each of
these names, whose value is the step plus a hundred times the place in ``LATER``. Twelve steps make
three episodes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from facts import missing

ROOT = Path(__file__).resolve().parents[3]
KEPT = ROOT / "tests" / "golden" / "names"
PAGE = ROOT / "docs" / "concepts" / "rows.md"

LATER = ["weight", "relabelled", "length", "offsets", "found", "policy_age", "policy_version"]
FIRST = ["seq", "episode", "t", "flags", "terminated", "truncated", "mask", "index", "age"]
FIRST += ["future", "future_mask", "final_obs", "n_reward", "n_discount"]
PREFIXED = ["next_obs", "next_action", "n_next_obs"]


def filled(buf: bc.ReplayBuffer) -> bc.ReplayBuffer:
    with buf.writer(autoreset_mode="next_step") as writer:
        for t in range(20):
            goals = {"achieved_goal": t, "desired_goal": 99}
            reward = float(t % 5 != 4)
            writer.append(obs=goals, reward=reward, terminated=t % 5 == 3, truncated=False)
    return buf


def hindsight() -> bc.Hindsight:
    return bc.Hindsight(lambda achieved, desired, info: achieved == desired)


FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "windows": {"history": 2, "future": 2, "n_step": 2, "gamma": 0.9},
    "priorities": {"select": bc.Priority(alpha=0.5)},
    "hindsight": {"hindsight": hindsight()},
    "padded episodes": {"form": bc.WholeEpisodes("padded")},
    "ragged episodes": {"form": bc.WholeEpisodes("ragged")},
}
REFUSED = {
    "priorities": "weight",
    "hindsight": "relabelled",
    "padded episodes": "length",
    "ragged episodes": "offsets",
}


@pytest.mark.parametrize("name", [*FIRST, *LATER, *PREFIXED])
def test_a_new_ring_has_no_such_column(name: str) -> None:
    for columns in ({name: "f4"}, {name: {"x": "f4"}}, {"obs": "f4", name: ("u1", (3,))}):
        with pytest.raises(bc.errors.SchemaError, match=f"`{name}(/x)?`"):
            bc.ReplayBuffer.create(None, columns, capacity=10)
        with pytest.raises(bc.errors.SchemaError, match=f"`{name}(/x)?`"):
            bc.Schema(columns)


@pytest.mark.parametrize("name", [*FIRST, *LATER, *PREFIXED])
def test_a_learned_column_has_no_such_name(name: str) -> None:
    buf = bc.ReplayBuffer.create(None, {"obs": "f4"}, capacity=10)
    with pytest.raises(bc.errors.SampleError, match=f"`{name}`"):
        buf.table("online", learned={name: "f4"})


def test_the_error_and_the_page_list_every_name() -> None:
    with pytest.raises(bc.errors.SchemaError) as raised:
        bc.Schema({"seq": "f4"})
    # A column `policy_version` may be one whole number, which its own error says.
    assert missing(raised.value, FIRST + LATER[:-1]) == []
    section = PAGE.read_text(encoding="utf-8").split("## Reserved names")[1].split("\n## ")[0]
    table = "".join(line for line in section.splitlines() if line.startswith("|"))
    for name in [*FIRST, *LATER, "next_", "n_next"]:
        assert f"`{name}" in table, name


@pytest.mark.parametrize("form", FORMS)
def test_every_key_of_a_batch_is_a_column_or_on_the_list(form: str) -> None:
    columns = {"obs": {"achieved_goal": "f4", "desired_goal": "f4"}, "reward": "f4"}
    with filled(bc.ReplayBuffer.create(None, columns, capacity=50)) as buf:
        sampler = buf.sampler(seed=1, **FORMS[form])
        batches = [sampler.sample(4)]
        if "episodes" not in form:
            batches.append(sampler.gather(batches[0].index, missing="mask"))
        for batch in batches:
            for key in set(batch) - set(columns):
                prefixed = key.startswith(("next_", "n_next"))
                assert prefixed or key in FIRST + LATER, key


@pytest.fixture(params=["load", "open_snapshot", "import"])
def older(request: pytest.FixtureRequest, place: Path, tmp_path: Path) -> Iterator[bc.ReplayBuffer]:
    """Read the golden ring in every way in which a ring is read from a file."""
    store = tmp_path / "store"
    shutil.copytree(KEPT / "store", store)
    ways: dict[str, Callable[[], bc.ReplayBuffer]] = {
        "load": lambda: bc.ReplayBuffer.load("names@names", "loaded", store=store, dir=place),
        "open_snapshot": lambda: bc.ReplayBuffer.open_snapshot("names@names", store=store),
        "import": lambda: bc.ReplayBuffer.from_file(KEPT / "names.parquet", "imported", dir=place),
    }
    with ways[request.param]() as buf:
        yield buf


def test_an_older_ring_shows_its_columns(
    older: bc.ReplayBuffer, place: Path, tmp_path: Path
) -> None:
    low, head = older.lane_span(0)
    rows = older.rows(0, low, head - low)
    batches = [older.sample(32), older.sample(32, history=2, future=1)]
    batches.append(older.sampler(columns=["obs", *LATER]).sample(8))
    batches.append(older.gather(batches[0].index))
    for at, name in enumerate(LATER):
        assert rows[name][rows["flags"] & 4 == 0].tolist() == [100 * at + t for t in range(12)]
        for batch in batches:
            last = batch[name] if batch[name].ndim == 1 else batch[name][:, -1]
            np.testing.assert_array_equal(last, rows[name][batch.index - low])
    older.export(tmp_path / "again.parquet")
    with bc.ReplayBuffer.from_file(tmp_path / "again.parquet", "again", dir=place) as again:
        assert again.schema.columns == older.schema.columns


@pytest.mark.parametrize("form", REFUSED)
def test_a_form_with_such_a_key_is_refused_until_the_column_is_left_out(
    older: bc.ReplayBuffer, form: str
) -> None:
    key = REFUSED[form]
    with pytest.raises(bc.errors.SampleError, match=rf"`{key}`"):
        older.sampler(seed=1, **FORMS[form])
    others = [name for name in LATER if name != key]
    batch = older.sampler(seed=1, columns=["obs", "reward", *others], **FORMS[form]).sample(2)
    assert key in batch
    assert set(others) <= set(batch)


def test_a_masked_gather_of_an_older_ring_is_refused_while_it_shows_found(
    older: bc.ReplayBuffer,
) -> None:
    index = older.sample(4).index
    out = older.gather(index)
    for into in (None, out):
        with pytest.raises(bc.errors.SampleError, match=r"`found`"):
            older.gather(index, into, missing="mask")
    assert older.gather(index, columns=["reward"], missing="mask")["found"].all()


def test_a_learned_column_of_an_older_ring_has_another_name(older: bc.ReplayBuffer) -> None:
    for name in LATER:
        with pytest.raises(bc.errors.SampleError, match=f"`{name}`"):
            older.table("online", learned={name: "f4"})
