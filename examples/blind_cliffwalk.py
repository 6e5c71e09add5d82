"""Blind Cliffwalk: tabular Q-learning from one ring, drawn uniformly and by priority.

An agent must take the right action in each of 8 states to be rewarded once at the end; a wrong one
ends the episode. The ring holds all 256 sequences of actions in random order. One of them is
rewarded (Schaul et al., "Prioritized experience replay", ICLR 2016, section 3.1). Both learners
update a table of values, one transition an update, until its mean squared error is below 0.001.

The margin was set before the first run: draws by priority need fewer updates in at least 16 of 20
seeds, and at most 0.7 times as many in the median. Unlike the paper, updates have no importance
weights, and priorities depend on the error, not on its rank.
"""

import itertools

import backcast as bc
import numpy as np

STATES, SEEDS, MOST = 8, 20, 1_000_000
GAMMA, RATE, TOLERANCE = 1 - 1 / STATES, 0.25, 1e-3
# True values of the right actions: the reward, discounted by the steps to it. Others are worth 0.
RIGHT = GAMMA ** np.arange(STATES - 1, -1, -1)


def fill(buf: bc.ReplayBuffer, rng: np.random.Generator, right: list[int]) -> None:
    """Append the episode of every sequence of actions, in random order."""
    sequences = list(itertools.product((0, 1), repeat=STATES))
    with buf.writer() as writer:
        for which in rng.permutation(len(sequences)):
            for state, action in enumerate(sequences[which]):
                wrong, last = action != right[state], state == STATES - 1
                writer.append(
                    obs=state,
                    action=action,
                    reward=float(last and not wrong),
                    next_obs=STATES if wrong or last else state + 1,
                    terminated=wrong or last,
                    truncated=False,
                )
                if wrong:
                    break


def updates(seed: int, priority: float | None) -> int:
    """Return how many updates a learner needs; `priority` is the exponent of priorities."""
    rng = np.random.default_rng(seed)
    right = [int(action) for action in rng.integers(0, 2, STATES)]
    true = np.zeros((STATES, 2))
    true[np.arange(STATES), right] = RIGHT
    columns = {"obs": "i4", "action": "i4", "reward": "f4"}
    with bc.ReplayBuffer.create(None, columns, capacity=1024) as buf:
        fill(buf, rng, right)
        # The last row has the values of the state after the end, and stays 0.
        q = np.vstack([rng.normal(0, 0.1, (STATES, 2)), np.zeros((1, 2))])
        if priority is None:
            sampler = buf.sampler(seed=seed)
        else:
            sampler = buf.sampler(seed=seed, select=bc.Priority(alpha=priority, beta=0.0))
        for count in range(1, MOST):
            batch = sampler.sample(1)
            state, action, after = (int(batch[key][0]) for key in ("obs", "action", "next_obs"))
            error = float(batch["reward"][0]) + GAMMA * q[after].max() - q[state, action]
            q[state, action] += RATE * error
            if priority is not None:
                sampler.update_priorities(batch.index, [abs(error)])
            if np.square(q[:STATES] - true).mean() < TOLERANCE:
                return count
    raise RuntimeError(f"seed {seed}: no solution within {MOST} updates")


if __name__ == "__main__":
    uniform = np.array([updates(seed, None) for seed in range(SEEDS)])
    prioritised = np.array([updates(seed, 0.7) for seed in range(SEEDS)])
    fewer = int((prioritised < uniform).sum())
    ratio = float(np.median(prioritised / uniform))
    print(f"updates in the median: {np.median(uniform):.0f} uniform, ", end="")
    print(f"{np.median(prioritised):.0f} by priority; fewer in {fewer} of {SEEDS} seeds")
    assert fewer >= 16, (uniform, prioritised)
    assert ratio <= 0.7, ratio
