//! Makes a ring of one lane from NumPy's `.npz`: arrays of plain steps with one row per step.

mod archive;
mod npy;
mod steps;

use std::ops::Range;
use std::path::Path;

use backcast_core::{Capacity, Ring, RingOptions};

use self::steps::Steps;
use crate::error::ImportError;
use crate::options::{ImportOptions, make_ring};
use crate::report::ImportReport;
use crate::rows::{EpisodeRows, Sink};

/// Makes a ring from the steps in the file `from`.
pub(crate) fn read(
    from: &Path,
    options: ImportOptions<'_>,
) -> Result<(Ring, ImportReport), ImportError> {
    let steps = Steps::of(from, archive::arrays(from, &options.leave_out)?)?;
    let episodes: Vec<Range<usize>> = steps.episodes();
    let rows: u64 = episodes.iter().map(|range| steps.rows_of(range)).sum();
    if options.capacity.is_some_and(|asked| asked < rows) {
        let asked = options.capacity.unwrap_or_default();
        return Err(ImportError::Capacity { asked, rows });
    }
    let capacity = options.capacity.unwrap_or(rows).max(1);
    let made = options.placement.apply(RingOptions::with_capacity(Capacity::Rows(capacity)));
    let mut on_progress = options.progress;
    let ring = make_ring(options.name.as_deref(), &steps.schema, made, |filling| {
        filling.begin(0, 0..rows)?;
        let mut sink = Sink::new(filling, &steps.schema, rows, &mut on_progress);
        let mut put = EpisodeRows::new(&steps.schema);
        let mut after_gap = false;
        for (number, range) in (0..).zip(&episodes) {
            steps.with_episode(range, after_gap, |episode| put.put(number, episode, &mut sink))?;
            after_gap = !steps.has_final(range);
            sink.step()?;
        }
        Ok::<(), ImportError>(())
    })?;
    let open_ends = episodes.iter().filter(|range| !steps.has_final(range)).count();
    let cut = steps.jumps.iter().filter(|jumps| **jumps).count();
    Ok((
        ring,
        ImportReport {
            rows,
            episodes: Some(episodes.len() as u64),
            rows_without_successor: open_ends as u64,
            episodes_cut: cut as u64,
            ..ImportReport::default()
        },
    ))
}
