"""Evaluation of policies on days that they were not trained on, with intervals and baselines.

>>> from backcast.evaluate import deflated_sharpe_ratio, stationary_bootstrap
>>> stationary_bootstrap(6, 2, mean_block=3, seed=0)
array([[5, 0, 1, 2, 3, 4],
       [3, 4, 5, 0, 1, 2]])

:func:`split`, :func:`walk_forward` and :func:`k_fold` divide the days of a panel;
:func:`evaluate` runs policies over them. It needs Gymnasium (``pip install
backcast[gymnasium]``), pictures need matplotlib (``pip install backcast[plot]``).
"""

from backcast.evaluate._baselines import (
    BASELINES,
    Baseline,
    BuyAndHold,
    EqualWeight,
    MinimumVariance,
    Momentum,
)
from backcast.evaluate._folds import Fold, k_fold, split, walk_forward
from backcast.evaluate._result import Evaluation, Score
from backcast.evaluate._run import evaluate
from backcast.evaluate._statistics import (
    Interval,
    deflated_sharpe_ratio,
    sharpe_ratio,
    stationary_bootstrap,
)

__all__ = [
    "BASELINES",
    "Baseline",
    "BuyAndHold",
    "EqualWeight",
    "Evaluation",
    "Fold",
    "Interval",
    "MinimumVariance",
    "Momentum",
    "Score",
    "deflated_sharpe_ratio",
    "evaluate",
    "k_fold",
    "sharpe_ratio",
    "split",
    "stationary_bootstrap",
    "walk_forward",
]
