"""TorchRL's SAC learns from a storage as from TorchRL's own: equal draws, losses and parameters."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip(
    "torchrl", reason="TorchRL is not installed: pip install -r requirements/adapters.txt"
)

import torch
from backcast.torchrl import Storage
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torchrl.data import (
    Bounded,
    LazyTensorStorage,
    PrioritizedSampler,
    RandomSampler,
    TensorDictReplayBuffer,
)
from torchrl.modules import MLP, NormalParamExtractor, ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import SACLoss, SoftUpdate

SIZE = 150
BATCH = 64
UPDATES = 80
# Steps before the first update and before each of the others. The last ones overwrite the first.
FIRST, MORE = 100, 5
LENGTH = 9  # of an episode
OBS, ACTION = 3, 2


def played(count: int) -> TensorDict:
    """Return steps of a point that is pushed about: the nearer it is to 0, the larger the reward.

    Episodes end in turns both ways, and begin anywhere.
    """
    draw = np.random.default_rng(3)
    push = draw.normal(size=(ACTION, OBS))
    actions = np.tanh(draw.normal(size=(count, ACTION)))
    seen, after = np.zeros((count, OBS)), np.zeros((count, OBS))
    at = draw.normal(size=OBS)
    for step in range(count):
        if step % LENGTH == 0:
            at = draw.normal(size=OBS)
        seen[step] = at
        at = after[step] = 0.8 * at + 0.3 * actions[step] @ push
    last = np.arange(count) % LENGTH == LENGTH - 1
    is_limit = np.arange(count) // LENGTH % 2 == 1
    ends = {"done": last, "terminated": last & ~is_limit, "truncated": last & is_limit}
    return TensorDict(
        {
            "observation": torch.tensor(seen, dtype=torch.float32),
            "action": torch.tensor(actions, dtype=torch.float32),
            "next": {
                "observation": torch.tensor(after, dtype=torch.float32),
                "reward": torch.tensor(-(after**2).sum(axis=1, keepdims=True)).float(),
                **{name: torch.tensor(flags)[:, None] for name, flags in ends.items()},
            },
        },
        [count],
    )


def sac() -> SACLoss:
    policy = torch.nn.Sequential(torch.nn.Linear(OBS, 2 * ACTION), NormalParamExtractor())
    actor = ProbabilisticActor(
        TensorDictModule(policy, in_keys=["observation"], out_keys=["loc", "scale"]),
        spec=Bounded(-1.0, 1.0, (ACTION,)),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
    )
    # Joins its inputs.
    values = MLP(
        in_features=OBS + ACTION, out_features=1, num_cells=[32], activation_class=torch.nn.ReLU
    )
    critic = ValueOperator(values, in_keys=["observation", "action"])
    loss = SACLoss(actor, critic, target_entropy=-float(ACTION))
    loss.make_value_estimator(gamma=0.5)
    return loss


class Run(NamedTuple):
    """Draws and losses of a learner, an entry for each update, and its parameters at the end."""

    drawn: list[TensorDict]
    losses: list[TensorDict]
    parameters: dict[str, torch.Tensor]


def learn(storage: Any, *, prioritised: bool) -> Run:
    """Train on a buffer over a storage, with seeds that are the same in every run."""
    torch.manual_seed(5)
    np.random.seed(5)  # TorchRL draws by priority from this generator.
    sampler = PrioritizedSampler(SIZE, alpha=0.7, beta=0.5) if prioritised else RandomSampler()
    buffer = TensorDictReplayBuffer(storage=storage, sampler=sampler, batch_size=BATCH)
    loss = sac()
    optimiser = torch.optim.Adam(loss.parameters(), lr=1e-2)
    target = SoftUpdate(loss, eps=0.95)
    data = played(FIRST + UPDATES * MORE)
    buffer.extend(data[:FIRST].clone())
    run = Run([], [], {})
    for update in range(UPDATES):
        first = FIRST + update * MORE
        buffer.extend(data[first : first + MORE].clone())
        drawn = buffer.sample()
        run.drawn.append(drawn.clone())
        found = loss(drawn)
        sum(value for name, value in found.items() if name.startswith("loss_")).backward()
        optimiser.step()
        optimiser.zero_grad()
        target.step()
        run.losses.append(found.detach().clone())
        if prioritised:
            buffer.update_tensordict_priority(drawn)
    run.parameters.update(loss.state_dict())
    return run


def assert_same(left: TensorDict, right: TensorDict) -> None:
    assert set(left.keys(True, True)) == set(right.keys(True, True))
    for key in left.keys(True, True):
        assert left[key].dtype == right[key].dtype, key
        assert torch.equal(left[key], right[key]), key


@pytest.mark.parametrize("prioritised", [False, True], ids=["uniform", "prioritised"])
def test_sac_draws_and_learns_the_same_as_from_torchrls_storage(prioritised: bool) -> None:
    ours = learn(Storage(SIZE), prioritised=prioritised)
    theirs = learn(LazyTensorStorage(SIZE), prioritised=prioritised)
    data = played(FIRST + UPDATES * MORE)
    for update, (left, right) in enumerate(zip(ours.drawn, theirs.drawn, strict=True)):
        assert_same(left, right)
        # The row of a position is the newest that was stored there.
        count = FIRST + (update + 1) * MORE
        newest = left["index"] + (count - 1 - left["index"]) // SIZE * SIZE
        rows = left.select(*data.keys(True, True))
        assert_same(rows, data[newest])
    for left, right in zip(ours.losses, theirs.losses, strict=True):
        assert_same(left, right)
    assert ours.parameters.keys() == theirs.parameters.keys()
    for name, value in ours.parameters.items():
        assert torch.equal(value, theirs.parameters[name]), name
    values = [float(found["loss_qvalue"]) for found in ours.losses]
    assert np.mean(values[-10:]) < 0.5 * np.mean(values[:10]), "the critic learns nothing"
    if prioritised:
        weights = torch.cat([drawn["priority_weight"] for drawn in ours.drawn[1:]])
        assert len(weights.unique()) > BATCH, "priorities decide nothing"
