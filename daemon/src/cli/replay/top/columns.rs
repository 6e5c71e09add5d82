//! Columns of the tables of rings and lanes, and the choice of those that fit.

use super::app::Sort;
use super::frame::{Frame, LaneFrame, RingFrame};
use crate::cli::console::printable;
use crate::text::units;

/// Maximum length of a name in a line of numbers.
pub(crate) const LONGEST_NAME: u16 = 24;

/// A column of a table of `R`.
pub(crate) struct TableColumn<R> {
    pub(crate) title: &'static str,
    pub(crate) right: bool,
    /// Index in [`Sort::ALL`] of the sort by this column.
    pub(crate) sort: Option<usize>,
    /// Rank in the choice of columns for a narrow terminal: those with the lowest rank stay.
    rank: u8,
    pub(crate) cell: fn(&R) -> String,
}

const fn column<R>(
    title: &'static str,
    sort: Option<Sort>,
    rank: u8,
    cell: fn(&R) -> String,
) -> TableColumn<R> {
    let sort = match sort {
        Some(sort) => Some(sort as usize),
        None => None,
    };
    TableColumn { title, right: true, sort, rank, cell }
}

/// Returns a left-aligned column.
const fn words<R>(
    title: &'static str,
    sort: Option<Sort>,
    rank: u8,
    cell: fn(&R) -> String,
) -> TableColumn<R> {
    TableColumn { right: false, ..column(title, sort, rank, cell) }
}

/// Columns of a ring.
pub(crate) const RINGS: [TableColumn<RingFrame>; 14] = [
    words("RING", Some(Sort::Name), 0, |ring: &RingFrame| printable(&ring.name)),
    words("STATE", None, 5, |ring: &RingFrame| ring.state.to_string()),
    column("FILL", Some(Sort::Fill), 2, |ring: &RingFrame| format!("{:.0} %", ring.fill * 100.0)),
    column("ROWS/S", Some(Sort::Published), 1, |ring: &RingFrame| maybe(ring.publish_rate_per_s)),
    column("BATCH/S", Some(Sort::Batches), 3, |ring: &RingFrame| maybe(ring.batch_rate_per_s)),
    column("DRAWN/S", Some(Sort::Sampled), 4, |ring: &RingFrame| maybe(ring.sample_rate_per_s)),
    column("OLDEST", Some(Sort::Oldest), 9, |ring: &RingFrame| {
        ring.oldest_row_age_s.map_or_else(dash, age)
    }),
    column("READERS", Some(Sort::Readers), 8, |ring: &RingFrame| ring.readers.to_string()),
    column("PINS", Some(Sort::Pins), 10, |ring: &RingFrame| ring.pins.to_string()),
    words("WAIT", None, 11, |ring: &RingFrame| {
        let waits = [
            (ring.rows_awaited, "rows"),
            (ring.release_awaited, "lease"),
            (!ring.locked_tables.is_empty(), "table"),
            (ring.limited_writers > Some(0), "append"),
            (ring.limited_samplers > Some(0), "draw"),
        ];
        let words: Vec<&str> =
            waits.iter().filter(|(waits, _)| *waits).map(|(_, word)| *word).collect();
        if words.is_empty() { dash() } else { words.join("+") }
    }),
    column("STALLS", Some(Sort::Stalls), 7, |ring: &RingFrame| units::count(ring.stalls)),
    column("DROPPED", Some(Sort::Dropped), 6, |ring: &RingFrame| units::count(ring.dropped_rows)),
    column("UNSAVED", None, 9, |ring: &RingFrame| match (&ring.persist_error, ring) {
        (Some(_), _) => "failing".to_owned(),
        (None, RingFrame { persist_behind_rows: Some(rows), .. }) => units::count(*rows),
        _ => dash(),
    }),
    column("SIZE", Some(Sort::Bytes), 5, |ring: &RingFrame| units::bytes(ring.allocated_bytes)),
];

/// Columns of a lane.
pub(crate) const LANES: [TableColumn<LaneFrame>; 9] = [
    column("LANE", None, 0, |lane: &LaneFrame| lane.lane.to_string()),
    column("HEAD", None, 2, |lane: &LaneFrame| units::exact(lane.head_seq)),
    column("ROWS", None, 4, |lane: &LaneFrame| units::exact(lane.rows)),
    column("ROWS/S", None, 1, |lane: &LaneFrame| maybe(lane.publish_rate_per_s)),
    column("EPISODES", None, 3, |lane: &LaneFrame| units::exact(lane.episodes)),
    column("STALLS", None, 7, |lane: &LaneFrame| units::count(lane.stalls)),
    column("DROPPED", None, 6, |lane: &LaneFrame| units::count(lane.dropped_rows)),
    words("HELD", None, 5, |lane: &LaneFrame| if lane.held { "yes" } else { "no" }.to_owned()),
    column("WRITER", None, 3, |lane: &LaneFrame| {
        lane.writer_pid.map_or_else(dash, |pid| format!("pid {pid}"))
    }),
];

