"""TensorDicts drawn from any ring, in TorchRL's layout, and a learner that draws from both."""

from __future__ import annotations

from functools import partial
from typing import Any

import backcast as bc
import numpy as np
import pytest

pytest.importorskip(
    "torchrl", reason="TorchRL is not installed: pip install -r requirements/adapters.txt"
)

import torch
from backcast.torchrl import Sampler, Storage
from tensordict import TensorDict
from tensordict.nn import TensorDictModule
from torchrl.data import LazyTensorStorage, OneHot, TensorDictReplayBuffer
from torchrl.modules import QValueActor
from torchrl.objectives import DQNLoss
from torchrl.objectives.value import GAE

STEPS = 40
LENGTH = 9  # of an episode


def filled(**more: Any) -> bc.ReplayBuffer:
    """Return a ring of episodes that end in turns both ways; `obs` is 100 * episode + step."""
    columns = {
        "obs": ("f4", (2,)),
        "goal": {"x": ("f8", (), "obs")},
        "action": "i8",
        "reward": "f4",
        "lstm": ("f4", (3,)),
        **more,
    }
    buf = bc.ReplayBuffer.create(None, columns, capacity=200)
    with buf.writer() as writer:
        for step in range(STEPS):
            episode, t = divmod(step, LENGTH)
            last, at = t == LENGTH - 1, 100 * episode + t
            writer.append(
                obs=[at, -at],
                goal={"x": at},
                action=step,
                reward=step,
                lstm=[step] * 3,
                terminated=last and episode % 2 == 0,
                truncated=last and episode % 2 == 1,
                next_obs={"obs": [at + 1, -at - 1], "goal": {"x": at + 1}},
                **dict.fromkeys(more, 1.5),
            )
    return buf


