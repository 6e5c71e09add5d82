"""States, tickers and episodes of many portfolios."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from backcast._calls import explained
from backcast.finrl._base import FinRLEnv
from backcast.finrl._states import Shared, rows_of, shared_lists, state_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from backcast._native import PortfolioBatch


Step: TypeAlias = tuple[
    dict[str, "NDArray[Any]"],
    "NDArray[np.float64]",
    "NDArray[np.bool_]",
    "NDArray[np.bool_]",
    dict[str, Any],
]
"""Observations, rewards, terminations, truncations and infos."""


class SeenPortfolios(FinRLEnv[Any]):
    """The portfolios of :class:`VecFastFinRL`, which resets and steps them."""

    _seed: int | None
    """Seed of the first reset, unless it is given one; None afterwards."""
    _wrapped = False
    """Whether a wrapper steps the environments."""
    _tickers: Shared | None
    """Names of the traded tickers; None until they are asked for."""

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
        return [list(names) for names in self._names()]

    @property
    def tokens(self) -> NDArray[np.int32]:
        """The tickers' tokens in the panel, ``[N, T]``: what ``Panel.windows`` takes."""
        assert self._batch is not None
        return self._batch.tokens_of

    @explained
    def history(self, i: int, before: bool = False) -> dict[str, Any]:
        """Return a recorded episode of a portfolio, day by day.

        Parameters
        ----------
        i : int
            Portfolio.
        before : bool, default False
            Return the episode before the running one instead.

        Returns
        -------
        dict
            In the form of :meth:`backcast.envs.PortfolioVectorEnv.history`.

        Raises
        ------
        EnvError
            If there is no such portfolio or episode, or nothing is recorded.
        """
        assert self._batch is not None
        return self._batch.history(i, before)

    @explained
    def metrics_so_far(self) -> dict[str, NDArray[Any]]:
        """Return the metrics of the running episodes so far.

        Returns
        -------
        dict
            In the form of :meth:`backcast.envs.PortfolioVectorEnv.metrics_so_far`.

        Raises
        ------
        EnvError
            Before the first reset.
        """
        assert self._batch is not None
        return self._batch.metrics_so_far()

    def _adopt(self, batch: PortfolioBatch) -> None:
        """Replace the batch of portfolios."""
        self._batch: PortfolioBatch = batch
        self._vary = batch.tickers_vary
        self._known = ["<CASH>", *self._panel.tickers]
        self._note_tickers()
        self._seen: Step | None = None
        self._any_ended = False
        self._stepped = None
        self._fixed = {
            "indicator_names": Shared(self._indicators),
            "n_envs": batch.num_envs or 1,
            "n_tickers": len(batch.tickers),
            "n_indicators": len(self._indicators),
            "n_macro": len(self._macro),
            "macro_tickers": Shared(self._macro),
        }

    def _begin(
        self,
        batch: PortfolioBatch,
        seed: int | Sequence[int | None] | NDArray[np.integer[Any]] | None,
        options: Mapping[str, Any] | None,
        *,
        spread: bool = True,
    ) -> Step:
        """Reset portfolios, all or those of a mask; the others keep the results of their last step.

        `spread`: portfolio i has stream i of one seed for all; else seed ``seed + i``.
        """
        obs, _ = batch.reset(seed=seed, options=options, spread=spread, begin=self._seed)
        self._seed = None
        if batch is not self._batch:
            self._adopt(batch)
        # Arrays of the last step belong to the caller, which may have changed them.
        seen: Step = (obs, *batch.outcomes(), {})
        self._seen, self._stepped = seen, False
        self._any_ended = bool(self._ended().any())
        if self._vary:
            self._note_tickers()
        return seen

    def _advance(self, actions: ArrayLike) -> Step:
        """Step all portfolios, and keep the observations until a state is asked for."""
        seen = self._batch.step(actions)
        if seen[4] or self._any_ended:
            self._note_ends(seen[4])
        self._seen, self._stepped = seen, True
        return seen

    def _note_ends(self, infos: dict[str, Any]) -> None:
        """Update the tickers after a step that ended episodes or began new ones."""
        self._tokens_before = self._tokens
        if self._vary:
            self._note_tickers()
        # In same-step mode the ended episodes have begun again, so none begins in the next step.
        self._any_ended = bool(infos) and "final_obs" not in infos

    def _note_tickers(self) -> None:
        self._tokens, self._tickers = self._batch.tokens_of, None

    def _names(self) -> Shared:
        """Return the names of the traded tickers, made at the first request."""
        if self._tickers is None:
            self._tickers = self._names_of(self._tokens)
        return self._tickers

    def _names_of(self, tokens: NDArray[np.int32]) -> Shared:
        known = self._known
        return shared_lists([[known[token] for token in row] for row in tokens.tolist()])

    def _ended(self) -> NDArray[np.bool_]:
        """Return which portfolios' episodes ended in their last step and were not reset since."""
        if self._seen is None:
            return np.zeros(self.num_envs(), bool)
        ended: NDArray[np.bool_] = self._seen[2] | self._seen[3]
        return ended

    def _show(self, seen: Step) -> Any:  # noqa: ANN401 - a dict or a list of dicts
        """Build a state of the last observations."""
        obs, reward, terminated, truncated, infos = seen
        if self._wrapped:
            # The wrapper keeps the original arrays, so a state gets copies.
            obs = {key: values.copy() for key, values in obs.items()}
            reward, terminated, truncated = reward.copy(), terminated.copy(), truncated.copy()
        if not self._indicators:
            # Observations have no empty parts, since no space can have them; states do.
            obs = {**obs, "indicators": np.zeros((*obs["open"].shape, 0))}
        outcome = (reward, terminated, truncated)
        state = state_of(obs, outcome, self._names(), self._batch.counts(), self._fixed)
        if infos:
            state["metrics"] = infos["metrics"]
            if "final_obs" in infos:
                arrived = {key: values.copy() for key, values in obs.items()}
                for at in np.flatnonzero(infos["_final_obs"]):
                    for key, values in infos["final_obs"][at].items():
                        arrived[key][at] = values
                before = self._names_of(self._tokens_before) if self._vary else self._names()
                state["final_obs"] = arrived | {"tickers": before}
        return state if self._format == "vec" else rows_of(state)

    def _show_again(self, *step: Any) -> Any:  # noqa: ANN401 - a dict or a list of dicts
        return self._show(step)
