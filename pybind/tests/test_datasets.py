"""Rings of arrays: rows, ends, the last step, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast import datasets, summaries
from numpy.typing import NDArray

STEPS = 60


def steps(**changes: object) -> dict[str, Any]:
    """Return steps as D4RL has them: episodes of 7, that end in turns both ways."""
    t = np.arange(STEPS)
    last, odd = t % 7 == 6, (t // 7) % 2 == 1
    draw = np.random.default_rng(0)
    data = {
        "observations": draw.normal(size=(STEPS, 3)).astype("f4"),
        "actions": draw.normal(size=(STEPS, 2)).astype("f4"),
        "rewards": draw.normal(size=STEPS),
        "terminals": last & ~odd,
        "timeouts": last & odd,
        "infos": {"qpos": draw.normal(size=(STEPS, 5))},
        **changes,
    }
    return {name: value for name, value in data.items() if value is not None}


def following(data: dict[str, Any]) -> NDArray[np.float32]:
    after: NDArray[np.float32] = np.roll(data["observations"], -1, axis=0)
    ends = np.asarray(data["terminals"], bool) | np.asarray(data["timeouts"], bool)
    after[ends] += 100
    after[-1] += 100
    return after


@pytest.mark.parametrize("kind", ["bool", "u1", "f4", "column"])
def test_rows_are_those_of_the_arrays_and_the_last_steps_are_kept(kind: str) -> None:
    data = steps()
    data["next_observations"] = following(data)
    given = dict(data)
    for name in ("terminals", "timeouts"):
        given[name] = data[name][:, None] if kind == "column" else data[name].astype(kind)
    buf = datasets.from_arrays(given)
    assert len(buf) == STEPS
    batch = buf.gather(buf.transitions().index_at(np.arange(STEPS)))
    assert (batch["obs"] == data["observations"]).all()
    assert (batch["next_obs"] == data["next_observations"]).all()
    assert (batch["action"] == data["actions"]).all()
    assert (batch["reward"] == data["rewards"]).all()
    assert (batch["infos"]["qpos"] == data["infos"]["qpos"]).all()
    assert (batch["terminated"] == data["terminals"]).all()
    # The data stop inside an episode, which is truncated there.
    assert (batch["truncated"][:-1] == data["timeouts"][:-1]).all()


def test_the_last_step_of_a_time_limit_starts_no_transition_without_a_next_observation() -> None:
    data = steps()
    buf = datasets.from_arrays(data)
    lost = data["timeouts"].sum() + 1  # and the last step of all
    assert len(buf) == STEPS - lost
    assert buf.imported is not None
    assert buf.imported["rows_without_successor"] == lost
    batch = buf.sample(500)
    place = {row.tobytes(): at for at, row in enumerate(data["observations"])}
    at = np.array([place[row.tobytes()] for row in batch["obs"]])
    goes_on = ~batch["terminated"]
    assert (batch["terminated"] == data["terminals"][at]).all()
    assert (batch["next_obs"][goes_on] == data["observations"][at[goes_on] + 1]).all()


def test_episodes_without_flags_end_where_the_next_observation_differs() -> None:
    data = steps()
    data["next_observations"] = following(data)
    del data["timeouts"]
    buf = datasets.from_arrays(data)
    assert len(buf) == STEPS
    assert buf.imported is not None
    assert buf.imported["episodes_cut"] == 4


def test_a_ring_of_arrays_has_a_name_and_its_options(tmp_path: Path) -> None:
    buf = datasets.from_arrays(steps(), "data", capacity=500, dir=tmp_path)
    again = bc.ReplayBuffer.attach("data", dir=tmp_path)
    assert len(again) == len(buf)
    assert again.capacity == 500
    with pytest.raises(bc.ExistsError):
        datasets.from_arrays(steps(), "data", dir=tmp_path)
    for handle in (again, buf):
        handle.close()


NAN = np.where(np.arange(STEPS) == 11, np.nan, 0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"observations": None}, "there is no `obs`"),
        ({"terminals": None}, "there is no `terminated`"),
        ({"actions": np.zeros((STEPS - 1, 2))}, "`actions` has 59 rows, and `observations` has 60"),
        ({"terminals": NAN}, "`terminals` of step 11 is nan"),
        ({"timeouts": NAN}, "`timeouts` of step 11 is nan"),
        ({"terminals": np.full(STEPS, 2)}, "`terminals` of step 0 is 2"),
        ({"metadata": {"algorithm": 3}}, "`metadata/algorithm` is a single value"),
        ({"names": np.full(STEPS, "x")}, "`names` has elements of the type"),
        ({"dones": np.zeros(STEPS)}, "`dones` means the same as `terminals`"),
        ({"actions": np.ma.array(np.zeros(STEPS), mask=NAN != 0)}, "`actions` has masked values"),
        ({"actions": [[0]] * (STEPS - 1) + [[0, 1]]}, "`actions` is no array of one row"),
        ({"infos/qpos": np.zeros((STEPS, 5))}, "`infos/qpos` is there twice"),
    ],
)
def test_arrays_that_are_no_steps_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(bc.errors.ArgumentError) as refused:
        datasets.from_arrays(steps(**changes))
    assert words in str(refused.value)
    assert "/proc/" not in str(refused.value)


def test_what_is_left_out_need_not_fit() -> None:
    buf = datasets.from_arrays(steps(metadata={"a": "text"}), leave_out=["metadata", "infos"])
    assert [*buf.schema.columns] == ["action", "obs", "reward"]
    with pytest.raises(bc.errors.ArgumentTypeError, match="a dict of arrays"):
        datasets.from_arrays([1, 2])  # type: ignore[arg-type]
    with pytest.raises(bc.errors.ArgumentTypeError, match="leave_out is 'infos'"):
        datasets.from_arrays(steps(), leave_out="infos")
    with pytest.raises(bc.errors.ArgumentTypeError, match="leave_out has 3"):
        datasets.from_arrays(steps(), leave_out=[3])  # type: ignore[list-item]
    with pytest.raises(bc.errors.ArgumentError, match=r"cannot leave out `action`.*\bactions\b"):
        datasets.from_arrays(steps(), leave_out=["infos", "action"])


def test_rewards_in_a_column_of_one_number_are_rewards() -> None:
    data = steps()
    column = steps(rewards=data["rewards"][:, None])
    plain, one = datasets.from_arrays(data), datasets.from_arrays(column)
    assert str(one.schema.columns["reward"]) == str(plain.schema.columns["reward"])
    returns = [summaries.summarize(buf).returns for buf in (plain, one)]
    assert str(returns[0]) == str(returns[1])
    assert returns[0].count > 0


def test_a_masked_array_without_masked_values_is_an_array() -> None:
    buf = datasets.from_arrays(steps(actions=np.ma.array(np.arange(STEPS), mask=False)))
    assert "action" in buf.schema.columns
