"""PPO and SAC are trained on FinRL's layout in at most 20 lines, and compared with baselines."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "stable_baselines3",
    reason="Stable-Baselines3 is not installed: pip install -r requirements/adapters.txt",
)
pytest.importorskip(
    "talib", reason="TA-Lib is not installed: pip install -r requirements/adapters.txt"
)

import backcast as bc
import numpy as np
from backcast.envs import PortfolioEnv
from backcast.evaluate import EqualWeight, evaluate, split
from stable_baselines3 import PPO

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "finrl_dow30_sb3.py"
MOST_LINES = 20
sys.path.append(str(EXAMPLE.parents[1] / "docs" / "gallery"))
import gallery  # noqa: E402


def test_the_training_has_at_most_20_lines() -> None:
    tree = ast.parse(EXAMPLE.read_text())
    function = next(node for node in tree.body if getattr(node, "name", None) == "train_and_test")
    assert (function.end_lineno or 0) - function.lineno < MOST_LINES


@pytest.mark.parametrize("policy", ["MultiInputPolicy", "MlpPolicy"])
def test_a_model_is_evaluated_by_its_own_predictions(policy: str, prices: Path) -> None:
    panel = bc.Panel.from_csv(prices, macro=["IDX"])
    train, test = split(panel, 50)
    obs = "dict" if policy == "MultiInputPolicy" else "flat"
    env = PortfolioEnv(panel, days=train, obs=obs)
    model = PPO(policy, env, n_steps=32, batch_size=32, seed=0, device="cpu").learn(32)

    def predicted(obs: Any) -> Any:
        return model.predict(obs, deterministic=True)[0]

    results = [
        evaluate(one, panel, [test], baselines=[EqualWeight(5)], runs=2, resamples=20, obs=obs)
        for one in (model, predicted)
    ]
    one, other = (result.policies["policy"].returns for result in results)
    assert one.shape == (2, 29)
    assert (one == other).all()
    assert np.abs(one).max() > 0
    env.close()


def test_policies_are_trained_and_compared(place: Path, tmp_path: Path) -> None:
    sources = os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path if entry)
    ran = subprocess.run(
        [sys.executable, EXAMPLE, "--steps", "120"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": sources, "BACKCAST_DIR": str(place)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    rows = [line.split()[0] for line in ran.stdout.splitlines() if line]
    assert rows[1:7] == [
        "PPO", "SAC", "buy_and_hold", "equal_weight", "momentum", "minimum_variance"
    ]  # fmt: skip
    # Prices without a trend: nothing that was trained on them is better.
    assert ran.stdout.count("Sharpe not distinguishable") + ran.stdout.count("Sharpe worse") == 8
    assert "2 policies tried" in ran.stdout
    assert not list(tmp_path.iterdir())
    gallery.drawn_if_possible(EXAMPLE.stem, ran.stdout, tmp_path)
