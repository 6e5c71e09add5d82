"""Renders of the trading environment: shapes, content, and a frame for every step."""

from __future__ import annotations

import re
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from backcast.envs import TradingEnv, TradingVectorEnv
from backcast.errors import EnvError

SHORT: dict[str, Any] = {"warmup_ticks": 40, "max_ticks": 400}
BUY, SELL = [52, 199, 123], [239, 83, 80]
PRICES = np.s_[44:300, 10:460]


def pixels(picture: Any, colour: list[int]) -> int:  # noqa: ANN401
    """Count the pixels of a colour in the price chart."""
    return int((picture[PRICES] == colour).all(axis=-1).sum())


def test_a_picture_shows_price_trades_book_and_equity() -> None:
    env = TradingEnv(render_mode="rgb_array", **SHORT)
    with pytest.raises(EnvError, match=r"\breset\b"):
        env.render()
    env.reset(seed=1)
    first = env.render()
    assert isinstance(first, np.ndarray)
    assert first.shape == (480, 640, 3)
    assert first.dtype == np.uint8
    assert pixels(first, BUY) == pixels(first, SELL) == 0
    # The book is shown from the start.
    depth = first[44:300, 470:630]
    assert (depth == BUY).all(axis=-1).any()
    assert (depth == SELL).all(axis=-1).any()
    env.step(2)
    bought = env.render()
    assert pixels(bought, BUY) > 0
    assert pixels(bought, SELL) == 0
    for _ in range(50):
        env.step(1)
    env.step(0)
    both = env.render()
    assert min(pixels(both, BUY), pixels(both, SELL)) > 0
    assert not np.shares_memory(bought, both)
    env.reset()
    assert pixels(env.render(), BUY) == 0


def test_text_fits_a_terminal_and_says_what_is_held() -> None:
    env = TradingEnv(render_mode="ansi", **SHORT)
    env.reset(seed=1)
    for action in (2, 1, 1, 0, 2):
        env.step(action)
    text = env.render()
    assert isinstance(text, str)
    plain = re.sub("\x1b\\[[0-9]+m", "", text).splitlines()
    assert len(plain) <= 24
    assert max(map(len, plain)) <= 80
    assert plain[0].startswith("step 5  mid ")
    assert "position +100" in plain[0]
    assert sum("+" in line or "-" in line for line in plain[1:9]) >= 1


def test_each_environment_has_its_picture_and_none_without_a_mode() -> None:
    envs = TradingVectorEnv(3, render_mode="rgb_array", autoreset_mode="same_step", **SHORT)
    envs.reset(seed=1)
    for _ in range(5):
        envs.step([0, 1, 2])
    pictures = envs.render()
    assert pictures is not None
    assert len(pictures) == 3
    assert [pixels(picture, SELL) > 0 for picture in pictures] == [True, False, False]
    assert TradingVectorEnv(2, **SHORT).render() is None
    assert TradingEnv(**SHORT).render() is None


def test_a_video_wrapper_gets_a_frame_for_every_step() -> None:
    env: Any = gym.make("backcast/Trading-v0", render_mode="rgb_array", max_episode_steps=7)
    env = gym.wrappers.RenderCollection(env)
    env.reset(seed=1)
    for _ in range(7):
        env.step(env.action_space.sample())
    frames = env.render()
    assert len(frames) == 8
    assert {frame.shape for frame in frames} == {(480, 640, 3)}
