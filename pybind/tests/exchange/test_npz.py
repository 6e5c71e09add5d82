"""Arrays that NumPy saved, as other programs lay them out."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np
import pytest


def d4rl_like(steps: int = 12) -> dict[str, Any]:
    """Make steps like those of D4RL: flags of one column, infos, and arrays that are no steps."""
    draw = np.random.default_rng(2)
    return {
        "observations": np.asfortranarray(draw.normal(size=(steps, 3))),
        "actions": draw.normal(size=(steps, 2)).astype(">f4"),
        "rewards": draw.normal(size=(steps, 1)),
        "terminals": (np.arange(steps) == 3).reshape(steps, 1),
        "timeouts": (np.arange(steps) == 7).reshape(steps, 1),
        "infos/qpos": draw.normal(size=(steps, 2, 2)),
        "infos/goal": np.array(["left"] * steps),
        "metadata/algorithm": np.array("SAC"),
        "metadata/weights": np.zeros((4, 4)),
    }


def test_a_file_like_d4rl_s_is_taken_once_what_is_no_step_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "steps.npz"
    steps = d4rl_like()
    np.savez(path, **steps)
    left_out: list[str] = []
    for name in ("infos/goal", "metadata/algorithm", "metadata/weights"):
        with pytest.raises(bc.errors.ArgumentError, match=rf"`{name}` .*leave_out=\[\"{name}\"\]"):
            bc.ReplayBuffer.from_file(path, "steps", dir=tmp_path, leave_out=left_out)
        assert bc.list_objects(dir=tmp_path) == []
        left_out.append(name)
    with bc.ReplayBuffer.from_file(path, "steps", dir=tmp_path, leave_out=left_out) as ring:
        assert ring.imported is not None
        # The file has no next observations: the truncated step and the last one have no successor.
        assert ring.imported["rows_without_successor"] == 2
        assert len(ring) == 10
        rows = ring.rows(0, 0, 13)
        assert rows["flags"].tolist() == [0, 0, 0, 1, 4, 0, 0, 0, 2, 8, 0, 0, 0]
        at = np.flatnonzero(rows["flags"] != 4)
        np.testing.assert_array_equal(rows["obs"][at], steps["observations"])
        np.testing.assert_array_equal(rows["action"][at], steps["actions"])
        # Rewards in a column of one number are rewards.
        np.testing.assert_array_equal(rows["reward"][at], steps["rewards"][:, 0])
        np.testing.assert_array_equal(rows["infos"]["qpos"][at], steps["infos/qpos"])
    with bc.ReplayBuffer.from_file(
        path, "less", dir=tmp_path, leave_out=("infos", "metadata")
    ) as ring:
        assert sorted(ring.schema.columns) == ["action", "obs", "reward"]


def test_the_command_line_leaves_out_the_same(tmp_path: Path) -> None:
    np.savez(tmp_path / "steps.npz", **d4rl_like())
    words = ["import", str(tmp_path / "steps.npz"), "steps"]

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "backcast", "--dir", str(tmp_path), "--json", *words]
        return subprocess.run(
            [*command, *more], capture_output=True, text=True, check=False, timeout=60
        )

    refused = run()
    assert refused.returncode == 1
    assert "`--leave-out infos/goal`" in refused.stderr
    left_out = ["--leave-out", "infos", "--leave-out", "metadata"]
    done = run(*left_out)
    assert done.returncode == 0
    assert json.loads(done.stdout)["rows_without_successor"] == 2
    assert "next_obs" in done.stderr
    assert run(*left_out, "--leave-out", "nothing").returncode == 2


def test_names_to_leave_out_that_are_none_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "steps.npz"
    np.savez(path, observations=np.zeros(3))
    with pytest.raises(bc.errors.ArgumentError, match=r"`obz`.*steps\.npz"):
        bc.ReplayBuffer.from_file(path, "steps", dir=tmp_path, leave_out=["obz"])
    lone: Any = "observations"
    with pytest.raises(bc.errors.ArgumentTypeError, match=r"\bleave_out\b.*'observations'"):
        bc.ReplayBuffer.from_file(path, "steps", dir=tmp_path, leave_out=lone)
    with bc.ReplayBuffer.from_file(path, "steps", dir=tmp_path) as ring:
        ring.export(tmp_path / "steps.parquet")
    with pytest.raises(bc.errors.ArgumentError, match=r"\bparquet\b"):
        bc.ReplayBuffer.from_file(tmp_path / "steps.parquet", "x", dir=tmp_path, leave_out=["obs"])


def test_no_control_character_of_a_file_reaches_a_message(tmp_path: Path) -> None:
    path = tmp_path / "steps.npz"
    arrays: dict[str, Any] = {"a\x1b[31mb": np.array(["x"])}
    np.savez(path, **arrays)
    with pytest.raises(bc.errors.ArgumentError, match=r"a.\[31mb") as refused:
        bc.ReplayBuffer.from_file(path, "steps", dir=tmp_path)
    assert str(refused.value).replace("\n", "").isprintable()
    header = "{'descr': '\x1b]0;title\x07<f4', 'fortran_order': False, 'shape': (1,), }"
    lead = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("obs.npy", lead + bytes(4))
    with pytest.raises(bc.errors.ArgumentError, match="title") as refused:
        bc.ReplayBuffer.from_file(path, "steps", dir=tmp_path)
    assert str(refused.value).isprintable()


def test_an_array_with_a_name_of_batches_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "steps.npz"
    np.savez(path, obs=np.zeros((9, 2)), reward=np.zeros(9), weight=np.ones(9))
    remedy = r"`weight`.*leave_out=\[\"weight\"\]"
    with pytest.raises(bc.BackcastError, match=remedy):
        bc.ReplayBuffer.from_file(path, "steps", dir=tmp_path)
    assert bc.list_objects(dir=tmp_path) == []
    with bc.ReplayBuffer.from_file(path, "steps", dir=tmp_path, leave_out=["weight"]) as ring:
        assert sorted(ring.schema.columns) == ["obs", "reward"]
