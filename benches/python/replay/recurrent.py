"""w4: batches of a recurrent agent, windows of `obs` and the state at each window's start."""

from __future__ import annotations

import ctypes
import itertools
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import backcast as bc
import numpy as np
from numpy.typing import NDArray

from .workloads import EPISODE

ROWS: Final = 100_000
WIDTH: Final = 64
"""Floats of an observation."""
STATE: Final = (2, 512)
LENGTH: Final = 80
"""Steps of a window."""
WINDOWS: Final = 64
"""Windows of a batch."""
DRAWS: Final = 64
"""Batches whose windows `Memcpy` copies in turn."""

COPY: Final = """
#include <stddef.h>
#include <string.h>

void copy(char *to, const char *obs, const char *state, const long long *last, size_t windows,
          size_t length, size_t obs_bytes, size_t state_bytes) {
    for (size_t i = 0; i < windows; i++) {
        size_t first = (size_t)last[i] + 1 - length;
        memcpy(to, obs + first * obs_bytes, (length + 1) * obs_bytes);
        to += (length + 1) * obs_bytes;
        memcpy(to, state + first * state_bytes, state_bytes);
        to += state_bytes;
    }
}
"""


class Backcast:
    """A named ring of one lane; the state is stored at every step."""

    name = "backcast"

    def __init__(self) -> None:
        """Fill the ring with episodes of `EPISODE` steps."""
        draws = np.random.default_rng(0)
        columns = {"obs": ("f4", (WIDTH,)), "lstm": ("f4", STATE)}
        self.buf = bc.ReplayBuffer.create("bench-w4", columns, capacity=ROWS, exist="replace")
        lstm = draws.standard_normal((EPISODE, *STATE), np.float32)
        quiet, ends = np.zeros(EPISODE, bool), np.zeros(EPISODE, bool)
        ends[-1] = True
        with self.buf.writer(autoreset_mode="next_step") as writer:
            for _ in range(ROWS // EPISODE + 1):
                obs = draws.standard_normal((EPISODE, WIDTH), np.float32)
                writer.extend(obs=obs, lstm=lstm, terminated=quiet, truncated=ends)
        self.sampler = self.buf.sampler(
            seed=0, history={"obs": LENGTH, "lstm": "first", "*": None}, boundary="reject"
        )
        self.out = self.sampler.sample(WINDOWS)

    def sample(self) -> object:
        """Draw into arrays that are the caller's to keep."""
        return self.sampler.sample(WINDOWS)

    def sample_again(self) -> object:
        """Draw into the arrays of the previous batch."""
        return self.sampler.sample(WINDOWS, out=self.out)

    def close(self) -> None:
        """Give the memory back."""
        self.buf.close()


class Memcpy:
    """`memcpy` of the same bytes from the same places into one arena, in one call of a C loop."""

    name = "memcpy of the same bytes"

    def __init__(self, of: Backcast) -> None:
        """Copy the ring's rows to private memory, and note the rows of `DRAWS` batches."""
        first, head = of.buf.lane_span(0)
        rows = of.buf.rows(0, first, head - first)
        self.obs: NDArray[Any] = rows["obs"]
        self.state: NDArray[Any] = rows["lstm"]
        self.out = np.empty((WINDOWS, (LENGTH + 1) * WIDTH + int(np.prod(STATE))), np.float32)
        batches = [of.sampler.sample(WINDOWS) for _ in range(DRAWS)]
        lasts = [(batch.index & (2**48 - 1)) - first for batch in batches]
        self.check(batches[0], lasts[0])
        self.lasts = itertools.cycle(lasts)

    def check(self, batch: bc.Batch, last: NDArray[np.int64]) -> None:
        """Assert that the copy is equal to the sampler's batch."""
        self.run(last)
        windows = self.out[:, : (LENGTH + 1) * WIDTH].reshape(WINDOWS, LENGTH + 1, WIDTH)
        np.testing.assert_array_equal(windows[:, :-1], batch["obs"])
        np.testing.assert_array_equal(windows[:, 1:], batch["next_obs"])
        state = self.out[:, (LENGTH + 1) * WIDTH :].reshape(WINDOWS, *STATE)
        np.testing.assert_array_equal(state, batch["lstm"])

    def run(self, last: NDArray[np.int64]) -> None:
        """Copy the windows that end with these rows."""
        of = [self.out, self.obs, self.state, last]
        at = [ctypes.c_void_p(array.ctypes.data) for array in of]
        sizes = (WINDOWS, LENGTH, self.obs[0].nbytes, self.state[0].nbytes)
        copy_loop()(*at, *map(ctypes.c_size_t, sizes))

    def copy(self) -> object:
        """Copy the next batch."""
        self.run(next(self.lasts))
        return self.out


_LOOP: list[Any] = []


def copy_loop() -> Any:  # noqa: ANN401 - a function of ctypes
    """Return the compiled loop; compile it at the first call."""
    if not _LOOP:
        with tempfile.TemporaryDirectory() as place:
            source, library = Path(place, "copy.c"), Path(place, "copy.so")
            source.write_text(COPY)
            compiler = ["cc", "-O3", "-march=native", "-shared", "-fPIC"]
            subprocess.run([*compiler, "-o", str(library), str(source)], check=True)
            loop = ctypes.CDLL(str(library)).copy
        loop.restype = None
        _LOOP.append(loop)
    return _LOOP[0]
