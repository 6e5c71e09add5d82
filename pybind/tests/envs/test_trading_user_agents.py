"""Agents of the user in the markets of trading environments."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast import sim
from backcast._native import SharedMarket
from backcast.envs import TradingEnv, TradingVectorEnv
from envs_worlds import MODES, WORDS, same
from gymnasium.vector import AutoresetMode
from waits import WATCHDOG_S, join

SHORT: dict[str, Any] = {"warmup_ticks": 40, "frame_skip": 2, "max_ticks": 20, "preset": "calm"}
SNAPSHOTS = pytest.mark.parametrize("warm_snapshots", [0, 2])


class Churner:
    """Buys and sells by its random stream and by what it counted, and has no method `reset`."""

    def __init__(self, size: int = 20) -> None:
        self.size = size
        self.turns = 0

    def act(self, floor: sim.Floor) -> int:
        self.turns += 1
        trade = floor.buy if floor.uniform() < 0.5 else floor.sell
        trade(self.size + self.turns % 7)
        return 1 + self.turns % 3


class BoomError(Exception):
    """Exception of an agent."""


class Breaking(Churner):
    """Raises after some ticks of a market whose price was not touched before."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self.last = last

    def act(self, floor: sim.Floor) -> int:
        if floor.now > self.last:
            raise BoomError(floor.now)
        return super().act(floor)


