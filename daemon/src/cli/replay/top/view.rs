//! Draws the view as tables that fit the terminal.

use ratatui::Frame as Canvas;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Clear, Paragraph, Row, Table, TableState, Wrap};

use super::app::{App, Sort, TopPage};
use super::columns::{self, LANES, RINGS, ShownColumn};
use super::frame::{Frame, RingFrame};
use crate::cli::console::printable;
use crate::objects::catalogue::ObjectState;

/// Space between two columns.
const GAP: u16 = 2;
/// Key hints of the last line, in order, as far as they fit.
const KEYS: [&str; 7] =
    ["q quit", "? help", "arrows choose", "Enter inspect", "Esc back", "< > sort", "r reverse"];
/// Maximum lines of the heading. In a narrow terminal the limits take more than one.
const MOST_HEADING: usize = 6;
const HELP: [&str; 17] = [
    "up down PgUp PgDn   choose a ring or a lane (also k and j)",
    "Enter               a ring: its lanes; a lane: its newest rows",
    "Esc Backspace       back",
    "< >                 sort rings by the column to the left or right (also s)",
    "r                   reverse the order",
    "q Ctrl-C            quit",
    "",
    "FILL     rows of capacity          ROWS/S   rows published per second",
    "BATCH/S  batches drawn by readers  DRAWN/S  their rows, windows included",
    "OLDEST   age of the oldest row at the current rate; the mean age of a",
    "         uniform draw is half of it",
    "WAIT     for rows, a lease, a locked table; append, draw: for the rate limiter",
    "READERS  samplers and holders of leases that have a slot",
    "PINS     leases that freeze rows   STALLS   appends delayed by a lease",
    "DROPPED  rows dropped because of a lease",
    "UNSAVED  rows not on disk yet, of rings that are saved automatically",
    "SIZE     memory allocated",
];

/// Colours of the view, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette {
    pub(crate) colours: bool,
}

impl Palette {
    fn colour(self, colour: Color) -> Style {
        if self.colours { Style::new().fg(colour) } else { Style::new() }
    }

    fn state(self, state: ObjectState) -> Style {
        match state {
            ObjectState::Held => self.colour(Color::Green),
            ObjectState::Idle | ObjectState::Saved | ObjectState::Evicted => Style::new(),
            ObjectState::Building => self.colour(Color::Cyan),
            ObjectState::Orphaned | ObjectState::OtherVersion | ObjectState::Unknown => {
                self.colour(Color::Yellow)
            }
            ObjectState::Damaged | ObjectState::Denied => {
                self.colour(Color::Red).add_modifier(Modifier::BOLD)
            }
        }
    }
}

/// Draws the heading, the present page or the help, and the key hints.
pub(crate) fn draw(canvas: &mut Canvas<'_>, app: &App, place: &str, palette: Palette) {
    let heading = heading(app, place, palette, canvas.area().width);
    let height = u16::try_from(heading.len()).unwrap_or(u16::MAX);
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(height), Constraint::Min(0), Constraint::Length(1)])
            .areas(canvas.area());
    canvas.render_widget(Paragraph::new(heading), head);
    let body = lines(canvas, app, body, palette);
    match &app.page {
        TopPage::Rings => rings(canvas, app, body, palette),
        TopPage::Lanes { ring } => lanes(canvas, app, ring, body, palette),
        TopPage::Rows { ring, lane } => rows(canvas, app, ring, *lane, body),
    }
    let keys = columns::folded(&KEYS.map(str::to_owned), "  ", canvas.area().width);
    let keys = keys.into_iter().next().unwrap_or_default();
    canvas
        .render_widget(Paragraph::new(keys).style(Style::new().add_modifier(Modifier::DIM)), foot);
    if app.help {
        let lines: Vec<Line<'_>> = HELP.iter().map(|line| Line::from(*line)).collect();
        // Text of the page beside the help would read as a part of it.
        canvas.render_widget(Clear, body);
        canvas.render_widget(Paragraph::new(lines), body);
    }
}

