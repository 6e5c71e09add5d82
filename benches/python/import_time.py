"""How long `import backcast` takes on top of `import numpy`: medians over fresh processes.

python benches/python/import_time.py [RUNS]
"""

from __future__ import annotations

import statistics
import subprocess
import sys

CODE = """
import time
start = time.perf_counter()
import numpy
middle = time.perf_counter()
import backcast
end = time.perf_counter()
print(middle - start, end - middle)
"""


def main(runs: int) -> None:
    """Measure and print."""
    numpy_s, backcast_s = [], []
    for _ in range(runs):
        done = subprocess.run(
            [sys.executable, "-c", CODE], capture_output=True, text=True, check=True
        )
        first, second = map(float, done.stdout.split())
        numpy_s.append(first)
        backcast_s.append(second)
    first, second = statistics.median(numpy_s), statistics.median(backcast_s)
    print(f"import numpy     {first * 1e3:7.2f} ms")
    print(f"import backcast  {second * 1e3:7.2f} ms more, {second / first:.3f} of NumPy's")
    print(f"                 medians of {runs} fresh processes, Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 21)
