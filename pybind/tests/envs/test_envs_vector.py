"""PortfolioVectorEnv: spaces, arrays, autoreset modes, seeds, copies, and refusals."""

from __future__ import annotations

import copy
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import backcast as bc
import gymnasium as gym
import numpy as np
import pytest
from backcast.envs import PortfolioEnv, PortfolioVectorEnv
from envs_worlds import MODES, WORDS, but_metrics, same
from facts import missing
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from waits import WATCHDOG_S

MORE: dict[str, Any] = {"macro_tickers": ["IDX"], "stop_loss_tolerance": 0.97}
OBS = ["avg_buy_price", "cash", "day", "indicators", "open", "shares", "total_asset"]


def test_spaces_shapes_dtypes_and_names(panel: bc.Panel) -> None:
    env = PortfolioVectorEnv(panel, 5)
    assert isinstance(env, gym.vector.VectorEnv)
    assert (env.num_envs, env.tickers, env.indicators) == (5, ["AAA", "BBB"], ["rsi", "ema"])
    assert env.tokens.tolist() == panel.tokens(env.tickers).tolist()
    assert env.tokens.dtype == np.int32
    assert (env.spec, env.render_mode, env.closed) == (None, None, False)
    obs, infos = env.reset(seed=1)
    assert infos == {}
    for _ in range(3):
        assert list(obs) == OBS
        assert isinstance(env.single_observation_space, gym.spaces.Dict)
        assert list(env.single_observation_space) == OBS
        assert obs in env.observation_space
        assert (obs["day"].dtype, obs["shares"].dtype) == (np.int32, np.int32)
        assert obs["day"].shape == obs["cash"].shape == obs["total_asset"].shape == (5, 1)
        assert obs["shares"].shape == obs["avg_buy_price"].shape == obs["open"].shape == (5, 2)
        assert obs["indicators"].shape == (5, 2, 2)
        obs, rewards, terminated, truncated, infos = env.step(env.action_space.sample())
        assert rewards.dtype == np.float64
        assert rewards.shape == (5,)
        assert terminated.dtype == truncated.dtype == bool
        assert infos == {}
    env.close()
    env.close()
    assert env.closed
    with pytest.raises(bc.ClosedError, match=r"\benvironment\b"):
        env.step(np.zeros((5, 2)))


def test_a_flat_observation_is_what_gymnasium_makes_of_the_dict(panel: bc.Panel) -> None:
    nested, flat = PortfolioVectorEnv(panel, 3), PortfolioVectorEnv(panel, 3, obs="flat")
    space: Any = gym.spaces.flatten_space(nested.single_observation_space)
    assert isinstance(flat.single_observation_space, gym.spaces.Box)
    assert flat.single_observation_space.dtype == np.float32
    np.testing.assert_array_equal(flat.single_observation_space.low, space.low.astype("f4"))
    here, there = nested.reset(seed=4)[0], flat.reset(seed=4)[0]
    for _ in range(70):
        assert there in flat.observation_space
        for at, row in enumerate(gym.vector.utils.iterate(nested.observation_space, here)):
            wanted: Any = gym.spaces.flatten(nested.single_observation_space, row)
            np.testing.assert_array_equal(there[at], wanted.astype(np.float32))
        actions = nested.action_space.sample()
        here, there = nested.step(actions)[0], flat.step(actions)[0]


def test_a_panel_without_indicators_shows_none(tmp_path: Path) -> None:
    path = tmp_path / "plain.csv"
    rows = [f"2024-01-{day:02},AAA,{day},40,1,{day}.5,100" for day in range(1, 29)]
    path.write_text("\n".join(["date,tic,open,high,low,close,volume", *rows]))
    env = PortfolioVectorEnv(path, 2)
    obs, _ = env.reset(seed=1)
    assert list(obs) == [name for name in OBS if name != "indicators"]
    assert obs in env.observation_space
    flat = PortfolioVectorEnv(path, 2, obs="flat")
    assert flat.reset(seed=1)[0].shape == (2, 6) == flat.observation_space.shape


