//! Tables that a snapshot lacks, or the rate limiter.

use std::fmt;

use backcast_core::{LearnedError, LimiterError, PriorityError, SegmentError};

use crate::error::SaveError;

/// Value of [`LeftOutTable::table`] for the rate limiter.
pub(crate) const LIMITER: &str = "ring.lim";

/// A table of the ring, or its rate limiter, that a snapshot lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutTable {
    /// Name of the table, or `ring.lim` for the rate limiter.
    pub table: String,
    /// Reason: the process that has it locked, or the error of reading it.
    pub reason: String,
}

impl fmt::Display for LeftOutTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { table, reason } = self;
        f.write_str("the snapshot has all rows, but not the ")?;
        match table.as_str() {
            LIMITER => write!(f, "limiter: {reason}"),
            table => write!(f, "table `{table}`: {reason}"),
        }
    }
}

/// Collects the tables that a snapshot lacks.
#[derive(Debug, Default)]
pub(crate) struct UnsavedParts(Vec<LeftOutTable>);

impl UnsavedParts {
    /// Returns the state of a table. Returns `None` and lists the table if the error is about this
    /// one table: it is locked, damaged or unreadable. Fails with any other error.
    pub(crate) fn unless_read<T, E: TableFailure>(
        &mut self,
        table: String,
        state: Result<T, E>,
    ) -> Result<Option<T>, SaveError> {
        match state {
            Ok(state) => Ok(Some(state)),
            Err(error) if error.is_of_table() => {
                self.0.push(LeftOutTable { table, reason: error.to_string() });
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Adds the tables of another list, and returns all in the order of their names. A table whose
    /// kind cannot be read is listed under every kind, and returned once.
    pub(crate) fn and(mut self, other: Self) -> Vec<LeftOutTable> {
        self.0.extend(other.0);
        self.0.sort_by(|a, b| a.table.cmp(&b.table));
        self.0.dedup_by(|a, b| a.table == b.table);
        self.0
    }
}

/// Error of reading a table.
pub(crate) trait TableFailure: fmt::Display + Into<SaveError> {
    /// Returns whether the error is about this one table.
    fn is_of_table(&self) -> bool;
}

impl TableFailure for PriorityError {
    fn is_of_table(&self) -> bool {
        match self {
            Self::Lock(_) => true,
            Self::Segment(error) => error.is_of_table(),
            _ => false,
        }
    }
}

impl TableFailure for LearnedError {
    fn is_of_table(&self) -> bool {
        match self {
            Self::Lock(_) => true,
            Self::Segment(error) => error.is_of_table(),
            _ => false,
        }
    }
}

impl TableFailure for LimiterError {
    fn is_of_table(&self) -> bool {
        if let Self::Segment(error) = self { error.is_of_table() } else { true }
    }
}

impl TableFailure for SegmentError {
    fn is_of_table(&self) -> bool {
        // If the process ran out of something, the table may be whole.
        !self.is_of_process()
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use rustix::io::Errno;

    use super::*;

    fn of(errno: Errno) -> SegmentError {
        let (path, source) = ("table-p.dat".into(), io::Error::from(errno));
        SegmentError::Io { operation: "open", path, source }
    }

    /// Returns the names that are left out, or the error of the save.
    fn left_out<E: TableFailure>(error: E) -> Result<Vec<String>, String> {
        let mut left_out = UnsavedParts::default();
        let state = left_out.unless_read::<(), E>("p".to_owned(), Err(error));
        let state = state.map_err(|error| error.to_string())?;
        assert_eq!(state, None);
        Ok(left_out.and(UnsavedParts::default()).into_iter().map(|one| one.table).collect())
    }

    #[test]
    fn what_the_process_ran_out_of_fails_the_save_and_an_error_of_one_table_does_not() {
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::INTR] {
            for found in [
                left_out(of(errno)),
                left_out(PriorityError::from(of(errno))),
                left_out(LearnedError::from(of(errno))),
                left_out(LimiterError::from(of(errno))),
            ] {
                let told = found.unwrap_err();
                assert!(told.contains("table-p.dat"), "{errno}: {told}");
            }
        }
        for errno in [Errno::IO, Errno::ACCESS, Errno::STALE] {
            for found in [
                left_out(of(errno)),
                left_out(PriorityError::from(of(errno))),
                left_out(LearnedError::from(of(errno))),
            ] {
                assert_eq!(found, Ok(vec!["p".to_owned()]), "{errno}");
            }
        }
        assert_eq!(left_out(LimiterError::Damaged), Ok(vec!["p".to_owned()]));
    }

    #[test]
    fn the_limiter_is_not_called_a_table() {
        let said = |table: &str| {
            let (table, reason) = (table.to_owned(), "it is damaged".to_owned());
            LeftOutTable { table, reason }.to_string()
        };
        assert!(said("p").contains("`p`") && said("p").contains("it is damaged"), "{}", said("p"));
        assert!(!said(LIMITER).contains(LIMITER) && !said(LIMITER).contains('`'));
    }

    #[test]
    fn a_table_of_an_unknown_kind_is_named_once() {
        let list = |names: &[&str]| {
            let mut list = UnsavedParts::default();
            for name in names {
                list.unless_read::<(), _>((*name).to_owned(), Err(of(Errno::IO))).unwrap();
            }
            list
        };
        let names: Vec<String> =
            list(&["b", "a"]).and(list(&["b"])).into_iter().map(|one| one.table).collect();
        assert_eq!(names, ["a", "b"]);
    }
}
