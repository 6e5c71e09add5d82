"""Write the page and the plots of the realism battery from its JSON report.

    python docs/realism/page.py docs/realism/normal.json [REPORT.json ...]

Writes ``docs/realism.md``, and ``facts.svg`` beside this file; needs matplotlib. Further reports
are other blocks of seeds: their medians and verdicts are kept in ``blocks.json`` beside this file.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import textwrap
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
"""

BLOCKS = """
## Other blocks of seeds

Blocks of 20 seeds that took no part in the search either: ten days each, without long runs, with
400 moments of impact, and with seeds of their own for fits, trades, resets and round trips. The
impact exponent (R12) misses in every block.

"""

AFTER_RESET = """
The misses of the variance after a reset are noise. In one block, of 400 resets and 20 runs, its
ratio has a standard deviation of 0.10, so that one block in eight leaves the band. 6,000 resets and
100 runs of ten days of `normal`, from seeds of their own, give 0.988 ± 0.032 for the variance,
0.991 ± 0.014 for absolute changes and 1.023 ± 0.009 for the volume. The variance has no trend over
the ten days.
"""

REST = """
## Agents that learn

PPO of Stable-Baselines3 trains for 614,400 steps of ten ticks with each seed, and plays its greedy
policy in 256 test episodes of 50 minutes, each from a settled market of its own. The test is
`tests/adapters/test_sb3_markets.py`.

| market | shares | seeds | result, with standard errors |
|---|---|---|---|
| `normal` | 20 | 1 to 3 | gain in dollars: 0.0 ± 0.5, -0.7 ± 0.9, 0.3 ± 0.4 |
| `teaching` | 1,000 | 1 to 5 | margin in %: 1.44, 1.47, 1.66, 1.47, 1.66; ± 0.12 to 0.15 |

So no seed beats staying flat by three standard errors on `normal`, and five of five beat holding by
the margin of 1 % on `teaching`.

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


def is_judged(fact: dict[str, Any]) -> bool:
    """Return whether a fact is judged, not only reported."""
    return bool(fact["verdict"] != "report-only")


def inside(fact: dict[str, Any], value: float) -> bool:
    """Return whether a value lies in the band of a fact."""
    low, high = fact["band"]["low"], fact["band"]["high"]
    return (low is None or value >= low) and (high is None or value <= high)


def summary(report: dict[str, Any]) -> dict[str, Any]:
    """Return what is kept of a block: its facts without the values of each seed."""
    left_out = {"values", "source"}
    facts = [{k: v for k, v in fact.items() if k not in left_out} for fact in report["facts"]]
    return {"preset": report["preset"], "first_seed": report["first_seed"], "facts": facts}


def keep_blocks(reports: list[dict[str, Any]], path: Path) -> list[dict[str, Any]]:
    """Add blocks to those in a file, in place of older ones of the same seeds; return all."""
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    every = {(block["preset"], block["first_seed"]): block for block in kept}
    every |= {(block["preset"], block["first_seed"]): summary(block) for block in reports}
    blocks = [every[key] for key in sorted(every, key=lambda key: (key[0] != "normal", *key))]
    if reports:
        lines = ",\n".join(json.dumps(block, separators=(",", ":")) for block in blocks)
        path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    return blocks


def of_block(block: dict[str, Any]) -> str:
    """Format a row of the table of blocks."""
    facts = {fact["key"]: fact for fact in block["facts"]}
    missed = [
        f"{fact['statistic'].replace('|', chr(92) + '|')}: {number(fact['median'])}"
        + (f", {fact['share_inside']:.0%} inside" if inside(fact, fact["median"]) else "")
        for fact in block["facts"]
        if fact["verdict"] == "miss" and fact["id"] != "R12"
    ]
    chances = [number(facts[key]["median"]) for key in ("fitted_p", "manipulation_p")]
    cells = [block["preset"], str(block["first_seed"]), "; ".join(missed) or "none", *chances]
    return f"| {' | '.join(cells)} |"


def over_blocks(blocks: list[dict[str, Any]]) -> str:
    """Format which rows miss over all blocks of a preset, and which in more than one block."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for block in blocks:
        for fact in filter(is_judged, block["facts"]):
            rows.setdefault(fact["key"], []).append(fact)
    medians = {key: statistics.median(fact["median"] for fact in row) for key, row in rows.items()}
    outside, often = [], []
    for key, row in rows.items():
        name = f"{row[0]['id']} {row[0]['statistic']}"
        if not inside(row[0], medians[key]):
            outside.append(f"{name} ({number(medians[key])})")
        count = sum(fact["verdict"] == "miss" for fact in row)
        if count > 1:
            often.append(f"{name} ({count})")
    ratios = [medians[f"signature_{ticks}s"] for ticks in (2, 5, 10, 20, 60)]
    return (
        f"- `{blocks[0]['preset']}`, {len(blocks)} blocks. Medians over the blocks outside their "
        f"bands: {'; '.join(outside) or 'none'}. Rows that miss in more than one block: "
        f"{'; '.join(often) or 'none'}. Variance ratios at 2 to 60 s, medians: "
        f"{number(min(ratios))} to {number(max(ratios))}."
    )


def of_blocks(blocks: list[dict[str, Any]]) -> str:
    """Format the section about all blocks."""
    lines = [
        "| preset | first seed | misses besides R12 | p, fitted rules | p, round trips |",
        "|---|---|---|---|---|",
        *map(of_block, blocks),
        "",
    ]
    for preset in dict.fromkeys(block["preset"] for block in blocks):
        text = over_blocks([block for block in blocks if block["preset"] == preset])
        lines += textwrap.wrap(text, 100, subsequent_indent="  ", break_on_hyphens=False)
    return BLOCKS + "\n".join(lines) + "\n" + AFTER_RESET


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
    if len(sys.argv) < 2:
        sys.exit(f"usage: {Path(sys.argv[0]).name} FACTS.json [REPORT.json ...]")
    source, *others = (Path(name).resolve() for name in sys.argv[1:])
    report = json.loads(source.read_text(encoding="utf-8"))
    more = [json.loads(path.read_text(encoding="utf-8")) for path in others]
    blocks = [summary(report), *keep_blocks(more, HERE / "blocks.json")]
    head = HEAD.format(
        source=source.name,
        share=report["share_needed"],
        preset=report["preset"],
        seeds=report["seeds"],
        first=report["first_seed"],
        days=report["ticks"] / TICKS_PER_DAY,
        moments=max((point["pairs"] for point in report["curves"]["impact"]), default=0),
    )
    text = head + table(report) + misses(report) + TAIL + of_blocks(blocks) + REST
    (HERE.parent / "realism.md").write_text(text, encoding="utf-8")
    plot(report, HERE / "facts.svg")


if __name__ == "__main__":
    main()
