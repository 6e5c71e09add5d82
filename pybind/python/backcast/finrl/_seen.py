"""What can be seen of many portfolios: how many there are, what they trade, states and episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from backcast._calls import explained
from backcast.finrl._base import FinRLEnv
from backcast.finrl._states import Shared, rows_of, shared_lists, state_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from backcast._native import PortfolioBatch
    from backcast.finrl._rules import State


class SeenPortfolios(FinRLEnv[Any]):
    """The portfolios of :class:`VecFastFinRL`, which resets and steps them."""

    def num_envs(self) -> int:
        """Count the portfolios.

        Returns
        -------
        int
            ``N``.
        """
        assert self._batch is not None
        return self._batch.num_envs or 1

    def n_tickers(self) -> int:
        """Count the tickers that each portfolio trades, also before the first reset.

        Returns
        -------
        int
            ``T``.
        """
        assert self._batch is not None
        return len(self._batch.tickers)

    def get_tickers(self) -> list[list[str]]:
        """Name the tickers that each portfolio trades.

        Returns
        -------
        list of list of str
            ``[N][T]``, in the order of actions.
        """
        return [list(names) for names in self._tickers]

    @property
    def tokens(self) -> NDArray[np.int32]:
        """The tickers' tokens in the panel, ``[N, T]``: what ``Panel.windows`` takes."""
        assert self._batch is not None
        return self._batch.tokens_of

    @explained
    def history(self, i: int, before: bool = False) -> dict[str, Any]:
        """Give an episode of a portfolio day by day, where they are recorded.

        Parameters
        ----------
        i : int
            Which portfolio.
        before : bool, default False
            The episode before the running one.

        Returns
        -------
        dict
            As from :meth:`backcast.envs.PortfolioVectorEnv.history`.

        Raises
        ------
        EnvError
            If there is no such portfolio or episode, or nothing is recorded.
        """
        assert self._batch is not None
        return self._batch.history(i, before)

    def _adopt(self, batch: PortfolioBatch) -> None:
        """Make a new batch of portfolios ours."""
        self._batch: PortfolioBatch = batch
        self._tickers = shared_lists(batch.tickers_of)
        self._vary = batch.tickers_vary
        self._last: tuple[NDArray[Any], ...] | None = None
        self._shown = None
        self._fixed = {
            "indicator_names": Shared(self._indicators),
            "n_envs": batch.num_envs or 1,
            "n_tickers": len(batch.tickers),
            "n_indicators": len(self._indicators),
            "n_macro": len(self._macro),
            "macro_tickers": Shared(self._macro),
        }

    def _show(
        self,
        obs: dict[str, NDArray[Any]],
        outcome: tuple[NDArray[Any], ...] | None,
        infos: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        before = self._tickers
        if self._vary and (outcome is None or infos is None or "final_obs" in infos):
            self._tickers = shared_lists(self._batch.tickers_of)
        if outcome is None:
            count = self.num_envs()
            outcome = (np.zeros(count), np.zeros(count, bool), np.zeros(count, bool))
        self._last = outcome
        if not self._indicators:
            # Observations leave out what no space can have; states have it, without columns.
            obs = {**obs, "indicators": np.zeros((*obs["open"].shape, 0))}
        state = state_of(obs, outcome, self._tickers, self._batch.counts(), self._fixed)
        if infos:
            state["metrics"] = infos["metrics"]
            if "final_obs" in infos:
                arrived = {key: values.copy() for key, values in obs.items()}
                for at in np.flatnonzero(infos["_final_obs"]):
                    for key, values in infos["final_obs"][at].items():
                        arrived[key][at] = values
                state["final_obs"] = arrived | {"tickers": before}
        self._shown = state
        return self._in_form(state)

    def _in_form(self, shown: State) -> Any:  # noqa: ANN401 - a dict or a list of dicts
        return shown if self._format == "vec" else rows_of(shown)
