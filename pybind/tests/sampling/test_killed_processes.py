"""Learners and actors that are killed: items are drawn once, and only their batches are lost."""

from __future__ import annotations

import contextlib
import multiprocessing as mp
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import backcast as bc
import numpy as np
import pytest
from budgets import budget, budget_of
from waits import WATCHDOG_S, watchdog

LEARNERS, KILLS = 3, budget_of(100, 40)
BATCH, ORDERS = 4, 4
"""Items of a batch, and batches that each learner is told to draw between two kills."""
ITEMS = LEARNERS * BATCH * ORDERS * KILLS
LENGTH, ACTORS = 16, 3


def options(form: str) -> dict[str, Any]:
    """Return the options of a sampler of one of the forms of this test."""
    found: dict[str, dict[str, Any]] = {
        "epoch": {"select": bc.Epoch(seed=5)},
        "epoch in order": {"select": bc.Epoch(shuffle=False)},
        "consume": {"select": bc.Consume()},
        "episodes": {"select": bc.Consume(), "form": bc.WholeEpisodes()},
        "epochs of episodes": {"select": bc.Epoch(seed=5), "form": bc.WholeEpisodes()},
    }
    return found[form]


def learn(name: str, form: str, channel: Connection) -> None:
    """Draw a batch for each order, and send the rows of its items."""
    with bc.ReplayBuffer.attach(name) as buf, buf.sampler(**options(form)) as sampler:
        while channel.recv():
            channel.send(sampler.sample(BATCH, timeout=WATCHDOG_S).index.tolist())


def act(name: str, seed: int) -> None:
    """Append episodes of a few steps until the process is killed."""
    rng = np.random.default_rng(seed)
    with bc.ReplayBuffer.attach(name) as buf, buf.writer() as writer:
        while True:
            end = rng.random() < 0.1
            writer.append(
                obs=rng.random(), terminated=end, truncated=False, final_obs=-1.0 if end else None
            )


class Processes:
    """Processes that are killed and started again."""

    def __init__(self) -> None:
        self._context = mp.get_context("forkserver")
        # A process that is forked from this one has nothing to import.
        self._context.set_forkserver_preload(["__main__", __name__])
        self.all: list[BaseProcess] = []

    def start(self, target: Any, *args: Any) -> BaseProcess:  # noqa: ANN401
        process = self._context.Process(target=target, args=args)
        process.start()
        self.all.append(process)
        return process

    def learner(self, name: str, form: str) -> tuple[BaseProcess, Connection]:
        ours, theirs = self._context.Pipe()
        process = self.start(learn, name, form, theirs)
        theirs.close()
        return process, ours


@pytest.fixture
def processes() -> Iterator[Processes]:
    made = Processes()
    yield made
    for process in made.all:
        process.kill()
        process.join(WATCHDOG_S)


def received(channel: Connection) -> list[list[int]]:
    """Return the batches that a process has sent and that are not received yet."""
    batches: list[list[int]] = []
    with contextlib.suppress(EOFError, ConnectionResetError):
        while channel.poll():
            batches.append(channel.recv())
    return batches


def next_batch(channel: Connection) -> list[int]:
    assert channel.poll(WATCHDOG_S), "the learner sends nothing"
    batch: list[int] = channel.recv()
    return batch


def rest(sampler: bc.Sampler, seen: Counter[int]) -> Iterator[int]:
    """Yield what no learner has claimed: of a queue what is new, of a pass what is left of it."""
    if isinstance(sampler.select, bc.Consume):
        with contextlib.suppress(bc.WaitTimeoutError):
            while True:
                yield from sampler.sample(None, timeout=0).index.tolist()
    elif sampler.form is None:
        times: Any = sampler.stats()["times_sampled"]
        claimed = sum(bin_["rows"] for bin_ in times if bin_["times"] > 0)
        if claimed < ITEMS:
            yield from sampler.sample(ITEMS - claimed).index.tolist()
    else:
        # Rows that begin no episode are in the order too, so the first repeat ends the pass.
        while (row := sampler.sample(1).index.item()) not in seen:
            yield row


