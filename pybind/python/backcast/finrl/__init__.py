"""The classes of FinRL's and FastFinRL's users, over shared memory.

>>> import backcast.finrl as ff
>>> tokenizer = ff.TickerTokenizer()
>>> tokenizer.encode("AAPL"), tokenizer.encode("MSFT"), tokenizer.decode(0)
(1, 2, '<CASH>')
"""

from backcast._native import TickerTokenizer

__all__ = ["TickerTokenizer"]
