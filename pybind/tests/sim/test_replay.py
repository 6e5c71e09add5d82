"""Recorded order books against plain Python: the book, places in queues, fills, the environment."""

from __future__ import annotations

import copy
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backcast import sim
from backcast.envs import ReplayEnv
from backcast.errors import ArgumentTypeError, EnvError, SimError
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import SyncVectorEnv
from replay_reference import Agent, Exchange, Message, draw_day, write_day

START = 34_200


def history(folder: Path, messages: list[Message]) -> sim.History:
    path = folder / "all.csv"
    path.write_text("".join(message.line() + "\n" for message in messages))
    return sim.History.read(path)


@pytest.mark.parametrize("seed", range(5))
def test_the_book_is_that_of_the_order_book_file_after_every_message(
    tmp_path: Path, seed: int
) -> None:
    messages = draw_day(seed, 350)
    for levels, before in ((1, 90), (3, 90), (10, 150), (10, 0)):
        paths = write_day(tmp_path, messages, levels, before)
        found = sim.History.read(*paths)
        rows = np.loadtxt(paths[1], delimiter=",", dtype=np.int64, ndmin=2)
        assert (found.levels, len(found)) == (levels, len(rows))
        assert found.counts["differences"] == 0
        for at in range(seed % 5, len(rows), 5):
            assert found.book(at + 1, levels=levels).ravel().tolist() == rows[at].tolist()
    exchange, found = Exchange(), history(tmp_path, messages)
    for at, message in enumerate(messages):
        exchange.apply(message)
        if at % 29 == 0:
            assert found.book(at + 1, levels=12).ravel().tolist() == exchange.row(12)
    shown = found.messages()
    assert shown["time"].tolist() == [message.time for message in messages]
    assert shown["id"].tolist() == [message.id for message in messages]


@pytest.mark.parametrize("seed", range(12))
def test_places_in_queues_and_fills_are_those_of_the_plain_reference(
    tmp_path: Path, seed: int
) -> None:
    messages = draw_day(100 + seed, 700)
    replay = sim.Replay(history(tmp_path, messages), max_position=10**9, max_orders=1_000)
    draw, fills = random.Random(seed), 0
    twin: Any = Agent(messages)
    end = messages[-1].time / 1e9
    for step in range(400):
        time = START + (end - START) * (step + 1) / 400
        # Times are those of messages, so that orders arrive between messages of one moment.
        nanos = min((m.time for m in messages if m.time >= time * 1e9), default=messages[-1].time)
        replay.run_until(nanos / 1e9)
        twin.run(nanos)
        orders = replay.orders()
        expected = twin._sorted()
        assert orders["id"].tolist() == [own.id for own in expected]
        assert orders["shares"].tolist() == [own.shares for own in expected]
        assert orders["ahead"].tolist() == [twin.ahead(own) for own in expected]
        found = replay.fills()
        columns = [found[key].tolist() for key in ("id", "side", "price", "shares", "maker")]
        # Taking orders arrive at the start of a run there, and at once here.
        assert list(zip(*columns, strict=True)) == takes_of_last_step(twin) + twin.fills
        fills += len(columns[0])
        assert replay.mid_price == twin.mark
        account = replay.account()
        assert (account["cash"], account["position"]) == (twin.cash, twin.position)
        twin.taken_at_once = []
        for _ in range(draw.randrange(3)):
            send(draw, replay, twin)
    assert fills > 50


def takes_of_last_step(twin: Any) -> list[tuple[int, int, int, int, int]]:  # noqa: ANN401
    """Return the fills of the orders that the last step sent."""
    return getattr(twin, "taken_at_once", [])


def send(draw: random.Random, replay: sim.Replay, twin: Any) -> None:  # noqa: ANN401
    """Send one request to both."""
    side, shares = draw.choice([1, -1]), draw.randrange(1, 50)
    word: Any = "buy" if side == 1 else "sell"
    kept, twin.fills = twin.fills, []
    match draw.randrange(5):
        case 0 if twin.own:
            number = draw.choice(twin.own).id
            replay.cancel(number)
            twin.cancel(number)
        case 1:
            replay.order(word, shares)
            twin.order(side, shares, None)
        case _:
            price = 1_000_000 - side * 100 * draw.randrange(-3, 8)
            replay.order(word, shares, price)
            twin.order(side, shares, price)
    twin.taken_at_once += twin.fills
    twin.fills = kept


