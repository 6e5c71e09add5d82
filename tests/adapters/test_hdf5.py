"""HDF5 files of D4RL and Minari as rings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import backcast as bc
import numpy as np
import pytest
from backcast import datasets
from backcast._trees import flat

h5py = pytest.importorskip(
    "h5py", reason="h5py is not installed: pip install -r requirements/adapters.txt"
)

if TYPE_CHECKING:
    from pathlib import Path

LENGTHS = (5, 1, 9, 4, 3, 2, 8, 6, 7, 5, 3, 12)


def d4rl(path: Path, **changes: Any) -> dict[str, Any]:
    count = sum(LENGTHS)
    ends = np.cumsum(LENGTHS) - 1
    draw = np.random.default_rng(1)
    data = {
        "observations": draw.normal(size=(count, 4)).astype("f4"),
        "next_observations": draw.normal(size=(count, 4)).astype("f4"),
        "actions": draw.normal(size=(count, 2)).astype("f4"),
        "rewards": draw.normal(size=count).astype("f4"),
        "terminals": np.isin(np.arange(count), ends[::2]),
        "timeouts": np.isin(np.arange(count), ends[1::2]),
        "infos/action_log_probs": draw.normal(size=count),
        "metadata/algorithm": "SAC",
        "metadata/policy/fc0": draw.normal(size=(3, 3)),
    }
    inner = ~(data["terminals"] | data["timeouts"])
    data["next_observations"][inner] = np.roll(data["observations"], -1, 0)[inner]
    data = {name: value for name, value in (data | changes).items() if value is not None}
    with h5py.File(path, "w") as file:
        for name, value in data.items():
            file[name] = value
    return data


def whole(buf: bc.ReplayBuffer) -> bc.Batch:
    return buf.gather(buf.transitions().index_at(np.arange(len(buf))))


def test_the_transitions_of_a_d4rl_file_are_those_of_the_ring(tmp_path: Path) -> None:
    data = d4rl(tmp_path / "hopper.hdf5")
    buf = datasets.from_hdf5(tmp_path / "hopper.hdf5")
    batch = whole(buf)
    for name, column in (
        ("observations", batch["obs"]),
        ("next_observations", batch["next_obs"]),
        ("actions", batch["action"]),
        ("rewards", batch["reward"]),
        ("terminals", batch["terminated"]),
        ("timeouts", batch["truncated"]),
        ("infos/action_log_probs", batch["infos"]["action_log_probs"]),
    ):
        assert (column == data[name]).all(), name
    assert buf.imported is not None
    assert buf.imported["episodes"] == len(LENGTHS)
    assert not any("metadata" in name for name in buf.schema.columns)


def test_a_d4rl_file_without_next_observations_loses_the_last_steps_of_time_limits(
    tmp_path: Path,
) -> None:
    data = d4rl(tmp_path / "hopper.hdf5", next_observations=None)
    buf = datasets.from_hdf5(tmp_path / "hopper.hdf5")
    assert (whole(buf)["obs"] == data["observations"][~data["timeouts"]]).all()


def minari(path: Path, *, nested: bool) -> list[dict[str, Any]]:
    draw = np.random.default_rng(1)
    episodes = []
    with h5py.File(path, "w") as file:
        for number, length in enumerate(LENGTHS):
            values = {
                "actions": draw.integers(0, 5, length),
                "rewards": draw.normal(size=length),
                "terminations": np.arange(length) == (length - 1 if number % 3 == 0 else -1),
                "truncations": np.arange(length) == (length - 1 if number % 3 == 1 else -1),
                "infos/speed": draw.normal(size=length + 1),
            }
            seen = draw.normal(size=(length + 1, 4))
            if nested:
                values |= {"observations/a": seen, "observations/b/c": seen[:, 0]}
            else:
                values["observations"] = seen
            group = file.create_group(f"episode_{number}")
            for name, value in values.items():
                group[name] = value
            episodes.append(values | {"seen": seen})
    return episodes


def test_a_minari_file_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more is read at a time than a part of one episode."""
    monkeypatch.setattr(datasets, "_CHUNK", 8)
    read: list[int] = []
    get = h5py.Dataset.__getitem__

    def counted(data: Any, key: Any) -> Any:
        values = get(data, key)
        read.append(np.size(values))
        return values

    minari(tmp_path / "main_data.hdf5", nested=False)
    with monkeypatch.context() as patch:
        patch.setattr(h5py.Dataset, "__getitem__", counted)
        parts = datasets.from_hdf5(tmp_path / "main_data.hdf5")
    monkeypatch.undo()
    whole = datasets.from_hdf5(tmp_path / "main_data.hdf5")
    # Flags are read whole, to be checked.
    assert max(read) <= max(8, *LENGTHS)
    assert parts.lane_span(0) == whole.lane_span(0)
    found, expected = (dict(flat(buf.rows(0, *buf.lane_span(0)))) for buf in (parts, whole))
    assert found.keys() == expected.keys()
    for name, values in found.items():
        np.testing.assert_array_equal(values, expected[name])


