"""Entry point of the demo."""

from __future__ import annotations

import importlib.util
import signal
import sys
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from backcast.demo.options import Options, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backcast.demo.interrupts import Interrupts

FAILED = 1
_LIBRARIES = ("rich", "matplotlib")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; ``sys.argv[1:]`` when left out.

    Returns
    -------
    int
        0 done, 1 something failed or was found wrong, 128 plus the number of the signal that
        stopped the run: 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP (a wrong usage exits
        with 2).
    """
    options = parse(argv)
    missing = [name for name in _LIBRARIES if importlib.util.find_spec(name) is None]
    if missing:
        return _fail(
            f"the demo shows its progress with {' and '.join(missing)}, not installed here. "
            f"Run `{sys.executable} -m pip install 'backcast[demo]'`"
        )

    import backcast as bc
    from backcast.demo.data import DataMissingError
    from backcast.demo.interrupts import InterruptedRunError, Interrupts
    from backcast.demo.split import UnusablePanelError

    with Interrupts() as interrupts:
        try:
            if options.world == "trading":
                return _trading(options, interrupts)
            return _demo(options, interrupts)
        except InterruptedRunError as error:
            return _interrupted(error.by)
        except KeyboardInterrupt:
            # The second Ctrl-C, while the fleet stops.
            return _interrupted(interrupts.received or signal.SIGINT)
        except (bc.BackcastError, DataMissingError, UnusablePanelError) as error:
            return _fail(str(error))
        except OSError as error:
            # Nothing can be written to a terminal that has closed, which SIGHUP reports.
            if interrupts.received is not None:
                return _interrupted(interrupts.received)
            return _fail(f"{error.filename or 'input or output'}: {error.strerror or error}")


def _demo(options: Options, interrupts: Interrupts) -> int:
    from backcast.demo.progress import Progress
    from backcast.demo.report import equity_caution, print_summary, write_json
    from backcast.demo.result import counted, measured, problems, sampled_candles
    from backcast.demo.run import Run, open_session

    options.out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        progress = stack.enter_context(Progress())
        session = open_session(options, stack)
        interrupts.check()
        days = f"{session.panel.n_days} days, trained before {session.split.first_test_date}"
        progress.say(f"panel {session.panel.name}: {session.split.names}; {days}")
        Run(options, session, interrupts)(progress)
        result = counted(options, session)
        wrong = problems(result, session)
        numbers, equity = measured(options, session, interrupts.check)
        result |= numbers
        candles = sampled_candles(session, options.seed)
        test_dates = list(session.panel.dates)[session.split.first_test_day :]
    interrupts.check()

    from backcast.demo.chart import Picture, save

    note = (
        f"{session.split.names}; half of them held, chosen again every 5 days, "
        f"{result['equity_cost_fraction']:.1%} a trade\n{equity_caution(result)}"
    )
    picture = Picture(session.frames, session.kills_s, test_dates, equity, note, candles)
    write_json(result, options.out / "demo.json")
    save(picture, options.out / "demo.png")
    print_summary(result, sys.stdout)
    print(f"\nwrote {options.out / 'demo.json'} and {options.out / 'demo.png'}")
    for problem in wrong:
        print(f"backcast demo: {problem}", file=sys.stderr)
    return FAILED if wrong else 0


def _trading(options: Options, interrupts: Interrupts) -> int:
    from backcast.demo.progress import Progress
    from backcast.demo.report import print_lines, write_json
    from backcast.demo.run import Run
    from backcast.demo.trading.evaluate import episode_picture
    from backcast.demo.trading.world import judged, open_trading, summary_lines, wrong

    options.out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        progress = stack.enter_context(Progress())
        session = open_trading(options, stack)
        interrupts.check()
        progress.say("simulated markets of the preset teaching, trained on even episode seeds")
        Run(options, session, interrupts)(progress)
        result, exam = judged(options, session, interrupts.check)
        episode = episode_picture(session.learner.network, options.seed)
    interrupts.check()

    from backcast.demo.chart import Picture, save

    note = f"{result['test_episodes']} unseen episodes of ten-second steps, fees included"
    picture = Picture(session.frames, session.kills_s, None, exam.equity, note, None, episode)
    write_json(result, options.out / "demo.json")
    save(picture, options.out / "demo.png")
    print_lines(summary_lines(result), sys.stdout)
    print(f"\nwrote {options.out / 'demo.json'} and {options.out / 'demo.png'}")
    for problem in wrong(result):
        print(f"backcast demo: {problem}", file=sys.stderr)
    return FAILED if wrong(result) else 0


def _interrupted(by: signal.Signals) -> int:
    _say(f"interrupted by {by.name}: every process ended, ring and panel removed")
    return 128 + by


def _fail(reason: str) -> int:
    _say(f"backcast demo: {reason}")
    return FAILED


def _say(message: str) -> None:
    # No message can be shown once the terminal is closed.
    with suppress(OSError):
        print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(128 + signal.SIGINT) from None
