"""Append rows between two SIGSTOPs, so that ``cost.rs`` can count the instructions.

``appender.py ROWS plain|next``: one keyword call per row, with an observation of 336 bytes.
``next`` also gives ``next_obs``.
"""

import gc
import os
import signal
import sys

import backcast as bc
import numpy as np

WARM_UP = 2_000


def main() -> None:
    """Wait until the parent counts, then append between two SIGSTOPs."""
    rows, kind = int(sys.argv[1]), sys.argv[2]
    sys.stdin.readline()
    columns = {"obs": ("f4", (84,)), "action": ("f4", (6,)), "reward": "f4"}
    buf = bc.ReplayBuffer.create(None, columns, capacity=100_000)
    obs = [np.full(84, t, np.float32) for t in range(WARM_UP + rows + 1)]
    action = np.zeros(6, np.float32)
    writer = buf.writer()

    def plain(first: int, last: int) -> None:
        for t in range(first, last):
            writer.append(obs=obs[t], action=action, reward=1.0, terminated=False, truncated=False)

    def following(first: int, last: int) -> None:
        for t in range(first, last):
            writer.append(
                obs=obs[t],
                action=action,
                reward=1.0,
                next_obs=obs[t + 1],
                terminated=False,
                truncated=False,
            )

    append = following if kind == "next" else plain
    # One-time work happens before the count.
    append(0, WARM_UP)
    gc.disable()
    os.kill(os.getpid(), signal.SIGSTOP)
    append(WARM_UP, WARM_UP + rows)
    os.kill(os.getpid(), signal.SIGSTOP)
    assert writer.rows_written == WARM_UP + rows


if __name__ == "__main__":
    main()
