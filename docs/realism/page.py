"""Write the page and the plots of the realism battery from its JSON report.

    python docs/realism/page.py docs/realism/normal.json

Writes ``docs/realism.md``, and ``facts.svg`` beside this file; needs matplotlib.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

HERE = Path(__file__).resolve().parent
VERDICTS = {"pass": "pass", "miss": "**miss**", "report-only": "reported"}
TICKS_PER_DAY = 23_400

HEAD = """\
# Realism of the simulated market

<!-- Written by docs/realism/page.py from {source}: change those. -->

The realism battery simulates a market for many seeds, computes statistics that real markets are
known for, and compares each with the band of values found there. A fact passes if its median
over the seeds lies in the band and at least {share:.0%} of the seeds do. Facts that need all
seeds together (impact, trading rules) have one value.

The table shows the preset `{preset}`: {seeds} seeds from {first}, {days:g} days of 23,400 ticks
each. No seed of the table took part in the search for the preset's numbers. Impact is the mean
over {moments} moments. The battery is `backcast_sim::facts::run_preset`.

"""

TAIL = """
![Distribution of returns against the normal one, autocorrelations, impact by size, and depth of the
book.](realism/facts.svg)

## What is computed

- One tick is one second. Prices are mids; a tick with an empty side repeats the last one. The
  first hour of a simulation is left out.
- **Returns.** Log returns that do not overlap. Kurtosis over ten minutes uses overlapping
  returns, since there are few others.
- **Decay exponents.** The autocorrelation is averaged over twelve bins of equal width in log lag; a
  line through the logarithms gives the exponent, without bins that are not positive. The signs of
  market orders are taken in the order in which they traded. An exponent inside the band is no proof
  of a power law.
- **Impact.** From one moment of a simulation two copies go on: one buys a parent order in 60
  market orders over 600 ticks, one sells it. Half the difference of their log mids at the end
  is the impact, in units of the volatility over 600 ticks. The fit weights each size by its
  standard error. What is left of the impact is read 1,800 ticks after the end, of parent orders
  of 5 % of the volume and more.
- **Rules.** Each trades one share at the end of a minute, at the best opposite price and with
  the taker fee, and ends the day flat. The reference of "buying below the hour's mean" is what
  a trader can see. A rule that knows the hidden fundamental is reported: the fundamental is not
  in the observation unless the configuration reveals it.
- **Signature plot.** The variance of mid-price changes over 2 to 300 ticks, divided by the number
  of ticks and by the variance over one tick. It is 1 everywhere if nothing trends or reverts.
- **Fitted rules.** Ridge regressions and boosted trees (Friedman 2001) on the 40 features forecast
  the change of the mid-price over 5, 20, 60 and 300 ticks. One set of seeds fits them. A second one
  chooses horizon and threshold for each method and size: 1, 20, 100 and 500 shares. A third one
  trades the chosen rules for 1,500 ticks with spread, fee and their own impact, 0, 1 and 5 ticks
  after an observation. The fact is the smallest probability of a gain by chance, corrected for the
  number of rules (Holm). The variance explained is that of the better method at each horizon.
- **Manipulation.** 10,000 round trips are drawn at random: up to 60 orders a tick for up to 120
  ticks, market or limit orders, a wait, up to 20 blocks that close the position, one or two
  accounts. Each is played buying first and selling first from copies of one market. The best 20 are
  played from 60 fresh seeds, and judged like the fitted rules.
- **After a reset.** Means over the first 600 ticks of episodes after an hour of warm-up, divided by
  those of the long runs.
- **Gains.** The trades of each kind of agent, fees paid, valued at the mid-price one to two minutes
  later, in ticks for each share that the market traded.
- **Long runs.** A run of a million ticks fails if for 600 ticks nothing trades and no quote
  changes, if a side of the book is empty for as long, or if the price leaves 0.2 to 5 times its
  start.
- **Exactness.** Cash and shares are added up after each simulation. 2,000 ticks must give the
  same state hash in a fresh market, after a reset from another seed, and on another thread.

