"""Every argument of every public callable, misspelt and with a value of a wrong type."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from types import BuiltinFunctionType
from typing import Any

import backcast as bc
import numpy as np
import pytest
from backcast import cli, envs, finrl, fleet, plot, returns, sim, types
from backcast.fleet._environment import Identity
from daemons import serving
from refusal import prices

FLAGS = {"terminated": False, "truncated": False}
COLUMNS = {"obs": ("f4", (3,)), "reward": "f4"}
WEIGHTS = {"w": np.zeros(3, "f4")}

PUBLIC = [(bc, name) for name in bc.__all__ if name != "__version__"]
PUBLIC += [(types, name) for name in types.__all__]
PUBLIC += [(envs, name) for name in envs.__all__] + [(plot, name) for name in plot.__all__]
# In reverse, so that `Vec` classes come before the single ones that inherit from them.
PUBLIC += [(finrl, name) for name in sorted(finrl.__all__, reverse=True)]
PUBLIC += [(cli, "main")] + [(returns, name) for name in returns.__all__ if name.islower()]
PUBLIC += [(fleet, name) for name in ("Context", "context", "report")]
# Python itself checks the arguments of settings of markets, which are dataclasses.
PUBLIC += [(sim, name) for name in ("Market", "Floor", "MarketConfig", "Population")]
PUBLIC += [(sim, name) for name in ("History", "Replay")]

OPTIONS = {
    *["Priority", "Largest", "Smallest", "Recency", "LaneWeights", "Epoch", "Consume"],
    "WholeEpisodes",
    "Rollout",
}
"""Options of a sampler, which checks their fields; `test_select` tries fields of wrong types."""

CALLED = {
    *["Schema", "PortfolioVectorEnv", "PortfolioEnv", "Collector", "FastFinRL", "VecFastFinRL"],
    *["RateLimiter", "VecReplayBuffer", "finrl.ReplayBuffer", "TickerTokenizer", "VecFinRLWrapper"],
    *["TradingVectorEnv", "TradingEnv", "Market", "Fleet", "Hindsight", "ReplayEnv", "Replay"],
    *OPTIONS,
}
"""Classes whose objects are made by calling them; the others name the call to use instead."""

ANYTHING = {
    **dict.fromkeys(OPTIONS, "is read by `sampler`"),
    "PortfolioVectorEnv.close_extras": "takes what Gymnasium's `close` was given",
    "VecFinRLWrapper.close_extras": "takes what Gymnasium's `close` was given",
    "Writer.append final_obs": "is read only where a lane ended",
    "Writer.extend final_obs": "is read only where a lane ended",
}
"""Arguments that may be anything, or are tried elsewhere, and why."""

NOT_EXPLAINED = {
    "TradingVectorEnv.step": "one frame more would be felt in each step of the environment",
    "TradingVectorEnv.advance": "one frame more would be felt in each step of the environment",
    "TradingEnv.step": "one frame more would be felt in each step of the environment",
    "ReplayEnv.step": "one frame more would be felt in each step of the environment",
    "PortfolioVectorEnv.step": "one frame more would be felt in each step of the environment",
    "FastFinRL.step": "one frame more would be felt in each step of the environment",
    "VecFastFinRL.step": "one frame more would be felt in each step of the environment",
    "PortfolioEnv.step": "one frame more would be felt in each step of the environment",
    "VecFinRLWrapper.step": "one frame more would be felt in each step of the environment",
    "VecReplayBuffer.add": "one frame more would be felt in each addition",
    "finrl.ReplayBuffer.add": "one frame more would be felt in each addition",
    "VecReplayBuffer.sample": "one frame more would be felt in each draw",
    "main": "is what the console script calls",
}
"""Calls whose misspelt arguments Python itself refuses, and why."""


@dataclass(frozen=True)
class Call:
    """A function, a class, or a method of an object of the fixture `made`."""

    found: Any
    owner: str | None = None

    def of(self, made: dict[str, Any]) -> Any:  # noqa: ANN401 - any callable
        """Return the callable, a method bound to the object of its class."""
        return self.found if self.owner is None else getattr(made[self.owner], self.found.__name__)


def callables() -> Iterator[tuple[str, Call]]:
    """Yield every public callable by name; a method that classes share, for the first of them."""
    seen = set()
    for module, attribute in PUBLIC:
        thing = getattr(module, attribute)
        # `backcast` and `backcast.finrl` both have a class `ReplayBuffer`.
        name = f"finrl.{attribute}" if thing is finrl.ReplayBuffer else attribute
        if not inspect.isclass(thing):
            yield name, Call(thing)
        elif not issubclass(thing, Exception) and name != "Batch":
            if name in CALLED:
                yield name, Call(thing)
            ours = [base for base in thing.__mro__ if base.__module__.startswith("backcast")]
            members = [item for base in ours for item in vars(base).items()]
            for member, value in members:
                found = getattr(thing, member)
                if not member.startswith("_") and callable(found) and value not in seen:
                    static = isinstance(value, staticmethod | classmethod | BuiltinFunctionType)
                    seen.add(value)
                    yield f"{name}.{member}", Call(found, None if static else name)


CALLABLES = dict(callables())


def good(name: str, made: dict[str, Any]) -> dict[str, Any]:
    """Return the required arguments of a call, with values of the right types."""
    panel, csv = made["Panel"], made["csv"]
    spaces = made["PortfolioEnv"].observation_space, made["PortfolioEnv"].action_space
    arguments: dict[str, dict[str, Any]] = {
        "Schema": {"columns": COLUMNS},
        "Schema.from_spaces": {"observation_space": spaces[0], "action_space": spaces[1]},
        "RateLimiter.queue": {"size": 3},
        "RateLimiter.can_sample": {"items": 1, "inserts": 1},
        "RateLimiter.can_insert": {"transitions": 1, "inserts": 1},
        "Limiter.set_ceiling": {"inserts": 9},
        "Limiter.set": {"limits": bc.RateLimiter(min_size=2)},
        "LearnedTable.update_values": {"index": [3], "value": [1.0]},
        "LearnedTable.values": {"index": [3]},
        "TransitionOrder.index_at": {"position": [3]},
        "TransitionOrder.position_of": {"index": [3]},
        "ReplayBuffer.table": {"name": "online"},
        "ReplayBuffer.create": {"name": None, "schema": COLUMNS, "capacity": 10},
        "ReplayBuffer.attach": {"name": "walk"},
        "ReplayBuffer.from_file": {"path": "nothing.parquet", "name": "nobody"},
        "ReplayBuffer.export": {"path": "nothing.parquet"},
        "ReplayBuffer.resize": {"capacity": 1},
        "ReplayBuffer.remove_table": {"table": "nothing"},
        "ReplayBuffer.snapshot": {"label": "never"},
        "ReplayBuffer.load": {"snapshot": "nobody"},
        "ReplayBuffer.open_snapshot": {"snapshot": "nobody"},
        "ReplayBuffer.sample": {"batch_size": 2},
        "ReplayBuffer.gather": {"index": [3]},
        "ReplayBuffer.rows": {"lane": 0, "start": 0, "length": 2},
        "ReplayBuffer.lane_span": {"lane": 0},
        "ReplayBuffer.drop_episode": {"lane": 0},
        "ReplayBuffer.lease": {"lane": 0, "start": 0, "length": 2},
        "ReplayBuffer.wait": {"min_size": 1},
        "Writer.append": {"obs": [0, 0, 0], "reward": 0, **FLAGS},
        "Writer.extend": {
            "obs": [[0, 0, 0]],
            "reward": [0],
            **{name: [end] for name, end in FLAGS.items()},
        },
        "Sampler.sample": {"batch_size": 2},
        "Sampler.block": {"batch_size": 2},
        "Sampler.raise_largest": {"q": 2.0},
        "Sampler.gather": {"index": [3]},
        "Sampler.batches": {"batch_size": 2},
        "Sampler.update_priorities": {"index": [3], "priority": [1.0]},
        "Lease.windows": {"length": 2},
        "Client.resize": {"name": "nobody", "capacity": 10},
        "Client.save_snapshot": {"name": "nobody"},
        "Client.load_snapshot": {"snapshot": "nobody"},
        "Client.list_snapshots": {"name": "nobody"},
        "Client.stats": {"name": "walk"},
        "Client.remove_object": {"name": "nobody"},
        "Panel.from_csv": {"path": csv},
        "Panel.from_parquet": {"path": csv},
        "Panel.from_frame": {"frame": {"date": ["2024-01-02"]}},
        "Panel.attach": {"name": "prices"},
        "Panel.tokens": {"tickers": ["AAA"]},
        "Panel.windows": {"days": [1], "tokens": [[1]], "history": 1, "future": 1},
        "Params.create": {"name": None, "like": WEIGHTS},
        "Params.attach": {"name": "policy"},
        "Params.load": {"snapshot": "nobody", "params": "policy"},
        "Params.publish": {"arrays": WEIGHTS},
        "remove_object": {"name": "nobody"},
        "remove_snapshot": {"snapshot": "nobody"},
        "verify_snapshot": {"snapshot": "nobody"},
        "PortfolioVectorEnv": {"panel": panel},
        "PortfolioVectorEnv.step": {"actions": np.zeros((2, 1))},
        "PortfolioEnv": {"panel": panel},
        "PortfolioEnv.step": {"action": np.zeros(1)},
        "TradingVectorEnv.step": {"actions": [1, 1]},
        "TradingEnv.step": {"action": 1},
        "TradingVectorEnv.advance": {"actions": [1, 1]},
        "TradingVectorEnv.observe_into": {"out": np.zeros((2, 51), "f4")},
        "Market.reset": {"seed": 1},
        "Market.record": {"ticks": 1},
        "Market.send": {"side": "buy", "quantity": 1},
        "History.read": {"messages": csv.with_name("messages.csv")},
        "Replay": {"history": made["History"]},
        "Replay.order": {"side": "buy", "shares": 1},
        "Replay.run_until": {"time": 1.0},
        "Replay.volume": {"since": 0},
        "ReplayEnv": {"history": made["History"]},
        "ReplayEnv.step": {"action": 1},
        "Floor.buy": {"quantity": 1},
        "Floor.sell": {"quantity": 1},
        "MarketConfig.preset": {"name": "calm"},
        "MarketConfig.of": {"settings": {}},
        "Population.scaled": {"total": 10},
        "FastFinRL": {"csv_path": panel},
        "FastFinRL.step": {"actions": np.zeros(1)},
        "VecFastFinRL": {"csv_path": panel, "n_envs": 2},
        "VecFastFinRL.reset_indices": {"indices": [0]},
        "VecFastFinRL.step": {"actions": np.zeros((2, 1))},
        "VecFastFinRL.set_auto_reset": {"enabled": True},
        "VecFastFinRL.set_return_format": {"format": "vec"},
        "VecFastFinRL.get_raw_value": {"ticker": "AAA", "day": 1, "column": "open"},
        "VecFastFinRL.get_market_window_numpy": {"ticker_list": ["AAA"], "day": 1, "h": 1},
        "VecReplayBuffer": {"env": made["VecFastFinRL"], "capacity": 50},
        "VecReplayBuffer.attach": {"name": "moves"},
        "VecReplayBuffer.add": dict(made["added"]),
        "VecReplayBuffer.sample_indices": {"batch_size": 2},
        "VecReplayBuffer.get": {"index": 0},
        "VecReplayBuffer.get_market_data": {"index": 0, "h": 1, "future": 1},
        "VecReplayBuffer.save": {"path": csv.with_name("saved")},
        "VecReplayBuffer.load": {"path": csv.with_name("saved")},
        "finrl.ReplayBuffer": {"env": made["FastFinRL"], "capacity": 50},
        "finrl.ReplayBuffer.add": dict(made["added alone"]),
        "TickerTokenizer.encode": {"tic": "AAA"},
        "TickerTokenizer.encode_batch": {"tics": ["AAA"]},
        "TickerTokenizer.decode": {"token_id": 0},
        "TickerTokenizer.decode_batch": {"token_ids": [0]},
        "TickerTokenizer.save": {"path": csv.with_name("tickers")},
        "TickerTokenizer.load": {"path": csv.with_name("tickers")},
        "VecFinRLWrapper": {"path": panel, "buffer_capacity": 50},
        "VecFinRLWrapper.step": {"action": np.zeros((4, 1, 2))},
        "Collector": {"env": made["PortfolioEnv"], "writer": made["Writer"]},
        "Collector.step": {"actions": np.zeros((2, 1))},
        "Collector.run": {"policy": lambda obs: np.zeros((2, 1)), "steps": 1},
        "Fleet": {"actor": "backcast.fleet:report"},
        "report": {"length": 1},
        "make": {"env_config": {"panel": panel}},
        "window": {"batch": made["batch"], "i": 0},
        "Hindsight": {"reward": lambda *_: np.zeros(4)},
        "Recency": {"half_life": 9},
        "LaneWeights": {"weights": [1]},
        "discounted": {"batch": made["batch"], "gamma": 0.9},
        "lambda_returns": {
            "batch": made["batch"],
            "next_values": np.zeros((4, 4)),
            "gamma": 0.9,
            "lam": 0.9,
        },
        "gae": {
            "batch": made["batch"],
            "values": np.zeros((4, 4)),
            "next_values": np.zeros((4, 4)),
            "gamma": 0.9,
            "lam": 0.9,
        },
        "vtrace": {
            "batch": made["batch"],
            "values": np.zeros((4, 4)),
            "next_values": np.zeros((4, 4)),
            "ratios": np.ones((4, 4)),
            "gamma": 0.9,
        },
        "retrace": {
            "batch": made["batch"],
            "action_values": np.zeros((4, 4)),
            "next_values": np.zeros((4, 4)),
            "ratios": np.ones((4, 4)),
            "gamma": 0.9,
        },
    }
    return arguments.get(name, {})


def arguments_of(call: Call) -> Iterator[tuple[str, Any]]:
    """Yield every argument of a callable with its annotation, those of `Unpack` included."""
    for parameter in inspect.signature(call.found).parameters.values():
        settings = re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation))
        if parameter.kind is parameter.VAR_KEYWORD and settings:
            yield from getattr(envs, settings[1]).__annotations__.items()
        elif parameter.kind not in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            yield parameter.name, parameter.annotation


def parameters() -> Iterator[Any]:
    """Yield a test parameter for every argument of every callable."""
    for name, call in CALLABLES.items():
        for parameter, _ in arguments_of(call):
            if not parameter.startswith("_") and parameter != "self":
                yield pytest.param(name, parameter, id=f"{name}-{parameter}")


PARAMETERS = list(parameters())

COUNTED = {
    parameter
    for name, call in CALLABLES.items()
    for parameter, annotation in arguments_of(call)
    if name not in OPTIONS and annotation in ("int", "int | None")
}
"""Names of arguments that are integers in some call; no call takes a bool for one of them."""


class Visitor:
    """An agent that keeps the `Floor` of its turn."""

    floor: Any = None

    def act(self, floor: sim.Floor) -> None:
        self.floor = floor


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Yield an object of each class that has methods, by name."""
    files = tmp_path_factory.mktemp("files")
    (files / "prices.csv").write_text(prices())
    with ExitStack() as held, pytest.MonkeyPatch.context() as patch:
        patch.setenv("BACKCAST_DIR", str(files))
        patch.setenv("BACKCAST_STORE", str(files / "store"))
        hold = held.enter_context
        hold(serving(files))
        buf = hold(bc.ReplayBuffer.create("walk", COLUMNS, capacity=400))
        writer = hold(buf.writer())
        limits = bc.RateLimiter(min_size=2)
        limited = hold(bc.ReplayBuffer.create(None, COLUMNS, capacity=10, limiter=limits))
        for _ in range(100):
            writer.append(obs=[0, 0, 0], reward=0, **FLAGS)
        panel = hold(bc.Panel.from_csv(files / "prices.csv", name="prices", macro=["VIX"]))
        single, vector = envs.PortfolioEnv(panel), envs.PortfolioVectorEnv(panel, 2)
        single.reset(seed=1)
        vector.reset(seed=1)
        schema = bc.Schema.from_spaces(vector.single_observation_space, vector.single_action_space)
        steps = hold(bc.ReplayBuffer.create(None, schema, capacity=100, lanes=2))
        fast, many = finrl.FastFinRL(panel), finrl.VecFastFinRL(panel, 2)
        fast.reset(seed=1)
        many.reset(seed=1)
        moves = hold(finrl.VecReplayBuffer(many, 50, name="moves", n_adders=2))
        added = {"states": many.get_state(), "actions": np.zeros((2, 1)), "rewards": [0.0, 0.0]}
        added |= {"next_states": many.step(np.zeros((2, 1))), "dones": [False, False]}
        moves.add(**added)
        alone: dict[str, Any] = {"state": fast.get_state(), "action": np.zeros(1), "reward": 0.0}
        alone |= {"next_state": fast.step(np.zeros(1)), "done": False}
        last = hold(finrl.ReplayBuffer(fast, 50))
        last.add(**alone)
        wrapper = finrl.VecFinRLWrapper(panel, 50, history_length=1)
        wrapper.reset(seed=1)
        wrapper.step(np.zeros((4, 1, 2)))
        collector = envs.Collector(vector, hold(steps.writer(2, "next_step")))
        collector.reset(seed=1)
        sampler = hold(buf.sampler(seed=1, select=bc.Priority(alpha=0.6)))
        alone_in_market, in_markets = envs.TradingEnv(), envs.TradingVectorEnv(2)
        alone_in_market.reset(seed=1)
        in_markets.reset(seed=1)
        policy = hold(bc.Params.create("policy", WEIGHTS))
        policy.publish(WEIGHTS)
        visitor = Visitor()
        market = sim.Market(agents=[visitor])
        market.step()
        lines = "1,1,7,100,1000000,1\n1,1,8,100,1000100,-1\n9,3,7,100,1000000,1\n"
        (files / "messages.csv").write_text(lines)
        history = sim.History.read(files / "messages.csv")
        replayed = envs.ReplayEnv(history)
        replayed.reset(seed=1)
        yield {
            "History": history,
            "Replay": sim.Replay(history),
            "ReplayEnv": replayed,
            "ReplayBuffer": buf,
            "Writer": writer,
            "Sampler": sampler,
            "Batches": hold(buf.sampler(seed=2).batches(2)),
            "Lease": hold(buf.lease(0, 10, 10)),
            "RateLimiter": bc.RateLimiter(min_size=2),
            "Limiter": limited.limiter,
            "TransitionOrder": hold(buf.transitions()),
            "LearnedTable": hold(buf.table("online", learned={"value": "f4"})),
            "Params": policy,
            "Client": hold(bc.Client.connect()),
            "Schema": buf.schema,
            "Panel": panel,
            "PortfolioEnv": single,
            "PortfolioVectorEnv": vector,
            "Collector": collector,
            "TradingEnv": alone_in_market,
            "TradingVectorEnv": in_markets,
            "Market": market,
            "Floor": visitor.floor,
            "MarketConfig": sim.MarketConfig(),
            "Population": sim.Population(),
            "FastFinRL": fast,
            "VecFastFinRL": many,
            "VecReplayBuffer": moves,
            "finrl.ReplayBuffer": last,
            "TickerTokenizer": finrl.TickerTokenizer(["AAA"]),
            "VecFinRLWrapper": wrapper,
            "Fleet": bc.Fleet("backcast.fleet:report"),
            "Context": fleet.Context(Identity("nobody", 0, 1, 0, 0)),
            "added": added,
            "added alone": alone,
            "batch": buf.sample(4, history=4),
            "csv": files / "prices.csv",
        }


