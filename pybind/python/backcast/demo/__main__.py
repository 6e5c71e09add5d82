"""Entry point of the demo."""

from __future__ import annotations

import importlib
import importlib.util
import json
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

import backcast as bc
from backcast.demo.options import Options, parse
from backcast.demo.signals import signals_leave

FAILED = 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo with these arguments, by default the program's, and return the exit status.

    That is 0 done, 1 something failed or was found wrong, 128 plus the number of a signal that
    stopped the run. A wrong usage exits with 2.
    """
    options = parse(argv)
    with signals_leave():
        try:
            lacking = _lacking()
            return _end(lacking, FAILED) if lacking else _demo(options)
        except KeyboardInterrupt:
            return _interrupted(128 + signal.SIGINT)
        except SystemExit as end:
            return _interrupted(int(end.code or 0))
        except bc.BackcastError as error:
            return _end(str(error), FAILED)
        except OSError as error:
            reason = f"{error.filename or 'input or output'}: {error.strerror or error}"
            return _end(reason, FAILED)


def _lacking() -> str | None:
    """Return what the demo needs and this installation lacks."""
    libraries = ("gymnasium", "matplotlib")
    if missing := [name for name in libraries if importlib.util.find_spec(name) is None]:
        command = f"{sys.executable} -m pip install 'backcast[demo]'"
        return f"it needs {' and '.join(missing)}, not installed here; run `{command}`"
    try:
        importlib.import_module("backcast.envs")
    except ImportError:
        return "it needs both halves of the package, and this build has no markets, replay alone"
    return None


def _demo(options: Options) -> int:
    from backcast.demo.picture import save
    from backcast.demo.report import numbers, problems, summary, test
    from backcast.demo.run import run

    options.out.mkdir(parents=True, exist_ok=True)
    done = run(options)
    print("testing: the policies play the same unseen episodes", file=sys.stderr, flush=True)
    tested = test(done, options.seed)
    result = numbers(options, done, tested)
    report, picture = options.out / "demo.json", options.out / "demo.png"
    report.write_text(json.dumps(result, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    save(done, tested, options.seed, picture)
    print(f"{summary(result)}\n\nwrote {report} and {picture}")
    wrong = problems(options, result)
    return _end("; ".join(wrong), FAILED) if wrong else 0


def _interrupted(status: int) -> int:
    name = signal.Signals(status - 128).name
    return _end(f"interrupted by {name}: every process ended, ring and weights removed", status)


def _end(reason: str, status: int) -> int:
    # Nothing can be written to a terminal that has closed.
    with suppress(OSError):
        print(f"backcast demo: {reason}", file=sys.stderr, flush=True)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
