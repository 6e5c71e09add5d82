"""Technical indicators as columns of a panel, and their normalisation by training days.

>>> import backcast as bc
>>> from backcast import indicators
>>> days = np.arange("2024-01-01", "2024-04-01", dtype="datetime64[D]")
>>> close = 100 + np.arange(len(days)) % 7.0
>>> derive = ["open", "high", "low", "volume"]
>>> frame = {"date": days, "close": close}
>>> bare = bc.Panel.from_frame(frame, ticker="AAA", derive=derive)
>>> indicators.add(bare, ["macd", "rsi_14"]).indicators  # doctest: +SKIP
['macd', 'rsi_14']

Indicators of single tickers are computed by TA-Lib (``pip install backcast[indicators]``), which is
imported when it is first needed.
"""

from backcast.indicators._add import FINRL, add
from backcast.indicators._normalizer import Normalizer

__all__ = ["FINRL", "Normalizer", "add"]