@pytest.mark.parametrize("form", ["dict", "flat"])
def test_arrays_are_fresh_and_may_be_kept_and_written_to(panel: bc.Panel, form: Any) -> None:  # noqa: ANN401
    env = PortfolioVectorEnv(panel, 2, obs=form)
    first, _ = env.reset(seed=1)
    kept = copy.deepcopy(first)
    second = env.step(np.ones((2, 2)))[0]
    assert same(first, kept)
    for values in second.values() if form == "dict" else [second]:
        values += 1
    fresh = PortfolioVectorEnv(panel, 2, obs=form)
    fresh.reset(seed=1)
    fresh.step(np.ones((2, 2)))
    assert same(env.step(np.zeros((2, 2)))[0], fresh.step(np.zeros((2, 2)))[0])


@pytest.mark.parametrize("form", ["dict", "flat"])
def test_without_copies_every_observation_lies_in_the_same_arrays(
    panel: bc.Panel,
    form: Any,  # noqa: ANN401
) -> None:
    env = PortfolioVectorEnv(panel, 3, obs=form, copy=False, max_episode_steps=5)
    twin = PortfolioVectorEnv(panel, 3, obs=form, max_episode_steps=5)
    first, expected = env.reset(seed=1)[0], twin.reset(seed=1)[0]
    assert same(first, expected)
    for _ in range(20):
        actions = env.action_space.sample()
        (now, *rest), (expected, *others) = env.step(actions), twin.step(actions)
        assert same(now, expected)
        assert same(rest, others)
        assert same(first, now)


def test_reused_arrays_that_were_locked_are_refused_before_the_step(panel: bc.Panel) -> None:
    env = PortfolioVectorEnv(panel, 1, copy=False)
    obs, _ = env.reset(seed=1)
    day = int(obs["day"][0, 0])
    obs["cash"].flags.writeable = False
    with pytest.raises(bc.errors.EnvError, match="copy=True"):
        env.step(np.ones((1, 2)))
    obs["cash"].flags.writeable = True
    assert env.step(np.ones((1, 2)))[0]["day"].tolist() == [[day + 1]]


def test_reused_arrays_that_were_resized_are_refused_before_the_step(panel: bc.Panel) -> None:
    env = PortfolioVectorEnv(panel, 2, copy=False)
    obs, _ = env.reset(seed=1)
    day = obs["day"].tolist()
    obs["cash"].resize(1, refcheck=False)
    with pytest.raises(bc.errors.EnvError, match="copy=True"):
        env.step(np.ones((2, 2)))
    obs["cash"].resize(2, refcheck=False)
    obs["cash"].shape = (1, 2)  # As many elements as before: the array is filled nevertheless.
    now = env.step(np.ones((2, 2)))[0]
    assert now["day"].tolist() == [[day + 1] for [day] in day]
    assert (now["cash"] > 0).all()


def test_only_one_thread_at_a_time_writes_to_reused_arrays(panel: bc.Panel) -> None:
    env = PortfolioVectorEnv(panel, 4_000, copy=False, history=3)
    env.reset(seed=1)
    actions = np.zeros((4_000, 2))
    seen, deadline = threading.Event(), time.monotonic() + WATCHDOG_S / 2

    def step_until_refused() -> int:
        refusals = 0
        # The number of steps is not fixed: one thread could do all before the other one begins.
        while not seen.is_set() and time.monotonic() < deadline:
            try:
                env.step(actions)
            except bc.errors.EnvError:
                refusals += 1
                seen.set()
        return refusals

    with ThreadPoolExecutor(2) as threads:
        each = [threads.submit(step_until_refused) for _ in range(2)]
        assert sum(thread.result(WATCHDOG_S) for thread in each) > 0
    env.step(actions)


def test_the_observation_shows_the_open_of_the_day_and_yesterdays_indicators(
    panel: bc.Panel,
) -> None:
    env = PortfolioVectorEnv(panel, 4)
    obs, _ = env.reset(seed=3, options={"start_day": [5, 6, 7, 8]})
    days = obs["day"][:, 0]
    assert days.tolist() == [5, 6, 7, 8]
    at = env.tokens.astype(int) - 1
    np.testing.assert_array_equal(obs["open"], panel.values[at][:, days, 0].T)
    lagged = panel.values[at][:, days - 1, 5:]
    np.testing.assert_array_equal(obs["indicators"], lagged.swapaxes(0, 1))


