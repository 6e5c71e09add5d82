//! The loop of the live view: look, draw, and do what keys ask for.

use std::io;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::app::{Action, App};
use super::newest::Newest;
use super::reading::Observer;
use super::screen::Screen;
use super::view::{self, Palette};
use crate::console::Stream;
use crate::signals::Signals;

/// Rows that are copied for the page of a lane: more than most terminals show.
const NEWEST_ROWS: u64 = 64;
/// Signals are looked for this often.
const PIECE: Duration = Duration::from_millis(50);

/// Shows the rings until a key or a signal ends it; the status that a signal asks for.
pub(crate) fn run(
    observer: &Observer<'_>,
    interval: Duration,
    palette: Palette,
    out: &mut dyn Stream,
) -> io::Result<Option<u8>> {
    let signals = Signals::listen()?;
    let mut screen = Screen::enter(out)?;
    let mut app = App::new();
    let place = observer.base().path().display().to_string();
    loop {
        look(&mut app, observer);
        let next = Instant::now() + interval;
        screen.draw(|canvas| view::draw(canvas, &app, &place, palette))?;
        while Instant::now() < next {
            if let Some(status) = signals.status() {
                return Ok(Some(status));
            }
            let left = next.saturating_duration_since(Instant::now());
            if !event::poll(left.min(PIECE))? {
                continue;
            }
            match event::read()? {
                Event::Resize(..) => screen.forget(),
                Event::Key(key) => {
                    let Some(action) = action(key) else { continue };
                    if !app.act(action) {
                        return Ok(None);
                    }
                    newest(&mut app, observer);
                }
                _ => continue,
            }
            screen.draw(|canvas| view::draw(canvas, &app, &place, palette))?;
        }
    }
}

fn look(app: &mut App, observer: &Observer<'_>) {
    match observer.look() {
        Ok(reading) => app.take(reading),
        Err(error) => app.failure = Some(error.to_string()),
    }
    newest(app, observer);
}

fn newest(app: &mut App, observer: &Observer<'_>) {
    app.newest =
        app.wants_rows().map(|(ring, lane)| Newest::read(observer.base(), ring, lane, NEWEST_ROWS));
}

/// What a key asks for; most ask for nothing.
fn action(key: KeyEvent) -> Option<Action> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let ctrl = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c' | 'd') if ctrl => Some(Action::Quit),
        KeyCode::Char('q') => Some(Action::Quit),
        KeyCode::Char('?' | 'h') => Some(Action::Help),
        KeyCode::Up | KeyCode::Char('k') => Some(Action::Up),
        KeyCode::Down | KeyCode::Char('j') => Some(Action::Down),
        KeyCode::PageUp => Some(Action::PageUp),
        KeyCode::PageDown => Some(Action::PageDown),
        KeyCode::Enter => Some(Action::Enter),
        KeyCode::Esc | KeyCode::Backspace => Some(Action::Back),
        KeyCode::Char('>' | 's') | KeyCode::Right => Some(Action::NextSort),
        KeyCode::Char('<') | KeyCode::Left => Some(Action::PreviousSort),
        KeyCode::Char('r') => Some(Action::Reverse),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_the_help_says() {
        let plain = |code| action(KeyEvent::new(code, KeyModifiers::NONE));
        for (code, meant) in [
            (KeyCode::Char('q'), Some(Action::Quit)),
            (KeyCode::Char('k'), Some(Action::Up)),
            (KeyCode::Down, Some(Action::Down)),
            (KeyCode::PageDown, Some(Action::PageDown)),
            (KeyCode::Enter, Some(Action::Enter)),
            (KeyCode::Esc, Some(Action::Back)),
            (KeyCode::Char('<'), Some(Action::PreviousSort)),
            (KeyCode::Char('r'), Some(Action::Reverse)),
            (KeyCode::Char('c'), None),
            (KeyCode::Char('x'), None),
            (KeyCode::F(1), None),
        ] {
            assert_eq!(plain(code), meant, "{code:?}");
        }
        let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(action(ctrl_c), Some(Action::Quit));
        let released = KeyEvent { kind: KeyEventKind::Release, ..ctrl_c };
        assert_eq!(action(released), None);
    }
}