def test_the_list_of_callables_is_long() -> None:
    assert len(CALLABLES) > 50
    assert len(PARAMETERS) > 120


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS)
def test_a_misspelt_argument_is_named_with_the_one_that_was_meant(
    made: dict[str, Any], name: str, parameter: str
) -> None:
    arguments = good(name, made)
    known = dict(arguments_of(CALLABLES[name]))
    typo = parameter[:-1] if len(parameter) > 4 else f"{parameter}x"
    typo = f"{parameter}s" if typo in known else typo
    arguments[typo] = arguments.pop(parameter, None)
    if name in NOT_EXPLAINED:
        with pytest.raises(TypeError, match=typo):
            CALLABLES[name].of(made)(**arguments)
        return
    with pytest.raises(bc.BackcastError) as raised:
        CALLABLES[name].of(made)(**arguments)
    message = str(raised.value).replace('"', "`").replace("'", "`")
    assert f"`{typo}`" in message
    assert f"`{parameter}`" in message


# Python names the arguments of its own functions. A reserved row has a test of its own.
NATIVE = [
    name
    for name, call in CALLABLES.items()
    if not inspect.isfunction(inspect.unwrap(call.found)) and call.owner != "ReservedRow"
]


@pytest.mark.parametrize("name", NATIVE)
def test_an_argument_that_no_native_call_has_is_named(made: dict[str, Any], name: str) -> None:
    parameters = inspect.signature(CALLABLES[name].found).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        pytest.skip("takes any name, and checks it itself")
    with pytest.raises(bc.BackcastError, match="zzqx"):
        CALLABLES[name].of(made)(**good(name, made), zzqx=1)


