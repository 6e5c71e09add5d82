"""Forms that `append` accepts, and how it converts them."""

from __future__ import annotations

import enum
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import backcast as bc
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

Mode = Literal["same_step", "disabled"]
DTYPES = ["bool", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"]


def extremes(dtype: np.dtype[Any]) -> list[Any]:
    """List values at the edges of a dtype."""
    if dtype.kind == "b":
        return [True, False]
    info = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    return [info.min, info.max, 0, 1]


def ring(columns: dict[str, Any], place: Path, lanes: int = 1) -> bc.ReplayBuffer:
    """Make a small ring."""
    return bc.ReplayBuffer.create("a", columns, capacity=64 * lanes, lanes=lanes, dir=place)


def append_one(buf: bc.ReplayBuffer, **columns: object) -> None:
    """Append two rows with these values, so that the first starts a transition."""
    with buf.writer() as writer:
        for _ in range(2):
            writer.append(**columns, terminated=False, truncated=False)


@pytest.mark.parametrize("code", DTYPES)
def test_every_dtype_keeps_its_extreme_values(place: Path, code: str) -> None:
    dtype = np.dtype(code)
    values = np.array(extremes(dtype), dtype)
    with ring({"obs": (code, values.shape)}, place) as buf:
        append_one(buf, obs=values)
        back = buf.sample(3)["obs"]
        assert back.dtype == dtype
        np.testing.assert_array_equal(back, np.broadcast_to(values, (3, *values.shape)))


@pytest.mark.parametrize(
    ("code", "given", "stored"),
    [
        ("f4", 1.5, 1.5),
        ("f4", np.float64(0.1), np.float32(0.1)),
        ("f4", 3, 3.0),
        ("f2", 1.0, 1.0),
        ("f8", np.float16(0.5), 0.5),
        ("u1", 255, 255),
        ("u1", np.int64(7), 7),
        ("i4", np.int64(-5), -5),
        ("i8", np.uint8(200), 200),
        ("i4", True, 1),
        ("bool", np.True_, True),
        ("bool", False, False),
    ],
)
def test_values_are_cast_when_that_does_not_change_them(
    place: Path, code: str, given: object, stored: object
) -> None:
    with ring({"x": code}, place) as buf:
        append_one(buf, x=given)
        assert buf.sample(1)["x"][0] == stored


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda a: a.tolist(), id="nested lists"),
        pytest.param(np.asfortranarray, id="fortran order"),
        pytest.param(lambda a: a.astype("f8")[...], id="wider floats"),
        pytest.param(lambda a: a.astype(">f4"), id="foreign byte order"),
        pytest.param(lambda a: np.repeat(a, 2, axis=2)[:, :, ::2], id="strided"),
        pytest.param(lambda a: a[::-1][::-1], id="twice reversed"),
        pytest.param(lambda a: memoryview(a), id="buffer"),
        pytest.param(lambda a: a.view(type("Sub", (np.ndarray,), {})), id="subclass"),
    ],
)
def test_layouts_of_the_given_array_do_not_matter(
    place: Path, make: Callable[[NDArray[Any]], object]
) -> None:
    obs = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    with (
        ring({"obs": ("f4", (3, 4))}, place, lanes=2) as buf,
        buf.writer(lanes=2, autoreset_mode="next_step") as writer,
    ):
        for _ in range(2):
            writer.append(obs=make(obs), terminated=[False] * 2, truncated=[False] * 2)
        batch = buf.sample(40)
        np.testing.assert_array_equal(batch["obs"], obs[batch.index >> 48])


def test_with_one_lane_the_leading_axis_may_be_left_out(place: Path) -> None:
    with ring({"obs": ("f4", (2,)), "one": ("i4", (1,)), "r": "f8"}, place) as buf:
        with buf.writer() as writer:
            writer.append(obs=[1, 2], one=[3], r=4.0, terminated=False, truncated=False)
            writer.append(obs=[[5, 6]], one=[[7]], r=[8.0], terminated=[False], truncated=[False])
            writer.append(obs=np.ones(2), one=[0], r=0, terminated=False, truncated=np.False_)
        rows = buf.rows(0, 0, 2)
        assert rows["obs"].tolist() == [[1, 2], [5, 6]]
        assert rows["one"].tolist() == [[3], [7]]
        assert rows["r"].tolist() == [4, 8]


NESTED = {
    "obs": {"image": ("u1", (2, 2)), "state": {"x": "f4", "v": ("f4", (2,))}},
    "action": ("f4", (1,)),
}


def nested_obs(value: int) -> dict[str, Any]:
    """Make an observation of two lanes for `NESTED`."""
    return {
        "image": np.full((2, 2, 2), value, np.uint8),
        "state": {"x": np.full(2, value, np.float32), "v": np.full((2, 2), value, np.float32)},
    }