def test_the_keys_are_torchrls_and_the_values_those_of_the_ring() -> None:
    buf = filled()
    with Sampler(buf, seed=7) as sampler:
        found = sampler.sample(64)
        again = sampler.gather(found["index"][:5])
    batch = buf.sampler(seed=7).sample(64)
    assert found.batch_size == torch.Size([64])
    assert set(found.keys(True, True)) == {
        "observation",
        ("goal", "x"),
        "action",
        "lstm",
        "index",
        ("next", "observation"),
        ("next", "goal", "x"),
        ("next", "reward"),
        ("next", "done"),
        ("next", "terminated"),
        ("next", "truncated"),
    }
    for key, column in (
        ("observation", batch["obs"]),
        (("goal", "x"), batch["goal"]["x"]),
        ("action", batch["action"]),
        ("lstm", batch["lstm"]),
        ("index", batch["index"]),
        (("next", "observation"), batch["next_obs"]),
        (("next", "goal", "x"), batch["next_goal"]["x"]),
        (("next", "reward"), batch["reward"][:, None]),
        (("next", "terminated"), batch["terminated"][:, None]),
        (("next", "truncated"), batch["truncated"][:, None]),
        (("next", "done"), (batch["terminated"] | batch["truncated"])[:, None]),
    ):
        assert found[key].shape == column.shape
        assert (found[key].numpy() == column).all(), key
    assert (again["observation"] == found["observation"][:5]).all()


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_n_step_returns_are_those_of_the_definition(n: int, gamma: float) -> None:
    sampler = Sampler(filled(), seed=3, n_step=n, gamma=gamma)
    found = sampler.sample(400)
    for row in found.unbind(0)[:200]:
        step = int(row["action"])
        total, count, last = 0.0, 0, step
        for k in range(n):
            last = step + k
            if last >= STEPS:
                last -= 1
                break
            total, count = total + gamma**k * last, k + 1
            if last % LENGTH == LENGTH - 1:
                break
        ended, odd = last % LENGTH == LENGTH - 1, (last // LENGTH) % 2 == 1
        following = row["next"]
        assert following["reward"].item() == pytest.approx(total, rel=1e-6)
        assert row["steps_to_next_obs"].tolist() == [count]
        assert following["observation"][0] == 100 * (last // LENGTH) + last % LENGTH + 1
        assert following["done"].item() == ended
        assert following["terminated"].item() == (ended and not odd)
        assert following["truncated"].item() == (ended and odd)
        assert row["observation"][0] == 100 * (step // LENGTH) + step % LENGTH


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({"form": bc.Sequence(4)}, (16, 4)),
        ({"form": bc.Sequence(4, stride=2, first=["lstm"])}, (16, 4)),
        ({"history": 3}, (16, 3)),
        ({"form": bc.WholeEpisodes("padded", max_length=12)}, (16, 12)),
    ],
    ids=["sequence", "stored-state", "history", "episodes"],
)
def test_windows_have_a_time_axis_a_mask_and_an_index_for_each_place(
    options: dict[str, Any], shape: tuple[int, int]
) -> None:
    buf = filled()
    found = Sampler(buf, seed=5, **options).sample(shape[0])
    batch = buf.sampler(seed=5, copy=True, **options).sample(shape[0])
    assert found.batch_size == torch.Size(shape)
    mask = found["collector", "mask"]
    assert (mask.numpy() == batch["mask"]).all()
    assert (~mask).any()
    assert (found["observation"].numpy() == batch["obs"]).all()
    assert found["next", "reward"].shape == (*shape, 1)
    # Each place is a transition of its own.
    assert (found["index"][~mask] == -1).all()
    alone = buf.gather(found["index"][mask].numpy())
    assert (alone["obs"] == found["observation"][mask].numpy()).all()
    assert (alone["next_obs"] == found["next", "observation"][mask].numpy()).all()
    if getattr(options.get("form"), "first", None):
        assert (found["lstm"] == found["lstm"][:, :1]).all()
        assert (found["lstm"][:, 0, 0] == found["action"][:, 0]).all()
    # Windows do not share memory.
    found["observation"][:, 0] = -7777
    assert (found["next", "observation"] != -7777).all()


def test_ragged_episodes_and_rollouts_have_their_own_batch_sizes() -> None:
    buf = filled()
    ragged = Sampler(buf, seed=5, form=bc.WholeEpisodes("ragged")).sample(3)
    assert ragged.batch_size == torch.Size([3 * LENGTH])
    assert ragged["next", "done"].sum() == 3
    rolled = Sampler(buf, form=bc.Rollout(8), select=bc.Consume(table="r")).sample(1)
    assert rolled.batch_size == torch.Size([1, 8])
    assert rolled["action"][0].tolist() == list(range(8))


def test_advantages_of_rollouts_are_summed_along_time() -> None:
    lanes, length = 3, 10
    buf = bc.ReplayBuffer.create(
        None, {"obs": ("f4", (1,)), "reward": "f4"}, capacity=300, lanes=lanes
    )
    rewards = torch.rand(length + 1, lanes)
    never = np.zeros(lanes, bool)
    with buf.writer(lanes, "same_step") as writer:
        for row in rewards.numpy():
            writer.append(obs=row[:, None], reward=row, terminated=never, truncated=never)
        rolled = Sampler(buf, form=bc.Rollout(length), select=bc.Consume()).sample(lanes)
    rolled["state_value"] = torch.zeros(lanes, length, 1)
    rolled["next", "state_value"] = torch.zeros(lanes, length, 1)
    GAE(gamma=0.9, lmbda=1.0, value_network=None)(rolled)
    expected = torch.zeros(lanes, length)
    at = rolled["index"] >> 48
    for t in reversed(range(length)):
        later = expected[:, t + 1] if t + 1 < length else 0
        expected[:, t] = rewards[t][at[:, 0]] + 0.9 * later
    assert torch.allclose(rolled["advantage"][..., 0], expected)


@pytest.mark.parametrize(
    ("column", "options"),
    [
        ("observation", {}),
        ("root/observation", {}),
        ("next/observation", {}),
        ("next/reward", {}),
        ("root/index", {}),
        ("priority_weight", {}),
        ("collector/mask", {}),
        ("steps_to_next_obs", {"n_step": 2, "gamma": 0.9}),
    ],
)
def test_columns_of_one_key_are_refused(column: str, options: dict[str, Any]) -> None:
    columns = {"obs": "f4", "reward": "f4", column: "f4"}
    buf = bc.ReplayBuffer.create(None, columns, capacity=20)
    with pytest.raises(bc.errors.ArgumentError, match=f"`{column}` has the key|column `{column}`"):
        Sampler(buf, **options)
    Sampler(buf, columns=["obs", "reward"], **options).close()


def test_priorities_go_with_the_index_of_windows_too() -> None:
    sampler = Sampler(filled(), seed=5, select=bc.Priority(alpha=1.0, beta=0.4))
    drawn = sampler.sample(400)
    assert drawn["priority_weight"].shape == (400,)
    assert (
        sampler.update_priorities(drawn["index"], torch.where(drawn["action"] == 3, 6e4, 1e-4)) == 0
    )
    assert (sampler.sample(400)["action"] == 3).all()
    windows = Sampler(filled(), seed=5, form=bc.Sequence(4), select=bc.Priority(alpha=1.0))
    drawn = windows.sample(400)
    errors = torch.where(drawn["action"][..., :1] == 4, 6e4, 1e-4).expand(400, 4)
    mask = drawn["collector", "mask"]
    windows.update_priorities(drawn["index"], errors.unsqueeze(-1), mask=mask)
    assert (windows.sample(100)["action"][:, 0] == 4).all()


def test_batches_drawn_ahead_are_those_of_sample() -> None:
    buf = filled()
    one, two = Sampler(buf, seed=7), Sampler(buf, seed=7, transform=lambda td: td["index"])
    with two.batches(16, limit=4) as ahead:
        assert [(drawn == one.sample(16)["index"]).all() for drawn in ahead] == [True] * 4
    again = Sampler(buf, state=one.state())
    assert (again.sample(16)["index"] == one.sample(16)["index"]).all()


@pytest.mark.parametrize(
    "options",
    [
        {"n_step": 3, "gamma": 0.9},
        {"history": 3},
        {"columns": ["obs", "reward"]},
        {"form": bc.Sequence(4, first=["lstm"])},
    ],
    ids=["n-step", "history", "columns", "sequence"],
)
def test_a_saved_sampler_goes_on_with_its_form(options: dict[str, Any]) -> None:
    buf = filled()
    one = Sampler(buf, seed=7, **options)
    one.sample(8)
    again = Sampler(buf, state=one.state())
    left, right = one.sample(8), again.sample(8)
    assert set(left.keys(True, True)) == set(right.keys(True, True))
    assert (left["next", "reward"] == right["next", "reward"]).all()
    assert (left["index"] == right["index"]).all()


def test_some_columns_are_drawn_alone() -> None:
    found = Sampler(filled(), seed=1, columns=["obs", "reward"]).sample(4)
    assert set(found.keys(True, True)) == {
        *("observation", "index", ("next", "observation"), ("next", "reward")),
        *(("next", end) for end in ("done", "terminated", "truncated")),
    }


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"future": 2}, "form=bc.Sequence"),
        ({"n_step": 2, "gamma": 0.9, "history": 2}, "leave one out"),
        ({"n_step": 2, "gamma": "discount"}, "steps_to_next_obs"),
        ({"columns": ["reward"]}, "no column of observations"),
        ({"history": {"obs": 3, "action": 2}}, "one batch size"),
        ({"copy": False}, "always on"),
        ({"transform": 3}, "takes a TensorDict"),
        ({"device": "cuda:99"}, "cuda:99"),
        ({"n_stepp": 3}, "n_step"),
    ],
)
def test_what_has_no_form_as_a_tensordict_is_refused(options: dict[str, Any], words: str) -> None:
    buf = filled(discount="f4")
    with pytest.raises(bc.errors.ArgumentError, match=words):
        Sampler(buf, **options)
    with pytest.raises(bc.errors.ArgumentTypeError, match=r"storage\.ring"):
        Sampler(Storage(10))


