//! Periodic maintenance: removes orphans, keeps the memory of rings that are in memfds, clears pins
//! of dead readers, and finishes interrupted resizes. Also counts reader statistics, and starts and
//! stops followers.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;

use backcast_core::{ObjectInfo, ObjectKind, Observed, collect_garbage, list_objects};

use super::error::ServeError;
use super::persist::PersistOptions;
use super::shared::{Shared, add, log_removed};
use super::spawn;
use crate::objects::catalogue::is_garbage;

/// The thread that sweeps.
#[derive(Debug)]
pub(crate) struct Sweeper {
    // Dropping the sender stops the thread.
    wake: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sweeper {
    /// Sweeps once, then starts the thread. So a daemon that says it is ready has removed all
    /// orphans.
    pub(crate) fn start(shared: &Arc<Shared>) -> Result<Self, ServeError> {
        let mut complained = HashSet::new();
        sweep(shared, &mut complained);
        let (wake, woken) = mpsc::channel();
        let shared = Arc::clone(shared);
        let thread = spawn("sweep", move || {
            while let Ok(()) | Err(RecvTimeoutError::Timeout) =
                woken.recv_timeout(shared.live().interval)
            {
                sweep(&shared, &mut complained);
            }
        })?;
        Ok(Self { wake: Some(wake), thread: Some(thread) })
    }

    /// Wakes the thread to sweep before the interval has passed.
    pub(crate) fn wake(&self) {
        if let Some(wake) = &self.wake {
            let _ = wake.send(());
        }
    }

    pub(crate) fn stop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sweeps once. `complained` holds messages that are not logged again.
fn sweep(shared: &Shared, complained: &mut HashSet<String>) {
    shared.set_sweeping(true);
    look_after_all(shared, complained);
    add(&shared.tally.sweeps, 1);
    shared.set_sweeping(false);
}

fn look_after_all(shared: &Shared, complained: &mut HashSet<String>) {
    match collect_garbage(&shared.base) {
        Ok(removed) => {
            add(&shared.tally.orphans_removed, removed.len() as u64);
            log_removed(&removed);
        }
        Err(error) => complain(complained, format!("cannot collect: {error}")),
    }
    // Comes after the removal of orphans, whose memory must not be kept.
    match shared.keep_memory() {
        Ok(failed) => {
            for error in failed {
                complain(complained, format!("cannot keep a ring's memory: {error}"));
            }
        }
        Err(error) => complain(complained, format!("cannot keep memory: {error}")),
    }
    let objects = match list_objects(&shared.base) {
        Ok(objects) => objects,
        Err(error) => return complain(complained, format!("cannot list: {error}")),
    };
    let is_ring =
        |info: &&ObjectInfo| info.kind == ObjectKind::Ring && !info.building && !is_garbage(info);
    let settings = shared.persist();
    for info in objects.iter().filter(is_ring) {
        match look_after(shared, &info.name, &settings) {
            Ok((pins, followed)) => {
                if pins > 0 {
                    add(&shared.tally.pins_cleared, pins);
                    tracing::info!(ring = %info.name, pins, "cleared pins of dead readers");
                }
                if let Err(why) = followed {
                    complain(complained, format!("cannot follow ring {}: {why}", info.name));
                }
            }
            // The ring was removed since the listing.
            Err(_) if !info.path.exists() => {}
            Err(error) => {
                complain(complained, format!("cannot look at ring {}: {error}", info.name));
            }
        }
    }
    shared.reader_totals().forget_unseen();
    shared.keeper().forget_unseen();
}

/// Number of cleared pins, and the reason why the ring could not be followed.
type LookedAfter = (u64, Result<(), String>);

fn look_after(
    shared: &Shared,
    name: &str,
    settings: &PersistOptions,
) -> Result<LookedAfter, backcast_core::RingError> {
    let observed = Observed::open(&shared.base, name)?;
    // Reads the counters before the next holder of a slot resets them.
    shared.reader_totals().update(name, observed.created_unix_ns(), &observed.readers());
    observed.finish_resize()?;
    let pins = observed.clear_dead_pins()?;
    Ok((pins, shared.keeper().tend(name, &observed, settings)))
}

fn complain(complained: &mut HashSet<String>, what: String) {
    if !complained.contains(&what) {
        tracing::warn!("{what}");
        complained.insert(what);
    }
}
