//! Columns that a table lacks, computed from the others.

use crate::{
    blocks::{PanelShape, is_marked, unmark_listed},
    options::PanelOptions,
    symbols::PriceColumn::{Close, High, Low, Open, Volume},
};

/// A row whose given high or low contradicts the other one, which is derived.
pub(crate) struct Contradiction {
    pub(crate) ticker: usize,
    pub(crate) day: usize,
    pub(crate) high: f64,
    pub(crate) low: f64,
}

/// Computes the derived columns of a dense table. With a derived open, the first row of each ticker
/// becomes absent, since no close before it is known. Refuses a row whose high is below its low.
pub(crate) fn derive(
    options: &PanelOptions,
    shape: &PanelShape,
    values: &mut [f64],
    listed: &mut [u64],
) -> Result<(), Contradiction> {
    if options.derived.is_empty() {
        return Ok(());
    }
    let stride = shape.listed_stride();
    for (ticker, marks) in listed.chunks_exact_mut(stride).enumerate() {
        let mut before = None;
        for day in 0..shape.days {
            if !is_marked(marks, day) {
                continue;
            }
            let start = shape.row(ticker, day);
            let row = &mut values[start..start + shape.columns];
            let close = row[Close as usize];
            if options.derives(Open) {
                let Some(open) = before.replace(close) else {
                    row.fill(0.0);
                    unmark_listed(marks, day);
                    continue;
                };
                row[Open as usize] = open;
            }
            let open = row[Open as usize];
            for (column, value) in [(High, open.max(close)), (Low, open.min(close)), (Volume, 0.0)]
            {
                if options.derives(column) {
                    row[column as usize] = value;
                }
            }
            let (high, low) = (row[High as usize], row[Low as usize]);
            if high < low {
                return Err(Contradiction { ticker, day, high, low });
            }
        }
    }
    Ok(())
}