class Uncopied(Churner):
    """Cannot be copied."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Uncopied:
        raise BoomError("no copies")


class Keeper(Churner):
    """Keeps what it is told to, or the floor of its turn."""

    def __init__(self, kept: object = None) -> None:
        super().__init__()
        self.kept = kept

    def act(self, floor: sim.Floor) -> int:
        self.kept = floor
        return super().act(floor)


class KeepsStart:
    """Reward that keeps what an episode begins with."""

    def reset(self, start: object) -> None:
        self.start = start

    def __call__(self, step: object) -> float:
        return 0.0


def test_what_cannot_be_copied_is_refused_with_its_class() -> None:
    short: dict[str, Any] = {**SHORT, "warm_snapshots": 0}
    holds_floor = TradingEnv(agents=[Keeper()], **short)
    holds_floor.reset(seed=1)
    holds_start = TradingEnv(reward=KeepsStart, **short)
    holds_start.reset(seed=1)
    for made, word in (
        (lambda: TradingEnv(agents=[Keeper(threading.Lock())], **SHORT), "Keeper"),
        (lambda: TradingEnv(agents=[Keeper()], **SHORT).reset(seed=1), "Keeper"),
        (lambda: copy.deepcopy(holds_floor), "Keeper"),
        (lambda: copy.deepcopy(holds_start), "KeepsStart"),
    ):
        with pytest.raises(bc.errors.ArgumentTypeError, match=f"a {word} cannot be copied"):
            made()


def episodes(env: TradingEnv, seeds: tuple[int, ...] = (5, 6, 5)) -> list[Any]:
    """Return the results of an episode of each seed."""
    shown: list[Any] = []
    for seed in seeds:
        shown.append([env.reset(seed=seed)])
        for step in range(10):
            shown[-1].append(env.step((step * 2) % 3))
    return shown


@SNAPSHOTS
def test_they_move_the_market_and_episodes_depend_on_the_seed_alone(warm_snapshots: int) -> None:
    settings = {**SHORT, "warm_snapshots": warm_snapshots}
    mine = Churner()
    first, second, again = episodes(TradingEnv(agents=[mine], **settings))
    assert mine.turns == 0
    assert same(first, again)
    assert not same(first, second)
    mine.size = 900
    assert same(episodes(TradingEnv(agents=[Churner()], **settings), (5,))[0], first)
    alone = episodes(TradingEnv(**settings), (5,))[0]
    assert not same(alone, first)
    assert not same(episodes(TradingEnv(agents=(mine,), **settings), (5,))[0], first)
    silent = episodes(TradingEnv(agents=(), **settings), (5,))[0]
    assert same(silent, alone)


def test_a_later_change_of_the_callers_agents_changes_no_episode() -> None:
    mine = Churner()
    env = TradingEnv(agents=[mine], warm_snapshots=0, **SHORT)
    first = episodes(env, (5,))
    mine.size, mine.turns = 700, 3
    assert same(episodes(env, (5,)), first)
    assert same(episodes(pickle.loads(pickle.dumps(env)), (5,)), first)


@SNAPSHOTS
@pytest.mark.parametrize("mode", MODES)
def test_vectors_step_them_like_single_environments(
    mode: AutoresetMode, warm_snapshots: int
) -> None:
    settings = {**SHORT, "warm_snapshots": warm_snapshots}
    runs = []
    for threads in (1, 3):
        envs = TradingVectorEnv(
            5, agents=[Churner()], autoreset_mode=WORDS[mode], threads=threads, **settings
        )
        shown: list[Any] = [envs.reset(seed=4)]
        steps = 10 if mode is AutoresetMode.DISABLED else 25
        shown += [envs.step(np.arange(5) % 3) for _ in range(steps)]
        runs.append(shown)
    assert same(*runs)
    for at in range(5):
        env = TradingEnv(agents=[Churner()], **settings)
        env.reset(seed=4 + at)
        for step in range(10):
            obs, reward, *_, info = env.step(at % 3)
            there = runs[0][1 + step]
            final = step == 9 and mode is AutoresetMode.SAME_STEP
            infos = there[4]["final_info"] if final else there[4]
            assert same(there[4]["final_obs"][at] if final else there[0][at], obs)
            assert there[1][at] == reward
            assert infos["equity"][at] == info["equity"]


def test_several_agents_of_one_market_meet_them() -> None:
    def run(settings: dict[str, Any]) -> str:
        market = SharedMarket({"a": {}, "b": {"actions": "target"}}, {**SHORT, **settings})
        shown = str(market.reset(seed=3))
        for step in range(10):
            shown += str(market.step({"a": step % 3, "b": [0.1]}))
        return shown

    first = run({"background": [Churner()]})
    assert first == run({"background": [Churner()]})
    assert first != run({})
    failing = SharedMarket({"a": {}}, {**SHORT, "background": [Breaking(45)]})
    failing.reset(seed=1)
    with pytest.raises(BoomError):
        [failing.step({"a": 1}) for _ in range(5)]
    with pytest.raises(bc.errors.EnvError, match=r"\breset\b"):
        failing.step({"a": 1})
    failing.reset(seed=1)
    failing.step({"a": 1})


@pytest.mark.parametrize("threads", [1, 2])
def test_an_exception_is_raised_as_it_is_and_a_reset_begins_anew(threads: int) -> None:
    envs = TradingVectorEnv(
        3, agents=[Churner(), Breaking(46)], threads=threads, autoreset_mode="disabled", **SHORT
    )
    first = [envs.reset(seed=1), envs.step([0, 1, 2]), envs.step([0, 1, 2])]
    with pytest.raises(BoomError):
        [envs.step([1, 1, 1]) for _ in range(3)]
    for refused in (
        lambda: envs.step([1, 1, 1]),
        lambda: envs.advance([1, 1, 1]),
        lambda: envs.reset(options={"reset_mask": np.array([True, False, True])}),
        lambda: copy.deepcopy(envs).step([1, 1, 1]),
    ):
        with pytest.raises(bc.errors.EnvError, match=r"\bagent\b.*\breset\b"):
            refused()
    again = [envs.reset(seed=1), envs.step([0, 1, 2]), envs.step([0, 1, 2])]
    assert same(first, again)


def test_exceptions_of_a_warm_up_and_of_copies_are_raised_by_the_constructor() -> None:
    with pytest.raises(BoomError):
        TradingEnv(agents=[Breaking(20)], **SHORT)
    with pytest.raises(BoomError, match="no copies"):
        TradingEnv(agents=[Uncopied()], **SHORT)
    with pytest.raises(BoomError):
        TradingEnv(agents=[Breaking(20)], warm_snapshots=0, **SHORT).reset(seed=1)


def test_copies_keep_their_state_and_pickles_begin_anew() -> None:
    env = TradingEnv(agents=[Churner()], **SHORT)
    first = env.reset(seed=1)
    for _ in range(3):
        env.step(2)
    twin = copy.deepcopy(env)
    for _ in range(6):
        assert same(env.step(1), twin.step(1))
    again = pickle.loads(pickle.dumps(env))
    assert same(again.reset(seed=1), first)

    class Local(Churner):
        pass

    local = TradingEnv(agents=[Local()], **SHORT)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(local)


@pytest.mark.parametrize("threads", [1, 2])
def test_an_agent_that_calls_its_environment_in_its_turn_gets_an_error(threads: int) -> None:
    made: list[TradingVectorEnv] = []

    class Calling:
        def act(self, floor: sim.Floor) -> None:
            if made:
                made[0].book()

    envs = TradingVectorEnv(8, agents=[Calling()], threads=threads, **SHORT)
    envs.reset(seed=1)
    made.append(envs)
    with pytest.raises(bc.errors.EnvError, match=r"\bfloor\b"):
        envs.step(np.ones(8, int))
    made.clear()
    envs.reset(seed=1)
    envs.step(np.ones(8, int))


def test_an_account_goes_with_an_agent_and_bad_agents_are_refused() -> None:
    poor = TradingEnv(agents=[(Churner(), {"cash": 0})], **SHORT)
    short = episodes(poor, (5,))
    assert not same(short, episodes(TradingEnv(agents=[Churner()], **SHORT), (5,)))
    with pytest.raises(bc.errors.EnvError, match=r"agents\[0\]\[1\].*`coin`"):
        TradingEnv(agents=[(Churner(), {"coin": 0})], **SHORT)
    for at, account, words in (
        (0, {"cash": -1}, r"agents\[0\].*account.cash.*-1 cash units"),
        (1, {"shares": 10**8}, r"agents\[1\].*100000000"),
    ):
        given: list[Any] = [Churner() for _ in range(at)]
        with pytest.raises(bc.errors.EnvError, match=words):
            TradingEnv(agents=[*given, (Churner(), account)], **SHORT)
        with pytest.raises(bc.errors.SimError, match=words):
            sim.Market(agents=[*given, (Churner(), account)])
    for bad in (3, [3], [Churner]):
        with pytest.raises(bc.errors.ArgumentTypeError, match=r"\bagents\b"):
            TradingEnv(agents=bad, **SHORT)  # type: ignore[arg-type]
    nothing = sim.MarketConfig.preset("calm")
    for kind in ("maker", "noise", "value", "signal", "executor"):
        getattr(nothing.population, kind).count = 0
    settings = {name: value for name, value in SHORT.items() if name != "preset"}
    with pytest.raises(bc.errors.EnvError, match=r"\bagents\b"):
        TradingEnv(market=nothing, **settings)
    episodes(TradingEnv(market=nothing, agents=[Churner()], **settings), (5,))


class Meeting:
    """Raises in its turn in one thread, once a step in another thread has ended."""

    armed = False
    raised = threading.Event()
    may_end = threading.Event()

    def act(self, floor: sim.Floor) -> int:
        if Meeting.armed and threading.current_thread().name == "breaking":
            Meeting.raised.set()
            raise BoomError(floor.now)
        return 1


class Lasting:
    """Reward that keeps the step of the breaking thread from its end."""

    def __call__(self, step: Any) -> float:  # noqa: ANN401
        if Meeting.armed and threading.current_thread().name == "breaking":
            assert Meeting.may_end.wait(WATCHDOG_S)
        return 0.0


def alone(**settings: Any) -> Any:  # noqa: ANN401
    return TradingEnv(agents=[Meeting()], reward=Lasting, **settings)


def shared(**settings: Any) -> Any:  # noqa: ANN401
    return SharedMarket({"a": {}}, {"background": [Meeting()], "reward": Lasting, **settings})


@SNAPSHOTS
@pytest.mark.parametrize("reset_copy", [False, True])
@pytest.mark.parametrize("make", [alone, shared])
def test_an_environment_and_its_copy_raise_their_own_exceptions(
    make: Any,  # noqa: ANN401
    *,
    reset_copy: bool,
    warm_snapshots: int,
) -> None:
    action: Any = 1 if make is alone else {"a": 1}
    env = make(warm_snapshots=warm_snapshots, **SHORT)
    env.reset(seed=1)
    twin = copy.deepcopy(env)
    if reset_copy:
        twin.reset(seed=2)
    for breaking, other in ((env, twin), (twin, env)):
        found: list[str] = []

        def step(breaking: Any = breaking, found: list[str] = found) -> None:  # noqa: ANN401
            try:
                breaking.step(action)
            except BoomError:
                found.append("raised")

        Meeting.raised.clear()
        Meeting.may_end.clear()
        Meeting.armed = True
        thread = threading.Thread(target=step, name="breaking", daemon=True)
        try:
            thread.start()
            assert Meeting.raised.wait(WATCHDOG_S)
            other.step(action)
        finally:
            Meeting.may_end.set()
            join(thread)
            Meeting.armed = False
        assert found == ["raised"]
        with pytest.raises(bc.errors.EnvError, match=r"\breset\b"):
            breaking.step(action)
        other.step(action)
        breaking.reset(seed=3)
        breaking.step(action)


def test_a_market_and_its_copy_raise_their_own_exceptions() -> None:
    market = sim.Market("calm", agents=[Breaking(20)])
    market.step(20)
    twin = copy.deepcopy(market)
    for each in (twin, market):
        with pytest.raises(BoomError):
            each.step(5)


class Noting(Churner):
    """Notes its turns in a list that it may share."""

    seen: int = 0

    def __init__(self, noted: list[int], number: int) -> None:
        super().__init__()
        self.noted, self.number = noted, number

    def act(self, floor: sim.Floor) -> int:
        self.noted.append(self.number)
        Noting.seen = max(Noting.seen, len(set(self.noted)))
        return super().act(floor)


def test_agents_share_objects_in_a_market_and_not_in_an_environment() -> None:
    noted: list[int] = []
    market = sim.Market("calm", agents=[Noting(noted, 1), Noting(noted, 2)])
    market.step(10)
    assert Noting.seen == 2
    Noting.seen = 0
    agents = [Noting([], 1), Noting([], 2)]
    agents[1].noted = agents[0].noted
    episodes(TradingEnv(agents=agents, **SHORT), (5,))
    assert Noting.seen == 1
