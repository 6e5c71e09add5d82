//! Steps and observations that were made for another schema than the ring's.

use backcast_core::{
    AppendError, AutoresetMode, DType, Ends, ObsBytes, RateLimiter, Ring, RingOptions, Role,
    Schema, Step, StepColumns, Writer, WriterOptions,
};

type ColumnSpec = (&'static str, DType, &'static [u32], Role);

const OBS: ColumnSpec = ("obs", DType::F32, &[2], Role::Obs);
const REWARD: ColumnSpec = ("reward", DType::F32, &[2], Role::Step);

fn schema(columns: &[ColumnSpec]) -> Schema {
    let add = |builder: backcast_core::SchemaBuilder, (name, dtype, shape, role): &ColumnSpec| {
        builder.column_as(name, *dtype, shape, *role)
    };
    columns.iter().fold(Schema::builder(), add).build().unwrap()
}

/// Returns schemas whose rows have the same widths as those of `[OBS, REWARD]`, each with words of
/// both columns that differ.
fn others() -> [(Schema, [&'static str; 2]); 5] {
    [
        (schema(&[REWARD, OBS]), ["`reward` (f4[2], role step)", "`obs` (f4[2], role obs)"]),
        (
            schema(&[OBS, ("reward", DType::I32, &[2], Role::Step)]),
            ["`reward` (i4[2], role step)", "`reward` (f4[2], role step)"],
        ),
        (
            schema(&[("obs", DType::F32, &[2, 1], Role::Obs), REWARD]),
            ["`obs` (f4[2, 1], role obs)", "`obs` (f4[2], role obs)"],
        ),
        (
            schema(&[("obs", DType::F32, &[2], Role::Step), REWARD]),
            ["`obs` (f4[2], role step)", "`obs` (f4[2], role obs)"],
        ),
        (
            schema(&[OBS, ("rewards", DType::F32, &[2], Role::Step)]),
            ["`rewards` (f4[2], role step)", "`reward` (f4[2], role step)"],
        ),
    ]
}

fn rings() -> [Ring; 3] {
    let schema = schema(&[OBS, REWARD]);
    let limited = RingOptions::with_capacity(100).limiter(RateLimiter::min_size(1));
    [
        Ring::heap(&schema, RingOptions::with_capacity(100)).unwrap(),
        Ring::heap(&schema, limited).unwrap(),
        Ring::heap(&schema, RingOptions::with_capacity(100).lanes(3)).unwrap(),
    ]
}

/// Calls `work` with one step of every lane, or more, of a schema: it has an end, or not.
fn with_step<R>(schema: &Schema, rows: usize, ends: bool, work: impl FnOnce(&Step<'_>) -> R) -> R {
    let bytes = vec![7_u8; 8 * rows];
    let obs: Vec<&[u8]> =
        schema.columns().iter().filter(|c| c.role() == Role::Obs).map(|_| &bytes[..]).collect();
    work(&Step {
        schema,
        columns: &[&bytes, &bytes],
        terminated: &vec![ends; rows],
        truncated: &vec![false; rows],
        next_obs: ends.then_some(&obs),
        final_obs: ends.then_some(&obs),
    })
}

fn assert_refused<T: std::fmt::Debug>(outcome: Result<T, AppendError>, says: [&str; 2]) {
    let error = outcome.unwrap_err();
    let AppendError::OtherSchema { step, ring, .. } = &error else { panic!("{error}") };
    assert_eq!([step, ring], says, "{error}");
}

fn heads(ring: &Ring) -> Vec<u64> {
    (0..ring.lanes()).map(|lane| ring.lane_span(lane).unwrap().end).collect()
}

#[test]
fn a_step_of_another_schema_is_refused_by_every_append_and_changes_nothing() {
    for ring in rings() {
        let mode = WriterOptions::lanes(ring.lanes()).autoreset(AutoresetMode::Disabled);
        let (mut writer, lanes) = (ring.writer(mode).unwrap(), ring.lanes() as usize);
        let own = ring.schema().clone();
        with_step(&own, lanes, false, |step| writer.append(step).map(drop)).unwrap();
        for (other, says) in others() {
            let before = (heads(&ring), writer.rows_written(), ring.stats().lane_stats);
            for ends in [false, true] {
                let append = |writer: &mut Writer| {
                    with_step(&other, lanes, ends, |step| writer.append(step).map(<[_]>::to_vec))
                };
                assert_refused(append(&mut writer), says);
                let extend = |writer: &mut Writer| {
                    with_step(&other, 5 * lanes, ends, |steps| {
                        writer.extend(steps).map(<[_]>::to_vec)
                    })
                };
                assert_refused(extend(&mut writer), says);
            }
            assert_eq!((heads(&ring), writer.rows_written(), ring.stats().lane_stats), before);
        }
        with_step(&own, lanes, true, |step| writer.append(step).map(drop)).unwrap();
        with_step(&own, 5 * lanes, false, |steps| writer.extend(steps).map(drop)).unwrap();
    }
}

#[test]
fn typed_columns_of_another_schema_are_refused() {
    let ring = Ring::heap(&schema(&[OBS, REWARD]), RingOptions::with_capacity(100)).unwrap();
    let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
    let swapped = schema(&[REWARD, OBS]);
    let columns = StepColumns::of(&swapped).with("obs", &[1.0_f32, 2.0]).unwrap();
    let columns = columns.with("reward", &[3.0_f32, 4.0]).unwrap();
    let step = columns.step(&[false], &[false]).unwrap();
    let says = ["`reward` (f4[2], role step)", "`obs` (f4[2], role obs)"];
    assert_refused(writer.append(&step).map(<[_]>::to_vec), says);
    // Another value of an equal schema is the ring's.
    let equal = schema(&[OBS, REWARD]);
    let columns = StepColumns::of(&equal).with("reward", &[3.0_f32, 4.0]).unwrap();
    let columns = columns.with("obs", &[1.0_f32, 2.0]).unwrap();
    writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
    assert_eq!(ring.rows(0, 0..1).unwrap().column::<f32>("obs").unwrap(), [1.0, 2.0]);
}

#[test]
fn the_observations_of_a_reserved_row_carry_their_schema() {
    let ring = Ring::heap(&schema(&[OBS, REWARD]), RingOptions::with_capacity(100)).unwrap();
    let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
    for (other, says) in others() {
        let obs = ObsBytes { schema: &other, columns: &[&[7; 8]] };
        for (next_obs, final_obs) in [(Some(obs), None), (None, Some(obs))] {
            let mut row = writer.reserve().unwrap();
            row.column("obs").unwrap().write(&[1.0_f32, 2.0]).unwrap();
            row.column("reward").unwrap().write(&[1.0_f32, 2.0]).unwrap();
            let ends = Ends { terminated: true, truncated: false, next_obs, final_obs };
            assert_refused(row.commit_with(&ends), says);
            assert_eq!(heads(&ring), [0]);
        }
    }
}
