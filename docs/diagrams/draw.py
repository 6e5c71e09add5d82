"""Draw the diagrams of the documentation into a folder, from rings and panels made here.

    python draw.py FOLDER

Boxes, numbers and masks of rows are read back from a ring or panel, so that a diagram cannot
contradict the code. The committed SVG files are in this script's folder; a test compares them with
freshly drawn ones.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any, Literal, TypeAlias

import backcast as bc
from svg import Drawing

Mode: TypeAlias = Literal["next_step", "same_step", "disabled"]
Row: TypeAlias = dict[str, Any]
Cell: TypeAlias = tuple[str, str]

CELL, HIGH, LEFT = 46, 30, 92
FINAL, GAP = 4, 8
COLUMNS = {"obs": "i4", "action": "i4", "reward": "f4"}
MODES: tuple[Mode, ...] = ("next_step", "same_step", "disabled")


def rows_of(buf: bc.ReplayBuffer, lane: int) -> list[Row]:
    """Return every readable row of a lane, one dict each."""
    low, head = buf.lane_span(lane)
    columns = buf.rows(lane, low, head - low)
    return [{name: column[at] for name, column in columns.items()} for at in range(head - low)]


def kind(row: Row) -> str:
    """Return the fill of a row: `marked` if it is FINAL, else the colour of its episode."""
    return "marked" if row["flags"] & FINAL else f"episode{row['episode'] % 3}"


def strip(drawing: Drawing, y: float, label: str, cells: list[Cell], left: float = LEFT) -> None:
    """Draw a label and one box for each (kind, text)."""
    drawing.text(12, y + HIGH / 2 + 4.5, label)
    for at, (fill, text) in enumerate(cells):
        drawing.box(left + at * CELL, y, CELL - 4, HIGH, fill, text)


def play(writer: bc.Writer, episode: int, length: int, ends: bool) -> None:
    """Append the steps of an episode on one lane, as a same-step environment gives them."""
    for t in range(length):
        last = ends and t == length - 1
        writer.append(
            obs=10 * episode + t,
            action=1,
            reward=1,
            terminated=last,
            truncated=False,
            final_obs=10 * episode + length if last else None,
        )


def lanes(folder: Path) -> None:
    """Draw the lanes of three writers; a fourth writer takes over the lane of one of them."""
    drawing = Drawing(
        760,
        224,
        "Three lanes of one ring. Boxes are rows with their sequence numbers, coloured by episode; "
        "the red row that ends an episode is FINAL. On lane 2 a second writer took over from a "
        "killed one and its first row is marked as a GAP.",
    )
    plans = ([(3, True), (4, True), (5, False)], [(9, True), (2, False)], [(5, False), (4, False)])
    with bc.ReplayBuffer.create(None, COLUMNS, capacity=60, lanes=3) as buf:
        workers = [buf.writer(autoreset_mode="same_step") for _ in plans]
        for worker, plan in zip(workers, plans, strict=True):
            for episode, (length, ends) in enumerate(plan):
                play(worker, episode, length, ends)
                if plan is plans[2] and episode == 0:
                    worker.close()  # frees the lane, as the kernel does for a killed process
                    worker = buf.writer(autoreset_mode="same_step")
        for lane in range(buf.lanes):
            rows = rows_of(buf, lane)
            y = 40 + 60 * lane
            strip(drawing, y, f"lane {lane}", [(kind(r), str(r["seq"])) for r in rows])
            for at, row in enumerate(rows):
                if row["flags"] & GAP:
                    drawing.pointer(LEFT + at * CELL - 2, y + 2, "GAP")
        drawing.text(LEFT, 212, f"{len(buf)} transitions in {buf.stats()['rows_published']} rows")
    drawing.save(folder / "lanes.svg")


def autoreset(folder: Path) -> None:
    """Draw the rows that an episode of three transitions and the start of the next leave."""
    drawing = Drawing(
        760,
        318,
        "The appends of one episode of three transitions in each autoreset mode, and the rows they "
        "leave, which are the same: o0 o1 o2, a red FINAL row with o3, then the next episode.",
    )
    for at, mode in enumerate(MODES):
        appended, rows = episode_in(mode)
        y = 34 + 96 * at
        drawing.text(12, y - 12, mode, "title")
        strip(drawing, y, "append", appended)
        strip(drawing, y + HIGH + 6, "rows", [(kind(row), f"o{row['obs']}") for row in rows])
        drawing.text(
            LEFT + 8 * CELL,
            y + HIGH + 24,
            "FINAL at row " + ", ".join(str(row["seq"]) for row in rows if row["flags"] & FINAL),
            "faint",
        )
    drawing.save(folder / "autoreset.svg")


def episode_in(mode: Mode) -> tuple[list[Cell], list[Row]]:
    """Append an episode in a mode; return the observations of each append, and the rows."""
    appended: list[Cell] = []
    with bc.ReplayBuffer.create(None, COLUMNS, capacity=30) as buf:
        with buf.writer(autoreset_mode=mode) as writer:
            for obs in range(6):
                ends = obs == 2
                if obs == 3 and mode != "next_step":
                    continue  # o3 came with o2, as final_obs
                final = 3 if ends and mode != "next_step" else None
                # In next-step mode the append after an end has no reward: that step only resets.
                reward = int(obs != 3)
                writer.append(
                    obs=obs,
                    action=1,
                    reward=reward,
                    terminated=ends,
                    truncated=False,
                    final_obs=final,
                )
                appended.append(("empty", f"o{obs}" + ("+o3" if final else "")))
        return appended, rows_of(buf, 0)


def window(folder: Path) -> None:
    """Draw the windows around a transition near the start of its episode."""
    history, future = 4, 3
    drawing = Drawing(
        760,
        300,
        "A drawn transition with history 4 and future 3: which rows the windows show, and where "
        "their masks are false because the episode begins or ends there.",
    )
    with bc.ReplayBuffer.create(None, COLUMNS, capacity=30) as buf:
        with buf.writer(autoreset_mode="same_step") as writer:
            for episode, (length, ends) in enumerate([(3, True), (4, True), (3, False)]):
                play(writer, episode, length, ends)
        rows = rows_of(buf, 0)
        drawn = next(r["seq"] for r in rows if r["episode"] == 1 and r["t"] == 1)
        batch = buf.sampler(history=history, future=future).gather([drawn])
    strip(drawing, 50, "row", [(kind(row), str(row["seq"])) for row in rows])
    strip(drawing, 84, "obs", [(kind(row), str(row["obs"])) for row in rows])
    drawing.pointer(LEFT + drawn * CELL + CELL / 2 - 2, 46, "drawn")
    first = drawn - history + 1
    for y, title, part, mask, shift in [
        (140, "history", batch["obs"][0], batch.mask[0], 0),
        (180, "next_obs", batch["next_obs"][0], batch.mask[0], 0),
        (220, "future", batch["future"]["obs"][0], batch.future_mask[0], history),
    ]:
        places = [("episode1" if m else "empty", str(v)) for v, m in zip(part, mask, strict=True)]
        strip(drawing, y, title, places, LEFT + (first + shift) * CELL)
    drawing.text(
        12, 284, "dashed: masked. next_obs is the same memory, one row further on", "faint"
    )
    drawing.save(folder / "window.svg")


def reserve(folder: Path) -> None:
    """Draw a lane that reuses its slots: readable rows, and rows about to be overwritten."""
    with bc.ReplayBuffer.create(None, COLUMNS, capacity=24) as buf:
        with buf.writer() as writer:
            play(writer, 0, 66, ends=False)
        low, head = buf.lane_span(0)
        stats = buf.stats()
        reserved, slots = stats["lane_stats"][0]["reserved"], stats["slots"]
    first = reserved - slots
    narrow = 16
    drawing = Drawing(
        760,
        176,
        f"The {slots} slots of a lane with capacity {stats['lane_capacity']}: rows {low} to "
        f"{head - 1} can be read, rows {head} to {reserved - 1} are announced and being written.",
    )
    for at, seq in enumerate(range(first, reserved)):
        fill = "episode0" if low <= seq < head else "marked" if seq >= head else "empty"
        drawing.box(40 + at * narrow, 64, narrow - 2, HIGH, fill)
    for seq, name in ((low, "oldest"), (head, "head"), (reserved, "reserved")):
        drawing.pointer(40 + (seq - first) * narrow, 62, f"{name} {seq}")
    drawing.bracket(
        40 + (low - first) * narrow, (head - low) * narrow, 98, f"{head - low} rows to read"
    )
    drawing.bracket(
        40 + (head - first) * narrow, (reserved - head) * narrow, 98, f"{reserved - head} announced"
    )
    drawing.text(40, 158, f"slot = seq mod {slots}: the announced rows reuse the oldest slots")
    drawing.save(folder / "reserve.svg")


def panel(folder: Path) -> None:
    """Draw a market window: days before, the open of the day itself, days after."""
    days = [f"2024-01-{day:02}" for day in (2, 3, 4, 5, 8, 9, 10)]
    lines = ["date,tic,open,high,low,close,volume"]
    for at, day in enumerate(days):
        lines.append(f"{day},OLD,{10 + at},19,9,{10 + at}.5,100")
        if at >= 2:
            lines.append(f"{day},NEW,{50 + at},59,49,{50 + at}.5,100")
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "prices.csv")
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        loaded = bc.Panel.from_csv(file)
    day, history, future = 3, 2, 2
    seen = loaded.windows([day], loaded.tokens(["OLD", "NEW"]), history, future)
    drawing = Drawing(
        760,
        250,
        f"Windows of two tickers around {loaded.dates[day]}: the closes of two days before, the "
        "open of the day itself, the closes of two days after. One ticker was not listed on "
        "the first of these days, and its mask says so.",
    )
    wide = 104
    for at, date in enumerate(loaded.dates[day - history : day + future + 1]):
        drawing.text(LEFT + at * wide + wide / 2, 36, date, "middle")
    close = loaded.columns.index("close")
    for ticker, name in enumerate(["OLD", "NEW"]):
        y = 52 + 50 * ticker
        drawing.text(12, y + 20, name)
        before = zip(
            seen["history"][0, ticker, :, close], seen["history_mask"][0, ticker], strict=True
        )
        after = zip(
            seen["future"][0, ticker, :, close], seen["future_mask"][0, ticker], strict=True
        )
        cells = [("episode0", value, there) for value, there in before]
        cells.append(("episode1", seen["open"][0, ticker], seen["listed"][0, ticker]))
        cells += [("episode2", value, there) for value, there in after]
        for at, (fill, value, there) in enumerate(cells):
            label = f"{'open' if at == history else 'close'} {value:g}"
            shown = fill if there else "empty"
            drawing.box(LEFT + at * wide, y, wide - 6, HIGH, shown, label if there else "masked")
    drawing.bracket(LEFT, history * wide - 6, 160, "history")
    drawing.bracket(LEFT + history * wide, wide - 6, 160, "the day")
    drawing.bracket(LEFT + (history + 1) * wide, future * wide - 6, 160, "future")
    drawing.text(12, 232, "of the day itself only the open is shown: nothing else is known then")
    drawing.save(folder / "panel.svg")


def draw(folder: Path) -> None:
    """Draw every diagram."""
    for picture in (lanes, autoreset, window, reserve, panel):
        picture(folder)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
