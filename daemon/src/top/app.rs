//! What the person at the keyboard has chosen to see: pages, order, selection.

use std::cmp::Ordering;

use super::frame::{Frame, RingRow};
use super::newest::Newest;
use super::reading::Reading;

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Up,
    Down,
    PageUp,
    PageDown,
    Enter,
    Back,
    NextSort,
    PreviousSort,
    Reverse,
    Help,
    Quit,
}

/// Where the person is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    Rings,
    Lanes { ring: String },
    Rows { ring: String, lane: u32 },
}

/// A column that rings are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    Name,
    Fill,
    Published,
    Batches,
    Sampled,
    Oldest,
    Readers,
    Pins,
    Stalls,
    Dropped,
    Bytes,
}

impl Sort {
    pub(crate) const ALL: [Self; 11] = [
        Self::Name,
        Self::Fill,
        Self::Published,
        Self::Batches,
        Self::Sampled,
        Self::Oldest,
        Self::Readers,
        Self::Pins,
        Self::Stalls,
        Self::Dropped,
        Self::Bytes,
    ];

    fn compare(self, a: &RingRow, b: &RingRow) -> Ordering {
        let rate = |a: Option<f64>, b: Option<f64>| a.unwrap_or(-1.0).total_cmp(&b.unwrap_or(-1.0));
        match self {
            Self::Name => Ordering::Equal,
            Self::Fill => a.fill.total_cmp(&b.fill),
            Self::Published => rate(a.publish_rate_per_s, b.publish_rate_per_s),
            Self::Batches => rate(a.batch_rate_per_s, b.batch_rate_per_s),
            Self::Sampled => rate(a.sample_rate_per_s, b.sample_rate_per_s),
            Self::Oldest => rate(a.oldest_row_age_s, b.oldest_row_age_s),
            Self::Readers => a.readers.cmp(&b.readers),
            Self::Pins => a.pins.cmp(&b.pins),
            Self::Stalls => a.stalls.cmp(&b.stalls),
            Self::Dropped => a.dropped_rows.cmp(&b.dropped_rows),
            Self::Bytes => a.allocated_bytes.cmp(&b.allocated_bytes),
        }
    }
}

/// Everything that the view draws.
#[derive(Debug)]
pub(crate) struct App {
    last: Option<Reading>,
    pub(crate) frame: Frame,
    pub(crate) page: Page,
    pub(crate) sort: Sort,
    /// Names rise, numbers fall, unless this is set.
    pub(crate) reversed: bool,
    pub(crate) help: bool,
    /// By name, so that it stays where it is when rows move.
    chosen: Option<String>,
    pub(crate) lane_at: usize,
    /// Why the last look failed; what is shown is older.
    pub(crate) failure: Option<String>,
    pub(crate) newest: Option<Result<Newest, String>>,
}

impl App {
    pub(crate) fn new() -> Self {
        Self {
            last: None,
            frame: Frame { at_unix_ns: 0, interval_s: None, limits: Vec::new(), rings: Vec::new() },
            page: Page::Rings,
            sort: Sort::Name,
            reversed: false,
            help: false,
            chosen: None,
            lane_at: 0,
            failure: None,
            newest: None,
        }
    }

    /// A further look. A page of a ring that went stays, empty, until the ring is back.
    pub(crate) fn take(&mut self, reading: Reading) {
        self.frame = Frame::of(&reading, self.last.as_ref());
        self.last = Some(reading);
        self.failure = None;
        self.arrange();
    }

    /// Does what a key asks for. `false`: the person wants to leave.
    pub(crate) fn act(&mut self, action: Action) -> bool {
        if self.help && action != Action::Quit {
            self.help = false;
            return true;
        }
        match action {
            Action::Quit => return false,
            Action::Help => self.help = true,
            Action::Up => self.step(-1),
            Action::Down => self.step(1),
            Action::PageUp => self.step(-10),
            Action::PageDown => self.step(10),
            Action::Enter => self.enter(),
            Action::Back => self.back(),
            Action::NextSort => self.sort_by(1),
            Action::PreviousSort => self.sort_by(Sort::ALL.len() - 1),
            Action::Reverse => {
                self.reversed = !self.reversed;
                self.arrange();
            }
        }
        true
    }

    /// Which row of the table of rings is chosen; `None` when there are none.
    pub(crate) fn ring_at(&self) -> Option<usize> {
        let chosen = self.chosen.as_ref();
        let found = self.frame.rings.iter().position(|ring| Some(&ring.name) == chosen);
        found.or((!self.frame.rings.is_empty()).then_some(0))
    }

    /// The lane whose newest rows are to be shown.
    pub(crate) fn wants_rows(&self) -> Option<(&str, u32)> {
        match &self.page {
            Page::Rows { ring, lane } => Some((ring, *lane)),
            _ => None,
        }
    }

    fn lanes(&self) -> usize {
        match &self.page {
            Page::Lanes { ring } => self.frame.ring(ring).map_or(0, |ring| ring.lanes.len()),
            _ => 0,
        }
    }

    fn step(&mut self, by: isize) {
        let moved =
            |at: usize, count: usize| at.saturating_add_signed(by).min(count.saturating_sub(1));
        match self.page {
            Page::Rings => {
                let at = moved(self.ring_at().unwrap_or(0), self.frame.rings.len());
                self.chosen = self.frame.rings.get(at).map(|ring| ring.name.clone());
            }
            Page::Lanes { .. } => self.lane_at = moved(self.lane_at, self.lanes()),
            Page::Rows { .. } => {}
        }
    }

