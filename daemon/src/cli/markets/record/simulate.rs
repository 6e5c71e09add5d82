//! Runs the simulations on several threads and hands them on in the order of their seeds.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use super::series::{Series, SeriesPlan};
use super::{Args, RecordError};
use crate::cli::exit_status::Interrupted;
use crate::cli::watch::Watch;

/// Maximum wait for a series between two checks for signals.
const LOOK: Duration = Duration::from_millis(50);

/// Calls `take` with the number of every simulation, counted from 0, and its series.
///
/// A slow `take` holds the threads back: at most one finished series per thread waits in the
/// channel. A series that finishes before an earlier one is kept until the earlier one is taken.
pub(super) fn simulate(
    args: &Args,
    plan: &SeriesPlan,
    watch: &Watch,
    mut take: impl FnMut(u32, &Series) -> Result<(), RecordError>,
) -> Result<(), RecordError> {
    let (next, done, cancelled) = (AtomicU32::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let per_seed = plan.candles + plan.warm_up / u64::from(args.interval);
    let total = per_seed * u64::from(args.seeds);
    let threads = args.threads();
    let (out, finished) = sync_channel(threads);
    let work = || {
        let out = out.clone();
        while !cancelled.load(Relaxed) {
            let number = next.fetch_add(1, Relaxed);
            if number >= args.seeds {
                return;
            }
            let series = plan.simulate(args.first_seed + u64::from(number), || {
                done.fetch_add(1, Relaxed);
                !cancelled.load(Relaxed)
            });
            // Once the recording fails, `series` is `None` or the receiver is gone.
            let Some(series) = series else { return };
            if out.send((number, series)).is_err() {
                return;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
        let mut waiting = BTreeMap::new();
        let mut handed = 0;
        let mut receive = || {
            while handed < args.seeds {
                let (now, all) = (done.load(Relaxed), total);
                let [now, all] = [now, all].map(|count| usize::try_from(count).unwrap_or(0));
                if watch.count(now, all).is_break() {
                    return Err(Interrupted.into());
                }
                match finished.recv_timeout(LOOK) {
                    Ok((number, series)) => drop(waiting.insert(number, series)),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => unreachable!("`out` is alive"),
                }
                while let Some(series) = waiting.remove(&handed) {
                    take(handed, &series)?;
                    handed += 1;
                }
            }
            Ok(())
        };
        let result = receive();
        cancelled.store(true, Relaxed);
        // Ends the threads that wait for room.
        drop(finished);
        result
    })
}