## Other blocks of seeds

Blocks of 20 seeds that took no part in the search either: ten days each, without long runs, with
400 moments of impact, and with seeds of their own for fits, trades, resets and round trips.

| preset | first seed | misses besides the impact exponent, which is 0.94 to 1.02 |
|---|---|---|
| normal | 6001 | none |
| normal | 7001 | variance after a reset / later: 0.842 |
| normal | 8001 | VR(50) of 60 s and kurtosis at 600 s / at 60 s: 75% inside |
| calm | 6001 | none |
| calm | 7001 | largest ACF of 300 s: 55% inside; kurtosis ratio: 75% |

No fitted rule and no round trip gained in any of them.

## Before the latent order book

Makers used to requote when they woke up, around the last mid-price, and to lean with the square
root of each order of the last 20 ticks. On seeds 2001 to 2020, ten days each, that market missed:

| fact | statistic | median | inside |
|---|---|---|---|
| R2 | variance ratio, 2 s to 1 s | 1.20 | 55 % |
| R2 | variance ratio, 10 s to 1 s | 1.89 | 0 % |
| R2 | variance ratio, 60 s to 1 s | 1.77 | 0 % |
| R2 | variance ratio VR(50), 60 s | 0.796 | 65 % |
| R11 | share of buys among market orders | 0.500 | 75 % |
| R16 | probability of the fitted rules' gains | 0 | |
| R16 | variance of price changes explained, 5 and 20 s | 0.17, 0.13 | |
| R19 | gain of makers, ticks a share | -0.74 | 0 % |
| R21 | probability of the best round trips' gains | 0 | |

Three causes, each of which the market no longer has:

- **Quotes lagged.** The flow of a tick moved the quotes over the next 20. Makers now quote at the
  end of every tick, and take the orders that their quotes have left behind.
- **Roots added up.** The impact of each order grew with the root of its size, so that 60 orders of
  one share moved the price eight times as far as one order of 60. Impact is now a function of all
  shares consumed.
- **Makers knew nothing.** They followed the mid-price, and value traders, who knew the value, took
  0.98 ticks for each share that the market traded. Makers now share an opinion of the value.

**R12 misses**: the impact of a parent order is close to linear in its size. The latent order book
has a square root for orders beyond about ten shares. But the flow of all other agents has already
displaced the price, and around that displacement the root is a line. A recovery of 200 ticks
instead of 600 gave an exponent of 0.88 instead of 0.94, and less of R13 (0.21 instead of 0.26).
The absence of free gains comes first.

## Run it

```text
backcast sim facts                      the whole battery: minutes
backcast sim facts --short              four seeds of one day: seconds
backcast --json sim facts > facts.json  values of each seed, and the curves of the plots
```

