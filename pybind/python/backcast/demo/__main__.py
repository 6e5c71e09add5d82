"""Entry point of the demo."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections.abc import Sequence

import backcast as bc
from backcast.demo.exit_status import FAILED, end
from backcast.demo.options import Options, parse
from backcast.demo.signals import run_interruptibly


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo with these arguments, by default the program's, and return the exit status.

    That is 0 done, 1 something failed or was found wrong, 128 plus the number of a signal that
    stopped the run. A wrong usage exits with 2.
    """
    options = parse(argv)
    return run_interruptibly(lambda: _run(options))


def _run(options: Options) -> int:
    try:
        lacking = _lacking()
        return end(lacking, FAILED) if lacking else _demo(options)
    except bc.BackcastError as error:
        return end(str(error), FAILED)
    except OSError as error:
        reason = f"{error.filename or 'input or output'}: {error.strerror or error}"
        return end(reason, FAILED)


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
    # Imported once nothing is missing, and where signals are handled.
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
    return end("; ".join(wrong), FAILED) if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