def test_buying_costs_the_close_and_the_fee(panel: bc.Panel) -> None:
    env = PortfolioVectorEnv(panel, 1, hmax=10, buy_cost_pct=0.02)
    before, _ = env.reset(options={"start_day": 10})
    after = env.step([[1, 0.0]])[0]
    close = panel.values[0, 10, 3]
    assert after["shares"].tolist() == [[10, 0]]
    np.testing.assert_allclose(before["cash"] - after["cash"], 10 * close * 1.02, rtol=1e-12)


def test_equal_seeds_give_equal_episodes_whatever_the_number_of_environments(
    panel: bc.Panel,
) -> None:
    one, two, more = (PortfolioVectorEnv(panel, n) for n in (3, 3, 7))
    draw = np.random.default_rng(2)
    for env in (one, two, more):
        env.reset(seed=5)
    for _ in range(80):
        actions = draw.uniform(-1, 1, (7, 2)).astype(np.float32)
        here, there, wide = one.step(actions[:3]), two.step(actions[:3]), more.step(actions)
        assert same(here, there)
        assert same(here[1], wide[1][:3])
        assert all(same(values, wide[0][name][:3]) for name, values in here[0].items())


def test_a_list_seeds_each_and_none_goes_on(panel: bc.Panel) -> None:
    starts = PortfolioVectorEnv(panel, 3).reset(seed=5)[0]["day"]
    env = PortfolioVectorEnv(panel, 2)
    assert env.reset(seed=[7, None])[0]["day"][0] == starts[2]
    again = PortfolioVectorEnv(panel, 3)
    again.reset(seed=np.int64(5))  # type: ignore[arg-type]
    drawn = [tuple(again.reset()[0]["day"][:, 0].tolist()) for _ in range(20)]
    assert len(set(drawn)) > 1, "None does not repeat the seeded episode"
    again.reset(seed=5)
    assert drawn == [tuple(again.reset()[0]["day"][:, 0].tolist()) for _ in range(20)]


def test_a_seed_seeds_the_generator_of_the_whole_too(panel: bc.Panel) -> None:
    env = PortfolioVectorEnv(panel, 2)
    env.reset(seed=5)
    assert env.np_random_seed == 5
    expected = gym.utils.seeding.np_random(5)[0].random()
    env.reset(seed=[1, 2])
    assert env.np_random.random() == expected


def test_single_and_double_precision_actions_trade_alike(panel: bc.Panel) -> None:
    actions = np.array([[0.5, -0.25]])
    results = []
    for given in [actions, actions.astype("f4"), actions.tolist()]:
        env = PortfolioVectorEnv(panel, 1)
        env.reset(seed=1)
        results.append(env.step(given))
    assert same(results[0], results[1])
    assert same(results[0], results[2])


@pytest.mark.parametrize("mode", MODES)
def test_the_mode_is_named_where_gymnasium_and_its_users_look(
    panel: bc.Panel, mode: AutoresetMode
) -> None:
    for given in (mode, mode.value, WORDS[mode]):
        env = PortfolioVectorEnv(panel, 2, autoreset_mode=given)
        assert env.autoreset_mode is mode
        assert env.metadata["autoreset_mode"] is mode
    assert PortfolioVectorEnv.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP


@pytest.mark.parametrize("form", ["dict", "flat"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n", [4, 9], ids=["few", "laid out"])
def test_it_is_gymnasiums_own_vector_environment_of_single_ones_bit_for_bit(
    panel: bc.Panel,
    mode: AutoresetMode,
    form: Any,  # noqa: ANN401
    n: int,
) -> None:
    settings: dict[str, Any] = {"obs": form, "max_episode_steps": 7, "hmax": 200, **MORE}
    ours = PortfolioVectorEnv(panel, n, autoreset_mode=mode, **settings)
    theirs: Any = SyncVectorEnv([lambda: PortfolioEnv(panel, **settings)] * n, autoreset_mode=mode)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert same(ours.reset(seed=9), theirs.reset(seed=9))
    ends = 0
    for _ in range(60):
        actions = ours.action_space.sample()
        here, there = ours.step(actions), theirs.step(actions)
        if mode is AutoresetMode.SAME_STEP and "metrics" in here[4]:
            # PortfolioVectorEnv has `metrics` in its infos in every mode.
            assert same(here[4]["metrics"], there[4]["final_info"]["metrics"])
            here = but_metrics(here)
        assert same(here, there)
        ended = here[2] | here[3]
        ends += ended.sum()
        assert ("final_obs" in here[4]) == (mode is AutoresetMode.SAME_STEP and ended.any())
        if mode is AutoresetMode.DISABLED and ended.any():
            masked = {"reset_mask": ended}
            assert same(ours.reset(options=masked), theirs.reset(options=dict(masked)))
            assert list(masked) == ["reset_mask"], "the caller's dict is left alone"
    assert ends > 8


def test_final_observations_are_apart_from_those_that_follow(panel: bc.Panel) -> None:
    mode = AutoresetMode.SAME_STEP
    env = PortfolioVectorEnv(panel, 2, autoreset_mode=mode, max_episode_steps=1, copy=False)
    env.reset(seed=1)
    infos = env.step(np.ones((2, 2)))[4]
    assert infos["_final_obs"].tolist() == infos["_final_info"].tolist() == [True, True]
    assert list(infos["final_info"]) == ["metrics", "_metrics"]
    final = infos["final_obs"][1]
    assert final in env.single_observation_space
    kept = copy.deepcopy(final)
    env.step(-np.ones((2, 2)))
    assert same(final, kept)


def test_a_reset_mask_resets_only_the_chosen(panel: bc.Panel) -> None:
    env = PortfolioVectorEnv(panel, 3, autoreset_mode="disabled", max_episode_steps=2)
    env.reset(seed=1)
    env.step(np.ones((3, 2)))
    obs, _, _, truncated, _ = env.step(np.ones((3, 2)))
    assert truncated.all()
    with pytest.raises(bc.errors.EnvError, match=r"\b0\b"):
        env.step(np.ones((3, 2)))
    again, _ = env.reset(options={"reset_mask": np.array([True, False, True])})
    assert (again["shares"][1] == obs["shares"][1]).all()
    assert (again["shares"][[0, 2]] == 0).all()


def test_an_environment_whose_creation_failed_can_be_closed() -> None:
    unmade = PortfolioVectorEnv.__new__(PortfolioVectorEnv)
    unmade.close()
    assert unmade.closed


def test_a_pickle_is_a_new_environment_with_the_same_settings(panel_file: Path) -> None:
    env = gym.make_vec(
        "backcast/Portfolio-v0", 2, panel=str(panel_file), autoreset_mode="same_step", hmax=3
    )
    env.reset(seed=1)
    twin = pickle.loads(pickle.dumps(env))
    assert twin.spec == env.spec
    assert twin.metadata == env.metadata
    with pytest.raises(bc.errors.EnvError, match="reset"):
        twin.step(np.ones((2, 3)))
    assert same(twin.reset(seed=4), env.reset(seed=4))
    actions = np.ones((2, 3))
    assert same(twin.step(actions), env.step(actions))


def test_a_shared_panel_pickles_by_name_and_a_private_one_says_so(
    panel: bc.Panel, panel_file: Path, place: Path
) -> None:
    with bc.Panel.from_csv(panel_file, name="shared", dir=place) as shared:
        env = PortfolioVectorEnv(shared, 2)
        twin = pickle.loads(pickle.dumps(env))
        assert same(twin.reset(seed=4), env.reset(seed=4))
        by_name = PortfolioVectorEnv("shared", 2, panel_options={"dir": place})
        assert same(by_name.reset(seed=4), env.reset(seed=4))
        for each in (env, twin, by_name):
            each.close()
    with pytest.raises(TypeError, match="name"):
        pickle.dumps(PortfolioVectorEnv(panel, 2))


@pytest.mark.parametrize("ending", [".parquet", ".pq"])
def test_a_parquet_file_is_a_panel_too(panel: bc.Panel, tmp_path: Path, ending: str) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="PyArrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="PyArrow is not installed")
    csv = pytest.importorskip("pyarrow.csv", reason="PyArrow is not installed")
    path = tmp_path / f"panel{ending}"
    table = csv.read_csv(tmp_path / "panel.csv")
    assert isinstance(table, pyarrow.Table)
    parquet.write_table(table, path)
    env = PortfolioVectorEnv(str(path), 2, panel_options={"macro": ["IDX"]})
    assert same(env.reset(seed=1), PortfolioVectorEnv(panel, 2).reset(seed=1))


@pytest.mark.parametrize("reused", [True, False])
def test_a_deep_copy_goes_on_as_the_original_would(panel: bc.Panel, reused: bool) -> None:
    env = PortfolioVectorEnv(panel, 3, autoreset_mode="same_step", copy=not reused)
    env.reset(seed=8)
    env.np_random.random()
    env.step(np.ones((3, 2)))
    twin = copy.deepcopy(env)
    assert twin.np_random.random() == env.np_random.random()
    for _ in range(70):
        actions = env.action_space.sample()
        assert same(env.step(actions), twin.step(actions))
    env.close()
    twin.step(actions)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num_envs": 0}, ["num_envs", "0"]),
        ({"hmax": 0}, ["hmax", "0"]),
        ({"initial_amount": -1.0}, ["initial_amount", "-1"]),
        ({"initial_amount": float("nan")}, ["initial_amount", "NaN"]),
        ({"failure_threshold": 40_000.0}, ["failure_threshold", "40000"]),
        ({"buy_cost_pct": 1.0}, ["buy_cost_pct", "1"]),
        ({"sell_cost_pct": -0.1}, ["sell_cost_pct", "-0.1"]),
        ({"tickers": ["NOPE"]}, ["NOPE"]),
        ({"tickers": ["IDX"]}, ["IDX"]),
        ({"tickers": ["AAA", "AAA"]}, ["AAA", "0", "1"]),
        ({"tickers": []}, ["`tickers`"]),
        ({"days": (50, 70)}, ["50..70", "60"]),
        ({"days": [50, 70]}, ["50..70", "60"]),
        ({"days": (-1, 5)}, ["-1"]),
        ({"indicator_lag": -1}, ["indicator_lag", "-1"]),
        ({"autoreset_mode": "nextstep"}, ["'nextstep'", '"next_step"', '"disabled"']),
        ({"max_episode_steps": 0}, ["max_episode_steps", "0"]),
        ({"obs": "array"}, ["'array'", '"flat"']),
        ({"render_mode": "human"}, ["'human'", "None"]),
    ],
    ids=str,
)
def test_settings_that_cannot_be(
    panel: bc.Panel, settings: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(bc.errors.EnvError) as error:
        PortfolioVectorEnv(panel, settings.pop("num_envs", 2), **settings)
    assert missing(error.value, words) == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num_envs": 2.5}, ["num_envs", "2.5"]),
        ({"hmax": True}, ["hmax", "True"]),
        ({"initial_amount": "much"}, ["initial_amount", "'much'"]),
        ({"tickers": "AAA"}, ["tickers", "'AAA'"]),
        ({"days": 5}, ["days", "5"]),
        ({"max_episode_steps": "5"}, ["max_episode_steps", "'5'"]),
    ],
    ids=str,
)
def test_settings_of_another_type(
    panel: bc.Panel, settings: dict[str, Any], words: list[str]
) -> None:
    with pytest.raises(bc.errors.ArgumentTypeError) as error:
        PortfolioVectorEnv(panel, settings.pop("num_envs", 2), **settings)
    assert missing(error.value, words) == []