def test_nested_dicts_go_in_and_come_out_nested(place: Path) -> None:
    with (
        ring(NESTED, place, lanes=2) as buf,
        buf.writer(lanes=2, autoreset_mode="next_step") as writer,
    ):
        for value in range(3):
            ends = [False, False]
            writer.append(
                obs=nested_obs(value), action=np.ones((2, 1)), terminated=ends, truncated=ends
            )
        batch = buf.sampler(seed=1, history=2, future=1).sample(10)
        assert set(batch) >= {"obs", "next_obs", "action", "future"}
        assert batch["obs"]["image"].shape == (10, 2, 2, 2)
        assert batch["next_obs"]["state"]["v"].shape == (10, 2, 2)
        assert batch["future"]["next_obs"]["state"]["x"].shape == (10, 1)
        assert buf.schema.columns["obs/state/v"] == ("f4", (2,), "obs")
        rows = buf.rows(1, 0, 3)
        assert rows["obs"]["state"]["x"].tolist() == [0, 1, 2]


def test_nested_columns_may_be_given_by_their_full_names(place: Path) -> None:
    with ring({"obs": {"x": "f4", "y": "f4"}}, place) as buf:
        append_one(buf, **{"obs/x": 1.0, "obs": {"y": 2.0}})
        batch = buf.sample(1)
        assert (batch["obs"]["x"][0], batch["obs"]["y"][0]) == (1, 2)


def test_an_observation_column_by_role_has_a_next(place: Path) -> None:
    with ring({"day": ("i4", (), "obs"), "obs_norm": ("f4", (), "step")}, place) as buf:
        with buf.writer() as writer:
            for day in range(3):
                writer.append(day=day, obs_norm=day, terminated=False, truncated=False)
        batch = buf.sample(8)
        assert (batch["next_day"] == batch["day"] + 1).all()
        assert "next_obs_norm" not in batch


def objects(*entries: object) -> np.ndarray[Any, np.dtype[np.object_]]:
    """Make an object array of entries, a form of Gymnasium's `final_obs`."""
    array = np.full(len(entries), None, object)
    array[:] = list(entries)
    return array


BARE = {"obs": ("f4", (2,)), "r": "f4"}


@pytest.mark.parametrize(
    "final_obs",
    [
        pytest.param(np.array([[8, 8], [9, 9]], np.float32), id="array"),
        pytest.param([[0, 0], [9, 9]], id="lists"),
        pytest.param(objects(None, np.array([9, 9])), id="object array"),
        pytest.param([None, [9, 9]], id="list of None"),
        pytest.param({"obs": [[8, 8], [9, 9]]}, id="dict"),
        pytest.param({"obs": objects(None, [9, 9]), "more": 1}, id="dict of object array"),
        pytest.param(objects({"obs": 1}, {"obs": [9, 9]}), id="object array of dicts"),
    ],
)
@pytest.mark.parametrize("mode", ["same_step", "disabled"])
def test_final_obs_is_taken_in_every_form(place: Path, mode: Mode, final_obs: object) -> None:
    with ring(BARE, place, lanes=2) as buf, buf.writer(lanes=2, autoreset_mode=mode) as writer:
        writer.append(
            obs=[[1, 1], [2, 2]],
            r=[1, 2],
            terminated=[False, True],
            truncated=[False, False],
            final_obs=final_obs,
        )
        batch = buf.sample(1)
        assert batch.index.tolist() == [int(writer.lanes[1]) << 48]
        assert batch["next_obs"].tolist() == [[9, 9]]


