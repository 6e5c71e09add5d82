"""FastFinRL's classes over shared memory: change the import, keep the program.

>>> import backcast.finrl as ff
>>> env = ff.VecFastFinRL("prices.csv", n_envs=4, return_format="vec")  # doctest: +SKIP
>>> state = env.reset(seed=42)  # doctest: +SKIP
>>> tokenizer = ff.TickerTokenizer()
>>> tokenizer.encode("AAPL"), tokenizer.encode("MSFT"), tokenizer.decode(0)
(1, 2, '<CASH>')

Names, arguments, keys and shapes are those of FastFinRL; each class lists its differences.
Environments of Gymnasium's contract are in :mod:`backcast.envs`.
"""

from typing import TYPE_CHECKING

from backcast._calls import called_on_objects
from backcast._native import TickerTokenizer
from backcast.finrl._replay import VecReplayBuffer
from backcast.finrl._single_env import FastFinRL
from backcast.finrl._single_replay import ReplayBuffer
from backcast.finrl._transition import StoredTransition, VecStoredTransition
from backcast.finrl._vec_env import VecFastFinRL

if TYPE_CHECKING:
    from backcast.finrl._wrapper import VecFinRLWrapper

__all__ = [
    "FastFinRL",
    "ReplayBuffer",
    "StoredTransition",
    "TickerTokenizer",
    "VecFastFinRL",
    "VecFinRLWrapper",
    "VecReplayBuffer",
    "VecStoredTransition",
]

called_on_objects(
    TickerTokenizer, "load", "tokenizer = TickerTokenizer(), then tokenizer.load(path)"
)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import the part that builds on Gymnasium at its first use."""
        if name != "VecFinRLWrapper":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from backcast import envs  # noqa: F401 - says what to install where Gymnasium is missing
        from backcast.finrl._wrapper import VecFinRLWrapper

        return VecFinRLWrapper

    def __dir__() -> list[str]:
        """List the names of the module; `help` reads each, so only those that can be imported."""
        from importlib.util import find_spec

        lazy = set() if find_spec("gymnasium") is None else {"VecFinRLWrapper"}
        return sorted({*globals(), *lazy})


del TYPE_CHECKING, called_on_objects
