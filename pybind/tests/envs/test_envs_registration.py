"""Registered ids: ``gym.make`` and ``gym.make_vec``, and what an import of Backcast imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import backcast as bc
import backcast.envs
import gymnasium as gym
import numpy as np
import pytest
from backcast.envs import PortfolioEnv, PortfolioVectorEnv
from envs_worlds import same

ID = "backcast/Portfolio-v0"
SETTINGS: dict[str, Any] = {"panel_options": {"macro": ["IDX"]}, "hmax": 100}


def run(code: str, *arguments: str) -> str:
    """Run code in a fresh interpreter that treats warnings as errors."""
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_importing_backcast_alone_does_not_import_gymnasium() -> None:
    seen = run("import sys, backcast; backcast.Schema; print('gymnasium' in sys.modules)")
    assert seen.strip() == "False"


def test_without_gymnasium_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "try: import backcast.envs\n"
        "except ImportError as error: print(type(error).__name__, error)"
    )
    said = run(code)
    assert said.startswith("MissingExtraError")
    assert "pip install 'backcast[gymnasium]'" in said


def test_the_id_may_name_the_module_that_registers_it(panel_file: Path) -> None:
    code = (
        "import sys, gymnasium as gym\n"
        "env = gym.make('backcast.envs:backcast/Portfolio-v0', panel=sys.argv[1])\n"
        "envs = gym.make_vec('backcast.envs:backcast/Portfolio-v0', 2, panel=sys.argv[1])\n"
        "print(type(env.unwrapped).__name__, type(envs).__name__)"
    )
    assert run(code, str(panel_file)).split() == ["PortfolioEnv", "PortfolioVectorEnv"]


def test_the_spec_is_plain_and_makes_the_environment_again(panel_file: Path) -> None:
    env = gym.make(ID, panel=str(panel_file), max_episode_steps=5, **SETTINGS)
    assert env.spec is not None
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert same(again.reset(seed=2), env.reset(seed=2))


@pytest.mark.parametrize("mode", ["vector_entry_point", "sync", "async"])
def test_every_vectorization_mode_steps_alike_and_keeps_the_step_limit(
    panel_file: Path, mode: str
) -> None:
    make: dict[str, Any] = {"panel": str(panel_file), "max_episode_steps": 4, **SETTINGS}
    env: Any = gym.make_vec(ID, 3, vectorization_mode=mode, **make)
    native = PortfolioVectorEnv(num_envs=3, **make)
    assert env.spec is not None
    assert env.metadata["autoreset_mode"] is gym.vector.AutoresetMode.NEXT_STEP
    assert same(env.reset(seed=1), native.reset(seed=1))
    draw, steps = np.random.default_rng(3), 11
    truncations = []
    for _ in range(steps):
        actions = draw.uniform(-1, 1, (3, 2)).astype(np.float32)
        here, there = env.step(actions), native.step(actions)
        assert same(here, there)
        truncations.append(here[3].tolist())
    env.close()
    # Four steps, one that resets, four steps, ...
    assert truncations == [[step % 5 == 3] * 3 for step in range(steps)]


def test_native_is_what_make_vec_takes_by_default(panel_file: Path) -> None:
    env = gym.make_vec(ID, 2, panel=panel_file, obs="flat", autoreset_mode="disabled")
    assert isinstance(env, PortfolioVectorEnv)
    assert env.metadata["autoreset_mode"] is gym.vector.AutoresetMode.DISABLED


def test_make_takes_an_open_panel_and_wraps_in_a_time_limit(panel: bc.Panel) -> None:
    env: Any = gym.make(ID, panel=panel, max_episode_steps=3)
    env.reset(seed=1)
    flags = [env.step(np.zeros(2, np.float32))[3] for _ in range(3)]
    assert flags == [False, False, True]
    assert env.spec.kwargs["panel"].dates == panel.dates


def test_a_configuration_makes_a_single_environment_or_many(panel: bc.Panel) -> None:
    single = backcast.envs.make({"panel": panel, "hmax": 2})
    many = backcast.envs.make({"panel": panel, "hmax": 2, "num_envs": 3})
    assert isinstance(single, PortfolioEnv)
    assert isinstance(many, PortfolioVectorEnv)
    assert many.num_envs == 3
    single.reset(seed=1)
    assert single.step(np.ones(2))[0]["shares"].tolist() == [2, 2]
