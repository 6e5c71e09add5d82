//! Tables of a ring, of any kind: those that cannot be opened, those that are locked, and removal.

use std::thread;
use std::time::Duration;

use backcast_layout::UnreadableTable;

use super::Ring;
use crate::error::{RingError, TableError};
use crate::table_lock::{self, LockLimits};

/// Checks of a lock before its table counts as locked, and the pause between two. A change takes
/// microseconds.
const LOOKS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(2);

/// A table that some process keeps locked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockedTable {
    /// Name of the table.
    pub table: String,
    /// Processes that hold its lock, where the system reports them.
    pub pids: Vec<u32>,
}

impl Ring {
    /// Returns the tables that cannot be opened, by name, with the error of each: damaged ones, and
    /// those of another ring or version. Rows are not affected. See
    /// [`remove_table`](Self::remove_table). Fails if the directory of the ring cannot be listed.
    pub fn unreadable_tables(&self) -> Result<Vec<UnreadableTable>, RingError> {
        Ok(self.store().unreadable_tables()?)
    }

    /// Returns the tables that a process keeps locked, by name. A change locks a table for
    /// microseconds; a process that is stopped in the middle of one keeps it locked. Takes some
    /// milliseconds if there is one. Fails if the directory of the ring cannot be listed.
    pub fn locked_tables(&self) -> Result<Vec<LockedTable>, RingError> {
        let store = self.store();
        let stays_locked = |table: &String| {
            (0..LOOKS).all(|look| {
                if look > 0 {
                    thread::sleep(PAUSE);
                }
                store.table_is_locked(table)
            })
        };
        let locked = store.table_names()?.into_iter().filter(stays_locked);
        let holders = |table: String| LockedTable { pids: store.table_holders(&table), table };
        Ok(locked.map(holders).collect())
    }

    /// Removes a table of priorities, claims or learned columns, damaged or not. The ring and its
    /// other tables are not affected, and the next sampler that names the table makes it anew.
    /// Handles in any process that have it open keep its memory, and their updates and draws fail
    /// from then on.
    ///
    /// Waits at most `limit`, or 100 ms if that is longer, for a process that has the table locked.
    /// `force` removes it all the same; a table of that name can be made again once that process
    /// continues or has ended.
    pub fn remove_table(
        &self,
        table: &str,
        limit: Duration,
        force: bool,
    ) -> Result<(), TableError> {
        let limits = LockLimits::within(Some(limit), self.interrupt());
        table_lock::locked(self.store(), table, &limits, || {
            Ok(self.store().try_remove_table(table, force)?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Base, DType, LearnedError, LearnedOptions, PriorityError, PriorityOptions, RingOptions,
        SampleError, SamplerOptions, Schema, SegmentError, Selector, StepColumns, TableOptions,
        Writer, WriterOptions,
    };

    fn append(writer: &mut Writer) {
        let schema = writer.schema().clone();
        let columns = StepColumns::of(&schema).with("obs", &[7_u8]).unwrap();
        writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
    }

    /// Returns a sampler of each kind of table, by the name of its table.
    fn specs() -> Vec<(&'static str, SamplerOptions)> {
        let priorities = |table: &str| PriorityOptions::alpha(0.6).table(table);
        let by = |selector| SamplerOptions::seeded(1).selector(selector);
        let learned = LearnedOptions::new("learned").column("value", DType::F32);
        vec![
            ("weights", by(Selector::Priority(priorities("weights")))),
            ("largest", by(Selector::MaxPriority(priorities("largest")))),
            ("epoch", by(Selector::Table(TableOptions::epoch("epoch")))),
            ("queue", by(Selector::Table(TableOptions::consume("queue")))),
            ("learned", SamplerOptions::seeded(1).learned(learned)),
        ]
    }

    /// Returns the table that an error says was removed.
    fn removed_table(error: &SampleError) -> Option<&str> {
        let (SampleError::Segment(cause)
        | SampleError::Table(TableError::Segment(cause))
        | SampleError::Priority(PriorityError::Segment(cause))
        | SampleError::Learned(LearnedError::Segment(cause))) = error
        else {
            return None;
        };
        match cause {
            SegmentError::TableRemoved { table } => Some(table),
            _ => None,
        }
    }

    #[test]
    fn draws_from_a_removed_table_fail_without_new_rows() {
        let dir = tempfile::tempdir().unwrap();
        let schema = Schema::builder().column("obs", DType::U8, &[]).build().unwrap();
        let options = || RingOptions::with_capacity(100);
        let mut rings = vec![Ring::heap(&schema, options()).unwrap()];
        let base = Base::at(dir.path());
        rings.push(Ring::create("files", &schema, options().base(base.clone())).unwrap());
        if cfg!(target_os = "linux") {
            let options = options().base(base.clone()).memfd(true);
            rings.push(Ring::create("memfds", &schema, options).unwrap());
        }
        for ring in &rings {
            let place = ring.name().unwrap_or("the heap");
            let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
            for _ in 0..60 {
                append(&mut writer);
            }
            // The handle of another process, which does not know of the samplers.
            let remover = match ring.name() {
                Some(name) => Ring::attach_in(&base, name).unwrap(),
                None => ring.clone(),
            };
            let mut uniform = ring.sampler(SamplerOptions::seeded(1)).unwrap();
            let mut samplers: Vec<_> = specs()
                .into_iter()
                .map(|(table, spec)| (table, ring.sampler(spec).unwrap()))
                .collect();
            for (_, sampler) in &mut samplers {
                sampler.set_timeout(Some(Duration::ZERO));
                sampler.sample(4).unwrap();
            }
            for at in 0..samplers.len() {
                let (table, sampler) = &mut samplers[at];
                remover.remove_table(table, Duration::ZERO, false).unwrap();
                let made = specs().swap_remove(at).1;
                let mut made_anew = None;
                for look in ["without a table of the name", "with a new one"] {
                    let refused = sampler.sample(4).unwrap_err();
                    assert_eq!(removed_table(&refused), Some(*table), "{place}, {look}: {refused}");
                    let refused = sampler.gather(&[3]).unwrap_err();
                    assert_eq!(removed_table(&refused), Some(*table), "{place}, {look}: {refused}");
                    made_anew.get_or_insert_with(|| ring.sampler(made.clone()).unwrap());
                }
                let mut made_anew = made_anew.unwrap();
                made_anew.set_timeout(Some(Duration::ZERO));
                made_anew.sample(4).unwrap();
                for (table, sampler) in samplers.iter_mut().skip(at + 1) {
                    let drawn = sampler.sample(4);
                    assert!(drawn.is_ok(), "{place}: `{table}` is there, and {:?}", drawn.err());
                }
                uniform.sample(4).unwrap();
            }
            append(&mut writer);
            assert_eq!(ring.len(), 60, "{place}: writers go on");
        }
    }
}