/// A column that is shown, and its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShownColumn {
    pub(crate) at: usize,
    pub(crate) width: u16,
}

/// Chooses by rank the columns that fit into `room` characters, with `gap` characters between two.
/// Returns them in order.
pub(crate) fn fitting<R>(
    columns: &[TableColumn<R>],
    rows: &[Vec<String>],
    room: u16,
    gap: u16,
) -> Vec<ShownColumn> {
    // The title of the sort column has an arrow.
    let mut widths: Vec<u16> = widths(columns.iter().map(|column| column.title), rows)
        .into_iter()
        .zip(columns)
        .map(|(width, column)| width.max(chars(column.title) + u16::from(column.sort.is_some())))
        .collect();
    // A long name gets the width that the other columns leave, at least two fifths of the room.
    if let Some((first, others)) = widths.split_first_mut() {
        let others = others.iter().fold(0_u16, |sum, width| sum.saturating_add(width + gap));
        *first = (*first).min(room.saturating_sub(others).max(room / 5 * 2).max(1));
    }
    let mut order: Vec<usize> = (0..columns.len()).collect();
    order.sort_by_key(|at| columns.get(*at).map(|column| column.rank));
    let mut left = room.saturating_add(gap);
    let mut shown: Vec<ShownColumn> = order
        .into_iter()
        .filter_map(|at| {
            let width = widths.get(at).copied()?;
            let rest = left.checked_sub(width.saturating_add(gap));
            // The first column is shown even if it is cut.
            left = if at == 0 { rest.unwrap_or(0) } else { rest? };
            Some(ShownColumn { at, width })
        })
        .collect();
    shown.sort_by_key(|shown| shown.at);
    shown
}

/// Returns the columns that fit from the left; at least the first one, which may be cut.
pub(crate) fn leading(widths: &[u16], room: u16, gap: u16) -> Vec<ShownColumn> {
    let mut left = room;
    let mut shown = Vec::new();
    for (at, width) in widths.iter().enumerate() {
        let gap = if at == 0 { 0 } else { gap };
        let Some(rest) = left.checked_sub(width.saturating_add(gap)) else {
            if at == 0 {
                shown.push(ShownColumn { at, width: room });
            }
            break;
        };
        left = rest;
        shown.push(ShownColumn { at, width: *width });
    }
    shown
}

/// Returns the width of each column.
pub(crate) fn widths<'a>(titles: impl Iterator<Item = &'a str>, rows: &[Vec<String>]) -> Vec<u16> {
    let widest = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|c| chars(c)).max();
    titles.enumerate().map(|(at, title)| chars(title).max(widest(at).unwrap_or(0))).collect()
}

fn chars(text: &str) -> u16 {
    u16::try_from(ratatui::text::Span::raw(text).width()).unwrap_or(u16::MAX)
}

/// Returns `text` in at most `width` characters. A longer text loses its middle, or its end if
/// `width` is below 4.
pub(crate) fn shortened(text: &str, width: u16) -> String {
    const LEFT_OUT: &str = "..";
    let (count, width) = (text.chars().count(), usize::from(width));
    if count <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(LEFT_OUT.len());
    if kept < 2 {
        return text.chars().take(width).collect();
    }
    let begin = text.chars().take(kept.div_ceil(2));
    begin.chain(LEFT_OUT.chars()).chain(text.chars().skip(count - kept / 2)).collect()
}

/// Returns phrases for the memory that rings take and for each limit of memory.
pub(crate) fn limits(frame: &Frame) -> Vec<String> {
    /// Maximum length of a limit's name, such as a directory.
    const LONGEST: u16 = 36;
    let rings: u64 =
        frame.rings.iter().map(|ring| ring.allocated_bytes).fold(0, u64::saturating_add);
    let limits = frame.limits.iter().map(|limit| {
        let (used, all) = (units::bytes(limit.used_bytes), units::bytes(limit.limit_bytes));
        let name = shortened(&printable(&limit.name), LONGEST);
        format!("{name}: {used} of {all} used")
    });
    std::iter::once(format!("rings take {}", units::bytes(rings))).chain(limits).collect()
}

