//! Draws a market: price, book, trades, agents.

use ratatui::Frame as Canvas;
use ratatui::backend::TestBackend;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Cell, Chart, Dataset, GraphType, Paragraph, Row, Table};
use ratatui::{Terminal, buffer::Buffer};

use super::scene::{LevelFrame, MarketFrame};
use crate::text::units;

/// Minimum columns and lines of the view.
const LEAST: (u16, u16) = (80, 24);
/// Columns of the book and the trades.
const RIGHT: u16 = 34;
/// Columns of the longest bar of the book.
const BAR: usize = 12;
const KEYS: &str = "q quit  Enter pause  up faster  down slower  < > symbol  (arrows, or k and j)";

/// Speed and colours of a drawing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) ticks_per_s: f64,
    pub(super) paused: bool,
    pub(super) colours: bool,
}

/// Draws one frame; `mids` are the mid-prices of the last ticks.
pub(super) fn draw(canvas: &mut Canvas<'_>, frame: &MarketFrame, mids: &[f64], run: Run) {
    let area = canvas.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let text = format!(
            "the terminal has {} x {}; the view needs {} x {}",
            area.width, area.height, LEAST.0, LEAST.1
        );
        return canvas.render_widget(Paragraph::new(text), area);
    }
    let rows = [Constraint::Length(2), Constraint::Min(0), Constraint::Length(1)];
    let [head, body, foot] = Layout::vertical(rows).areas(area);
    canvas.render_widget(Paragraph::new(heading(frame, run)), head);
    let [left, right] =
        Layout::horizontal([Constraint::Min(0), Constraint::Length(RIGHT)]).spacing(2).areas(body);
    let agents = u16::try_from(frame.agents.len()).unwrap_or(0) + 2;
    let [price, groups] =
        Layout::vertical([Constraint::Min(0), Constraint::Length(agents)]).areas(left);
    chart(canvas, mids, price, run);
    table_of_agents(canvas, frame, groups);
    // 60 % for the book, but at most its levels, the spread and the heading.
    let most = u16::try_from(frame.asks.len() + frame.bids.len() + 2).unwrap_or(u16::MAX);
    let book = (right.height * 6 / 10).min(most.max(4));
    let [book, trades] =
        Layout::vertical([Constraint::Length(book), Constraint::Min(0)]).areas(right);
    table_of_levels(canvas, frame, book, run);
    table_of_trades(canvas, frame, trades);
    let dim = Style::new().add_modifier(Modifier::DIM);
    canvas.render_widget(Paragraph::new(KEYS).style(dim), foot);
}

/// Returns a frame as 23 lines of text, at most 80 columns wide, without colours.
pub(super) fn plain(frame: &MarketFrame, mids: &[f64], ticks_per_s: f64) -> String {
    let run = Run { ticks_per_s, paused: false, colours: false };
    let Ok(mut terminal) = Terminal::new(TestBackend::new(LEAST.0, LEAST.1));
    let Ok(drawn) = terminal.draw(|canvas| draw(canvas, frame, mids, run));
    // The last line names keys.
    text_of(drawn.buffer, LEAST.1 - 1)
}