class Odd:
    """An object that no call accepts."""

    def __repr__(self) -> str:
        return "ODD"


TYPED = [
    case
    for case in PARAMETERS
    if not {str(case.values[0]), " ".join(map(str, case.values))} & ANYTHING.keys()
]
"""Arguments that are tried with a value of a wrong type."""


def skip_without_pettingzoo(name: str, parameter: str) -> None:
    """Skip settings of an environment that is made, and so checked, only with PettingZoo."""
    checked_late = ("background", *envs.TradingSettings.__annotations__)
    if name == "parallel_trading_env" and parameter in checked_late:
        pytest.importorskip("pettingzoo", reason="PettingZoo is not installed")


@pytest.mark.parametrize(("name", "parameter"), TYPED)
def test_an_argument_of_another_type_is_named_with_what_to_give(
    made: dict[str, Any], name: str, parameter: str
) -> None:
    skip_without_pettingzoo(name, parameter)
    arguments = good(name, made) | {parameter: Odd()}
    if name == "ReplayBuffer.wait" and parameter == "rows_published":
        del arguments["min_size"]
    with pytest.raises(bc.BackcastError) as raised:
        CALLABLES[name].of(made)(**arguments)
    message = str(raised.value)
    assert parameter in message
    assert "; " in message or ", but must " in message, f"no remedy: {message}"


@pytest.mark.parametrize(
    ("name", "parameter"), [case for case in TYPED if case.values[1] in COUNTED]
)
def test_a_bool_is_no_count(made: dict[str, Any], name: str, parameter: str) -> None:
    skip_without_pettingzoo(name, parameter)
    for flag in (True, np.True_):
        with pytest.raises(bc.BackcastError, match=f"{parameter}.*; "):
            CALLABLES[name].of(made)(**(good(name, made) | {parameter: flag}))