/// Joins phrases, in their order, to lines of at most `width` characters. A longer phrase gets a
/// line of its own.
pub(crate) fn folded(phrases: &[String], separator: &str, width: u16) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for phrase in phrases {
        let fits = |line: &String| {
            line.chars().count() + separator.len() + phrase.chars().count() <= usize::from(width)
        };
        match lines.last_mut().filter(|line| fits(line)) {
            Some(line) => line.extend([separator, phrase]),
            None => lines.push(phrase.clone()),
        }
    }
    lines
}

/// Describes a ring in a text that fits two lines of 80 characters.
pub(crate) fn about(ring: &RingFrame) -> String {
    /// Maximum length of a name beside the numbers.
    const LONGEST: u16 = 48;
    let rows = (units::exact(ring.rows), units::exact(ring.capacity_rows));
    format!(
        "ring {}: {}, {} of {} rows, {} transitions, {}, readers {}, pins {}",
        shortened(&printable(&ring.name), LONGEST),
        ring.state,
        rows.0,
        rows.1,
        units::exact(ring.transitions),
        units::bytes(ring.allocated_bytes),
        ring.readers,
        ring.pins
    )
}

/// Formats a rate: `0`, `2.5`, `12 k`.
pub(crate) fn rate(per_second: f64) -> String {
    if per_second > 0.0 && per_second < 10.0 {
        let text = format!("{per_second:.1}");
        return text.strip_suffix(".0").map(str::to_owned).unwrap_or(text);
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    units::count(per_second.round() as u64)
}

fn maybe(per_second: Option<f64>) -> String {
    per_second.map_or_else(dash, rate)
}

pub(crate) fn age(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
    if seconds < 10.0 { format!("{seconds:.1} s") } else { units::age(seconds.round() as u64) }
}

fn dash() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_ages_read_well() {
        for (input, text) in
            [(0.0, "0"), (0.04, "0"), (2.5, "2.5"), (3.0, "3"), (99.6, "100"), (1.25e6, "1.3 M")]
        {
            assert_eq!(rate(input), text, "{input}");
        }
        assert_eq!(
            (age(0.52), age(90.0), age(7_200.0)),
            ("0.5 s".into(), "90 s".into(), "2 h".into())
        );
    }

    #[test]
    fn every_order_but_one_has_a_column() {
        let places: Vec<usize> = RINGS.iter().filter_map(|column| column.sort).collect();
        assert_eq!(places, (0..Sort::ALL.len()).collect::<Vec<_>>());
    }

    #[test]
    fn of_a_long_text_the_middle_is_left_out() {
        for (width, short) in [(7, "pong-12"), (6, "po..12"), (5, "po..2"), (3, "pon"), (0, "")] {
            assert_eq!(shortened("pong-12", width), short, "{width}");
        }
    }

    #[test]
    fn phrases_fill_lines() {
        let phrases = ["ab", "cd", "efghij", "k"].map(str::to_owned);
        assert_eq!(folded(&phrases, "; ", 6), ["ab; cd", "efghij", "k"]);
        assert_eq!(folded(&phrases, "; ", 100), ["ab; cd; efghij; k"]);
        assert_eq!(folded(&phrases, "; ", 0), phrases);
    }

    #[test]
    fn a_long_name_leaves_most_of_the_room_to_numbers() {
        let mut cells: Vec<String> = RINGS.iter().map(|_| "12345".to_owned()).collect();
        cells[0] = "n".repeat(100);
        let rows = [cells];
        for room in [40_u16, 80, 120, 300] {
            let shown = fitting(&RINGS, &rows, room, 2);
            let titles: Vec<&str> = shown.iter().map(|shown| RINGS[shown.at].title).collect();
            assert!(titles.contains(&"ROWS/S"), "{room}: {titles:?}");
            let used: u16 = shown.iter().map(|shown| shown.width + 2).sum();
            assert!(used <= room + 2, "{room}: {shown:?}");
        }
        assert_eq!(fitting(&RINGS, &rows, 300, 2)[0].width, 100, "as long as there is room");
    }

    #[test]
    fn columns_that_do_not_fit_are_left_out_by_rank() {
        let rows = vec![RINGS.iter().map(|_| "12345".to_owned()).collect()];
        let titles = |room: u16| -> Vec<&str> {
            fitting(&RINGS, &rows, room, 2).iter().map(|shown| RINGS[shown.at].title).collect()
        };
        assert_eq!(titles(0), ["RING"]);
        assert_eq!(titles(14), ["RING", "ROWS/S"]);
        assert_eq!(titles(21), ["RING", "FILL", "ROWS/S"]);
        assert_eq!(titles(300).len(), RINGS.len());
        for room in 0..300 {
            let shown = fitting(&RINGS, &rows, room, 2);
            let used: u16 = shown.iter().map(|shown| shown.width + 2).sum();
            assert!(shown.len() == 1 || used <= room + 2, "{room}: {shown:?}");
        }
    }
}