def test_a_ring_of_a_storage_has_its_keys() -> None:
    t = torch.arange(30)
    ends = (t % 10 == 9)[:, None]
    data = TensorDict(
        {
            "observation": t[:, None].float(),
            "done": torch.zeros(30, 1, dtype=torch.bool),
            "action": t,
            "next": {
                "observation": t[:, None].float() + 1,
                "reward": t[:, None].float(),
                "done": ends,
                "terminated": ends,
            },
        },
        [30],
    )
    data["observation"][10:] += 5
    data["next", "observation"][10:] += 5
    storage = Storage(50)
    storage.set(range(30), data)
    found = Sampler(storage.ring, seed=1, n_step=3, gamma=0.5).sample(300)
    at = found["action"]
    left = 10 - at % 10
    assert (found["steps_to_next_obs"][:, 0] == left.clamp(max=3)).all()
    assert (found["next", "terminated"][:, 0] == (left <= 3)).all()
    assert (
        found["next", "observation"][:, 0] == found["observation"][:, 0] + left.clamp(max=3)
    ).all()
    assert "torchrl" not in found
    plain = Sampler(storage.ring, seed=1).sample(300)
    assert (plain["next", "done"] == ends[plain["action"]]).all()


# A learner


def play(count: int, generator: torch.Generator) -> TensorDict:
    """Return steps of a walk on 5 places: action 1 goes right, and place 4 ends with reward 1."""
    places, following, actions = [], [], []
    at = 0
    for _ in range(count):
        action = int(torch.randint(2, (), generator=generator))
        places.append(at)
        actions.append(action)
        at = min(at + 1, 4) if action else max(at - 1, 0)
        following.append(at)
        if at == 4:
            at = 0
    arrived = torch.tensor(following) == 4
    return TensorDict(
        {
            "observation": torch.eye(5)[places],
            "action": torch.eye(2, dtype=torch.int64)[actions],
            "next": {
                "observation": torch.eye(5)[following],
                "reward": arrived[:, None].float(),
                "done": arrived[:, None],
                "terminated": arrived[:, None],
            },
        },
        [count],
    )