def test_history_goes_on_as_it_did_and_no_more_is_filled_than_traded(tmp_path: Path) -> None:
    messages = draw_day(7, 2_000, halts=False)
    found = history(tmp_path, messages)
    env = ReplayEnv(found, interval=1, order_size=50, max_position=10**6, max_orders=1_000)
    env.reset(seed=1)
    env.action_space.seed(1)
    done, filled = False, 0
    while not done:
        *_, done, info = env.step(env.action_space.sample())
        filled += sum(fill.shares for fill in info["fills"] if fill.maker)
    exchange = Exchange()
    for message in messages:
        exchange.apply(message)
    assert env.replay.book(levels=20).ravel().tolist() == exchange.row(20)
    shown = found.messages()
    offered = shown["shares"][np.isin(shown["type"], [1, 4, 5])].sum()
    assert 0 < filled <= offered


def test_what_follows_changes_nothing_that_was_shown_before(tmp_path: Path) -> None:
    messages = draw_day(3, 900)
    cut = 500
    other = messages[:cut] + [
        Message(
            m.time,
            1,
            10**6 + at,
            5,
            1_000_000 - 10_000 * (1 if at % 2 else -1),
            1 if at % 2 else -1,
        )
        for at, m in enumerate(messages[cut:])
    ]
    seen: list[list[Any]] = [[], []]
    for at, day in enumerate((messages, other)):
        env = ReplayEnv(history(tmp_path, day), interval=0.5)
        obs, _ = env.reset(seed=1)
        env.action_space.seed(1)
        done = False
        while not done:
            seen[at].append(obs.tolist())
            obs, reward, _, done, info = env.step(env.action_space.sample())
            if info["time"] >= messages[cut].time / 1e9:
                break
            seen[at].append((reward, info["position"], info["fills"]))
    assert seen[0] == seen[1]
    assert len(seen[0]) > 50


@pytest.mark.parametrize("actions", ["discrete_limit", "limit_orders"])
def test_an_environment_passes_the_checker_and_repeats_itself(
    tmp_path: Path,
    actions: Any,  # noqa: ANN401
) -> None:
    found = history(tmp_path, draw_day(5, 600))
    env = ReplayEnv(
        found, actions=actions, interval=1, random_start=True, max_episode_steps=20, latency=0.1
    )
    check_env(env, skip_render_check=True)
    runs = []
    for _ in range(2):
        env.action_space.seed(3)
        obs, info = env.reset(seed=4)
        assert len(obs) == len(env.features)
        rewards, steps, done = [], 0, False
        while not done:
            action = env.action_space.sample()
            if actions == "limit_orders":
                action[:, 0] = [1, 2, 0, 0]
                action[:, 1] = [999_900, 1_000_100, 0, 0]
                action[:, 2] = [10, 10, 0, 0]
            obs, reward, terminated, done, info = env.step(action)
            assert not terminated
            rewards.append(reward)
            steps += 1
        assert steps == 20
        assert sum(rewards) == pytest.approx(info["profit"], abs=1e-9)
        runs.append((obs.tolist(), rewards, info["time"]))
    assert runs[0] == runs[1]
    with pytest.raises(EnvError, match="has ended; reset"):
        env.step(env.action_space.sample())


def test_a_copy_goes_on_by_itself(tmp_path: Path) -> None:
    messages = draw_day(9, 400)
    one = sim.Replay(history(tmp_path, messages))
    one.run_until(START + 5)
    one.order("buy", 10, 999_800)
    one.run_until(START + 6)
    other = copy.deepcopy(one)
    one.cancel()
    one.run_until(START + 7)
    assert (len(one.orders()["id"]), len(other.orders()["id"])) == (0, 1)
    assert "position 0, 1 orders" in repr(other)
    again = pickle.loads(pickle.dumps(one.history))
    assert again.book().tolist() == one.history.book().tolist()
    env = ReplayEnv(again, interval=2)
    env.reset(seed=1)
    env.step(4)
    twin, fresh = copy.deepcopy(env), pickle.loads(pickle.dumps(env))
    assert twin.step(1)[0].tolist() == env.step(1)[0].tolist()
    with pytest.raises(EnvError, match="was never begun"):
        fresh.step(1)


