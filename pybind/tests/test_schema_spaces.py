"""Schemas from Gymnasium's spaces: samples are stored bit for bit, other spaces are refused."""

from __future__ import annotations

import sys
from typing import Any

import backcast as bc
import numpy as np
import pytest
from facts import missing
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

NESTED = spaces.Dict(
    {
        "camera": spaces.Box(0, 255, (4, 3), np.uint8),
        "speed": spaces.Box(-1.0, 1.0, (), np.float64),
        "half": spaces.Box(-1.0, 1.0, (2,), np.float16),
        "gear": spaces.Discrete(5, start=-1),
        "lights": spaces.MultiBinary([2, 2]),
        "pair": spaces.Tuple(
            (spaces.MultiDiscrete([3, 4]), spaces.Dict({"deep": spaces.Box(0, 1, (1,), bool)}))
        ),
    }
)


def test_every_leaf_becomes_a_column_of_its_dtype_and_shape() -> None:
    schema = bc.Schema.from_spaces(NESTED, spaces.Tuple((spaces.Discrete(3), spaces.Discrete(2))))
    assert schema.columns == {
        "obs/camera": ("u1", (4, 3), "obs"),
        "obs/gear": ("i8", (), "obs"),
        "obs/half": ("f2", (2,), "obs"),
        "obs/lights": ("i1", (2, 2), "obs"),
        "obs/pair/0": ("i8", (2,), "obs"),
        "obs/pair/1/deep": ("bool", (1,), "obs"),
        "obs/speed": ("f8", (), "obs"),
        "action/0": ("i8", (), "step"),
        "action/1": ("i8", (), "step"),
        "reward": ("f4", (), "step"),
    }


@pytest.mark.parametrize(
    ("space", "column"),
    [
        (spaces.Box(-1, 1, (3,)), ("f4", (3,))),
        (spaces.Box(0, 9, (2, 2), np.int16), ("i2", (2, 2))),
        (spaces.Discrete(7, start=3), ("i8", ())),
        (spaces.MultiBinary(4), ("i1", (4,))),
        (spaces.MultiDiscrete(np.array([[1, 2], [3, 4]])), ("i8", (2, 2))),
        (spaces.MultiDiscrete([5, 6], dtype=np.int32), ("i4", (2,))),
    ],
    ids=str,
)
def test_a_space_alone_is_one_column(space: spaces.Space[Any], column: tuple[Any, Any]) -> None:
    schema = bc.Schema.from_spaces(space, space)
    assert schema.columns["obs"] == (*column, "obs")
    assert schema.columns["action"] == (*column, "step")


def test_the_reward_and_further_columns_are_the_callers() -> None:
    one = spaces.Discrete(2)
    assert bc.Schema.from_spaces(one, one, reward="f8").columns["reward"] == ("f8", (), "step")
    several = bc.Schema.from_spaces(one, one, reward=("f4", (3,)), extra={"log_prob": "f4"})
    assert several.columns["reward"] == ("f4", (3,), "step")
    assert several.columns["log_prob"] == ("f4", (), "step")
    assert "reward" not in bc.Schema.from_spaces(one, one, reward=None).columns


def leaves(value: Any, path: str = "") -> dict[str, Any]:  # noqa: ANN401
    if isinstance(value, tuple):
        value = {str(at): part for at, part in enumerate(value)}
    if isinstance(value, dict):
        found: dict[str, Any] = {}
        for key, part in value.items():
            found |= leaves(part, f"{path}/{key}")
        return found
    return {path: np.asarray(value)}