@pytest.mark.parametrize("drawn_by", ["torchrl", "storage", "sampler", "n-step"])
def test_q_learning_finds_the_values_of_a_walk(drawn_by: str) -> None:
    """Values are known: gamma to the power of the steps that are left."""
    gamma, n = 0.8, 3 if drawn_by == "n-step" else 1
    torch.manual_seed(0)
    storage = LazyTensorStorage(1000) if drawn_by == "torchrl" else Storage(1000)
    buffer = TensorDictReplayBuffer(storage=storage, batch_size=128)
    buffer.extend(play(1500, torch.Generator().manual_seed(1)))
    network = torch.nn.Linear(5, 2, bias=False)
    actor = QValueActor(network, spec=OneHot(2), in_keys=["observation"])
    loss = DQNLoss(actor, delay_value=True, loss_function="l2", action_space="one_hot")
    loss.make_value_estimator(gamma=gamma)
    optimiser = torch.optim.Adam(loss.parameters(), lr=0.05)
    if drawn_by in ("torchrl", "storage"):
        draw = buffer.sample
    elif drawn_by == "sampler":
        sampler = Sampler(storage.ring, seed=1)
        draw = partial(sampler.sample, 128)
    else:
        draw = partial(Sampler(storage.ring, seed=1, n_step=n, gamma=gamma).sample, 128)
    for update in range(400):
        loss(draw())["loss"].backward()
        optimiser.step()
        optimiser.zero_grad()
        if update % 10 == 0:
            loss.target_value_network_params.data.copy_(loss.value_network_params.data)
    values = network.weight.detach().T
    right = np.array([gamma ** (3 - place) for place in range(4)])
    if n == 1:
        # The walk is random, and Q-learning is of the best policy.
        assert np.allclose(values[:4, 1].numpy(), right, atol=0.05)
    assert (values[:4, 1] > values[:4, 0]).all()
    assert isinstance(actor, TensorDictModule)
