"""What can be asked of a wrapper's episodes besides observations: days, sums and pictures."""

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
    """The episodes of :class:`VecFinRLWrapper`, as ``PortfolioVectorEnv`` tells of its own."""

    env: VecFastFinRL

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
        return self.env.history(i, before)

    @explained
    def metrics_so_far(self) -> dict[str, NDArray[Any]]:
        """Say what the running episodes have come to so far, also where a wrapper cuts them.

        Returns
        -------
        dict
            As from :meth:`backcast.envs.PortfolioVectorEnv.metrics_so_far`.

        Raises
        ------
        EnvError
            Before the first reset.
        """
        return self.env.metrics_so_far()

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """Draw the running episode of every portfolio, or the one before when it only began.

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