fn text_of(buffer: &Buffer, lines: u16) -> String {
    let mut text = String::new();
    for y in 0..lines {
        let line: String = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect();
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn colour(run: Run, colour: Color) -> Style {
    if run.colours { Style::new().fg(colour) } else { Style::new() }
}

fn heading(frame: &MarketFrame, run: Run) -> Vec<Line<'static>> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let of_symbols = if frame.symbols > 1 {
        format!("  symbol {}/{}", frame.symbol, frame.symbols)
    } else {
        String::new()
    };
    let pace = if run.paused {
        "paused".to_owned()
    } else {
        format!("{} ticks/s", units::exact(whole(run.ticks_per_s)))
    };
    let first = Line::from(vec![
        Span::styled("backcast sim watch", bold),
        Span::raw(format!("  {} seed {}{of_symbols}", frame.preset, frame.seed)),
        Span::raw(format!("  tick {}  {pace}", units::exact(frame.tick))),
    ]);
    let spread = frame.best_ask.zip(frame.best_bid).map(|(ask, bid)| ask - bid);
    let spread = spread.map_or_else(|| "-".to_owned(), |spread| format!("{spread:.2}"));
    let second = Line::from(vec![
        Span::styled(format!("mid {:.3}", frame.mid_price), bold),
        Span::raw(format!("  spread {spread}  last {:.2}", frame.last_price)),
        Span::raw(format!("  {:.0} shares/tick", frame.volume_shares_per_tick)),
        Span::raw(format!("  arousal {:.2}", frame.arousal)),
    ]);
    vec![first, second]
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded for people")]
fn whole(rate: f64) -> u64 {
    rate.round() as u64
}

#[expect(clippy::cast_precision_loss, reason = "a few hundred ticks")]
fn chart(canvas: &mut Canvas<'_>, mids: &[f64], area: Rect, run: Run) {
    if mids.len() < 2 {
        return;
    }
    let points: Vec<(f64, f64)> =
        mids.iter().enumerate().map(|(at, mid)| (at as f64, *mid)).collect();
    let low = mids.iter().copied().fold(f64::INFINITY, f64::min);
    let high = mids.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let room = ((high - low) * 0.05).max(0.01);
    let (low, high) = (low - room, high + room);
    let label = |price: f64| Span::raw(format!("{price:.2}"));
    let last = (mids.len() - 1) as f64;
    let line = Dataset::default()
        .marker(Marker::Braille)
        .graph_type(GraphType::Line)
        .style(colour(run, Color::Cyan))
        .data(&points);
    let ticks = [format!("{last:.0} ticks ago"), "now".to_owned()];
    let chart = Chart::new(vec![line])
        .x_axis(Axis::default().bounds([0.0, last]).labels(ticks))
        .y_axis(Axis::default().bounds([low, high]).labels([
            label(low),
            label(f64::midpoint(low, high)),
            label(high),
        ]));
    canvas.render_widget(chart, area);
}

fn table_of_agents(canvas: &mut Canvas<'_>, frame: &MarketFrame, area: Rect) {
    let head = ["AGENTS", "N", "LONG", "SHORT", "ORDERS", "PROFIT"];
    let rows = frame.agents.iter().map(|group| {
        let sign = if group.profit <= -0.5 { "-" } else { "" };
        [
            group.archetype.to_owned(),
            group.agents.to_string(),
            units::count(group.long_shares.unsigned_abs()),
            units::count(group.short_shares.unsigned_abs()),
            units::count(group.open_orders),
            format!("{sign}{}", units::count(whole(group.profit.abs()))),
        ]
    });
    let widths = [(8, false), (4, true), (6, true), (6, true), (6, true), (7, true)];
    render(canvas, area, &head, rows.collect(), &widths);
}

fn table_of_levels(canvas: &mut Canvas<'_>, frame: &MarketFrame, area: Rect, run: Run) {
    let each = usize::from(area.height.saturating_sub(2) / 2).max(1);
    let most = |levels: &[LevelFrame]| levels.iter().take(each).map(|level| level.shares).max();
    let most = most(&frame.asks).max(most(&frame.bids)).unwrap_or(1).max(1);
    let line = |level: &LevelFrame, style: Style| {
        let LevelFrame { price, shares } = *level;
        let bar = usize::try_from(shares).unwrap_or(0) * BAR / usize::try_from(most).unwrap_or(1);
        let text = format!("{price:>9.2} {shares:>7}  ");
        Line::from(vec![Span::raw(text), Span::styled("#".repeat(bar.max(1)), style)])
    };
    let (ask, bid) = (colour(run, Color::Red), colour(run, Color::Green));
    let title = Style::new().add_modifier(Modifier::REVERSED);
    let mut lines = vec![Line::styled(format!("{:>9} {:>7}", "PRICE", "SHARES"), title)];
    let asks: Vec<_> = frame.asks.iter().take(each).map(|level| line(level, ask)).collect();
    lines.extend(asks.into_iter().rev());
    lines.push(Line::from(format!("{:>9}", "-----")));
    lines.extend(frame.bids.iter().take(each).map(|level| line(level, bid)));
    canvas.render_widget(Paragraph::new(lines), area);
}

fn table_of_trades(canvas: &mut Canvas<'_>, frame: &MarketFrame, area: Rect) {
    let head = ["TRADE", "BY", "SHARES", "PRICE"];
    let rows: Vec<[String; 4]> = frame
        .trades
        .iter()
        .map(|trade| {
            [
                trade.side.to_owned(),
                trade.archetype.unwrap_or("-").to_owned(),
                trade.shares.to_string(),
                format!("{:.2}", trade.price),
            ]
        })
        .collect();
    render(canvas, area, &head, rows, &[(5, false), (8, false), (7, true), (9, true)]);
}

/// Draws a table; each column has a width, and whether it holds numbers.
fn render<const N: usize>(
    canvas: &mut Canvas<'_>,
    area: Rect,
    head: &[&'static str; N],
    rows: Vec<[String; N]>,
    columns: &[(u16, bool); N],
) {
    let cells = |row: [String; N]| {
        Row::new(row.into_iter().zip(columns).map(|(text, (width, is_number))| {
            let width = usize::from(*width);
            Cell::from(if *is_number { format!("{text:>width$}") } else { text })
        }))
    };
    let title = cells(head.map(str::to_owned)).style(Style::new().add_modifier(Modifier::REVERSED));
    let widths = columns.map(|(width, _)| Constraint::Length(width));
    let table = Table::new(rows.into_iter().map(cells), widths).header(title).column_spacing(1);
    canvas.render_widget(table, area);
}

#[cfg(test)]
mod tests {
    use backcast_sim::Preset;

    use super::super::scene::Scene;
    use super::*;

    fn drawn(width: u16, height: u16) -> String {
        let mut scene = Scene::new(Preset::Normal, 7, 1).unwrap();
        scene.advance(2_000);
        let mids: Vec<f64> = scene.mids(0).collect();
        let run = Run { ticks_per_s: 60.0, paused: false, colours: false };
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let drawn = terminal.draw(|canvas| draw(canvas, &scene.frame(0), &mids, run)).unwrap();
        text_of(drawn.buffer, height)
    }

    #[test]
    fn every_part_fits_the_smallest_terminal_and_larger_ones() {
        for (width, height) in [(80, 24), (120, 40), (200, 60)] {
            let text = drawn(width, height);
            for part in [
                "backcast sim watch  normal seed 7  tick 2,000  60 ticks/s",
                "mid ",
                "shares/tick",
                "PRICE  SHARES",
                "AGENTS",
                "executor",
                "TRADE",
                "ticks ago",
                "now",
                "q quit",
            ] {
                assert!(text.contains(part), "{width} x {height}: `{part}` is missing:\n{text}");
            }
            let bars = text.lines().filter(|line| line.contains('#')).count();
            assert!(bars >= 8, "{bars} levels of the book:\n{text}");
            assert!(text.chars().any(|c| ('\u{2801}'..='\u{28ff}').contains(&c)), "{text}");
        }
    }

    #[test]
    fn a_terminal_that_is_too_small_is_told_the_size() {
        assert!(drawn(79, 24).starts_with("the terminal has 79 x 24; the view needs 80 x 24"));
        assert!(drawn(80, 10).starts_with("the terminal has 80 x 10"));
    }
}
