"""Time that `import backcast` adds to `import numpy`, in fresh interpreters that take turns.

python benches/python/import_time.py [RUNS]

Every run starts two interpreters: one imports NumPy, the other NumPy and then Backcast. Times are
of the imports alone, without starting and ending the interpreter. The result is the median time of
`import backcast` inside one interpreter. The difference between the medians of both interpreters is
printed as a check. Modules come compiled from their cache, as in any second run, even if the
environment sets PYTHONDONTWRITEBYTECODE.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

TARGET_MS = 5.0
CACHED = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
CODE = """
import sys, time
start = time.perf_counter()
import numpy
middle = time.perf_counter()
if len(sys.argv) > 1:
    import backcast
end = time.perf_counter()
print(middle - start, end - middle)
"""


def imports(*arguments: str) -> tuple[float, float]:
    """Import in a fresh interpreter; return milliseconds for NumPy, and for Backcast after it."""
    command = [sys.executable, "-c", CODE, *arguments]
    done = subprocess.run(command, env=CACHED, capture_output=True, text=True, check=True)
    numpy_s, more_s = map(float, done.stdout.split())
    return numpy_s * 1e3, more_s * 1e3


def main(runs: int) -> None:
    """Measure and print."""
    if runs < 21:
        sys.exit(f"RUNS is {runs}, the limit is 21; medians of fewer mean little")
    imports("both")  # writes the cache
    alone, both, share = [], [], []
    for _ in range(runs):
        alone.append(sum(imports()))
        numpy_ms, more_ms = imports("both")
        both.append(numpy_ms + more_ms)
        share.append(more_ms)
    least, middle, most = min(share), statistics.median(share), max(share)
    numpy_ms, both_ms = statistics.median(alone), statistics.median(both)
    python = sys.version.split()[0]
    print(f"medians of {runs} interpreters each, taking turns, Python {python}; milliseconds")
    print(f"import numpy                  {numpy_ms:8.2f}")
    print(f"import numpy, backcast        {both_ms:8.2f}   {both_ms - numpy_ms:+.2f}")
    print(f"of that, import backcast      {middle:8.2f}   from {least:.2f} to {most:.2f}")
    verdict = "met" if middle <= TARGET_MS else "missed"
    print(f"target                        {TARGET_MS:8.2f}   {verdict}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 21)
