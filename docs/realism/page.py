"""Write the page and the plots of the realism battery from its JSON.

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
- **Fitted rules.** Ridge regressions on the 40 features forecast the change of the mid-price over
  5, 20, 60 and 300 ticks. One set of seeds fits them. A second one chooses horizon and threshold
  for each size: 1, 20, 100 and 500 shares. A third one trades the chosen rules for 1,500 ticks with
  spread, fee and their own impact, 0, 1 and 5 ticks after an observation. The fact is the smallest
  probability of a gain by chance, corrected for the number of rules (Holm).
- **Manipulation.** Round trips are drawn at random: up to 60 orders a tick for up to 120 ticks,
  market or limit orders, a wait, up to 20 blocks that close the position, one or two accounts. Each
  is played buying first and selling first from copies of one market. The best 20 are played from 60
  fresh seeds, and judged like the fitted rules.
- **After a reset.** Means over the first 600 ticks of 400 episodes, after an hour of warm-up,
  divided by those of the long runs.
- **Gains.** The trades of each kind of agent, fees paid, valued at the mid-price one to two minutes
  later, in ticks for each share that the market traded.
- **Long runs.** A run of a million ticks fails if for 600 ticks nothing trades and no quote
  changes, if a side of the book is empty for as long, or if the price leaves 0.2 to 5 times its
  start.
- **Exactness.** Cash and shares are added up after each simulation. 2,000 ticks must give the
  same state hash in a fresh market, after a reset from another seed, and on another thread.

## How the last misses were mended

Figures of this section come from seeds outside the table: 4 to 12 seeds of 2 to 10 days, and for
impact 80 to 640 moments, which leave an error of about 0.1 to 0.03 on the exponent.

**R1 at 300 s was sampling noise.** With the signs of a run's returns drawn anew, so that no
autocorrelation is left, 87 % of the runs lay inside the band; 10 of 12 runs did with their own
signs, and the mean autocorrelation at each lag from 2 to 20 was below 0.03. Clusters of volatility
raise the standard error of an autocorrelation from 0.036 to 0.039, and the largest of 19 lags is
judged. The band stayed; the slow volatility factor became smaller (0.22 instead of 0.31), after
which the error is 0.038.

**R11**: the size of the largest parent orders decides. With makers that lean with the root of each
order, and parent orders of 25,000 shares at most:

| change | decay of the sign ACF | seeds inside |
|---|---|---|
| none | 0.76 | 90 % |
| slices of 14 shares instead of 21 | 0.81 | 70 % |
| tail exponent of parent orders 0.9 instead of 1.1 | 0.75 | 80 % |
| smallest parent order 400 shares instead of 200 | 0.75 | 100 % |
| largest parent order 60,000 shares | 0.58 | 100 % |

**R12**: a response of the market to its total flow is linear for a small order, however curved the
response is, because the flow of all others is far larger. What bends impact is a response to each
order that is concave in its size.

| change | exponent d | what it costs |
|---|---|---|
| none | 1.09 | |
| personal errors of value traders 0.1 % instead of 0.96 % | 1.04 | R1 at 60 s, depth |
| makers lean with the square root of each order, `root_shift` 0.04 | 0.90 | |
| the same, 0.08 | 0.68 | |
| the same, 0.16 | 0.58 to 0.74 | |
| the same, with a square law of value traders of 7,000 instead of 4,000 | 0.67 | R2: 0.67 |
| the logarithm of each order instead of its root | 0.51 to 0.61 | prefactor 0.22 to 0.32 |
| the root, makers that quote 80 shares instead of 45 and lean less against inventory | 0.65 | |

The two facts stay near their bounds: the table has 80 % of the seeds inside the band of R11, the
least that passes, and an exponent of 0.69 for R12, which may be 0.70 at most. A larger `root_shift`
alone makes more of the volatility pass within minutes, until R1 and R2 miss. More volatility of the
fundamental and fewer market orders of noise traders balance it.

**Limit**: impact is concave in the size of the child orders. The parent orders of the battery all
have 60 of them; how impact grows with their number was not measured.

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
    """Print three significant digits, or a dash for what could not be measured."""
    return "-" if value is None else f"{value:.3g}"


def band(fact: dict[str, Any]) -> str:
    """Print the values that pass."""
    low, high = fact["band"]["low"], fact["band"]["high"]
    if low is not None and 0 < low < 1e-300:
        return "> 0"
    if low is None:
        return f"≤ {number(high)}"
    return f"≥ {number(low)}" if high is None else f"{number(low)} … {number(high)}"


def table(report: dict[str, Any]) -> str:
    """Make a row of each fact."""
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
    """Say in words which facts miss, and by how much."""
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
    """Split points into two lists."""
    return [point[x] for point in points], [point[y] for point in points]


def plot(report: dict[str, Any], path: Path) -> None:
    """Draw the four pictures into one file that is equal for equal reports."""
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
    """Write page and plots of the file named on the command line."""
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
