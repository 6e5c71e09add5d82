"""VecFinRLWrapper: Gymnasium's contract in all modes, its buffer, and the program of its page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import backcast as bc
import backcast.finrl as ff
import gymnasium as gym
import numpy as np
import pytest
from finrl_buffers import same
from finrl_market import market
from gymnasium.vector import AutoresetMode

MODES = ["next_step", "same_step", "disabled"]
TICKERS = [f"T{n:02}" for n in range(12)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write a market of 60 days."""
    names = [*TICKERS, "QQQ", "SPY", "VIX"]
    return market(60, names, late={"T03": 4}, gaps=[("T01", 20)]).write(tmp_path / "data.csv")


def made(path: Path, **changes: Any) -> ff.VecFinRLWrapper:  # noqa: ANN401
    """Make a small wrapper."""
    given: dict[str, Any] = {
        "buffer_capacity": 2_000,
        "history_length": 5,
        "n_envs": 3,
        "num_tickers": 4,
        "macro_tickers": ["SPY", "VIX"],
    }
    return ff.VecFinRLWrapper(path, **(given | changes))


def test_a_history_beyond_the_market_is_masked_and_of_many_times_it_a_slip(tmp_path: Path) -> None:
    path = market(40).write(tmp_path / "market.csv")
    most = 4 * 40 + 4_096
    wrapper = ff.VecFinRLWrapper(path, 50, history_length=most, n_envs=1)
    obs, _ = wrapper.reset(seed=1, options={"start_day": 30})
    masks = obs["hist"]["market"]["masks"]
    assert masks.shape == (1, 3, most)
    assert masks[..., -30:].all()
    assert not masks[..., :-30].any()
    for days in (most + 1, 10**9):
        says = rf"\bhistory_length\b.*\b{days}\b.*\b40\b.*\b{most}\b"
        with pytest.raises(bc.errors.EnvError, match=says):
            ff.VecFinRLWrapper(path, 50, history_length=days)
    # Windows of the environment and of the buffer have the same limit before their day and after.
    state = wrapper.env.reset(seed=1)
    after = wrapper.env.step(np.zeros((1, 3)))
    buffer = ff.VecReplayBuffer(wrapper.env, 50)
    buffer.add(state, np.zeros((1, 3)), [0.0], after, [False])
    windows: list[tuple[Any, type[bc.BackcastError]]] = [
        (lambda h, f: wrapper.env.get_market_window_numpy(["AAA"], 5, h, f), bc.errors.EnvError),
        (lambda h, f: buffer.get_market_data(0, h, f), bc.errors.SampleError),
    ]
    masks = buffer.sample(1, most, most)[5]
    assert masks["AAA"].shape == (1, most)
    refused = [(most + 1, 2), (2, most + 1), (10**9, 0), (0, 10**9)]
    for h, future in refused:
        says = rf"\b{max(h, future)}\b.*\b40\b.*\b{most}\b"
        with pytest.raises(bc.errors.SampleError, match=says):
            buffer.sample(1, h, future)
    for window, error in windows:
        found = window(most, most)["AAA"]
        assert found["past_mask"].sum() <= 40
        assert found["future_mask"].shape == (most,)
        for h, future in refused:
            with pytest.raises(error, match=rf"\b{max(h, future)}\b.*\b40\b.*\b{most}\b"):
                window(h, future)
    # The internal calls behind these take whole windows.
    whole = 2 * most + 1
    rows: list[tuple[Any, type[bc.BackcastError]]] = [
        (wrapper.env._rows, bc.errors.EnvError),
        (buffer._ring.rows, bc.errors.SampleError),
    ]
    for read, error in rows:
        assert read(["AAA"], 0, whole)[0].shape[1] == whole
        says = rf"`count`.*\b{whole + 1}\b.*\b40\b.*\b{whole}\b"
        with pytest.raises(error, match=says):
            read(["AAA"], 0, whole + 1)