class Wrong(enum.Enum):
    """An enum whose member is no autoreset mode."""

    SOMETIMES = 1


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_writer_takes_gymnasiums_enum_as_environments_do(
    place: Path, mode: AutoresetMode
) -> None:
    with ring(BARE, place) as buf, buf.writer(autoreset_mode=mode) as writer:
        assert writer.autoreset_mode == mode.name.lower()
    with bc.ReplayBuffer.create(None, BARE, capacity=64) as buf:
        with pytest.raises(bc.errors.WriterError, match=r"\bautoreset_mode\b.*'sometimes'"):
            buf.writer(autoreset_mode=Wrong.SOMETIMES)  # type: ignore[arg-type]
        with pytest.raises(bc.errors.ArgumentTypeError, match=r"\bautoreset_mode\b.*\b3\b"):
            buf.writer(autoreset_mode=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("form", ["dict of arrays", "object array of dicts", "full names"])
def test_final_obs_of_nested_observations(place: Path, form: str) -> None:
    final: Any = nested_obs(9)
    if form == "object array of dicts":
        one = {
            "image": np.full((2, 2), 9),
            "state": {"x": 9, "v": [9, 9]},
            "not stored": "at all",
        }
        final = objects(one, None)
    elif form == "full names":
        state = final.pop("state")
        final = {"obs/image": final["image"], "obs": {"state": state}}
    with (
        ring(NESTED, place, lanes=2) as buf,
        buf.writer(lanes=2, autoreset_mode="same_step") as writer,
    ):
        writer.append(
            obs=nested_obs(1),
            action=np.zeros((2, 1)),
            terminated=[False, False],
            truncated=[True, False],
            final_obs=final,
        )
        after = buf.sample(1)["next_obs"]
        assert (after["image"] == 9).all()
        assert after["state"]["x"].tolist() == [9]
        assert after["state"]["v"].tolist() == [[9, 9]]


def test_final_obs_of_columns_beside_obs(place: Path) -> None:
    columns = {"day": ("i4", (), "obs"), "book": {"cash": ("f8", (), "obs")}, "r": "f4"}
    with ring(columns, place) as buf, buf.writer(autoreset_mode="same_step") as writer:
        final = {"day": 7, "book": {"cash": 2.5}, "open": 3.0}
        writer.append(
            day=1, book={"cash": 1.0}, r=0, terminated=True, truncated=False, final_obs=final
        )
        batch = buf.sample(1)
        assert (batch["next_day"][0], batch["next_book"]["cash"][0]) == (7, 2.5)


def test_final_obs_is_not_looked_at_while_no_lane_ends(place: Path) -> None:
    with ring(BARE, place) as buf, buf.writer() as writer:
        writer.append(obs=[1, 1], r=0, terminated=False, truncated=False, final_obs="anything")


def test_the_index_of_an_append_finds_its_transition(place: Path) -> None:
    with (
        ring({"obs": "f8"}, place, lanes=3) as buf,
        buf.writer(lanes=3, autoreset_mode="next_step") as writer,
    ):
        ends = np.zeros(3, bool)
        index = writer.append(obs=[1, 2, 3], terminated=ends, truncated=ends)
        assert index.dtype == np.int64
        assert index.tolist() == [int(lane) << 48 for lane in writer.lanes]
        writer.append(obs=[4, 5, 6], terminated=ends, truncated=ends)
        batch = buf.gather(index[::-1])
        assert batch["obs"].tolist() == [3, 2, 1]
        assert batch["next_obs"].tolist() == [6, 5, 4]


def test_plain_arrays_are_writable_and_overlapping_ones_are_not(place: Path) -> None:
    with ring({"obs": ("f4", (2,)), "action": "i4"}, place) as buf:
        append_one(buf, obs=[1, 2], action=3)
        plain = buf.sample(4)
        plain["obs"] += 1
        assert plain["next_obs"].flat[0] == 1
        windows = buf.sample(4, history=2)
        windows["action"] += 1
        windows["mask"][...] = False
        for name in ["obs", "next_obs"]:
            with pytest.raises(ValueError, match="read-only"):
                windows[name] += 1
        assert np.shares_memory(windows["obs"], windows["next_obs"])
        copied = buf.sample(4, history=2, copy=True)
        copied["obs"] += 1
        assert not np.shares_memory(copied["obs"], copied["next_obs"])


def test_a_batch_outlives_its_ring(place: Path) -> None:
    with ring({"obs": ("f4", (2,))}, place) as buf:
        append_one(buf, obs=[1, 2])
        batch = buf.sample(4, history=3)
    assert batch["next_obs"][:, -1].tolist() == [[1, 2]] * 4
    assert batch.mask is not None
    assert batch.mask.tolist() == [[False, False, True]] * 4
    assert batch.future_mask is None
    assert repr(batch).startswith("Batch(obs=float32[4x3x2]")


def test_a_restart_begins_an_episode_that_does_not_continue_the_row_before(place: Path) -> None:
    with (
        ring({"obs": "f4"}, place, lanes=2) as buf,
        buf.writer(lanes=2, autoreset_mode="next_step") as writer,
    ):
        ends = [False, False]
        for _ in range(2):
            writer.append(obs=[0, 0], terminated=ends, truncated=ends)
        writer.restart([True, False])
        writer.append(obs=[1, 1], terminated=ends, truncated=ends)
        assert len(buf) == 3
        assert buf.rows(int(writer.lanes[0]), 2, 1)["flags"].tolist() == [8]
        writer.restart()
        writer.append(obs=[2, 2], terminated=ends, truncated=ends)
        assert len(buf) == 3
        assert writer.rows_written == 8


@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("width", [1, 47, 48, 84, 350, 1024, 1764])
def test_rows_of_every_width_come_back_after_laps(place: Path, width: int, lanes: int) -> None:
    """The writer's prefetch changes no row, also where a lane wraps around."""
    schema = {"obs": ("f4", (width,)), "reward": "f4"}
    go_on, each = np.zeros(lanes, bool), np.arange(lanes, dtype=np.float32)[:, None]
    obs = [np.arange(width, dtype=np.float32) + 1000 * t + each for t in range(300)]
    with bc.ReplayBuffer.create("a", schema, capacity=5 * lanes, lanes=lanes, dir=place) as buf:
        with buf.writer(lanes=lanes, autoreset_mode="next_step") as writer:
            for t, step in enumerate(obs):
                rewards = np.full(lanes, t, np.float32)
                writer.append(obs=step, reward=rewards, terminated=go_on, truncated=go_on)
        for lane in range(lanes):
            start, end = buf.lane_span(lane)
            assert (end, end - start) >= (len(obs), 5)
            rows = buf.rows(lane, start, end - start)
            assert rows["reward"].tolist() == list(range(start, end))
            assert np.array_equal(rows["obs"], [step[lane] for step in obs[start:end]])