@pytest.mark.parametrize("nested", [False, True])
def test_the_transitions_of_a_minari_file_are_those_of_the_ring(
    tmp_path: Path, nested: bool
) -> None:
    (tmp_path / "data").mkdir()
    episodes = minari(tmp_path / "data" / "main_data.hdf5", nested=nested)
    buf = datasets.from_hdf5(tmp_path)
    assert len(buf) == sum(LENGTHS)
    assert buf.imported is not None
    assert buf.imported["episodes_cut"] == 0
    batch = whole(buf)
    at = 0
    for number, (length, episode) in enumerate(zip(LENGTHS, episodes, strict=True)):
        part = slice(at, at + length)
        at += length
        obs = batch["obs"]["a"] if nested else batch["obs"]
        following = batch["next_obs"]["a"] if nested else batch["next_obs"]
        assert (obs[part] == episode["seen"][:-1]).all()
        assert (following[part] == episode["seen"][1:]).all()
        if nested:
            assert (batch["obs"]["b"]["c"][part] == episode["seen"][:-1, 0]).all()
        assert (batch["action"][part] == episode["actions"]).all()
        assert (batch["reward"][part] == episode["rewards"]).all()
        assert (batch["infos"]["speed"][part] == episode["infos/speed"][:-1]).all()
        # The last step of an episode without flags is truncated.
        ends = np.arange(length) == length - 1
        assert (batch["terminated"][part] == (ends & (number % 3 == 0))).all()
        assert (batch["truncated"][part] == (ends & (number % 3 != 0))).all()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"observations": None, "next_observations": None}, "there is no `obs`"),
        ({"terminals": None}, "there is no `terminated`"),
        ({"rewards": np.zeros(3)}, "`rewards` has 3 rows"),
        ({"terminals": np.full(sum(LENGTHS), np.nan)}, "`terminals` of step 0 is nan"),
        ({"version": 3}, '`version` is a single value; give leave_out=["version"]'),
    ],
)
def test_a_d4rl_file_that_is_damaged_is_refused(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    path = tmp_path / "hopper.hdf5"
    d4rl(path, **changes)
    with pytest.raises(bc.errors.ArgumentError) as refused:
        datasets.from_hdf5(path)
    assert words in str(refused.value)
    assert str(path) in str(refused.value)


def test_a_minari_file_that_is_damaged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "main_data.hdf5"
    for damage, words in (
        (lambda file: file["episode_3"].pop("rewards"), "episode_3 has no `rewards`"),
        (lambda file: file["episode_3"].pop("infos/speed"), "`infos/speed` is in some episodes"),
        (lambda file: replace(file, "episode_3/observations"), "5 are needed"),
        (lambda file: put(file, "episode_3/truncations", [0, 7, 0, 0]), "`truncations` of step 1"),
        (lambda file: put(file, "episode_3/truncations", [0, np.nan, 0, 0]), "is nan; a flag is"),
        (lambda file: put(file, "episode_3/infos/speed", 3), "is a single value"),
        (lambda file: put(file, "episode_3/actions", np.zeros((4, 2))), "of shape .* in others"),
        (lambda file: put(file, "episode_3/actions", np.full(4, 0.5)), "<f8 .* <i8"),
    ):
        minari(path, nested=False)
        with h5py.File(path, "r+") as file:
            damage(file)
        with pytest.raises(bc.errors.ArgumentError, match=words):
            datasets.from_hdf5(path)
    path.write_bytes(b"no file of this kind")
    with pytest.raises(bc.errors.ArgumentError, match="no HDF5 file"):
        datasets.from_hdf5(path)


def replace(file: Any, name: str) -> None:
    values = file[name][:-1]
    del file[name]
    file[name] = values


def put(file: Any, name: str, values: Any) -> None:
    del file[name]
    file[name] = values


def test_a_text_leaves_nothing_out_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "main_data.hdf5"
    minari(path, nested=False)
    with pytest.raises(bc.errors.ArgumentTypeError, match="leave_out is 'infos'"):
        datasets.from_hdf5(path, leave_out="infos")