/// Returns the heading: number and rate of the rings, directory, error of the last reading, and
/// limits of memory.
fn heading<'a>(app: &App, place: &str, palette: Palette, width: u16) -> Vec<Line<'a>> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let rings = app.frame.rings.len();
    let rate: f64 = app.frame.rings.iter().filter_map(|ring| ring.publish_rate_per_s).sum();
    let title = "backcast top";
    let counts = format!("  rings: {rings}  {} rows/s  ", columns::rate(rate));
    let left = usize::from(width).saturating_sub(title.len() + counts.chars().count());
    let place = columns::shortened(&printable(place), u16::try_from(left).unwrap_or(u16::MAX));
    let first = Line::from(vec![Span::styled(title, bold), Span::raw(counts), Span::raw(place)]);
    let limits = columns::folded(&columns::limits(&app.frame), "; ", width);
    let failure = app.failure.as_ref().map(|failure| {
        let style = palette.colour(Color::Red).add_modifier(Modifier::BOLD);
        let words: Vec<String> = printable(failure).split(' ').map(str::to_owned).collect();
        let lines = columns::folded(&words, " ", width);
        lines.into_iter().map(move |line| Line::styled(line, style))
    });
    let failure = failure.into_iter().flatten();
    let all = std::iter::once(first).chain(failure).chain(limits.into_iter().map(Line::from));
    all.take(MOST_HEADING).collect()
}

/// Draws a line for each wait, fleet, set of parameters, table and reader below the rings, on at
/// most a third of the page. Returns the area that is left. On other pages, draws nothing and
/// returns the whole area.
fn lines(canvas: &mut Canvas<'_>, app: &App, area: Rect, palette: Palette) -> Rect {
    if app.page != TopPage::Rings {
        return area;
    }
    let Frame { fleets, params, .. } = &app.frame;
    let states = fleets.iter().map(|_| ObjectState::Held).chain(params.iter().map(|p| p.state));
    let styles = states.map(|state| palette.state(state)).chain(std::iter::repeat(Style::new()));
    let yellow = palette.colour(Color::Yellow);
    let troubles = app.frame.troubles().map(|line| Line::styled(line, yellow));
    let lines = app.frame.lines().zip(styles).map(|(line, style)| Line::styled(line, style));
    let lines: Vec<Line<'_>> = troubles.chain(lines).collect();
    let count = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let height = Constraint::Length(count.min(area.height / 3));
    let [left, foot] = Layout::vertical([Constraint::Min(0), height]).areas(area);
    canvas.render_widget(Paragraph::new(lines), foot);
    left
}

fn rings(canvas: &mut Canvas<'_>, app: &App, area: Rect, palette: Palette) {
    if app.frame.rings.is_empty() {
        return canvas
            .render_widget(Paragraph::new("no rings here; one that is made appears"), area);
    }
    let cells = |ring: &RingFrame| RINGS.iter().map(|column| (column.cell)(ring)).collect();
    let rows: Vec<Vec<String>> = app.frame.rings.iter().map(cells).collect();
    let shown = columns::fitting(&RINGS, &rows, area.width, GAP);
    let sorted = Sort::ALL.iter().position(|sort| *sort == app.sort);
    let styles: Vec<Style> = app.frame.rings.iter().map(|r| palette.state(r.state)).collect();
    let mut state = TableState::new().with_selected(app.ring_at());
    let title = |at: usize| {
        let arrow = if app.reversed { "^" } else { "v" };
        let here = RINGS[at].sort.is_some_and(|sort| Some(sort) == sorted);
        format!("{}{}", RINGS[at].title, if here { arrow } else { "" })
    };
    let table = table(&shown, &rows, title, |at| RINGS[at].right, &styles);
    canvas.render_stateful_widget(table, area, &mut state);
}

