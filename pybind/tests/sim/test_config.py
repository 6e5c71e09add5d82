"""Settings of markets: presets, dicts and objects, and one clear error for each bad one."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import backcast as bc
import pytest
from backcast import sim
from backcast.envs import TradingEnv
from facts import missing

# Untyped, for arguments that type checkers refuse.
MARKET: Any = sim.Market
PRESETS = ["calm", "normal", "stressed", "flash", "teaching"]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_the_same_by_name_as_objects_and_as_json(name: str) -> None:
    config = sim.MarketConfig.preset(name)
    plain = json.loads(json.dumps(config.to_dict()))
    assert sim.MarketConfig.of(plain) == config
    markets = [sim.Market(given, seed=3) for given in (name, config, plain)]
    for market in markets:
        market.step(50)
    assert len({market.state_hash() for market in markets}) == 1
    assert sim.MarketConfig.of(markets[0].config) == config
    config.check()


def test_defaults_are_those_of_the_preset_normal() -> None:
    assert sim.MarketConfig() == sim.MarketConfig.preset("normal")
    assert sim.Makers(count=9).wait == sim.MarketConfig().population.maker.wait
    assert sim.Slot().account.limits.long == 1_000
    one, two = sim.MarketConfig(), sim.MarketConfig()
    one.population.maker.count = 1
    assert two.population.maker.count != 1
    assert dataclasses.is_dataclass(one)


def test_a_typo_is_no_setting() -> None:
    config = sim.MarketConfig()
    with pytest.raises(AttributeError):
        config.fees.taker = 3  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        sim.Fees(taker=3)  # type: ignore[call-arg]


def test_a_population_scales() -> None:
    population = sim.MarketConfig().population
    half = population.scaled(50)
    counts = [half.maker.count, half.noise.count, half.value.count, half.signal.count]
    assert sum(counts) + half.executor.count == 50
    config = sim.MarketConfig(population=half)
    sim.Market(config).step(100)
    with pytest.raises(bc.errors.SimError, match=r"\btotal\b.*\b0\b"):
        population.scaled(0)


def bad(change: Any) -> sim.MarketConfig:  # noqa: ANN401
    config = sim.MarketConfig()
    change(config)
    return config


def no_agents(config: sim.MarketConfig) -> None:
    for name in ("maker", "noise", "value", "signal", "executor"):
        getattr(config.population, name).count = 0


BAD: list[tuple[Any, list[str]]] = [
    ("frantic", ["`frantic`", "teaching"]),
    ({"fee": {}}, ["`fee`", "`fees`"]),
    ({"fees": {"taker": 1}}, ["`taker`", "taker_ppm"]),
    ({"fees": {"taker_ppm": 2**31}}, ["fees.taker_ppm", f"{2**31}"]),
    ({"matching": "dark"}, ["matching", '"dark"', '"call_auction"']),
    ({"slots": [{}, {"latency": 1}]}, ["slots[1]", "`latency`", "latency_ticks"]),
    (bad(lambda c: setattr(c, "symbols", 0)), ["`symbols`", "0", "1", "64"]),
    (bad(lambda c: setattr(c.population.noise, "size", -4.0)), ["`noise.size`", "-4"]),
    (bad(no_agents), ["agents"]),
    (bad(lambda c: setattr(c.fees, "maker_ppm", -51)), ["`fees.maker_ppm`", "-51"]),
]


@pytest.mark.parametrize(("config", "words"), BAD, ids=[words[0] for _, words in BAD])
def test_a_bad_configuration_gives_one_clear_error_before_anything_runs(
    config: Any,  # noqa: ANN401
    words: list[str],
) -> None:
    with pytest.raises(bc.errors.SimError) as error:
        sim.Market(config)
    assert missing(error.value, words) == []
    with pytest.raises(bc.errors.EnvError) as refused:
        TradingEnv(**({"preset": config} if isinstance(config, str) else {"market": config}))
    assert missing(refused.value, words) == []
    if isinstance(config, sim.MarketConfig):
        with pytest.raises(bc.errors.SimError):
            config.check()


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: MARKET(5), ["config", "5"]),
        (lambda: MARKET(agents=[object()]), ["agents[0]", "act(floor)"]),
        (lambda: MARKET(agents=3), ["agents", "3"]),
        (lambda: MARKET(seed="7"), ["seed", "'7'"]),
        (lambda: sim.MarketConfig.of(3), ["settings", "3"]),  # type: ignore[arg-type]
        (lambda: sim.MarketConfig.preset(3), ["name", "3", "teaching"]),  # type: ignore[arg-type]
        (lambda: sim.Market({"tick_size": "x"}), ["tick_size", "'x'"]),
    ],
)
def test_a_value_of_another_type_is_named_with_what_to_give(made: Any, words: list[str]) -> None:  # noqa: ANN401
    with pytest.raises(bc.errors.ArgumentTypeError) as error:
        made()
    assert missing(error.value, words) == []