LINE = "34200.5,1,7,100,1000000,1\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the message file is empty"),
        ("34200.5,1,7,100\n", "line 1 of the message file has 4 columns"),
        (LINE + "34200.5,9,7,100,1000000,1\n", "line 2 of the message file: type is `9`"),
        (LINE + "34200.4,3,7,100,1000000,1\n", "time is `34200.4`, before the event"),
        (LINE + "34201,4,7,101,1000000,1\n", "order 7 has 100 shares left, but the message is"),
        (LINE + "34201,4,8,1,1000000,1\n", "give the order book file too"),
        (LINE + "34201,1,8,1,-5,1\n", "price is `-5`, but must be 1 to 9999999998"),
    ],
)
def test_damaged_files_are_refused_with_the_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "messages.csv"
    path.write_text(text)
    with pytest.raises(SimError, match=words.replace("(", r"\(")):
        sim.History.read(path)


def test_arguments_out_of_range_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "messages.csv"
    path.write_text(LINE + "34200.5,1,8,100,1000100,-1\n34203,3,7,100,1000000,1\n")
    found = sim.History.read(path)
    alone = tmp_path / "alone.csv"
    alone.write_text(LINE)
    bids = sim.History.read(alone)
    rows = tmp_path / "rows.csv"
    rows.write_text(
        "9999999999,0,1000000,100\n1000100,100,1000000,100\n1000100,100,-9999999999,0\n"
    )
    narrow = sim.History.read(path, rows)
    assert narrow.book().shape == sim.Replay(narrow).book().shape == (1, 4)
    assert (bids.priced_from, found.priced_from) == (None, 34_200.5)
    refused: list[tuple[Any, type[Exception], str]] = [
        (lambda: sim.History(), ArgumentTypeError, "call History.read"),
        (lambda: sim.History.read(tmp_path / "none.csv"), SimError, "cannot be opened"),
        (lambda: sim.History.read(path, differences="x"), SimError, 'write "raise" or "follow"'),  # type: ignore[arg-type]
        (lambda: found.book(4), SimError, "messages is 4; give a whole number from 1 to 3"),
        (lambda: narrow.book(levels=2), SimError, "levels is 2; give"),
        (lambda: sim.Replay(narrow).book(levels=2), SimError, "levels is 2; give"),
        (lambda: sim.Replay(found).volume(99), SimError, "since is 99; give"),
        (lambda: ReplayEnv(narrow), EnvError, "levels is 5, but the order book file has 1"),
        (lambda: ReplayEnv(bids), EnvError, "neither a moment with both bids and asks"),
        (
            lambda: ReplayEnv(found, begin=34_200),
            EnvError,
            "begin is 34200; give seconds from 3420",
        ),
        (lambda: ReplayEnv(found, end=40_000), EnvError, "end is 40000; give seconds from 34200.5"),
        (lambda: sim.Replay("x"), ArgumentTypeError, "history"),  # type: ignore[arg-type]
        (
            lambda: ReplayEnv(found, order_size=2_000),
            EnvError,
            "order_size is 2000, but max_position is 1000",
        ),
        (lambda: ReplayEnv(found, latency=80_000), EnvError, "no order would arrive"),
        (lambda: sim.Replay(found, latency=-1), SimError, "latency is -1; give seconds"),
        (lambda: sim.Replay(found, maker_fee=10**9), SimError, "maker_fee is 1000000000"),
        (lambda: sim.Replay(found).order("up", 1), SimError, 'side is "up"'),  # type: ignore[arg-type]
        (lambda: sim.Replay(found).order("buy", 0), SimError, "ask for 1 to 2147483647"),
        (lambda: sim.Replay(found).order("buy", 1, 0), SimError, "a price of 0"),
        (lambda: sim.Replay(found).order("buy", 1, post_only=True), SimError, "no price to rest"),
        (lambda: sim.Replay(found).run_until(90_000), SimError, "time is 90000"),
        (lambda: ReplayEnv(found, interval=9), EnvError, "does not fit between"),
        (lambda: ReplayEnv(found, actions="x"), EnvError, "actions is 'x'"),  # type: ignore[arg-type]
        (lambda: ReplayEnv(found, random_start=True), EnvError, "give max_episode_steps"),
        (lambda: ReplayEnv(found, order_size=0), EnvError, "order_size is 0"),
        (lambda: ReplayEnv(found, commands=2), EnvError, 'commands is 2, and actions "discrete_l'),
        (
            lambda: ReplayEnv(found, actions="limit_orders", order_size=5),
            EnvError,
            'order_size is 5, and actions "limit_orders" do not use it',
        ),
        (lambda: ReplayEnv(path), ArgumentTypeError, "give a backcast.sim.History"),  # type: ignore[arg-type]
        (lambda: ReplayEnv(found).step(1), EnvError, "was never begun"),
        (lambda: ReplayEnv(found).reset(options={"x": 1}), EnvError, 'only option is "begin"'),
    ]
    for call, error, words in refused:
        with pytest.raises(error) as raised:
            call()
        assert words in str(raised.value)
    env = ReplayEnv(found, actions="limit_orders", commands=1)
    env.reset(seed=1)
    damaged: list[tuple[Any, str]] = [
        ([[9, 0, 0, 0]], "row 0 of the action has the command 9"),
        ([[1, 0, 1, 0]], "row 0 of the action orders 1 shares at 0"),
        ([[3, 0, 0, -1]], "row 0 of the action cancels -1"),
        ([1, 0, 0, 0], "give whole numbers [1, 4]"),
    ]
    for action, words in damaged:
        with pytest.raises(EnvError) as raised:
            env.step(action)
        assert words in str(raised.value)
    *_, info = env.step([[1, 999_900, 5, 0]])
    assert info["order_ids"].tolist() == [0]
    assert [order.price for order in info["orders"]] == [999_900]


