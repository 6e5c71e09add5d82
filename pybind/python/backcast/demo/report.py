"""Test of the policies of a run, and its report as numbers and in words."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any, NamedTuple

import backcast as bc
from backcast.demo.market import MINUTES, TEST_EPISODES, Exam, examine, hold
from backcast.demo.run import BATCH

if TYPE_CHECKING:
    from backcast.demo.options import Options
    from backcast.demo.run import Run


class Test(NamedTuple):
    """Exams of holding and of the policies of a run: fresh, learned, and all with their seconds."""

    holding: Exam
    before: Exam
    learned: Exam
    learning: list[tuple[float, Exam]]


def test(run: Run, seed: int) -> Test:
    """Let the policies play the same unseen episodes."""
    learning = [(after_s, examine(policy.best, seed)) for after_s, policy in run.policies]
    return Test(examine(hold, seed), learning[0][1], learning[-1][1], learning)


def numbers(options: Options, run: Run, test: Test) -> dict[str, Any]:
    """Return the result for JSON; keys carry their units."""
    death, margin = run.death, test.learned.above(test.holding)
    better = test.learned.returns > test.holding.returns
    return {
        "backcast_version": bc.__version__,
        "python_version": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "seed": options.seed,
        "actors": options.actors,
        "envs_per_actor": options.envs,
        "capacity_rows": options.capacity,
        "seconds": round(run.seconds, 3),
        "rows_written": run.rows,
        "rows_written_per_s": round(run.rows / run.seconds, 1),
        "batch_rows": BATCH,
        "learner_batches": run.learner.updates,
        "learner_batches_per_s": round(run.learner.updates / run.seconds, 1),
        "rows_checked": run.rows_checked,
        "torn_rows": run.torn + (death.torn if death else 0),
        "killed_actors": int(death is not None),
        "adopted_lanes": len(death.rows) if death and death.adopted else 0,
        "rows_compared": death.compared if death else 0,
        "lost_rows": death.lost if death else 0,
        "test_episodes": TEST_EPISODES,
        "test_return_before": test.before.above()[0],
        "test_return_learned": test.learned.above()[0],
        "test_return_holding": test.holding.above()[0],
        "margin_over_holding": margin[0],
        "margin_standard_error": margin[1],
        "episodes_better_than_holding": int(better.sum()),
    }


def problems(options: Options, result: dict[str, Any]) -> list[str]:
    """List the checks that failed."""
    found = []
    if result["torn_rows"]:
        found.append(f"{result['torn_rows']} torn rows: columns that do not match their checksum")
    if result["lost_rows"]:
        found.append(f"{result['lost_rows']} rows of the killed actor are lost or changed")
    if options.kill and not result["adopted_lanes"]:
        found.append("no successor has continued the lanes of the killed actor")
    return found


def summary(result: dict[str, Any]) -> str:
    """Say what ran and what was learned."""
    learned = result["margin_over_holding"] > 2 * result["margin_standard_error"]
    verdict = "beats holding" if learned else "does not clearly beat holding"
    text = """\
actors    {actors} x {envs_per_actor} markets, {rows_written:,} rows, {rows_written_per_s:,.0f}/s
learner   {learner_batches:,} batches of {batch_rows}, {learner_batches_per_s:,.0f}/s; \
{rows_checked:,} rows checked, {torn_rows} torn
test      {test_episodes} unseen episodes of {minutes} minutes, mean return: \
before training {test_return_before:+.2%}, learned {test_return_learned:+.2%}, \
holding {test_return_holding:+.2%}
learned   {margin_over_holding:+.2%} +- {margin_standard_error:.2%} over holding, better in \
{episodes_better_than_holding} of {test_episodes} episodes: the policy {verdict}"""
    if result["killed_actors"]:
        text += """
killed    {killed_actors} actor; its successor continued {adopted_lanes} lanes; of \
{rows_compared} rows from before, {lost_rows} are lost or changed"""
    return text.format(**result, minutes=MINUTES, verdict=verdict)
