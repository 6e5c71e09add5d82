//! Rings as a live view.

use ratatui::Frame as Canvas;

use super::app::App;
use super::newest::Newest;
use super::reading::Observer;
use super::view::{self, Palette};
use crate::cli::terminal::keys::Action;
use crate::cli::terminal::live::LiveView;

/// Rows to copy for the page of a lane: more than most terminals show.
const NEWEST_ROWS: u64 = 64;

/// View of the rings that an observer reads.
pub(super) struct TopView<'a> {
    observer: &'a Observer<'a>,
    app: App,
    place: String,
    palette: Palette,
}

impl<'a> TopView<'a> {
    pub(super) fn new(observer: &'a Observer<'a>, palette: Palette) -> Self {
        let place = observer.base().path().display().to_string();
        Self { observer, app: App::new(), place, palette }
    }

    fn read_newest(&mut self) {
        let base = self.observer.base();
        let rows = self.app.wants_rows();
        self.app.newest = rows.map(|(ring, lane)| Newest::read(base, ring, lane, NEWEST_ROWS));
    }
}

impl LiveView for TopView<'_> {
    fn tick(&mut self) -> bool {
        match self.observer.look() {
            Ok(reading) => self.app.take(reading),
            Err(error) => self.app.failure = Some(error.to_string()),
        }
        self.read_newest();
        true
    }

    fn act(&mut self, action: Action) -> bool {
        let stays = self.app.act(action);
        if stays {
            self.read_newest();
        }
        stays
    }

    fn draw(&self, canvas: &mut Canvas<'_>) {
        view::draw(canvas, &self.app, &self.place, self.palette);
    }
}