@pytest.mark.parametrize("mode", ["same_step", "disabled", "next_step"])
def test_nested_samples_come_out_of_the_ring_as_they_went_in(mode: Any) -> None:  # noqa: ANN401
    lanes, steps = 2, 40
    obs_space, action_space = batch_space(NESTED, lanes), batch_space(NESTED, lanes)
    obs_space.seed(1)
    action_space.seed(2)
    schema = bc.Schema.from_spaces(NESTED, NESTED)
    with (
        bc.ReplayBuffer.create(None, schema, capacity=1000, lanes=lanes) as buf,
        buf.writer(lanes, mode) as writer,
    ):
        went_in: dict[int, tuple[Any, Any, Any]] = {}
        obs, waiting = obs_space.sample(), False
        for step in range(steps):
            action, after = action_space.sample(), obs_space.sample()
            ended = step % 7 == 6 and not waiting
            flags = np.full(lanes, ended)
            final: Any = None
            if ended and mode != "next_step":
                # Gymnasium gives final observations as one tuple or dict per lane.
                rows = [NESTED.sample() for _ in range(lanes)]
                final = np.empty(lanes, object)
                final[:] = rows
            index = writer.append(
                obs=obs,
                action=action,
                reward=np.zeros(lanes),
                terminated=flags,
                truncated=~flags & False,
                final_obs=final,
            )
            if not waiting:
                for lane, at in enumerate(index.tolist()):
                    here = {path: part[lane] for path, part in leaves(obs).items()}
                    done = {path: part[lane] for path, part in leaves(action).items()}
                    there = {path: part[lane] for path, part in leaves(after).items()}
                    went_in[at] = (here, done, there if final is None else leaves(final[lane]))
            waiting = ended and mode == "next_step"
            obs = after
        newest = {lane << 48 | (buf.lane_span(lane)[1] - 1) for lane in range(lanes)}
        wanted = [at for at in went_in if at not in newest]
        assert len(wanted) > 50
        batch = buf.gather(wanted)
        for name, which in [("obs", 0), ("action", 1), ("next_obs", 2)]:
            for path, values in leaves(batch[name]).items():
                for at, number in enumerate(wanted):
                    expected = np.asarray(went_in[number][which][path])
                    assert values.dtype == expected.dtype
                    assert values[at].tobytes() == expected.tobytes(), (name, path, number)


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Text(5), ["FlattenObservation"]),
        (spaces.Dict({"say": spaces.Text(5)}), ["obs/say"]),
        (spaces.Tuple((spaces.Discrete(2), spaces.Text(3))), ["obs/1"]),
        (spaces.Graph(spaces.Discrete(2), None), ["obs", "Graph"]),
        (spaces.Dict({"a": spaces.Sequence(spaces.Discrete(2))}), ["obs/a"]),
        (spaces.OneOf((spaces.Discrete(2), spaces.Discrete(3))), ["OneOf"]),
        (spaces.Box(0, 1, (3, 0)), ["obs", "Box"]),
        (spaces.Dict({}), ["obs"]),
        (spaces.Dict({"a/b": spaces.Discrete(2)}), ["'a/b'", "'/'"]),
        (spaces.Dict({3: spaces.Discrete(2)}), ["3"]),  # type: ignore[dict-item]
        (spaces.Dict({"ä": spaces.Discrete(2)}), ["obs/ä"]),
        ({"x": spaces.Discrete(2)}, ["'x'", "gymnasium.Space"]),
        (3, ["3", "single_"]),
    ],
    ids=str,
)
def test_spaces_without_a_column_are_refused_by_path(space: Any, words: list[str]) -> None:  # noqa: ANN401
    with pytest.raises(bc.errors.SchemaError) as error:
        bc.Schema.from_spaces(space, spaces.Discrete(2))
    assert missing(error.value, words) == []


def test_flattened_spaces_are_accepted() -> None:
    text = spaces.flatten_space(spaces.Text(5))
    assert bc.Schema.from_spaces(text, spaces.Discrete(2)).columns["obs"] == ("i4", (5,), "obs")


def test_arguments_that_are_missing_misspelt_or_of_another_type_are_refused() -> None:
    one = spaces.Discrete(2)
    make: Any = bc.Schema.from_spaces
    with pytest.raises(bc.errors.ArgumentTypeError, match=r"\baction_space\b"):
        make(one)
    with pytest.raises(bc.errors.ArgumentTypeError, match="`reward`"):
        make(one, one, rewards="f8")
    with pytest.raises(bc.errors.ArgumentTypeError, match=r"\bextra\b.*\b3\b"):
        make(one, one, extra=3)


def test_a_column_is_not_described_twice() -> None:
    one = spaces.Discrete(2)
    with pytest.raises(bc.errors.SchemaError, match="'reward'"):
        bc.Schema.from_spaces(one, one, extra={"reward": "f8"})
    with pytest.raises(bc.errors.SchemaError, match="next_x"):
        bc.Schema.from_spaces(one, one, extra={"next_x": "f8"})


def test_without_gymnasium_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(bc.errors.MissingExtraError, match=r"'backcast\[gymnasium\]'"):
        bc.Schema.from_spaces(spaces.Discrete(2), spaces.Discrete(2))