def test_panels_that_cannot_be(panel: bc.Panel, tmp_path: Path) -> None:
    with pytest.raises(bc.errors.ArgumentError, match=r"\bpanel_options\b"):
        PortfolioVectorEnv(panel, panel_options={"macro": ["IDX"]})
    with pytest.raises(bc.errors.ArgumentError, match=r"\bpanel\b.*\b7\b.*backcast\.Panel"):
        PortfolioVectorEnv(7)  # type: ignore[arg-type]
    with pytest.raises(bc.NotFoundError, match="nobody"):
        PortfolioVectorEnv("nobody", panel_options={"dir": tmp_path})
    with pytest.raises(bc.errors.PanelError, match=r"none\.csv"):
        PortfolioVectorEnv(tmp_path / "none.csv")
    panel.close()
    with pytest.raises(bc.ClosedError):
        PortfolioVectorEnv(panel)


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"start_day": 99}, bc.errors.EnvError, ["start_day", "99"]),
        ({"start_day": [5, -1]}, bc.errors.EnvError, ["start_day", "1", "-1"]),
        ({"start_day": [5]}, bc.errors.EnvError, ["start_day", "(1,)", "(2,)"]),
        ({"start_day": 2.5}, bc.errors.EnvError, ["start_day", "float64"]),
        ({"reset_mask": [True, False]}, TypeError, ["reset_mask", "[True, False]", "2"]),
        ({"reset_mask": np.array([0, 1])}, TypeError, ["int64", "2"]),
        ({"reset_mask": np.array([True])}, ValueError, ["reset_mask", "(1,)", "(2,)"]),
        ({"reset_mask": np.zeros(2, bool)}, ValueError, ["2"]),
        ({"start": 3}, bc.errors.EnvError, ["'start'", "start_day", "reset_mask"]),
    ],
    ids=str,
)
def test_resets_that_cannot_be_change_nothing(
    panel: bc.Panel,
    options: Any,  # noqa: ANN401
    kind: type[Exception],
    words: list[str],
) -> None:
    env = PortfolioVectorEnv(panel, 2)
    env.reset(seed=1)
    twin = copy.deepcopy(env)
    with pytest.raises(kind) as error:
        env.reset(seed=3, options=options)
    assert missing(error.value, words) == []
    assert env.np_random_seed == 1
    assert same(env.step(np.ones((2, 2))), twin.step(np.ones((2, 2))))


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        (np.zeros((2, 3)), ["(2, 3)", "(2, 2)"]),
        (np.zeros(4), ["(4,)", "(2, 2)"]),
        (np.full((2, 2), 1.5), ["0", "AAA", "1.5", "[-1, 1]"]),
        (np.array([[0, 0], [0, np.nan]]), ["1", "BBB", "NaN"]),
        (np.array([[0, -np.inf], [0, 0]]), ["0", "BBB", "-inf"]),
        ([["a", "b"], ["c", "d"]], ["<U1", "f8"]),
    ],
)
def test_actions_that_cannot_be_change_nothing(
    panel: bc.Panel,
    actions: Any,  # noqa: ANN401
    words: list[str],
) -> None:
    env = PortfolioVectorEnv(panel, 2)
    with pytest.raises(bc.errors.EnvError, match="reset"):
        env.step(np.zeros((2, 2)))
    env.reset(seed=1)
    twin = copy.deepcopy(env)
    with pytest.raises(bc.errors.EnvError) as error:
        env.step(actions)
    assert missing(error.value, words) == []
    assert same(env.step(np.ones((2, 2))), twin.step(np.ones((2, 2))))


@pytest.mark.parametrize(
    ("seed", "error", "fact"),
    [
        (-1, bc.errors.EnvError, "-1"),
        ([1], bc.errors.EnvError, "1"),
        ([1, -1], bc.errors.EnvError, "seed[1]"),
        (2**64, bc.errors.EnvError, str(2**64)),
        (np.array([1, 2, 3]), bc.errors.EnvError, "3"),
        (1.5, bc.errors.ArgumentTypeError, "1.5"),
        ("7", bc.errors.ArgumentTypeError, "'7'"),
        (True, bc.errors.ArgumentTypeError, "True"),
        (np.True_, bc.errors.ArgumentTypeError, "np.True_"),
        ([1, 2.5], bc.errors.ArgumentTypeError, "seed[1]"),
        ({1: 2}, bc.errors.ArgumentTypeError, "{1: 2}"),
    ],
)
def test_seeds_that_cannot_be(
    panel: bc.Panel,
    seed: Any,  # noqa: ANN401
    error: type[Exception],
    fact: str,
) -> None:
    with pytest.raises(error) as refused:
        PortfolioVectorEnv(panel, 2).reset(seed=seed)
    assert missing(refused.value, [fact]) == []