    fn enter(&mut self) {
        match &self.page {
            Page::Rings => {
                let at = self.ring_at().and_then(|at| self.frame.rings.get(at));
                if let Some(ring) = at.map(|ring| ring.name.clone()) {
                    self.chosen = Some(ring.clone());
                    self.lane_at = 0;
                    self.page = Page::Lanes { ring };
                }
            }
            Page::Lanes { ring } => {
                let lanes = self.frame.ring(ring).map(|ring| &ring.lanes);
                if let Some(lane) = lanes.and_then(|lanes| lanes.get(self.lane_at)) {
                    self.page = Page::Rows { ring: ring.clone(), lane: lane.lane };
                }
            }
            Page::Rows { .. } => {}
        }
    }

    fn back(&mut self) {
        self.newest = None;
        self.page = match &self.page {
            Page::Rows { ring, .. } => Page::Lanes { ring: ring.clone() },
            Page::Rings | Page::Lanes { .. } => Page::Rings,
        };
    }

    fn sort_by(&mut self, places: usize) {
        let at = Sort::ALL.iter().position(|sort| *sort == self.sort).unwrap_or(0);
        self.sort = Sort::ALL.get((at + places) % Sort::ALL.len()).copied().unwrap_or(Sort::Name);
        self.arrange();
    }

    fn arrange(&mut self) {
        let (sort, reversed) = (self.sort, self.reversed);
        self.frame.rings.sort_by(|a, b| {
            let numbers = sort.compare(b, a);
            let names = a.name.cmp(&b.name);
            let order = if sort == Sort::Name { names } else { numbers };
            (if reversed { order.reverse() } else { order }).then(names)
        });
        self.lane_at = self.lane_at.min(self.lanes().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::made_up::{reading, ring};
    use super::*;

    fn names(app: &App) -> Vec<&str> {
        app.frame.rings.iter().map(|ring| ring.name.as_str()).collect()
    }

    fn chosen(app: &App) -> Option<&str> {
        app.ring_at().map(|at| app.frame.rings[at].name.as_str())
    }

    #[test]
    fn rings_are_sorted_by_the_chosen_column_and_by_name_where_that_is_equal() {
        let mut app = App::new();
        app.take(reading(1, vec![ring("b", 9), ring("a", 70), ring("c", 30), ring("d", 30)]));
        assert_eq!(names(&app), ["a", "b", "c", "d"]);
        app.act(Action::Reverse);
        assert_eq!(names(&app), ["d", "c", "b", "a"]);
        app.act(Action::Reverse);
        app.act(Action::NextSort);
        assert_eq!(app.sort, Sort::Fill);
        assert_eq!(names(&app), ["a", "c", "d", "b"], "the fullest first");
        app.act(Action::PreviousSort);
        app.act(Action::PreviousSort);
        assert_eq!(app.sort, Sort::Bytes);
        for _ in Sort::ALL {
            app.act(Action::NextSort);
        }
        assert_eq!(app.sort, Sort::Bytes, "round");
    }

    #[test]
    fn the_chosen_ring_stays_chosen_when_rows_move_or_it_goes() {
        let mut app = App::new();
        assert_eq!(chosen(&app), None);
        assert!(app.act(Action::Down) && app.act(Action::Enter), "nothing to choose is no error");
        app.take(reading(1, vec![ring("a", 1), ring("b", 9), ring("c", 5)]));
        assert_eq!(chosen(&app), Some("a"));
        app.act(Action::Down);
        app.act(Action::NextSort);
        assert_eq!((chosen(&app), app.ring_at()), (Some("b"), Some(0)));
        app.take(reading(2, vec![ring("a", 1), ring("c", 5)]));
        assert_eq!(chosen(&app), Some("c"), "the first, as the chosen one has gone");
        app.take(reading(3, vec![ring("a", 1), ring("b", 9), ring("c", 5)]));
        assert_eq!(chosen(&app), Some("b"), "it is back");
        app.act(Action::PageUp);
        assert_eq!(app.ring_at(), Some(0));
        app.act(Action::PageDown);
        assert_eq!(app.ring_at(), Some(2), "no further than the last");
    }

    #[test]
    fn pages_lead_from_rings_to_lanes_to_rows_and_back() {
        let mut app = App::new();
        app.take(reading(1, vec![ring("a", 1), ring("b", 9)]));
        app.act(Action::Down);
        app.act(Action::Enter);
        assert_eq!(app.page, Page::Lanes { ring: "b".into() });
        app.act(Action::Down);
        app.act(Action::Enter);
        assert_eq!(app.wants_rows(), Some(("b", 1)));
        app.act(Action::Enter);
        app.act(Action::Back);
        assert_eq!((&app.page, app.lane_at), (&Page::Lanes { ring: "b".into() }, 1));
        app.take(reading(2, vec![ring("a", 1)]));
        assert_eq!((&app.page, app.lane_at), (&Page::Lanes { ring: "b".into() }, 0));
        app.act(Action::Enter);
        assert_eq!(app.wants_rows(), None, "a ring that has gone has no lanes");
        app.act(Action::Back);
        app.act(Action::Back);
        assert_eq!(app.page, Page::Rings);
        assert_eq!(chosen(&app), Some("a"));
    }

    #[test]
    fn help_covers_the_page_until_any_key() {
        let mut app = App::new();
        app.act(Action::Help);
        assert!(app.help);
        assert!(app.act(Action::NextSort) && !app.help);
        assert_eq!(app.sort, Sort::Name, "that key did nothing else");
        app.act(Action::Help);
        assert!(!app.act(Action::Quit));
    }
}
