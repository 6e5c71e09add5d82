//! The look at everything, every interval: orphans are removed, memory of rings in memfds is kept,
//! pins of dead readers cleared, resizes finished whose process was killed, and what readers did is noted before their slots pass on.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;

use backcast_core::{Kind, ObjectInfo, Observed, collect_orphans, list};

use super::error::ServeError;
use super::persist::PersistOptions;
use super::shared::{Shared, add};
use super::spawn;
use crate::catalogue::{is_garbage, shown_name};

/// The thread that sweeps.
#[derive(Debug)]
pub(crate) struct Sweeper {
    // Dropped to end it.
    wake: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sweeper {
    /// The first sweep is over when this returns: whoever is told that the daemon is ready finds no
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

    /// Sweeps now.
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

/// `complained`: what was logged before and is not logged again.
fn sweep(shared: &Shared, complained: &mut HashSet<String>) {
    add(&shared.tally.sweeps, 1);
    // Somebody may come back to a partial ring: it goes where its memory is wanted.
    match collect_orphans(&shared.base) {
        Ok(removed) => {
            add(&shared.tally.orphans_removed, removed.len() as u64);
            log_removed(&removed);
        }
        Err(error) => complain(complained, format!("cannot collect: {error}")),
    }
    // After what is gone was removed, and before anything is looked at.
    match shared.keep_memory() {
        Ok(failed) => {
            for error in failed {
                complain(complained, format!("cannot keep a ring's memory: {error}"));
            }
        }
        Err(error) => complain(complained, format!("cannot keep memory: {error}")),
    }
    let objects = match list(&shared.base) {
        Ok(objects) => objects,
        Err(error) => return complain(complained, format!("cannot list: {error}")),
    };
    let is_ring =
        |info: &&ObjectInfo| info.kind == Kind::Ring && !info.building && !is_garbage(info);
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
            // It went away since it was listed.
            Err(_) if !info.path.exists() => {}
            Err(error) => {
                complain(complained, format!("cannot look at ring {}: {error}", info.name));
            }
        }
    }
    shared.census().forget_unseen();
    shared.keeper().forget_unseen();
}

/// Pins cleared, and why the ring is not brought to disk although it is to be.
type LookedAfter = (u64, Result<(), String>);

fn look_after(
    shared: &Shared,
    name: &str,
    settings: &PersistOptions,
) -> Result<LookedAfter, backcast_core::RingError> {
    let observed = Observed::open(&shared.base, name)?;
    // Before a slot passes on, which its next holder does.
    shared.census().update(name, observed.created_unix_ns(), &observed.readers());
    observed.finish_resize()?;
    let pins = observed.clear_dead_pins()?;
    Ok((pins, shared.keeper().tend(name, &observed, settings)))
}

pub(crate) fn log_removed(removed: &[ObjectInfo]) {
    for info in removed {
        let (kind, name, bytes) = (info.kind, shown_name(info), info.bytes);
        tracing::info!(%kind, name, bytes, "removed what nobody held");
    }
}

fn complain(complained: &mut HashSet<String>, what: String) {
    if !complained.contains(&what) {
        tracing::warn!("{what}");
        complained.insert(what);
    }
}
