"""The replay half of the package works where the folders of the market half are deleted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import backcast as bc

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
PROGRAM = """
import backcast as bc
import numpy as np

columns = {"obs": ("f4", (3,)), "action": "i4", "reward": "f4"}
buf = bc.ReplayBuffer.create("half", columns, capacity=1_000, limiter=bc.RateLimiter(0.5))
with bc.ReplayBuffer.attach("half").writer() as writer:
    for t in range(200):
        end = {"terminated": t % 50 == 49, "truncated": False}
        after = [t + 1 - end["terminated"] / 2] * 3
        writer.append(obs=[t] * 3, action=t % 4, reward=1, next_obs=after, **end)
sampler = buf.sampler(seed=7, form=bc.Sequence(10, stride=5), select=bc.Priority(alpha=0.6))
batch = sampler.sample(32)
assert batch["obs"].shape == (32, 10, 3)
assert sampler.update_priorities(batch.index, np.ones(32)) == 0
assert buf.sampler(form=bc.WholeEpisodes()).sample(4)["obs"].shape == (4, 50, 3)
params = bc.Params.create("weights", like={"w": np.zeros(3)})
assert params.publish({"w": np.ones(3)}, version=1)
assert {found["name"] for found in bc.list_objects()} == {"half", "weights"}
import backcast.returns, backcast.fleet
from backcast.cli import main
raise SystemExit(main(["--json", "stat", "half"]))
"""


def test_replay_works_without_the_folders_of_markets(tmp_path: Path) -> None:
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith("| markets |"))
    deleted = set(re.findall(r"`backcast/([^`]+)`", row))
    assert {"envs", "finrl", "sim"} <= deleted
    package = tmp_path / "backcast"
    package.mkdir()
    for entry in Path(bc.__file__).parent.iterdir():
        if entry.name not in deleted:
            (package / entry.name).symlink_to(entry)
    shm = tmp_path / "shm"
    shm.mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "BACKCAST_DIR": str(shm)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert '"half"' in ran.stdout
    gone = subprocess.run(
        [sys.executable, "-c", "import backcast.envs"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "'backcast.envs'" in gone.stderr
