"""Behaviour that all handles share: repr, closing, forking, pickling, copying, Ctrl-C."""

from __future__ import annotations

import copy
import ctypes
import gc
import multiprocessing
import os
import pickle
import re
import signal
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import backcast as bc
import numpy as np
import pytest
from backcast import envs, sim, types
from facts import missing
from waits import exit_code_of, join, killing, read_line, until

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from conftest import Child

STEP: dict[str, Any] = {"obs": {"x": 1.0}, "action": 0, "terminated": False, "truncated": False}
PRICES = "date,tic,open,high,low,close,volume\n" + "".join(
    f"2024-01-0{day},{ticker},1,1,1,1,1\n" for day in range(1, 9) for ticker in ["AAA", "BBB"]
)


@dataclass(frozen=True)
class Kind:
    """One kind of handle."""

    make: Callable[[bc.ReplayBuffer, bc.Panel], Any]
    shows: str
    """A pattern of its ``repr``, without the class: name, sizes, fill."""
    uses: dict[str, Callable[[Any], object]]
    """Every use that needs an open handle."""
    once_closed: str
    """Words of a closed handle's error that say how to get another."""
    unless_pickled: str | None = None
    """Words of the error that say what to do instead of pickling; None if it can be pickled."""
    copied_by_forks: bool = False
    """Whether a forked child has a copy of its own, which it may use."""


def params_of(buf: bc.ReplayBuffer) -> bc.Params:
    """Open parameters in the directory of a ring, and publish a version if there is none."""
    like = {"w": np.zeros(3, "f4")}
    assert buf.path is not None
    base = Path(buf.path).parents[1]
    params = bc.Params.create("policy", like, exist="attach", dir=base)
    if params.version == 0:
        params.publish(like)
    return params


KINDS: dict[str, Kind] = {
    "ReplayBuffer": Kind(
        lambda buf, panel: copy.copy(buf),
        r"ring 'walk', 39/200 transitions, 2 lanes",
        {
            "len": len,
            "sample": lambda b: b.sample(1),
            "sample with a history": lambda b: b.sample(1, history=3),
            "gather": lambda b: b.gather([3]),
            "rows": lambda b: b.rows(0, 0, 1),
            "lane_span": lambda b: b.lane_span(0),
            "lease": lambda b: b.lease(0, 0, 1),
            "sampler": lambda b: b.sampler(),
            "wait": lambda b: b.wait(1),
            "wait for rows": lambda b: b.wait(rows_published=1, timeout=60),
            "stats": lambda b: b.stats(),
            "lanes": lambda b: b.lanes,
            "capacity": lambda b: b.capacity,
            "lane_capacity": lambda b: b.lane_capacity,
            "writer": lambda b: b.writer(),
            "resize": lambda b: b.resize(10_000),
            "copy": copy.copy,
        },
        "attach",
    ),
    "Writer": Kind(
        lambda buf, panel: buf.writer(),
        r"the writer of ring 'walk', lane 0, autoreset_mode 'disabled', \d+ rows written",
        {
            "append": lambda w: w.append(**STEP),
            "restart": lambda w: w.restart(),
            "rows_written": lambda w: w.rows_written,
            "rows_dropped": lambda w: w.rows_dropped,
        },
        "`writer`",
        "ReplayBuffer",
    ),
    "Sampler": Kind(
        lambda buf, panel: buf.sampler(seed=7, history=4),
        r"the sampler of ring 'walk', history 4, future 0, boundary mask, select 'uniform', "
        r"seed 7, \d+ transitions drawn",
        {
            "sample": lambda s: s.sample(2),
            "gather": lambda s: s.gather([3]),
            "lapped": lambda s: s.lapped,
            "sampled": lambda s: s.sampled,
            "batches": lambda s: s.batches(2).close(),
        },
        "`sampler`",
        "ReplayBuffer",
    ),
    "types.LearnedTable": Kind(
        lambda buf, panel: buf.table("online", learned={"value": "f4"}),
        r"the table 'online' of ring 'walk', value f4; \d+ values set",
        {
            "update_values": lambda t: t.update_values([3], value=[1.0]),
            "values": lambda t: t.values([3]),
            "stats": lambda t: t.stats(),
        },
        "`table`",
        "ReplayBuffer",
    ),
    "types.TransitionOrder": Kind(
        lambda buf, panel: buf.transitions(),
        r"the order of transitions of ring 'walk', 39 transitions",
        {
            "refresh": lambda o: o.refresh(),
            "index_at": lambda o: o.index_at([0]),
            "position_of": lambda o: o.position_of([0]),
            "len": len,
        },
        "`transitions`",
        "ReplayBuffer",
    ),
    "types.Batches": Kind(
        lambda buf, panel: buf.sampler(seed=8).batches(4),
        r"the iterator of the sampler of ring 'walk', \d+ transitions drawn",
        {"next": next},
        "`batches`",
        "ReplayBuffer",
    ),
    "types.Lease": Kind(
        lambda buf, panel: buf.lease(0, 10, 20),
        r"the lease of rows 10\.\.30 of lane 0 of ring 'walk', 20 rows of 6 columns",
        {
            "a column": lambda r: r["obs"],
            "windows": lambda r: r.windows(5),
            "stalls": lambda r: r.stalls,
        },
        "`lease`",
        "copy the arrays",
    ),
    "Panel": Kind(
        lambda buf, panel: pickle.loads(pickle.dumps(panel)),
        r"panel 'prices', 2 tickers \(0 macro\), 8 days 2024-01-01 to 2024-01-08, 5 columns",
        {
            "values": lambda p: p.values,
            "mask": lambda p: p.mask,
            "tickers": lambda p: p.tickers,
            "dates": lambda p: p.dates,
            "tokens": lambda p: p.tokens(["AAA"]),
            "windows": lambda p: p.windows([1], [[1]], 1, 1),
            "describe": lambda p: p.describe(),
            "copy": copy.copy,
        },
        "attach",
    ),
    "Params": Kind(
        lambda buf, panel: params_of(buf),
        r"parameters 'policy', version 1",
        {
            "pull": lambda p: p.pull(),
            "latest": lambda p: p.latest(),
            "view": lambda p: p.view().close(),
            "wait": lambda p: p.wait(1),
            "version": lambda p: p.version,
            "versions": lambda p: p.versions,
            "stats": lambda p: p.stats(),
        },
        "attach",
    ),
    "types.ParamsView": Kind(
        lambda buf, panel: params_of(buf).view(),
        r"the view of version 1 of parameters 'policy', 1 arrays",
        {"arrays": lambda v: v.arrays, "an array": lambda v: v["w"]},
        "`view`",
        "Params",
    ),
}