fn lanes(canvas: &mut Canvas<'_>, app: &App, name: &str, area: Rect, palette: Palette) {
    let Some(ring) = app.frame.ring(name) else {
        let text = format!("ring {} has gone; it appears again when it is back", printable(name));
        return canvas.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
    };
    let [about, body] = Layout::vertical([Constraint::Length(2), Constraint::Min(0)]).areas(area);
    let text = match &ring.error {
        Some(error) => printable(error),
        None => columns::about(ring),
    };
    canvas.render_widget(
        Paragraph::new(text).style(palette.state(ring.state)).wrap(Wrap { trim: true }),
        about,
    );
    let rows: Vec<Vec<String>> = ring
        .lanes
        .iter()
        .map(|lane| LANES.iter().map(|column| (column.cell)(lane)).collect())
        .collect();
    let shown = columns::fitting(&LANES, &rows, body.width, GAP);
    let styles: Vec<Style> = ring
        .lanes
        .iter()
        .map(|l| palette.state(if l.held { ObjectState::Held } else { ObjectState::Idle }))
        .collect();
    let mut state = TableState::new().with_selected((!rows.is_empty()).then_some(app.lane_at));
    let title = |at: usize| LANES[at].title.to_owned();
    let table = table(&shown, &rows, title, |at| LANES[at].right, &styles);
    canvas.render_stateful_widget(table, body, &mut state);
}

fn rows(canvas: &mut Canvas<'_>, app: &App, ring: &str, lane: u32, area: Rect) {
    let [about, body] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let name = columns::shortened(&printable(ring), area.width / 2);
    let text = format!("ring {name}, lane {lane}: the newest rows first");
    canvas.render_widget(Paragraph::new(text.as_str()), about);
    match &app.newest {
        None => {}
        Some(Err(why)) => {
            let why = Paragraph::new(printable(why)).wrap(Wrap { trim: true });
            canvas.render_widget(why, body);
        }
        Some(Ok(newest)) if newest.rows.is_empty() => {
            canvas.render_widget(Paragraph::new("no row is published yet"), body);
        }
        Some(Ok(newest)) => {
            let cells: Vec<Vec<String>> = newest
                .rows
                .iter()
                .map(|row| row.iter().map(|cell| printable(cell)).collect())
                .collect();
            let widths = columns::widths(newest.titles.iter().map(String::as_str), &cells);
            let shown = columns::leading(&widths, body.width, GAP);
            if shown.len() < widths.len() {
                let text = format!("{text} ({} of {} columns fit)", shown.len(), widths.len());
                canvas.render_widget(Paragraph::new(text), about);
            }
            let title = |at: usize| printable(&newest.titles[at]);
            let table = table(&shown, &cells, title, |_| false, &[]);
            canvas.render_widget(table, body);
        }
    }
}

