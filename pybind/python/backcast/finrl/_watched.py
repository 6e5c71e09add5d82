"""Episodes of a wrapper: days, metrics and pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnasium.vector import VectorEnv

from backcast._calls import explained
from backcast.envs._portfolio import picture

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from backcast.finrl._vec_env import VecFastFinRL


class WatchedPortfolios(VectorEnv[Any, Any, Any]):
    """Episodes of :class:`VecFinRLWrapper`, in the form of ``PortfolioVectorEnv``."""

    env: VecFastFinRL

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
        return self.env.history(i, before)

    @explained
    def metrics_so_far(self) -> dict[str, NDArray[Any]]:
        """Return the metrics of the running episodes so far, even if a wrapper cuts them.

        Returns
        -------
        dict
            In the form of :meth:`backcast.envs.PortfolioVectorEnv.metrics_so_far`.

        Raises
        ------
        EnvError
            Before the first reset.
        """
        return self.env.metrics_so_far()

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """Draw the running episode of every portfolio, or the one before if it has only begun.

        Returns
        -------
        tuple of ndarray
            ``N`` pictures, uint8 ``[480, 640, 3]``; None without a ``render_mode``.

        Raises
        ------
        EnvError
            Before the first reset.
        MissingExtraError
            If matplotlib is not installed.
        """
        if self.render_mode is None:
            return None
        return tuple(picture(self.env._batch, at) for at in range(self.num_envs))
