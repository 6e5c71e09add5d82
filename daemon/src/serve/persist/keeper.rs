//! Starts and stops the followers of rings.

use std::collections::BTreeMap;
use std::path::PathBuf;

use backcast_core::Observed;
use backcast_persist::{FollowOptions, FollowState, Follower, PersistMode, Store};

use super::options::PersistOptions;
use crate::objects::persist::{PersistReport, asked};

/// Followers by ring. All other state is in the ring's directory and the store, so that another
/// daemon can continue.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    rings: BTreeMap<String, Kept>,
    /// Followers of removed or reconfigured rings, which still write the last rows.
    ending: Vec<(String, Follower)>,
}

#[derive(Debug)]
struct Kept {
    uuid: [u8; 16],
    options: FollowOptions,
    store: PathBuf,
    follower: Follower,
    /// Last logged error, until it has ended.
    logged: Option<String>,
    /// Last logged tables that a snapshot lacks.
    left_out: Vec<String>,
    /// Whether the ring was tended since the last [`Keeper::forget_unseen`].
    seen: bool,
}

impl Keeper {
    /// Starts, replaces or stops the follower of a ring as configured. The error says why the ring
    /// cannot be followed.
    pub(crate) fn tend(
        &mut self,
        name: &str,
        observed: &Observed,
        settings: &PersistOptions,
    ) -> Result<(), String> {
        let ring = observed.ring();
        let Some(dir) = ring.path().filter(|_| !ring.is_snapshot()) else { return Ok(()) };
        let options = settings.of(name, asked(dir));
        if options.mode == PersistMode::Off {
            self.end(name);
            PersistReport::remove(dir);
            return Ok(());
        }
        let store = settings.store().map_err(|error| error.to_string())?;
        let same = |kept: &Kept| {
            kept.uuid == ring.uuid() && kept.options == options && kept.store == store.path()
        };
        if !self.rings.get(name).is_some_and(same) {
            self.end(name);
            self.begin(name, observed, &store, options).map_err(|error| error.to_string())?;
        }
        if let Some(kept) = self.rings.get_mut(name) {
            kept.seen = true;
            let state = kept.follower.state();
            kept.log(name, &state);
            // `stat` and `top` read the report instead of calling the daemon. A failed write does
            // no harm.
            let _ = PersistReport::new(ring, store.path(), &state).write(dir);
        }
        Ok(())
    }

    fn begin(
        &mut self,
        name: &str,
        observed: &Observed,
        store: &Store,
        options: FollowOptions,
    ) -> std::io::Result<()> {
        let ring = observed.ring();
        let before = self.ending.iter().rfind(|(ending, _)| ending == name);
        let before = before.map(|(_, follower)| follower);
        let follower = Follower::start_after(before, store, name, ring, options)?;
        let (uuid, store) = (ring.uuid(), store.path().to_owned());
        tracing::info!(ring = %name, mode = %options.mode, store = %store.display(), "following");
        let (logged, left_out) = (None, Vec::new());
        let kept = Kept { uuid, options, store, follower, logged, left_out, seen: true };
        self.rings.insert(name.to_owned(), kept);
        Ok(())
    }

    /// Tells the follower of a ring to end after one more step, and does not wait for it.
    fn end(&mut self, name: &str) {
        if let Some(mut kept) = self.rings.remove(name) {
            kept.follower.finish();
            self.ending.push((name.to_owned(), kept.follower));
        }
    }

    /// Ends the follower of each ring that was not tended since the last call of this function, and
    /// does not wait for it. Drops the followers that have ended.
    pub(crate) fn forget_unseen(&mut self) {
        let gone: Vec<String> = self
            .rings
            .iter_mut()
            .filter_map(|(name, kept)| (!std::mem::take(&mut kept.seen)).then(|| name.clone()))
            .collect();
        for name in &gone {
            self.end(name);
        }
        self.ending.retain(|(name, follower)| {
            if follower.is_finished() {
                log_end(name, &follower.state());
            }
            !follower.is_finished()
        });
    }

    /// Returns the state of every follower that is not ending.
    pub(crate) fn states(&self) -> Vec<(String, FollowState)> {
        self.rings.iter().map(|(name, kept)| (name.clone(), kept.follower.state())).collect()
    }

    /// Ends all followers, and waits for the last step of each. That step brings the rows to disk
    /// unless it fails or another process has locked the store.
    pub(crate) fn stop(&mut self) {
        let names: Vec<String> = self.rings.keys().cloned().collect();
        // Tells all to finish before it waits for each.
        for name in &names {
            self.end(name);
        }
        for (name, follower) in self.ending.drain(..) {
            log_end(&name, &follower.stop());
        }
    }
}

impl Kept {
    /// Logs a new error once, the end of an error, and a change of what snapshots lack.
    fn log(&mut self, name: &str, state: &FollowState) {
        match &state.error {
            Some(error) if self.logged.as_ref() != Some(error) => {
                tracing::error!(ring = %name, %error, "cannot bring rows to disk; trying again");
            }
            None if self.logged.is_some() => {
                tracing::info!(ring = %name, rows = state.rows_persisted, "rows go to disk again");
            }
            _ => {}
        }
        self.logged.clone_from(&state.error);
        if self.left_out != state.left_out {
            log_left_out(name, state);
            self.left_out.clone_from(&state.left_out);
        }
    }
}

fn log_left_out(name: &str, state: &FollowState) {
    for left_out in &state.left_out {
        tracing::warn!(ring = %name, "{left_out}");
    }
}

fn log_end(name: &str, state: &FollowState) {
    log_left_out(name, state);
    let FollowState { rows_persisted, rows_lapped, rows_behind, .. } = *state;
    if let Some(error) = &state.error {
        tracing::error!(ring = %name, rows_behind, %error, "the last rows are not on disk");
    } else {
        tracing::info!(ring = %name, rows_persisted, rows_lapped, "followed to its end");
    }
}
