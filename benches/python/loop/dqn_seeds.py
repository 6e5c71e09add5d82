"""Count the updates until DQN solves CartPole: four actors against one process.

python -m loop.dqn_seeds fleet 1 2 3 4 5
python -m loop.dqn_seeds single 1 2 3 4 5

Needs torch and Gymnasium. Both ways take network, loss, environment and test from
``examples/dqn_actors.py``. The single process works like CleanRL's ``dqn.py``: it appends a row at
each step and updates at each fourth one, with an epsilon that falls from 1 to 0.05 over 10,000
steps. Both ways draw 32 items for each transition, begin after 1,000 transitions, and test every
1,000 updates. A result is a line of JSON.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import backcast as bc
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples"))

import dqn_actors as dqn

STEPS_AN_UPDATE, WARM_UP, FALL = 4, 1_000, 10_000


def single(seed: int) -> tuple[int, float]:
    """Train in one process; return the number of updates and the score."""
    learner, env, draw = dqn.Learner(seed), dqn.make_env(), np.random.default_rng(seed)
    columns = {name: kind for name, kind in dqn.COLUMNS.items() if name != "params_version"}
    buf = bc.ReplayBuffer.create(None, columns, capacity=50_000)
    sampler, score, update, step = buf.sampler(seed=seed), 0.0, 0, 0
    with buf, buf.writer() as writer:
        obs, _ = env.reset(seed=seed)
        while score < dqn.SOLVED and update < dqn.MOST_UPDATES:
            epsilon = max(0.05, 1 - 0.95 * step / FALL)
            greedy = draw.random() >= epsilon
            action = dqn.greedy(learner.net, obs) if greedy else int(draw.integers(2))
            after, reward, terminated, truncated, _ = env.step(action)
            row: dict[str, Any] = {"obs": obs, "action": action, "reward": reward}
            writer.append(**row, next_obs=after, terminated=terminated, truncated=truncated)
            obs, step = (env.reset()[0] if terminated or truncated else after), step + 1
            if step > WARM_UP and step % STEPS_AN_UPDATE == 0:
                learner.learn(sampler.sample(dqn.BATCH))
                update += 1
                if update % 1_000 == 0:
                    score = dqn.test(learner.net)
    return update, score


def fleet(seed: int) -> tuple[int, float]:
    """Run the example; return the number of updates and the score."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        dqn.main(seed)
    update, score = re.findall(r"^(\d+): return (\d+)", said.getvalue(), re.MULTILINE)[-1]
    return int(update), float(score)


def main(way: str, seeds: list[int]) -> None:
    """Run the seeds of one way."""
    for seed in seeds:
        start, run = time.perf_counter(), single if way == "single" else fleet
        updates, score = run(seed)
        line = {"way": way, "seed": seed, "updates": updates, "score": score}
        line |= {"seconds": round(time.perf_counter() - start), "load": os.getloadavg()[0]}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], [int(seed) for seed in sys.argv[2:]] or [1, 2, 3, 4, 5])
