//! Tables of a ring, of any kind: those that cannot be opened, those that are locked, and removal.

use std::thread;
use std::time::Duration;

use backcast_layout::UnreadableTable;

use super::Ring;
use crate::error::{RingError, TableError};
use crate::table_lock::{self, LockLimits};

/// Looks at a lock before a table counts as locked, and the pause between them. A change takes
/// microseconds.
const LOOKS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(2);

/// A table that some process keeps locked.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// Handles in any process that have it open keep its memory: an update, and a draw that enters
    /// new rows or begins a pass, fails from then on.
    ///
    /// Waits at most `limit` for a process that has the table locked. `force` removes it all the
    /// same; a table of that name can be made again once that process continues or has ended.
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
