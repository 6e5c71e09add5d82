//! Simulations as a Parquet panel: one ticker for each seed and symbol.

use std::path::Path;

use backcast_files::write_atomically;
use backcast_market::{PanelFileWriter, PanelWriteError, TickerDays};

use super::series::{CANDLE, Series, SeriesPlan};
use super::simulate::simulate;
use super::{Args, RecordError, Recorded, check_free};
use crate::cli::watch::Watch;

/// Day of the first candle: 2000-01-01, in days since 1970-01-01.
const FIRST_DAY: i32 = 10_957;

pub(super) fn record(
    path: &Path,
    args: &Args,
    plan: &SeriesPlan,
    watch: &Watch,
) -> Result<Recorded, RecordError> {
    check_free(path, args.replace)?;
    let failed = |source: PanelWriteError| RecordError::Panel { path: path.to_owned(), source };
    let names: Vec<&str> = plan.feature_names().collect();
    let mut rows = 0;
    let written = write_atomically(path, |out| {
        let mut file = PanelFileWriter::new(out, &names).map_err(failed)?;
        simulate(args, plan, watch, |number, series| {
            for symbol in 0..plan.symbols() {
                let ticker = ticker(args, number, symbol);
                let columns = columns(series, plan, symbol);
                let days = TickerDays { ticker: &ticker, first_day: FIRST_DAY, columns: &columns };
                file.append(days).map_err(failed)?;
            }
            Ok(())
        })?;
        rows = file.finish().map_err(failed)?;
        Ok(())
    });
    written.map_err(|error| match error {
        RecordError::Panel { source, .. } => failed(source),
        error => error,
    })?;
    let size_bytes = path.metadata().map_or(0, |file| file.len());
    Ok(Recorded { path: Some(path.to_owned()), rows, transitions: None, size_bytes })
}

/// Returns the name of a symbol: `seed7`, or `seed7-0` where there are several. Numbers have equal
/// lengths, so that tickers sort by number.
fn ticker(args: &Args, number: u32, symbol: usize) -> String {
    let seed = args.first_seed + u64::from(number);
    let digits = (args.first_seed + u64::from(args.seeds - 1)).to_string().len();
    if args.symbols == 1 {
        return format!("seed{seed:0digits$}");
    }
    let of_symbol = (args.symbols - 1).to_string().len();
    format!("seed{seed:0digits$}-{symbol:0of_symbol$}")
}

/// Returns the columns of one symbol, day by day.
fn columns(series: &Series, plan: &SeriesPlan, symbol: usize) -> Vec<Vec<f64>> {
    let of = |values: &[f32], width: usize, at: usize| -> Vec<f64> {
        let rows = values.chunks_exact(width).skip(symbol).step_by(plan.symbols());
        // Parses the shortest decimal, so that a price of 99.98 is 99.98 in double precision too.
        rows.map(|row| row[at].to_string().parse().unwrap_or(f64::NAN)).collect()
    };
    let candles = (0..CANDLE).map(|at| of(&series.candles, CANDLE, at));
    let width = plan.width();
    let features = (0..width).map(|at| of(&series.features, width, at));
    candles.chain(features).collect()
}