The short form leaves out impact, long runs and the facts that a day cannot tell, and asks for
half the seeds inside the band.
"""


def number(value: float | None) -> str:
    """Format three significant digits, or a dash for a value that could not be measured."""
    return "-" if value is None else f"{value:.3g}"


def band(fact: dict[str, Any]) -> str:
    """Format the band of values that pass."""
    low, high = fact["band"]["low"], fact["band"]["high"]
    if low is not None and 0 < low < 1e-300:
        return "> 0"
    if high is not None and -1e-300 < high < 0:
        return "< 0"
    if low is None:
        return f"≤ {number(high)}"
    return f"≥ {number(low)}" if high is None else f"{number(low)} … {number(high)}"


def table(report: dict[str, Any]) -> str:
    """Format the facts as a Markdown table with one row per fact."""
    lines = [
        "| fact | statistic | band | median | inside | verdict | source |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {fact['id']} | {fact['statistic'].replace('|', chr(92) + '|')} | {band(fact)} "
        f"| {number(fact['median'])} | {fact['share_inside']:.0%} "
        f"| {VERDICTS[fact['verdict']]} | {fact['source']} |"
        for fact in report["facts"]
    ]
    return "\n".join(lines) + "\n"


def misses(report: dict[str, Any]) -> str:
    """Format a list of the facts that miss, with their medians and bands."""
    missed = [fact for fact in report["facts"] if fact["verdict"] == "miss"]
    if not missed:
        return "\nNo fact misses.\n"
    lines = [
        f"- {fact['id']}, {fact['statistic']}: {number(fact['median'])}, "
        f"{fact['share_inside']:.0%} inside {band(fact)}."
        for fact in missed
    ]
    return "\n**Misses:**\n\n" + "\n".join(lines) + "\n"


def columns(points: list[dict[str, float]], x: str = "x", y: str = "y") -> tuple[Any, Any]:
    """Return the x values and the y values of points as two lists."""
    return [point[x] for point in points], [point[y] for point in points]


def plot(report: dict[str, Any], path: Path) -> None:
    """Draw four plots into one SVG file, whose bytes depend on the report alone."""
    plt.rcParams.update({"svg.hashsalt": "backcast", "svg.fonttype": "none", "font.size": 9})
    curves = report["curves"]
    figure, axes = plt.subplots(2, 2, figsize=(9, 6.5), layout="constrained")
    ((density, acf), (impact, depth)) = axes

    x, y = columns(curves["return_density"])
    density.semilogy(x, [value or math.nan for value in y], ".", label="60 s returns")
    bell = [math.exp(-value * value / 2) / math.sqrt(2 * math.pi) for value in x]
    density.semilogy(x, bell, "-", label="normal")
    density.set(xlabel="standard deviations", ylabel="density", ylim=(1e-5, 1))
    density.legend()

    lines = [
        ("return_acf", "returns, 60 s"),
        ("abs_return_acf", "|returns|, 60 s"),
        ("abs_return_acf_10s", "|returns|, 10 s"),
        ("sign_acf", "order signs"),
    ]
    for key, label in lines:
        acf.plot(*columns(curves[key]), label=label)
    acf.axhline(0, color="grey", linewidth=0.5)
    acf.set(xscale="log", xlabel="lag", ylabel="autocorrelation")
    acf.legend()

    if curves["impact"]:
        x, y = columns(curves["impact"], "participation", "impact_sigma")
        _, error = columns(curves["impact"], "participation", "std_error_sigma")
        impact.errorbar(x, y, yerr=error, fmt="o", label="at the end")
        later = [point for point in curves["impact"] if point["later_sigma"] is not None]
        impact.plot(*columns(later, "participation", "later_sigma"), "s", label="three spans later")
        fitted = {fact["key"]: fact["median"] for fact in report["facts"] if fact["id"] == "R12"}
        power, factor = fitted["impact_exponent"], fitted["impact_prefactor"]
        fit = [factor * value**power for value in x]
        impact.plot(x, fit, "-", label=f"{factor:.2f} · Q^{power:.2f}")
        impact.set(
            xscale="log", yscale="log", xlabel="share of the volume", ylabel="impact / volatility"
        )
        impact.legend()

    depth.bar(*columns(curves["depth"], "distance_ticks", "shares"))
    depth.set(xlabel="ticks behind the best price", ylabel="shares")
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Write the page and the plots of the report named on the command line."""
    if len(sys.argv) != 2:
        sys.exit(f"usage: {Path(sys.argv[0]).name} FACTS.json")
    source = Path(sys.argv[1]).resolve()
    report = json.loads(source.read_text(encoding="utf-8"))
    head = HEAD.format(
        source=source.name,
        share=report["share_needed"],
        preset=report["preset"],
        seeds=report["seeds"],
        first=report["first_seed"],
        days=report["ticks"] / TICKS_PER_DAY,
        moments=max((point["pairs"] for point in report["curves"]["impact"]), default=0),
    )
    text = head + table(report) + misses(report) + TAIL
    (HERE.parent / "realism.md").write_text(text, encoding="utf-8")
    plot(report, HERE / "facts.svg")


if __name__ == "__main__":
    main()