def test_crosses_have_negative_ids_and_fill_nothing(tmp_path: Path) -> None:
    lines = ["1,1,1,100,1000000,1", "1,1,2,100,1000100,-1", "3,6,-1,500,999000,-1"]
    lines += ["4,6,0,0,0,-1", "5,5,0,7,1000050,1", "6,6,-2,7,1000050,1"]
    path = tmp_path / "messages.csv"
    path.write_text("\n".join(lines))
    found = sim.History.read(path)
    assert found.messages()["id"].tolist() == [1, 2, -1, 0, 0, -2]
    assert (found.counts["crosses"], found.counts["traded_shares"]) == (3, 7)
    replay = sim.Replay(found)
    replay.run_until(1)
    replay.order("buy", 50, 1_000_000)
    replay.run_until(4)
    assert (replay.position, len(replay.orders()["id"])) == (0, 1)


def test_vector_environments_keep_unequal_fills_apart(tmp_path: Path) -> None:
    found = history(tmp_path, draw_day(2, 400))
    actions = [[4, 1], [4, 2], [1, 2], [3, 4], [1, 1], [2, 3]] * 5
    envs = SyncVectorEnv([lambda: ReplayEnv(found) for _ in range(2)])
    envs.reset(seed=1)
    alone = [ReplayEnv(found) for _ in range(2)]
    for env in alone:
        env.reset(seed=1)
    lengths = set()
    for row in actions:
        *_, infos = envs.step(np.array(row))
        for at, env in enumerate(alone):
            *_, info = env.step(row[at])
            for key in ("fills", "orders", "refused"):
                assert infos[key][at] == info[key]
        lengths.add(tuple(map(len, infos["fills"])))
    assert len({a == b for a, b in lengths}) == 2
    envs.close()


def test_an_action_is_sent_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "messages.csv"
    path.write_text("1,1,7,100,1000000,1\n1,1,8,100,1000100,-1\n2000,3,7,100,1000000,1\n")
    env = ReplayEnv(
        sim.History.read(path), actions="limit_orders", commands=3, interval=1, latency=1_900
    )
    env.reset(seed=1)
    action = np.array([[1, 999_900, 1, 0], [3, 0, 0, 0], [4, 0, 0, 0]])
    for _ in range(341):
        env.step(action)
    time = env.replay.time
    assert env.replay.pending == 1_023
    with pytest.raises(EnvError, match="sends up to 3 requests, but 1023 of at most 1024 are on"):
        env.step(action)
    assert (env.replay.pending, env.replay.time) == (1_023, time)
    action[1:, 0] = 0
    env.step(action)
    assert env.replay.pending == 1_024
