//! Simulations in a ring: one lane for each seed and symbol.

use backcast_core::{
    AutoresetMode, Base, DType, Exist, Filling, Ring, RingOptions, Schema, StepColumns,
    WriterOptions,
};

use super::series::{CANDLE, Series, SeriesPlan};
use super::simulate::simulate;
use super::{Args, RecordError, Recorded};
use crate::cli::watch::Watch;

pub(super) fn record(
    name: &str,
    base: &Base,
    args: &Args,
    plan: &SeriesPlan,
    watch: &Watch,
) -> Result<Recorded, RecordError> {
    let schema = schema(plan);
    let lanes = args.seeds * u32::from(args.symbols);
    let exist = if args.replace { Exist::Replace } else { Exist::Error };
    let options = RingOptions::with_capacity(plan.candles * u64::from(lanes))
        .lanes(lanes)
        .exist(exist)
        .persistent(true)
        .base(base.clone());
    let ring = Ring::restore(name, &schema, options, |filling| {
        simulate(args, plan, watch, |number, series| {
            let written = write(&schema, plan, args.first_seed + u64::from(number), series)?;
            copy(&written, filling, number * u32::from(args.symbols))
        })
    })?;
    let stats = ring.stats();
    Ok(Recorded {
        path: stats.path.clone(),
        rows: stats.lane_stats.iter().map(|lane| lane.rows).sum(),
        transitions: Some(stats.transitions),
        size_bytes: stats.bytes_allocated,
    })
}

fn schema(plan: &SeriesPlan) -> Schema {
    let shape = |numbers: usize| [u32::try_from(numbers).unwrap_or(u32::MAX)];
    let mut schema = Schema::builder().column("obs/candle", DType::F32, &shape(CANDLE));
    if plan.width() > 0 {
        schema = schema.column("obs/features", DType::F32, &shape(plan.width()));
    }
    let schema = schema.column("seed", DType::U64, &[]).build();
    schema.unwrap_or_else(|error| unreachable!("fixed names and shapes: {error}"))
}

/// Writes one simulation into a ring of its own, as the steps of one truncated episode in each of
/// its lanes.
fn write(
    schema: &Schema,
    plan: &SeriesPlan,
    seed: u64,
    series: &Series,
) -> Result<Ring, RecordError> {
    let symbols = plan.symbols();
    let rows = series.candles.len() / CANDLE;
    let lanes = u32::from(plan.config.symbols);
    let options = RingOptions::with_capacity(rows as u64).lanes(lanes);
    let ring = Ring::heap(schema, options).map_err(|error| RecordError::Restore(error.into()))?;
    let options = WriterOptions::lanes(lanes).autoreset(AutoresetMode::Disabled);
    let mut writer = ring.writer(options)?;
    // A step ends at the next candle, so no step begins at the last one.
    let steps = rows - symbols;
    let seeds = vec![seed; steps];
    let ended = vec![false; steps];
    let mut cut = vec![false; steps];
    cut[steps - symbols..].fill(true);
    let width = plan.width();
    let [candles, features] = [(&series.candles, CANDLE), (&series.features, width)]
        .map(|(values, width)| (&values[..steps * width], &values[symbols * width..]));
    let mut columns = StepColumns::of(schema)
        .with("obs/candle", candles.0)?
        .with("seed", &seeds)?
        .with_next("obs/candle", candles.1)?;
    if width > 0 {
        columns =
            columns.with("obs/features", features.0)?.with_next("obs/features", features.1)?;
    }
    writer.extend(&columns.step(&ended, &cut)?)?;
    drop(writer);
    Ok(ring)
}

/// Copies all lanes of `from`, the first one to lane `lane`.
fn copy(from: &Ring, filling: &mut Filling<'_>, lane: u32) -> Result<(), RecordError> {
    for at in 0..from.lanes() {
        let span = from.lane_span(at).unwrap_or_default();
        let rows = from.rows(at, span.clone())?;
        let columns: Vec<&[u8]> =
            rows.columns().iter().filter_map(|column| rows.bytes(column.name())).collect();
        filling.begin(lane + at, span.clone())?;
        filling.rows(lane + at, span.end - span.start, &columns)?;
    }
    Ok(())
}
