//! State of the view: page, order, selection.

use std::cmp::Ordering;

use super::frame::{Frame, RingFrame};
use super::newest::Newest;
use super::reading::Reading;
use crate::cli::terminal::keys::Action;

/// Page of the view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TopPage {
    Rings,
    Lanes { ring: String },
    Rows { ring: String, lane: u32 },
}

/// Column by which rings are sorted.
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

    fn compare(self, a: &RingFrame, b: &RingFrame) -> Ordering {
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

/// State that the view draws.
#[derive(Debug)]
pub(crate) struct App {
    last: Option<Reading>,
    pub(crate) frame: Frame,
    pub(crate) page: TopPage,
    pub(crate) sort: Sort,
    /// Reverses the order; by default names ascend and numbers descend.
    pub(crate) reversed: bool,
    pub(crate) help: bool,
    /// Name of the selected ring, so that the selection follows its row.
    chosen: Option<String>,
    pub(crate) lane_at: usize,
    /// Error of the last reading; the frame shown is older.
    pub(crate) failure: Option<String>,
    pub(crate) newest: Option<Result<Newest, String>>,
}

impl App {
    pub(crate) fn new() -> Self {
        Self {
            last: None,
            frame: Frame {
                at_unix_ns: 0,
                interval_s: None,
                limits: Vec::new(),
                rings: Vec::new(),
                params: Vec::new(),
                fleets: Vec::new(),
            },
            page: TopPage::Rings,
            sort: Sort::Name,
            reversed: false,
            help: false,
            chosen: None,
            lane_at: 0,
            failure: None,
            newest: None,
        }
    }

    /// Takes a new reading. The page of a removed ring stays, empty.
    pub(crate) fn take(&mut self, reading: Reading) {
        self.frame = Frame::of(&reading, self.last.as_ref());
        self.last = Some(reading);
        self.failure = None;
        self.arrange();
    }

    /// Applies an action. Returns false to leave the view.
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

    /// Returns the selected row of the table of rings: the first one if no ring is selected or the
    /// selected ring is gone. Returns `None` if the table is empty.
    pub(crate) fn ring_at(&self) -> Option<usize> {
        let chosen = self.chosen.as_ref();
        let found = self.frame.rings.iter().position(|ring| Some(&ring.name) == chosen);
        found.or((!self.frame.rings.is_empty()).then_some(0))
    }

    /// Returns the ring and the lane whose newest rows are shown; `None` on another page.
    pub(crate) fn wants_rows(&self) -> Option<(&str, u32)> {
        match &self.page {
            TopPage::Rows { ring, lane } => Some((ring, *lane)),
            _ => None,
        }
    }

    fn lanes(&self) -> usize {
        match &self.page {
            TopPage::Lanes { ring } => self.frame.ring(ring).map_or(0, |ring| ring.lanes.len()),
            _ => 0,
        }
    }

    fn step(&mut self, by: isize) {
        let moved =
            |at: usize, count: usize| at.saturating_add_signed(by).min(count.saturating_sub(1));
        match self.page {
            TopPage::Rings => {
                let at = moved(self.ring_at().unwrap_or(0), self.frame.rings.len());
                self.chosen = self.frame.rings.get(at).map(|ring| ring.name.clone());
            }
            TopPage::Lanes { .. } => self.lane_at = moved(self.lane_at, self.lanes()),
            TopPage::Rows { .. } => {}
        }
    }

    fn enter(&mut self) {
        match &self.page {
            TopPage::Rings => {
                let at = self.ring_at().and_then(|at| self.frame.rings.get(at));
                if let Some(ring) = at.map(|ring| ring.name.clone()) {
                    self.chosen = Some(ring.clone());
                    self.lane_at = 0;
                    self.page = TopPage::Lanes { ring };
                }
            }
            TopPage::Lanes { ring } => {
                let lanes = self.frame.ring(ring).map(|ring| &ring.lanes);
                if let Some(lane) = lanes.and_then(|lanes| lanes.get(self.lane_at)) {
                    self.page = TopPage::Rows { ring: ring.clone(), lane: lane.lane };
                }
            }
            TopPage::Rows { .. } => {}
        }
    }

    fn back(&mut self) {
        self.newest = None;
        self.page = match &self.page {
            TopPage::Rows { ring, .. } => TopPage::Lanes { ring: ring.clone() },
            TopPage::Rings | TopPage::Lanes { .. } => TopPage::Rings,
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
        assert_eq!(app.page, TopPage::Lanes { ring: "b".into() });
        app.act(Action::Down);
        app.act(Action::Enter);
        assert_eq!(app.wants_rows(), Some(("b", 1)));
        app.act(Action::Enter);
        app.act(Action::Back);
        assert_eq!((&app.page, app.lane_at), (&TopPage::Lanes { ring: "b".into() }, 1));
        app.take(reading(2, vec![ring("a", 1)]));
        assert_eq!((&app.page, app.lane_at), (&TopPage::Lanes { ring: "b".into() }, 0));
        app.act(Action::Enter);
        assert_eq!(app.wants_rows(), None, "a ring that has gone has no lanes");
        app.act(Action::Back);
        app.act(Action::Back);
        assert_eq!(app.page, TopPage::Rings);
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
