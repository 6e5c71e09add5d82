"""Decisions of the restart policy, without processes or clocks."""

from __future__ import annotations

import signal

import pytest
from backcast.fleet._restarts import (
    CHOICES,
    Decision,
    ProcessEnd,
    Restart,
    RestartAfter,
    RestartPolicy,
    decide,
)

KILLED = -signal.SIGKILL
AGAIN = RestartAfter(0.1, (0.0,))


@pytest.mark.parametrize(
    ("status", "ready", "raised", "signal_always_never"),
    [
        pytest.param(0, True, False, ("finished", "finished", "finished"), id="returned"),
        pytest.param(KILLED, True, False, (AGAIN, AGAIN, "failed"), id="killed"),
        pytest.param(KILLED, False, False, (AGAIN, AGAIN, "failed"), id="killed in its import"),
        pytest.param(1, True, False, ("failed", AGAIN, "failed"), id="exit status"),
        pytest.param(1, True, True, ("failed", AGAIN, "failed"), id="raised"),
        pytest.param(0, True, True, ("failed", AGAIN, "failed"), id="raised, with status 0"),
        pytest.param(1, False, True, ("failed", "failed", "failed"), id="import failed"),
        pytest.param(0, False, False, ("failed", "failed", "failed"), id="left in its import"),
    ],
)
def test_an_end_is_followed_by_what_the_policy_says(
    status: int, ready: bool, raised: bool, signal_always_never: tuple[Decision, ...]
) -> None:
    end = ProcessEnd(status, ready, raised, at_s=0.0)
    decisions = tuple(decide(end, RestartPolicy(choice, 5), ()) for choice in CHOICES)
    assert decisions == signal_always_never


@pytest.mark.parametrize("restart", ["signal", "always"])
def test_restarts_wait_longer_with_every_death_of_the_last_minute(restart: Restart) -> None:
    policy = RestartPolicy(restart, max_deaths=5)
    deaths_s: tuple[float, ...] = ()
    waits_s = []
    # At 61.5 s, two of the deaths are over a minute old.
    for now_s in (0.0, 1.0, 2.0, 3.0, 61.5, 61.6):
        decision = decide(ProcessEnd(KILLED, True, False, now_s), policy, deaths_s)
        assert isinstance(decision, RestartAfter)
        deaths_s = decision.deaths_s
        waits_s.append(decision.wait_s)
    assert waits_s == [0.1, 0.2, 0.4, 0.8, 0.4, 0.8]
    assert decide(ProcessEnd(KILLED, True, False, 61.7), policy, deaths_s) == "too many deaths"


def test_a_restart_waits_five_seconds_at_most() -> None:
    earlier_s = tuple(float(second) for second in range(20))
    decision = decide(
        ProcessEnd(KILLED, True, False, 20.0), RestartPolicy("signal", 10_000), earlier_s
    )
    assert decision == RestartAfter(5.0, (*earlier_s, 20.0))
