"""``next_obs=``: passed with each step as in other replay buffers, and stored once."""

from __future__ import annotations

import warnings
from typing import Any

import backcast as bc
import numpy as np
import pytest

PLAIN: dict[str, Any] = {"obs": ("f4", (2,)), "reward": "f4"}
NESTED: dict[str, Any] = {
    "obs": {"image": ("u1", (2,)), "speed": "f4"},
    "day": ("i4", (), "obs"),
    "reward": "f4",
}
FINAL, GAP = 4, 8


def ring(columns: dict[str, Any], lanes: int = 1) -> bc.ReplayBuffer:
    return bc.ReplayBuffer.create(None, columns, capacity=100 * lanes, lanes=lanes)


def plain(n: float) -> np.ndarray:
    return np.array([n, -n], "f4")


def nested(n: int) -> dict[str, Any]:
    return {"obs": {"image": np.full(2, n, "u1"), "speed": n / 2}, "day": n}


def append(writer: bc.Writer, n: int, next_n: int | None, **more: Any) -> Any:  # noqa: ANN401
    flags = {"terminated": False, "truncated": False} | more
    following = {} if next_n is None else {"next_obs": plain(next_n)}
    return writer.append(obs=plain(n), reward=0.0, **following, **flags)


def stored(buf: bc.ReplayBuffer, lane: int = 0) -> list[tuple[float, int]]:
    low, head = buf.lane_span(lane)
    rows = buf.rows(lane, low, head - low)
    return [(float(o[0]), int(f)) for o, f in zip(rows["obs"], rows["flags"], strict=True)]


def test_three_lines_are_enough_and_the_last_transition_is_drawn() -> None:
    with ring(PLAIN) as buf:
        with buf.writer() as writer:
            for n in [*range(5), *range(50, 55)]:
                append(writer, n, n + 1, terminated=n == 4)
            assert len(buf) == 9, "the newest waits"
        assert len(buf) == 10
        batch = buf.sample(200)
        assert (batch["next_obs"][:, 0] == batch["obs"][:, 0] + 1).all()
        assert set(batch["obs"][:, 0]) == {*range(5), *range(50, 55)}
        assert (batch["terminated"] == (batch["obs"][:, 0] == 4)).all()


def test_an_append_that_does_not_follow_cuts_the_episode_and_is_counted() -> None:
    with ring(PLAIN) as buf, buf.writer() as writer:
        append(writer, 1, 2)
        index = append(writer, 7, 8)
        assert stored(buf) == [(1, 0), (2, FINAL), (7, GAP)]
        assert index.tolist() == [2]
        stats = buf.stats()
        assert (stats["cuts"], stats["lane_stats"][0]["cuts"], stats["suspect_resets"]) == (1, 1, 0)


def test_a_warning_comes_once_when_over_a_twentieth_is_cut() -> None:
    with ring(PLAIN) as buf, buf.writer() as writer, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for n in range(60):
            append(writer, n, n + 1)
        for n in range(1, 6):
            append(writer, 0, n)
        assert [str(warning.category.__name__) for warning in told] == ["WriterWarning"]
        assert told[0].filename == __file__


def test_a_waiting_observation_ends_the_episode_at_a_restart_close_or_drop() -> None:
    with ring(PLAIN) as buf:
        writer = buf.writer()
        append(writer, 1, 2)
        writer.restart()
        assert stored(buf) == [(1, 0), (2, FINAL)]
        append(writer, 2, 3)
        writer.close()
        writer.close()
        assert stored(buf)[2:] == [(2, GAP), (3, FINAL)]
        writer = buf.writer()
        append(writer, 5, 6)
        del writer
        assert stored(buf)[4:] == [(5, GAP), (6, FINAL)]
        assert (len(buf), buf.stats()["cuts"]) == (3, 0)


def test_the_stored_bytes_are_compared_after_the_cast() -> None:
    with ring(PLAIN) as buf, buf.writer() as writer:
        go_on = {"reward": 0.0, "terminated": False, "truncated": False}
        # Gives equal numbers as f8 and as f4, and NaN.
        for following, obs in [
            ([0.1, 0.2], np.array([0.1, 0.2], "f4")),
            ([np.nan, 1], [np.nan, 1]),
        ]:
            writer.append(obs=[0, 0], next_obs=np.array(following, "f8"), **go_on)
            writer.append(obs=obs, next_obs=[0, 0], **go_on)
        assert buf.stats()["cuts"] == 0


@pytest.mark.parametrize("lanes", [1, 2])
def test_observations_of_several_columns_come_as_dicts(lanes: int) -> None:
    def rows(n: int) -> dict[str, Any]:
        parts = nested(n)
        return {
            "obs": {key: np.stack([value] * lanes) for key, value in parts["obs"].items()},
            "day": np.full(lanes, n),
        }

    go_on = np.zeros(lanes, bool)
    with ring(NESTED, lanes) as buf, buf.writer(lanes, "disabled") as writer:
        ends = {"reward": np.zeros(lanes), "terminated": go_on, "truncated": go_on}
        writer.append(**rows(1), next_obs=rows(2), **ends)
        # One column of `obs` by its short name, one by its full name.
        flat = {"image": rows(3)["obs"]["image"], "obs/speed": rows(3)["obs"]["speed"]}
        writer.append(**rows(2), next_obs=flat | {"day": np.full(lanes, 3)}, **ends)
        next_day = {"next_day": np.full(lanes, 4)}
        with pytest.raises(bc.errors.AppendError, match=r"next_day|next_obs"):
            writer.append(**rows(3), next_obs=rows(4), **next_day, **ends)
        with pytest.raises(bc.errors.AppendError, match="`obs/image`"):
            writer.append(**rows(3), next_obs={"day": np.full(lanes, 4)}, **ends)
        writer.append(**rows(3), next_obs=rows(4), **ends)
        writer.append(**rows(4), **ends)
        assert buf.stats()["cuts"] == 0
        assert writer.rows_written == 4 * lanes