ENV_USES: dict[str, Callable[[Any], object]] = {
    "reset": lambda e: e.reset(seed=1),
    "step": lambda e: e.step(np.zeros(e.action_space.shape)),
}
KINDS |= {
    "envs.PortfolioVectorEnv": Kind(
        lambda buf, panel: envs.PortfolioVectorEnv(panel, 3),
        r"3 portfolios of 2 tickers, autoreset_mode 'next_step', days 0 to 7",
        ENV_USES,
        "make a new one",
    ),
    "envs.PortfolioEnv": Kind(
        lambda buf, panel: envs.PortfolioEnv(panel, tickers=["AAA"], days=(2, 8)),
        r"1 portfolio of 1 ticker, autoreset_mode 'disabled', days 2 to 7",
        ENV_USES,
        "make a new one",
    ),
}

KINDS |= {
    "envs.TradingVectorEnv": Kind(
        lambda buf, panel: envs.TradingVectorEnv(3, warmup_ticks=10),
        r"3 markets of 1 symbol with 100 agents, discrete actions, 1 ticks a step, "
        r"autoreset_mode 'next_step'",
        ENV_USES,
        "make a new one",
        copied_by_forks=True,
    ),
    "envs.TradingEnv": Kind(
        lambda buf, panel: envs.TradingEnv(warmup_ticks=10, actions="target", frame_skip=2),
        r"1 market of 1 symbol with 100 agents, target actions, 2 ticks a step, "
        r"autoreset_mode 'disabled'",
        ENV_USES,
        "make a new one",
        copied_by_forks=True,
    ),
}


def recorded(folder: Path) -> sim.History:
    """Read a recorded order book from a file."""
    path = folder / "messages.csv"
    path.write_text("1,1,7,100,1000000,1\n1,1,8,100,1000100,-1\n9,3,7,100,1000000,1\n")
    return sim.History.read(path)


FOLDERS: list[Path] = []
"""Folder of the files of the scene, last."""

KINDS |= {
    "envs.ReplayEnv": Kind(
        lambda buf, panel: envs.ReplayEnv(recorded(FOLDERS[-1])),
        r"3 messages, discrete_limit actions, 1.0 s a step",
        {
            "reset": lambda e: e.reset(seed=1),
            "step": lambda e: e.step(1),
        },
        "make a new one",
        copied_by_forks=True,
    ),
}

