"""Datasets of Minari: Minari reads exported ones, and Backcast imports those of Minari."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import backcast as bc
import gymnasium as gym
import numpy as np
import pytest

minari = pytest.importorskip("minari", reason="Minari is not installed")
data_collector = pytest.importorskip("minari.data_collector", reason="Minari is not installed")
storages = pytest.importorskip("minari.dataset.minari_storage", reason="Minari is not installed")


def dataset(folder: Path, spaces: dict[str, gym.Space[Any]], episodes: Iterable[Any]) -> Path:
    """Write a dataset with Minari's own storage."""
    folder.mkdir()
    new = storages.MinariStorage.new(folder, data_format="parquet", jpeg_encoding=False, **spaces)
    new.update_metadata({"dataset_id": "theirs-v0", "minari_version": minari.__version__})
    new.update_episodes(episodes)
    return folder


def episode(number: int, steps: int, **parts: Any) -> Any:  # noqa: ANN401 - Minari has no types
    return data_collector.EpisodeBuffer(
        id=number,
        rewards=list(np.arange(steps, dtype=float)),
        **{
            "terminations": [False] * (steps - 1) + [True],
            "truncations": [False] * steps,
        }
        | parts,
    )


SPACES: dict[str, gym.Space[Any]] = {
    "observation_space": gym.spaces.Dict(
        {
            "speed": gym.spaces.Box(-9, 9, (), np.float32),
            "flags": gym.spaces.MultiBinary(4),
            "grid": gym.spaces.MultiDiscrete(np.array([[3, 4, 5], [6, 7, 8]])),
        }
    ),
    "action_space": gym.spaces.Box(-1, 1, (), np.float64),
}


def seen(steps: int) -> dict[str, Any]:
    """Make observations of `SPACES`, one more than `steps`."""
    draw = np.random.default_rng(steps)
    return {
        "speed": draw.normal(size=steps + 1).astype("f4"),
        "flags": draw.integers(0, 2, (steps + 1, 4)).astype("i1"),
        "grid": draw.integers(0, 3, (steps + 1, 2, 3)),
    }


def test_flags_numbers_and_infos_of_ours_have_their_types_and_shapes_in_minari(
    tmp_path: Path,
) -> None:
    columns = {
        "obs": {"speed": "f4", "near": "bool", "seen": ("bool", (2,))},
        "action": "bool",
        "reward": "f8",
        "image": ("u1", (2, 3)),
        "logp": "f4",
    }
    draw = np.random.default_rng(1)
    with bc.ReplayBuffer.create(None, columns, capacity=50) as buf:
        with buf.writer(autoreset_mode="same_step") as writer:
            for step in range(10):
                obs = {"speed": step, "near": step % 2 == 0, "seen": [True, step > 4]}
                writer.append(
                    obs=obs,
                    action=step % 3 == 0,
                    reward=step,
                    image=draw.integers(0, 255, (2, 3)),
                    logp=-step,
                    terminated=step == 9,
                    truncated=False,
                    final_obs=obs,
                )
        buf.export(tmp_path / "ours-v0")
        rows = buf.rows(0, 0, 11)
        ours = minari.MinariDataset(tmp_path / "ours-v0" / "data")
        spaces = ours.observation_space
        assert spaces["speed"] == gym.spaces.Box(
            np.finfo("f4").min, np.finfo("f4").max, (), np.float32
        )
        assert (spaces["near"].shape, spaces["near"].dtype) == ((), np.dtype(bool))
        assert (spaces["seen"].shape, spaces["seen"].dtype) == ((2,), np.dtype(bool))
        assert (ours.action_space.shape, ours.action_space.dtype) == ((), np.dtype(bool))
        found = ours[0]
        for name in ("speed", "near", "seen"):
            assert found.observations[name].dtype == rows["obs"][name].dtype
            np.testing.assert_array_equal(found.observations[name], rows["obs"][name])
            assert spaces[name].contains(np.asarray(found.observations[name][3]))
        assert found.actions.dtype == np.dtype(bool)
        np.testing.assert_array_equal(found.actions, rows["action"][:10])
        np.testing.assert_array_equal(found.infos["image"], rows["image"])
        np.testing.assert_array_equal(found.infos["logp"], rows["logp"])
        with bc.ReplayBuffer.from_file(tmp_path / "ours-v0", "again", dir=tmp_path) as again:
            assert again.schema == buf.schema
            np.testing.assert_array_equal(again.rows(0, 0, 11)["image"], rows["image"])