@pytest.mark.parametrize("name", ["obs", "observation", "observations", "state", "states"])
def test_an_observation_of_any_name_has_its_own_next(name: str) -> None:
    with ring({name: "f4", "reward": "f4"}) as buf:
        assert buf.schema.columns[name][2] == "obs"
        with buf.writer() as writer:
            for n in [0, 1, 2, 3, 50, 51]:
                following = {f"next_{name}": n + 1} if n % 2 else {"next_obs": n + 1}
                end = {"terminated": n == 3, "truncated": False}
                writer.append(**{name: n, "reward": 0}, **following, **end)
        batch = buf.sample(64)
        assert (batch[f"next_{name}"] == batch[name] + 1).all()
        assert (len(buf), buf.stats()["cuts"]) == (6, 0)


def test_names_below_those_of_observations_are_observations_and_roles_can_be_chosen() -> None:
    columns = {"state/pixels": "u1", "obs/x": "f4", "state_raw": "f4", "info": {"state": "f4"}}
    roles = {name: column[2] for name, column in bc.Schema(columns).columns.items()}
    assert roles == {
        "state/pixels": "obs",
        "obs/x": "obs",
        "state_raw": "step",
        "info/state": "step",
    }
    assert bc.Schema({"state": ("f4", (), "step")}).columns["state"][2] == "step"


@pytest.mark.filterwarnings("ignore::backcast.errors.WriterWarning")
@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("mode", ["disabled", "next_step", "same_step"])
def test_many_steps_at_once_are_the_same_rows(mode: Any, lanes: int) -> None:  # noqa: ANN401
    steps = 40
    shown = np.repeat(np.arange(steps, dtype="f4"), lanes).reshape(steps, lanes)
    ends = (shown % 7 == 6) & (mode != "next_step")
    # Values jump at the start of an episode, and at step 10, which does not follow its predecessor.
    jumps = 50 * np.cumsum(np.roll(ends, 1, 0) | (shown == 10), 0)
    obs, following = (np.stack([n, -n], -1) for n in (shown + jumps, shown + jumps + 1))
    finals = {"final_obs": following} if mode == "same_step" else {}
    step = {"obs": obs, "next_obs": following, "reward": np.zeros_like(shown), **finals}
    with ring(PLAIN, lanes) as one, ring(PLAIN, lanes) as many:
        with one.writer(lanes, mode) as writer:
            for at in range(steps):
                row = {name: column[at] for name, column in step.items()}
                writer.append(**row, terminated=ends[at], truncated=np.zeros(lanes, bool))
        with many.writer(lanes, mode) as writer:
            writer.extend(**step, terminated=ends, truncated=np.zeros((steps, lanes), bool))
        for lane in range(lanes):
            assert stored(many, lane) == stored(one, lane)
        assert many.stats()["cuts"] == one.stats()["cuts"] == lanes


def test_a_reserved_row_says_what_it_led_to() -> None:
    with ring(PLAIN) as buf, buf.writer() as writer:
        with writer.reserve() as row:
            row["obs"], row["reward"], row.next_obs = plain(1), 0.0, plain(2)
            assert row.next_obs.tolist() == [2, -2]
            with pytest.raises(bc.errors.AppendError, match="next_obs"):
                row.next_obs = np.zeros(3)
        with pytest.raises(bc.errors.AppendError, match=r"\b0\b"), writer.reserve() as row:
            row["obs"], row["reward"], row.terminated = plain(2), 0.0, True
        with writer.reserve() as row:
            row["obs"], row["reward"], row.truncated = plain(2), 0.0, True
            row.final_obs = plain(3)
        with writer.reserve() as row:
            row["obs"], row["reward"], row.next_obs = plain(5), 0.0, plain(6)
        append(writer, 9, 10)
        expected = [(1, 0), (2, 2), (3, FINAL), (5, 0), (6, FINAL), (9, GAP)]
        assert stored(buf) == expected
        assert buf.stats()["cuts"] == 1


def test_next_obs_of_a_ring_without_observations_and_of_wrong_shape_is_refused() -> None:
    flags = {"terminated": False, "truncated": False}
    with ring({"action": "f4"}) as buf, buf.writer() as writer:
        with pytest.raises(bc.errors.AppendError, match="next_obs"):
            writer.append(action=1.0, next_obs=1.0, **flags)
        assert writer.rows_written == 0
    with ring(PLAIN) as buf, buf.writer() as writer:
        for wrong in (np.zeros(3), np.zeros((2, 2)), {"obz": 1}, "text"):
            with pytest.raises(bc.errors.AppendError, match="next_obs"):
                writer.append(obs=plain(1), reward=0.0, next_obs=wrong, **flags)
        assert writer.rows_written == 0
        writer.append(obs=plain(1), reward=0.0, next_obs=None, **flags)
        assert writer.rows_written == 1