PICKLED = [name for name, kind in KINDS.items() if kind.unless_pickled is None]


@dataclass
class Scene:
    """A ring, a panel, and a handle of every kind."""

    buf: bc.ReplayBuffer
    panel: bc.Panel
    handles: dict[str, Any] = field(default_factory=dict)


@pytest.fixture
def scene(place: Path, tmp_path: Path) -> Iterator[Scene]:
    prices = tmp_path / "prices.csv"
    prices.write_text(PRICES)
    FOLDERS.append(tmp_path)
    columns = {"obs": {"x": "f4"}, "action": "i4"}
    with ExitStack() as held:
        hold = held.enter_context
        buf = hold(bc.ReplayBuffer.create("walk", columns, capacity=200, lanes=2, dir=place))
        panel = hold(bc.Panel.from_csv(prices, name="prices", dir=place))
        with buf.writer() as writer:
            for _ in range(40):
                writer.append(**STEP)
        made = Scene(buf, panel)
        for name, kind in KINDS.items():
            handle = kind.make(buf, panel)
            made.handles[name] = handle
            # Gymnasium's vector environments are no context managers.
            hold(handle if hasattr(handle, "__exit__") else closing(handle))
        yield made
    made.handles.clear()


def test_the_table_has_every_public_class_that_holds_something() -> None:
    public = {name for name in bc.__all__ if hasattr(getattr(bc, name), "close")}
    public |= {f"types.{name}" for name in types.__all__ if hasattr(getattr(types, name), "close")}
    public |= {f"envs.{name}" for name in envs.__all__ if hasattr(getattr(envs, name), "close")}
    # A client holds no object; `test_client.py` has its tests.
    assert public - {"Client"} == set(KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_a_handle_shows_its_name_sizes_and_state(scene: Scene, name: str) -> None:
    handle, kind = scene.handles[name], KINDS[name]
    assert re.fullmatch(f"<backcast.{name}: {kind.shows}>", repr(handle)), repr(handle)
    if hasattr(handle, "__exit__"):
        with handle as entered:
            assert entered is handle
    handle.close()
    assert repr(handle).startswith(f"<backcast.{name}: ")
    assert repr(handle).endswith(", closed>")


@pytest.mark.parametrize("name", KINDS)
def test_a_closed_handle_says_so_and_closes_again(scene: Scene, name: str) -> None:
    handle, kind = scene.handles[name], KINDS[name]
    for use in kind.uses.values():
        use(handle)
    handle.close()
    handle.close()
    for what, use in kind.uses.items():
        with pytest.raises(bc.ClosedError) as refused:
            pytest.fail(f"{what} of a closed {name}: {use(handle)}")
        assert kind.once_closed in str(refused.value)


@pytest.mark.parametrize("name", KINDS)
def test_a_handle_goes_with_its_last_reference(scene: Scene, place: Path, name: str) -> None:
    def held() -> list[object]:
        gc.collect()
        stats = scene.buf.stats()
        lanes = [lane["held"] for lane in stats["lane_stats"]]
        slots = [reader["slot"] for reader in stats["readers"]]
        mapped = Path("/proc/self/maps").read_text().count(str(place))
        kinds = Counter(map(type, gc.get_objects()))
        ours = {kind: n for kind, n in kinds.items() if "backcast" in str(kind.__module__)}
        return [lanes, slots, stats["pins"], mapped, ours]

    before = held()
    again = KINDS[name].make(scene.buf, scene.panel)
    assert held() != before
    del again
    assert held() == before


# Ways to fork. Python runs its own fork handlers only for the first one.
FORKS: dict[str, Callable[[], int]] = {
    "by Python": os.fork,
    "by the C library": ctypes.PyDLL(None).fork,
}


@pytest.mark.parametrize("fork", FORKS.values(), ids=FORKS)
def test_a_forked_child_gets_a_remedy_and_leaves_the_parents_handles_open(
    scene: Scene, place: Path, fork: Callable[[], int]
) -> None:
    read, write = os.pipe()
    with warnings.catch_warnings():
        # Python warns of a fork beside other threads, which this test makes on purpose.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = fork()
    if pid == 0:
        try:
            told = [complaint for name in KINDS for complaint in complaints_of_a_child(scene, name)]
            scene.handles.clear()
            gc.collect()
            with bc.ReplayBuffer.attach("walk", dir=place) as again:
                told += [] if len(again) == 39 else [f"attached to {again!r}"]
        except BaseException as error:
            told = [repr(error)]
        os.write(write, "\n".join(told).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as answers, killing(lambda: os.kill(pid, signal.SIGKILL)):
        assert answers.read() == ""
    assert exit_code_of(pid) == 0
    stats = scene.buf.stats()
    assert stats["lane_stats"][0]["held"], "the writer still has its lane"
    assert [(pin["lane"], pin["start"]) for pin in stats["pins"]] == [(0, 10)]
    for name, kind in KINDS.items():
        for use in kind.uses.values():
            use(scene.handles[name])


def complaints_of_a_child(scene: Scene, name: str) -> Iterator[str]:
    """Use a handle of the parent in every way, and yield the deviations."""
    handle = scene.handles[name]
    if KINDS[name].copied_by_forks:
        for use in KINDS[name].uses.values():
            use(handle)
        handle.close()
        return
    for what, use in KINDS[name].uses.items():
        try:
            yield f"{name}: {what} was done: {use(handle)}"
        except bc.BackcastError as error:
            if '"spawn"' not in str(error):
                yield f"{name}: {what}: {error}"
    if not repr(handle).endswith(", of the parent process>"):
        yield f"{name}: {handle!r}"
    handle.close()


def answer(handle: Any, name: str, to: Connection) -> None:  # noqa: ANN401 - any handle
    """Use an unpickled handle in every way, and send its repr to the parent."""
    for use in KINDS[name].uses.values():
        use(handle)
    to.send(repr(handle))


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize("name", PICKLED)
def test_a_handle_is_pickled_by_name_into_other_processes(
    scene: Scene, name: str, method: str
) -> None:
    context: Any = multiprocessing.get_context(method)
    mine, theirs = context.Pipe()
    handle = scene.handles[name]
    child = context.Process(target=answer, args=(handle, name, theirs))
    child.start()
    theirs.close()
    try:
        assert mine.poll(60)
        assert re.fullmatch(f"<backcast.{name}: {KINDS[name].shows}>", mine.recv())
    finally:
        join(child)
    assert child.exitcode == 0


@pytest.mark.parametrize("name", [name for name in KINDS if name not in PICKLED])
@pytest.mark.parametrize("how", [pickle.dumps, copy.copy, copy.deepcopy])
def test_handles_of_one_process_name_the_alternative(
    scene: Scene, name: str, how: Callable[[Any], object]
) -> None:
    with pytest.raises(bc.errors.ArgumentTypeError) as raised:
        how(scene.handles[name])
    instead = KINDS[name].unless_pickled
    assert instead
    assert missing(raised.value, [instead]) == []


def asleep(child: Child, ring: Path) -> bool:
    """Return whether a process has announced that it sleeps until rows are published."""
    return bool((ring / "ring.rdr").read_bytes()[128 + 4])


def drawing(child: Child, ring: Path) -> bool:
    """Return whether the child has a second thread, such as the one that draws ahead."""
    return len(list(Path(f"/proc/{child.pid}/task").iterdir())) > 1


@pytest.mark.parametrize(
    ("code", "waits"),
    [
        pytest.param("ring.wait(100)", asleep, id="wait"),
        pytest.param("ring.wait(rows_published=1_000)", asleep, id="wait for rows"),
        pytest.param("for _ in s.batches(1_000_000, prefetch=1): pass", drawing, id="batches"),
    ],
)
def test_ctrl_c_ends_what_waits(
    scene: Scene,
    start: Callable[..., Child],
    code: str,
    waits: Callable[[Child, Path], bool],
) -> None:
    assert scene.buf.path is not None
    child = start(
        "import signal\n"
        "import backcast as bc\n"
        # A shell starts background jobs with Ctrl-C ignored, and children inherit that.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "ring = bc.ReplayBuffer.attach('walk')\n"
        "s = ring.sampler(seed=1)\n"
        # NumPy may have threads of its own, so the interrupt may come before the first draw.
        "try:\n"
        "    print('ready', flush=True)\n"
        f"    {code}\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', len(ring))\n"
    )
    assert read_line(child) == "ready\n", child.communicate(timeout=60)[1]
    assert scene.buf.path is not None
    path = Path(scene.buf.path)
    until(lambda: waits(child, path), child)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert (out, err, child.returncode) == ("interrupted 39\n", "", 0)
