"""A sampler says what it has done while another thread draws from it."""

from __future__ import annotations

import threading
from typing import Any

import backcast as bc
import pytest
from waits import join, until

SELECTORS = {
    "uniform": None,
    "priority": bc.Priority(alpha=0.7),
    "annealed": bc.Priority(alpha=(1.0, 0.0, 10)),
    "rank": bc.Priority(alpha=0.7, by="rank"),
    "annealed rank": bc.Priority(alpha=(1.0, 0.0, 10), by="rank"),
}


@pytest.mark.parametrize("prefetch", [None, 0, 2], ids=["sample", "batches", "ahead"])
@pytest.mark.parametrize("name", SELECTORS)
def test_numbers_of_a_sampler_wait_for_no_draw(name: str, prefetch: int | None) -> None:
    buf = bc.ReplayBuffer.create(
        None, {"obs": "f4"}, capacity=100, limiter=bc.RateLimiter.queue(20)
    )
    writer = buf.writer()
    for t in range(13):
        writer.append(obs=t, terminated=False, truncated=False)
    options: dict[str, Any] = {} if name == "uniform" else {"select": SELECTORS[name]}
    sampler = buf.sampler(seed=1, **options)
    drawn: list[int] = []

    def draw() -> None:
        try:
            if prefetch is None:
                while True:
                    drawn.append(len(sampler.sample(4).index))
            for batch in sampler.batches(4, prefetch=prefetch):
                drawn.append(len(batch.index))
        except bc.ClosedError:
            pass

    def ask() -> None:
        said.append((sampler.alpha, sampler.sampled, sampler.lapped, sampler.stats()["sampled"]))

    said: list[tuple[Any, ...]] = []
    drawing, asking = threading.Thread(target=draw), threading.Thread(target=ask)
    drawing.start()
    try:
        # The queue has no transition left, and the draw waits without end.
        until(lambda: len(drawn) == 3 and buf.stats()["limiter"]["waiters"])
        asking.start()
        join(asking)
    finally:
        sampler.close()
        join(drawing)
    batches = len(drawn)
    assert batches == 3
    ((alpha, *counts),) = said
    assert counts == [4 * batches, 0, 4 * batches]
    expected = {
        "uniform": None,
        "priority": 0.7,
        "rank": 0.7,
        # The table has the exponent of the last batch, and a sampler by rank that of its next one.
        "annealed": pytest.approx(1 - (batches - 1) / 10),
        "annealed rank": pytest.approx(1 - batches / 10),
    }
    assert alpha == expected[name]
    for number in ("sampled", "lapped"):
        with pytest.raises(bc.ClosedError):
            getattr(sampler, number)
    writer.close()
    buf.close()