@pytest.mark.parametrize("mode", MODES)
def test_a_threshold_above_the_start_is_said_once_and_played(path: Path, mode: str) -> None:
    says = r"\bfailure_threshold\b.*\b25000\b.*\binitial_amount\b.*\b20000\b"
    with pytest.warns(UserWarning, match=says) as said:
        envs = ff.VecFinRLWrapper(path, 50, 5, initial_amount=20_000, autoreset_mode=mode)
    assert [warning.filename for warning in said] == [__file__]
    envs.reset(seed=1, options={"start_day": 25})
    still = np.zeros((4, envs.num_tickers, 2))
    for _ in range(3):
        _, _, terminated, truncated, _ = envs.step(still)
        assert terminated.all()
        assert not truncated.any()
        if mode == "next_step":
            assert not envs.step(still)[2].any()
        if mode == "disabled":
            with pytest.raises(bc.errors.EnvError, match=r"\b0\b.*\breset\b"):
                envs.step(still)
            envs.reset()
    assert envs.buffer.size() == 3 * 4
    assert envs.buffer.sample(indices=range(12))[4].all()


def test_the_program_of_the_page_of_the_wrapper(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(path.parent)
    wrapper = ff.VecFinRLWrapper(
        path=Path("data.csv"),
        buffer_capacity=100000,
        history_length=20,
        n_envs=4,
        num_tickers=10,
        macro_tickers=["SPY", "QQQ", "VIX"],
    )

    # Standard Gymnasium interface
    obs, _info = wrapper.reset(seed=42)

    for _ in range(1000):
        action = wrapper.sample_actions()  # [4, 10, 2]
        obs, _reward, _done, _truncated, _info = wrapper.step(action)

    # Sample from buffer with future prediction data
    obs, action, reward, _next_obs, done, mask, mask_next = wrapper.sample_buffer(
        batch_size=256, history_length=20, future_length=5
    )

    # Access structured data
    market_history = obs["hist"]["past"]["ohlcvs"]  # [256, 10, 20, 5]
    market_future = obs["future"]["market"]["ohlcvs"]  # [256, 10, 5, 5]
    macro_future = obs["future"]["macro"]["ohlcvs"]  # [256, 3, 5, 5]

    # Use tokenized tickers for embedding
    ticker_ids = obs["tics"]  # [256, 10]

    assert market_history.shape == (256, 10, 20, 5)
    assert market_future.shape == (256, 10, 5, 5)
    assert macro_future.shape == (256, 3, 5, 5)
    assert ticker_ids.shape == (256, 10)
    assert action.shape == (256, 10, 2)
    assert reward.shape == done.shape == (256,)
    assert mask["market"].shape == mask_next["market"].shape == (256, 10, 20)
    assert mask["macro"].shape == (256, 3, 20)
    assert mask["future"]["market"].shape == (256, 10, 5)
    assert mask["future"]["macro"].shape == (256, 3, 5)
    assert wrapper.buffer.size() == 4_000
    decoded = wrapper.tokenizer.decode_batch(ticker_ids[:3])
    assert set(np.ravel(decoded)) <= set(TICKERS)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shuffle", [True, False])
def test_observations_are_of_their_spaces(path: Path, mode: str, shuffle: bool) -> None:
    envs = made(path, autoreset_mode=mode, shuffle_tickers=shuffle)
    obs, _ = envs.reset(seed=3)
    assert envs.metadata["autoreset_mode"] is envs.autoreset_mode
    assert envs.single_action_space.shape == (4, 2)
    envs.action_space.seed(1)
    ends = 0
    for _ in range(120):
        assert obs in envs.observation_space
        actions = envs.action_space.sample()
        obs, rewards, terminated, truncated, infos = envs.step(actions)
        assert rewards.shape == terminated.shape == truncated.shape == (3,)
        done = terminated | truncated
        ends += done.sum()
        if mode == "same_step" and done.any():
            np.testing.assert_array_equal(infos["_final_obs"], done)
            for at in np.flatnonzero(done):
                last = infos["final_obs"][at]
                assert last in envs.single_observation_space
                assert last["hist"]["past"]["masks"].shape == (4, 5)
        if mode == "disabled" and done.any():
            with pytest.raises(bc.errors.EnvError, match="reset"):
                envs.step(actions)
            obs, _ = envs.reset(options={"reset_mask": done})
    assert ends > 5
    envs.close()
    envs.close()


def test_the_modes_store_the_same_transitions(path: Path) -> None:
    kept: list[list[list[Any]]] = []
    for mode in MODES:
        envs = made(path, autoreset_mode=mode, shuffle_tickers=True)
        envs.reset(seed=5)
        played, steps = [0, 0, 0], {i: np.random.default_rng(i) for i in range(3)}
        begins = np.zeros(3, bool)
        while min(played) < 100:
            actions = np.zeros((3, 4, 2))
            for i in range(3):
                if not begins[i]:
                    actions[i] = steps[i].uniform(-1, 1, (4, 2))
                    played[i] += 1
            _, _, terminated, truncated, _ = envs.step(actions)
            done = terminated | truncated
            if mode == "disabled" and done.any():
                envs.reset(options={"reset_mask": done})
            begins = done if mode == "next_step" else np.zeros(3, bool)
        stored = [envs.buffer.get(i) for i in range(envs.buffer.size())]
        kept.append([[row for row in stored if row.env_id == i][:95] for i in range(3)])
    assert kept[0] == kept[1] == kept[2]
    rows = [row for of in kept[0] for row in of]
    assert len({tuple(row.tickers) for row in rows}) > 3, "drawn anew in every episode"
    ended = [row for row in rows if row.done]
    assert len(ended) > 3
    assert all(row.next_state_day == row.state_day + 1 for row in rows), "also in the last step"


def test_drawn_states_equal_the_observed_ones(path: Path) -> None:
    envs = made(path, shuffle_tickers=True, n_envs=2)
    obs, _ = envs.reset(seed=9)
    seen = []
    for _ in range(70):
        actions = envs.sample_actions()
        after, rewards, terminated, truncated, infos = envs.step(actions)
        for i in range(2):
            done = bool(terminated[i] | truncated[i])
            arrived = infos["final_obs"][i] if done else row_of(after, i)
            seen.append((row_of(obs, i), actions[i], rewards[i], arrived, done))
        obs = after
    assert any(done for *_, done in seen)
    batch = envs.buffer.sample(indices=np.arange(140), history_length=5, layout="batched")
    parts = [envs._nested.of_sample(state) for state in (batch[0], batch[3])]
    for at, (state, action, reward, arrived, done) in enumerate(seen):
        same(row_of(parts[0], at), state)
        next_obs = row_of(parts[1], at)
        assert next_obs.pop("terminated") | next_obs.pop("truncated") == done
        same(next_obs, arrived)
        np.testing.assert_array_equal(batch[1][at], action)
        assert batch[2][at, 0] == np.float32(reward)
        assert batch[4][at] == done


def row_of(obs: Any, at: int) -> Any:  # noqa: ANN401
    """Return the values of one portfolio out of nested arrays."""
    if isinstance(obs, dict):
        return {key: row_of(value, at) for key, value in obs.items()}
    return obs[at]


def test_windows_hold_nothing_of_the_day_itself(path: Path) -> None:
    envs = made(path, shuffle_tickers=False, n_envs=1)
    obs, _ = envs.reset(seed=1, options={"start_day": 25})
    panel = bc.Panel.from_csv(path, macro=["SPY", "VIX"])
    tokens = [token - 1 for token in obs["tics"][0]]
    assert [panel.tickers[token] for token in tokens] == ["QQQ", *TICKERS[:3]]
    days = panel.values[tokens, 20:25].astype(np.float32)
    np.testing.assert_array_equal(obs["hist"]["market"]["ohlcvs"][0], days[..., :5])
    np.testing.assert_array_equal(obs["hist"]["market"]["indicators"][0], days[..., 5:])
    np.testing.assert_array_equal(obs["market"]["indicators"][0], days[:, 4, 5:])
    masks = obs["hist"]["market"]["masks"][0]
    np.testing.assert_array_equal(masks, panel.mask[tokens, 20:25])
    assert masks.sum() == 19, "T01 has no row on day 20"
    with pytest.raises(KeyError, match="future"):
        obs["hist"]["future"]


def test_the_second_number_of_an_action_is_stored_and_changes_nothing(path: Path) -> None:
    one, other = made(path), made(path)
    first, second = one.reset(seed=2)[0], other.reset(seed=2)[0]
    same(first, second)
    draw = np.random.default_rng(1)
    for _ in range(10):
        actions = draw.uniform(-1, 1, (3, 4, 2))
        changed = actions.copy()
        changed[..., 1] = draw.uniform(-1, 1, (3, 4))
        left, right = one.step(actions), other.step(changed)
        same(left[0], right[0])
        np.testing.assert_array_equal(left[1], right[1])
    np.testing.assert_array_equal(one.buffer.get(29).action, actions[2].ravel().astype(np.float32))
    np.testing.assert_array_equal(
        other.buffer.get(29).action, changed[2].ravel().astype(np.float32)
    )


def test_wrappers_of_gymnasium_work_on_it(path: Path) -> None:
    envs: Any = gym.wrappers.vector.RecordEpisodeStatistics(made(path, autoreset_mode="next_step"))
    envs = gym.wrappers.vector.FlattenObservation(envs)
    obs, _ = envs.reset(seed=1)
    assert obs.shape == (3, envs.single_observation_space.shape[0])
    told = 0
    for _ in range(100):
        obs, *_, infos = envs.step(envs.action_space.sample())
        told += "episode" in infos
    assert told > 1


def test_episodes_start_with_their_history_where_there_is_so_much(path: Path) -> None:
    envs = made(path, n_envs=200, history_length=11)
    obs, _ = envs.reset(seed=1)
    assert obs["hist"]["market"]["masks"].all()
    long = made(path, n_envs=200, history_length=59)
    assert long.reset(seed=1)[0]["market"]["open"].all(), "what cannot be had is not waited for"


def test_nothing_is_added_unless_asked_for(path: Path) -> None:
    envs = made(path, auto_add=False)
    envs.reset(seed=1)
    envs.step(envs.sample_actions())
    assert envs.buffer.size() == 0
    with pytest.raises(bc.errors.SampleError, match=r"\bbuffer\b"):
        envs.sample_buffer()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"auto_add": 1}, r"\bauto_add\b.*\b1\b"),
        ({"auto_reset": "yes"}, r"\bauto_reset\b.*'yes'"),
        ({"autoreset_mode": "never"}, r"\bautoreset_mode\b.*'never'"),
        ({"history_length": -1}, r"\bhistory_length\b.*-1\b"),
        ({"history_length": 2.0}, r"\bhistory_length\b.*2.0"),
        ({"buffer_capacity": 0}, r"\bbuffer_capacity\b.*\b0\b"),
        ({"bidding": "best"}, "bidding"),
        ({"nothing": 1}, "nothing"),
        ({"return_format": "vec"}, r"`return_format`"),
        ({"buffer_seed": -2}, r"\bbuffer_seed\b.*-2\b"),
        ({"n_envs": 0}, r"\bn_envs\b.*\b0\b"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(bc.BackcastError, match=message):
        made(path, **change)


def test_actions_that_cannot_be_are_refused_and_nothing_changes(path: Path) -> None:
    envs = made(path, n_envs=2)
    envs.reset(seed=1)
    good = np.zeros((2, 4, 2))
    nan_order, nan_other, large = good.copy(), good.copy(), good.copy()
    nan_order[1, 2, 0], nan_other[1, 3, 1], large[0, 0, 0] = np.nan, np.nan, 1.5
    cases: list[tuple[Any, str]] = [
        (good[..., 0], r"\baction\b.*\(2, 4\).*\(2, 4, 2\)"),
        (nan_order, r"\b1\b"),
        (nan_other, r"\b1\b.*\b3\b.*\bnan\b"),
        (large, r"\b0\b"),
        ("up", r"\baction\b"),
        (good.astype(complex), r"\baction\b"),
        (np.ma.array(good, mask=True), r"\baction\b"),
        (good.astype(str), r"\baction\b"),
        ([[1], [2, 3]], r"\baction\b"),
    ]
    for actions, message in cases:
        with pytest.raises(bc.BackcastError, match=message):
            envs.step(actions)
    assert envs.buffer.size() == 0
    assert made(path, auto_reset=False).autoreset_mode is AutoresetMode.DISABLED
    assert made(path).autoreset_mode is AutoresetMode.SAME_STEP


@pytest.mark.parametrize("value", [1.5, -1.0000001, 1e39, np.inf, np.nan])
@pytest.mark.parametrize("number", [0, 1])
def test_a_refused_action_changes_neither_market_nor_buffer(
    path: Path, value: float, number: int
) -> None:
    wrapper = made(path, max_episode_steps=2)
    wrapper.reset(seed=0)
    still = np.zeros((3, 4, 2))
    wrapper.step(still)
    odd = still.copy()
    odd[1, 2, number] = value
    for _ in range(2):
        with pytest.raises(bc.errors.EnvError, match=r"\b1\b"):
            wrapper.step(odd)
    wrapper.step(still)
    stored = [wrapper.buffer.get(at) for at in range(wrapper.buffer.size())]
    assert [t.next_state_day - t.state_day for t in stored] == [1] * 6
    assert [t.done for t in stored] == [False] * 3 + [True] * 3


def test_a_step_that_the_buffer_cannot_take_is_lost_alone(path: Path) -> None:
    wrapper = made(path, n_envs=1)
    wrapper.reset(seed=0)
    still = np.zeros((1, 4, 2))
    wrapper.step(still)
    add = wrapper.buffer.add
    wrapper.buffer.add = lambda *_: (_ for _ in ()).throw(bc.errors.AppendError("no"))  # type: ignore[method-assign]
    with pytest.raises(bc.errors.AppendError):
        wrapper.step(still)
    wrapper.buffer.add = add  # type: ignore[method-assign]
    wrapper.step(still)
    first, second = (wrapper.buffer.get(at) for at in range(2))
    assert second.state_day == first.next_state_day + 1
    assert second.next_state_day == second.state_day + 1


def test_a_closed_buffer_is_said_before_the_market_moves(path: Path) -> None:
    wrapper = made(path, n_envs=1)
    obs, _ = wrapper.reset(seed=0)
    wrapper.buffer.close()
    with pytest.raises(bc.ClosedError):
        wrapper.step(np.ones((1, 4, 2)))
    wrapper.auto_add = False
    after, *_ = wrapper.step(np.zeros((1, 4, 2)))
    shares = after["portfolio"]["shares"]
    assert np.array_equal(shares, obs["portfolio"]["shares"])


def test_without_a_history_its_parts_are_there_and_empty(path: Path) -> None:
    wrapper = made(path, history_length=0)
    obs, _ = wrapper.reset(7)  # the seed by position, as on FastFinRL's page
    for _ in range(3):
        obs, *_ = wrapper.step(wrapper.sample_actions())
    short, *_ = wrapper.sample_buffer(6)
    long, *_ = made_and_played(path).sample_buffer(6, history_length=0)
    for shown, n in ((obs, 3), (short, 6), (long, 6)):
        for kind, count in (("market", 4), ("macro", 2)):
            hist = shown["hist"][kind]
            assert sorted(hist) == ["indicators", "masks", "ohlcvs", "tickers"]
            assert hist["ohlcvs"].shape == (n, count, 0, 5)
            assert hist["indicators"].shape[:3] == (n, count, 0)
            assert hist["masks"].shape == (n, count, 0)


def made_and_played(path: Path) -> ff.VecFinRLWrapper:
    """Make a wrapper whose buffer holds some transitions."""
    wrapper = made(path)
    wrapper.reset(seed=1)
    for _ in range(3):
        wrapper.step(wrapper.sample_actions())
    return wrapper