@pytest.mark.parametrize(
    "form", ["epoch", "epoch in order", "consume", "episodes", "epochs of episodes"]
)
def test_learners_that_are_killed_lose_their_batch_alone(
    form: str, processes: Processes, request: pytest.FixtureRequest
) -> None:
    name, dice = f"killed-{form.replace(' ', '-')}", np.random.default_rng(1)
    kills = KILLS if form in {"epoch", "episodes"} else max(1, KILLS // 5)
    # Nearly all of the time goes into starting processes, which other programs slow down.
    watchdog(request.config, 10 * WATCHDOG_S)
    steps = 3 if "episodes" in form else 1
    with bc.ReplayBuffer.create(name, {"obs": "f4"}, capacity=4 * ITEMS * steps) as buf:
        ends = np.arange(ITEMS * steps) % steps == steps - 1
        with buf.writer() as writer:
            for at, end in enumerate(ends):
                final = {"final_obs": -at} if end else {}
                writer.append(obs=at, terminated=end, truncated=False, **final)
        every: dict[str, Any] = {"select": "fifo"} | (
            {"form": bc.WholeEpisodes()} if steps > 1 else {}
        )
        with buf.sampler(**every) as fifo:
            expected = set(fifo.sample(ITEMS).index.tolist())
        assert len(expected) == ITEMS
        drawn: list[list[int]] = []
        learners = [processes.learner(name, form) for _ in range(LEARNERS)]
        for _ in range(kills):
            for _, channel in learners:
                for _ in range(ORDERS):
                    channel.send(True)
            at = int(dice.integers(LEARNERS))
            victim, channel = learners[at]
            drawn += [next_batch(channel) for _ in range(dice.integers(ORDERS))]
            victim.kill()
            victim.join(WATCHDOG_S)
            drawn += received(channel)
            channel.close()
            for at_other, (_, other) in enumerate(learners):
                if at_other != at:
                    drawn += [next_batch(other) for _ in range(ORDERS)]
            learners[at] = processes.learner(name, form)
        for process, channel in learners:
            channel.send(False)
            process.join(WATCHDOG_S)
            assert process.exitcode == 0
        with buf.sampler(**options(form)) as sampler:
            counts = Counter(row for batch in drawn for row in batch)
            counts.update(rest(sampler, counts))
    assert max(counts.values()) == 1, "an item was drawn twice"
    assert set(counts) <= expected
    lost = ITEMS - len(counts)
    assert lost <= kills * BATCH, f"{lost} items are lost by {kills} kills"


def test_transitions_of_actors_that_are_killed_are_in_one_block_each(processes: Processes) -> None:
    name, dice, kills = "killed-actors", np.random.default_rng(2), budget(60)
    queue = bc.RateLimiter.queue(2_000)
    settings: dict[str, Any] = {"capacity": 120_000, "lanes": ACTORS, "limiter": queue}
    with bc.ReplayBuffer.create(name, {"obs": "f4"}, **settings) as buf:
        sampler = buf.sampler(form=bc.Rollout(LENGTH), select=bc.Consume())
        actors = [processes.start(act, name, seed) for seed in range(ACTORS)]
        seen: list[int] = []
        for kill in range(kills):
            for _ in range(dice.integers(1, 6)):
                block = sampler.sample(None, at_most=8, timeout=WATCHDOG_S)
                assert block.mask is not None
                seen += block.index[block.mask].tolist()
            at = int(dice.integers(ACTORS))
            actors[at].kill()
            actors[at].join(WATCHDOG_S)
            actors[at] = processes.start(act, name, ACTORS + kill)
        for actor in actors:
            actor.kill()
            actor.join(WATCHDOG_S)
        # A killed actor may have left an append that the limiter did not count.
        limiter = buf.limiter
        assert limiter is not None
        limiter.disable()
        with contextlib.suppress(bc.WaitTimeoutError):
            while True:
                block = sampler.sample(None, timeout=0)
                assert block.mask is not None
                seen += block.index[block.mask].tolist()
        assert not sampler.stats()["too_old"]
        with buf.sampler(select="fifo") as fifo:
            expected = fifo.sample(len(buf)).index.tolist()
    assert len(seen) == len(set(seen)), "a transition was drawn twice"
    assert sorted(seen) == sorted(expected)
