"""Random streams of the model: hashes of a key and a counter, and the draws made of them."""

from __future__ import annotations

import math

WORD = 2**64 - 1
STEP = 0x9E3779B97F4A7C15

ROLES = {
    name: number
    for number, name in enumerate(
        ("fundamental", "news", "market_news", "agent", "turn", "analyst", "user", "other"), 1
    )
} | {"slot_turn": 9, "consensus": 10, "common": 11}

# Rational approximation of the normal quantile by P. J. Acklam, highest powers first.
CENTRE_TOP = (
    *(-39.69683028665376, 220.9460984245205, -275.9285104469687),
    *(138.357751867269, -30.66479806614716, 2.506628277459239),
)
CENTRE_BOTTOM = (
    *(-54.47609879822406, 161.5858368580409, -155.6989798598866),
    *(66.80131188771972, -13.28068155288572, 1.0),
)
TAIL_TOP = (
    *(-0.007784894002430293, -0.3223964580411365, -2.400758277161838),
    *(-2.549732539343734, 4.374664141464968, 2.938163982698783),
)
TAIL_BOTTOM = (
    *(0.007784695709041462, 0.3224671290700398, 2.445134137142996),
    *(3.754408661907416, 1.0),
)


def mix(word: int) -> int:
    """Hash 64 bits, as SplitMix64 does."""
    word &= WORD
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & WORD
    word = (word ^ word >> 27) * 0x94D049BB133111EB & WORD
    return word ^ word >> 31


def key(seed: int, role: str, index: int) -> int:
    """Return the initial state of a stream."""
    owner = mix(seed + STEP) ^ mix(ROLES[role] * STEP)
    return mix(mix(owner) ^ mix(index * 0xD1B54A32D192ED03 + 1))


def polynomial(terms: tuple[float, ...], x: float) -> float:
    """Return a polynomial by Horner's rule."""
    total = 0.0
    for term in terms:
        total = total * x + term
    return total


def normal_quantile(p: float) -> float:
    """Return the quantile of the standard normal distribution."""
    if 0.02425 <= p <= 1 - 0.02425:
        q = p - 0.5
        return polynomial(CENTRE_TOP, q * q) * q / polynomial(CENTRE_BOTTOM, q * q)
    tail, sign = (p, 1.0) if p < 0.5 else (1.0 - p, -1.0)
    q = math.sqrt(-2.0 * math.log(tail))
    return sign * polynomial(TAIL_TOP, q) / polynomial(TAIL_BOTTOM, q)


class Stream:
    """One stream of draws."""

    def __init__(self, seed: int, role: str, index: int = 0) -> None:
        self.state = key(seed, role, index)

    def bits(self) -> int:
        """Draw 64 bits."""
        self.state = self.state + STEP & WORD
        return mix(self.state)

    def unit(self) -> float:
        """Draw from (0, 1)."""
        return ((self.bits() >> 12) + 0.5) / 2.0**52

    def chance(self, probability: float) -> bool:
        """Draw true with a probability."""
        return self.unit() < probability

    def uniform(self, low: float, high: float) -> float:
        """Draw from an interval."""
        return low + (high - low) * self.unit()

    def below(self, bound: int) -> int:
        """Draw a whole number below `bound`."""
        return (self.bits() >> 32) * bound >> 32

    def exponential(self, mean: float) -> float:
        """Draw from the exponential distribution."""
        return -mean * math.log(self.unit())

    def wait(self, mean: float) -> int:
        """Draw a number of ticks, at least 1."""
        return math.ceil(min(max(self.exponential(max(mean - 0.5, 0.1)), 1.0), 1e9))

    def normal(self) -> float:
        """Draw from the standard normal distribution."""
        return normal_quantile(self.unit())

    def log_normal(self, median: float, sigma: float) -> float:
        """Draw from the log-normal distribution."""
        return median * math.exp(sigma * self.normal())

    def pareto(self, minimum: float, exponent: float) -> float:
        """Draw from the Pareto distribution."""
        return minimum * math.pow(self.unit(), -1.0 / exponent)