def test_spaces_and_infos_of_theirs_become_columns(tmp_path: Path) -> None:
    episodes = []
    for number, steps in enumerate([3, 5]):
        infos = {
            "energy": np.arange(steps + 1) * 0.5,
            "map": np.arange((steps + 1) * 6).reshape(-1, 2, 3),
            "inner": {"count": np.arange(steps + 1, dtype="i4")},
        }
        actions = np.linspace(-1, 1, steps)
        episodes.append(
            episode(number, steps, observations=seen(steps), actions=actions, infos=infos)
        )
    folder = dataset(tmp_path / "theirs", SPACES, episodes)
    with bc.ReplayBuffer.from_file(folder, "theirs", "minari", dir=tmp_path) as ring:
        rows = ring.rows(0, 0, 10)
        for name in ("speed", "flags", "grid"):
            wanted = np.concatenate([seen(3)[name], seen(5)[name]])
            assert rows["obs"][name].dtype == wanted.dtype
            np.testing.assert_array_equal(rows["obs"][name], wanted)
        np.testing.assert_array_equal(rows["action"][:3], np.linspace(-1, 1, 3))
        assert rows["infos"]["energy"].tolist() == [0, 0.5, 1, 1.5, 0, 0.5, 1, 1.5, 2, 2.5]
        assert rows["infos"]["map"].shape == (10, 2, 3)
        assert rows["infos"]["inner"]["count"].tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 4, 5]
        # Each observation has an info, the last one too.
        batch = ring.gather([2])
        assert batch["next_infos"]["energy"].tolist() == [1.5]


def test_infos_that_no_column_can_hold_are_refused_and_left_out_by_name(tmp_path: Path) -> None:
    infos = {"goal": ["left"] * 4, "energy": np.arange(4.0)}
    one = episode(0, 3, observations=seen(3), actions=np.zeros(3), infos=infos)
    folder = dataset(tmp_path / "theirs", SPACES, [one])
    with pytest.raises(
        bc.errors.ArgumentError, match=r"`infos/goal` .*leave_out=\[\"infos/goal\"\]"
    ):
        bc.ReplayBuffer.from_file(folder, "theirs", "minari", dir=tmp_path)
    assert bc.list_objects(dir=tmp_path) == []
    with bc.ReplayBuffer.from_file(
        folder, "theirs", "minari", dir=tmp_path, leave_out=["infos/goal"]
    ) as ring:
        assert list(ring.rows(0, 0, 4)["infos"]) == ["energy"]
    with pytest.raises(bc.errors.ArgumentError, match="`infos/gaol`"):
        bc.ReplayBuffer.from_file(
            folder, "more", "minari", dir=tmp_path, leave_out=["infos/goal", "infos/gaol"]
        )


def test_an_episode_without_an_end_is_truncated(tmp_path: Path) -> None:
    one = episode(0, 3, observations=seen(3), actions=np.zeros(3), terminations=[False] * 3)
    folder = dataset(tmp_path / "theirs", SPACES, [one])
    with bc.ReplayBuffer.from_file(folder, "theirs", "minari", dir=tmp_path) as ring:
        assert ring.rows(0, 0, 4)["flags"].tolist() == [0, 0, 2, 4]


def test_hdf5_is_recognised_and_the_way_out_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    one = episode(0, 3, observations=seen(3), actions=np.zeros(3))
    dataset(folder, SPACES, [one])
    words = (folder / "metadata.json").read_text()
    (folder / "metadata.json").write_text(words.replace('"parquet"', '"hdf5"'))
    way_out = r"\"hdf5\".*data_format=\"parquet\""
    with pytest.raises(bc.errors.ArgumentError, match=way_out):
        bc.ReplayBuffer.from_file(folder, "theirs", "minari", dir=tmp_path)
    lone = tmp_path / "main_data.hdf5"
    lone.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    with pytest.raises(bc.errors.ArgumentError, match=way_out):
        bc.ReplayBuffer.from_file(lone, "theirs", "minari", dir=tmp_path)