/// Returns a table of the columns `shown`, with titles in reverse video.
fn table<'a>(
    shown: &[ShownColumn],
    rows: &[Vec<String>],
    title: impl Fn(usize) -> String,
    right: impl Fn(usize) -> bool,
    styles: &[Style],
) -> Table<'a> {
    let cell = |text: String, at: usize| {
        let side = if right(at) { Alignment::Right } else { Alignment::Left };
        Cell::from(Line::from(text).alignment(side))
    };
    let body = rows.iter().enumerate().map(|(number, row)| {
        let cells = shown.iter().map(|ShownColumn { at, width }| {
            let text = row.get(*at).map(String::as_str).unwrap_or_default();
            cell(columns::shortened(text, *width), *at)
        });
        Row::new(cells).style(styles.get(number).copied().unwrap_or_default())
    });
    let head = Row::new(shown.iter().map(|ShownColumn { at, .. }| cell(title(*at), *at)));
    Table::new(body, shown.iter().map(|shown| Constraint::Length(shown.width)))
        .column_spacing(GAP)
        .header(head.style(Style::new().add_modifier(Modifier::REVERSED)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::buffer::Buffer;

    use super::super::frame::made_up::{reader, reading, ring};
    use super::super::newest::Newest;
    use super::super::reading::Limit;
    use super::*;
    use crate::cli::terminal::keys::Action;

    fn drawn(app: &App, width: u16, height: u16, colours: bool) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|canvas| draw(canvas, app, "/dev/shm/b", Palette { colours })).unwrap();
        terminal.backend().buffer().clone()
    }

    fn text(app: &App, width: u16, height: u16) -> String {
        let buffer = drawn(app, width, height, true);
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| line(y).trim_end().to_owned() + "\n").collect()
    }

    fn busy() -> App {
        let with = |mut seen: super::super::reading::RingReading, batches| {
            seen.stats.as_mut().unwrap().readers = vec![reader(0, 1, batches)];
            seen
        };
        let mut app = App::new();
        app.take(reading(1, vec![with(ring("pong", 50), 10), ring("breakout", 0)]));
        app.take(reading(2, vec![with(ring("pong", 450), 30), ring("breakout", 0)]));
        app
    }

    #[test]
    fn a_wide_terminal_shows_every_column() {
        let shown = text(&busy(), 130, 8);
        let expected = "\
backcast top  rings: 2  400 rows/s  /dev/shm/b
rings take 2 MiB; /dev/shm: 1 GiB of 8 GiB used
RINGv STATE FILL ROWS/S BATCH/S DRAWN/S OLDEST READERS PINS WAIT STALLS DROPPED UNSAVED SIZE
breakout  held  0 %  0  0  0  -  0  0  -  0  0  -  1 MiB
pong  held  50 %  400  20  5,120  0.2 s  1  0  -  0  0  -  1 MiB


q quit  ? help  arrows choose  Enter inspect  Esc back  < > sort  r reverse
";
        let squeezed = |text: &str| -> Vec<String> {
            text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
        };
        assert_eq!(squeezed(&shown), squeezed(expected), "{shown}");
    }

    #[test]
    fn a_narrow_terminal_shows_what_matters_and_none_is_too_small() {
        let app = busy();
        let narrow = text(&app, 40, 6);
        assert!(narrow.contains("RING") && narrow.contains("ROWS/S"), "{narrow}");
        assert!(!narrow.contains("DROPPED") && !narrow.contains("OLDEST"), "{narrow}");
        let mut pages = vec![app];
        for _ in 0..2 {
            let mut next = busy();
            next.act(Action::Down);
            for _ in 0..pages.len() {
                next.act(Action::Enter);
            }
            pages.push(next);
        }
        for (page, mut app) in pages.into_iter().enumerate() {
            for help in [false, true] {
                app.help = help;
                for (width, height) in [(1, 1), (2, 3), (10, 4), (79, 24), (300, 100)] {
                    drawn(&app, width, height, true);
                    assert!(page < 3);
                }
            }
        }
    }

    #[test]
    fn a_ring_shows_its_lanes_and_a_lane_its_newest_rows() {
        let mut app = busy();
        app.act(Action::Down);
        app.act(Action::Enter);
        let lanes = text(&app, 100, 10);
        for word in ["ring pong: held, 100 of 200 rows", "LANE", "pid 4242", "450", "400", "no"] {
            assert!(lanes.contains(word), "`{word}` is missing:\n{lanes}");
        }
        app.act(Action::Enter);
        let rows = vec![vec!["449".to_owned(), "\u{1b}[31m".to_owned()]];
        app.newest = Some(Ok(Newest { titles: vec!["seq".into(), "obs".into()], rows }));
        let rows = text(&app, 100, 10);
        assert!(rows.contains("ring pong, lane 0: the newest rows first"), "{rows}");
        assert!(rows.contains("449  \u{fffd}[31m"), "no control sequence: {rows}");
        app.newest = Some(Err("it was lapped".to_owned()));
        assert!(text(&app, 100, 10).contains("it was lapped"));
    }

    #[test]
    fn rings_that_went_and_looks_that_failed_are_said() {
        let mut app = App::new();
        assert!(text(&app, 80, 6).contains("no rings here"));
        app = busy();
        app.act(Action::Down);
        app.act(Action::Enter);
        app.take(reading(3, vec![ring("breakout", 0)]));
        assert!(text(&app, 80, 6).contains("ring pong has gone"));
        app.failure = Some("cannot list /dev/shm/b".to_owned());
        assert!(text(&app, 80, 6).contains("cannot list"));
    }

    /// Returns a view with a long directory, three limits of memory and a long name of a ring.
    fn crowded() -> App {
        let name = "n".repeat(100);
        let mut app = App::new();
        for (second, rows) in [(1, 50), (2, 450)] {
            let mut reading = reading(second, vec![ring(&name, rows), ring("pong", rows)]);
            reading.limits = ["/mnt/a/very/long/way/to/the/directory/of/rings", "control group"]
                .map(|name| Limit { name: name.into(), used: 1000 << 30, most: 1000 << 30 })
                .into();
            reading.limits.push(Limit { name: "budget".into(), used: 3 << 30, most: 7 << 30 });
            app.take(reading);
        }
        app
    }

    #[test]
    fn a_terminal_of_80_columns_shows_all_bounds_keys_and_the_numbers_of_long_names() {
        let app = crowded();
        let shown = text(&app, 80, 24);
        for word in [
            "budget: 3 GiB of 7 GiB used",
            "control group: 1000 GiB of 1000 GiB used",
            "/mnt/a/very/long",
            "r reverse",
            "800 rows/s",
            "ROWS/S",
            "FILL",
            "BATCH/S",
            "nn..nn",
        ] {
            assert!(shown.contains(word), "`{word}` is missing:\n{shown}");
        }
        let place = "/mnt/".to_owned() + &"deep/".repeat(40);
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        let palette = Palette { colours: false };
        terminal.draw(|canvas| draw(canvas, &app, &place, palette)).unwrap();
        let first: String =
            (0..80).map(|x| terminal.backend().buffer()[(x, 0)].symbol().to_owned()).collect();
        assert!(first.contains("rings: 2") && first.contains("/mnt/deep"), "{first}");
    }

    #[test]
    fn a_failure_is_read_to_its_end_and_hides_no_rings() {
        let mut app = crowded();
        app.failure = Some("cannot list the directory, ".repeat(4) + "permission denied");
        let shown = text(&app, 80, 24);
        assert!(shown.contains("permission denied") && shown.contains("pong"), "{shown}");
    }

    #[test]
    fn nothing_shows_through_the_help() {
        for (width, height) in [(80, 24), (130, 40)] {
            let mut app = crowded();
            app.act(Action::Help);
            let shown = text(&app, width, height);
            let body: Vec<&str> = shown.lines().filter(|line| !line.contains("rows/s")).collect();
            for line in body {
                let known = HELP.iter().any(|help| line == help.trim_end())
                    || line.contains(" used")
                    || line.starts_with("rings take")
                    || line.starts_with("q quit");
                assert!(known, "`{line}` is not of the help:\n{shown}");
            }
            assert!(HELP.iter().all(|line| shown.contains(line)), "{shown}");
        }
    }

    #[test]
    fn of_rows_with_many_columns_those_are_shown_whole_that_fit() {
        let mut app = busy();
        for action in [Action::Down, Action::Enter, Action::Enter] {
            app.act(action);
        }
        let titles: Vec<String> = (0..30).map(|column| format!("column_{column}")).collect();
        let rows = vec![titles.iter().map(|_| "[1.25 2.5 3.75 .. 40 in all]".to_owned()).collect()];
        app.newest = Some(Ok(Newest { titles, rows }));
        let shown = text(&app, 80, 24);
        assert!(shown.contains("(2 of 30 columns fit)"), "{shown}");
        assert!(shown.contains("column_1") && !shown.contains("column_2"), "{shown}");
        assert_eq!(shown.matches("40 in all]").count(), 2, "{shown}");
    }

    #[test]
    fn help_explains_every_column_it_abbreviates() {
        let mut app = busy();
        app.act(Action::Help);
        let help = text(&app, 80, 24);
        for column in RINGS.iter().skip(2) {
            assert!(help.contains(column.title), "{} is missing:\n{help}", column.title);
        }
    }

    #[test]
    fn without_colours_there_are_none() {
        let mut app = busy();
        app.take(reading(3, vec![ring("pong", 500)]));
        app.failure = Some("failed".to_owned());
        let colours = |wanted| {
            let buffer = drawn(&app, 120, 8, wanted);
            buffer.content.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
        };
        assert!(colours(true) && !colours(false));
    }
}
