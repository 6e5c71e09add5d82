//! Steps that do not fit the schema or the writer's mode.

use backcast_core::{AppendError, DType, Schema, Step, StepColumns, Writer};

use crate::refusals::stage::{Stage, schema};
use crate::refusals::{Refusal, Row, refusal, row};

pub(crate) const ROWS: &[Row] = &[
    row("a missing column", |_| built(&[0.0; 2], None), "MissingColumn", &["`action`", "every"]),
    row(
        "a column of another type",
        |_| built(&[0.0; 2], Some(&[0])),
        "WrongDType",
        &["`action`", "i4", "i8", "convert"],
    ),
    row(
        "a misspelt column",
        |_| refusal(StepColumns::of(&schema()).with("actoin", &[0_i32])),
        "UnknownColumn",
        &["`actoin`", "obs, action"],
    ),
    row(
        "a final observation of a step column",
        |_| refusal(StepColumns::of(&schema()).with_final("action", &[0_i32])),
        "UnknownColumn",
        &["`final_obs/action`", "obs"],
    ),
    row(
        "a step of another schema",
        other_schema,
        "OtherSchema",
        &["column 0", "`action` (i4[], role step)", "`obs` (f4[2], role obs)", "of the writer"],
    ),
    row(
        "a column of more lanes",
        |s| step(s, &[0; 16], &[0; 4]),
        "WrongSize",
        &["16", "8", "`obs`"],
    ),
    row(
        "a column of no lanes",
        |s| step(s, &[0; 8], &[]),
        "WrongSize",
        &["`action`", "4", "lanes"],
    ),
    row(
        "columns left out",
        |s| columns(s, &[&[0; 8]]),
        "WrongColumnCount",
        &["1", "2", "in order"],
    ),
    row(
        "columns too many",
        |s| columns(s, &[&[0; 8], &[0; 4], &[0; 4]]),
        "WrongColumnCount",
        &["3", "2"],
    ),
    row(
        "a flag left out",
        |s| ends(&mut s.next_step, &[], &[false], None),
        "WrongFlags",
        &["`terminated`", "0", "1 lane", "one per lane"],
    ),
    row(
        "a flag too many",
        |s| ends(&mut s.next_step, &[false], &[false; 2], None),
        "WrongFlags",
        &["`truncated`", "2", "1 lane", "one per lane"],
    ),
    row(
        "an end without its final observation",
        |s| ends(&mut s.same_step, &[true], &[false], None),
        "MissingFinalObs",
        &["lane 0", "same_step", "give `final_obs`", "disabled"],
    ),
    row(
        "a final observation in next-step mode",
        |s| ends(&mut s.next_step, &[true], &[false], Some(&[&[0; 8]])),
        "UnexpectedFinalObs",
        &["next_step", "autoreset_mode \"same_step\""],
    ),
    row(
        "a final observation of two columns",
        |s| ends(&mut s.same_step, &[true], &[false], Some(&[&[0; 8], &[0; 8]])),
        "WrongObsCount",
        &["2", "1", "role obs"],
    ),
    row(
        "a final observation too short",
        |s| ends(&mut s.same_step, &[true], &[false], Some(&[&[0; 4]])),
        "WrongSize",
        &["`obs`", "8", "4"],
    ),
    row(
        "a restart of other lanes",
        |s| refusal(s.next_step.restart(&[true, true])),
        "WrongFlags",
        &["`lanes`", "2", "1 lane", "one per lane"],
    ),
];

fn built(obs: &[f32], action: Option<&[i64]>) -> Option<Refusal> {
    let schema = schema();
    let build = || {
        let mut columns = StepColumns::of(&schema).with("obs", obs)?;
        if let Some(action) = action {
            columns = columns.with("action", action)?;
        }
        columns.step(&[false], &[false]).map(|_| ())
    };
    refusal(build())
}

fn other_schema(stage: &mut Stage) -> Option<Refusal> {
    let other = Schema::builder().column("action", DType::I32, &[]);
    let other = other.column("obs", DType::F32, &[2]).build().unwrap();
    let columns = StepColumns::of(&other).with("action", &[1_i32]).unwrap();
    let columns = columns.with("obs", &[0.0_f32; 2]).unwrap();
    let step = columns.step(&[false], &[false]).unwrap();
    refusal(stage.next_step.append(&step).map(<[_]>::to_vec))
}

fn columns(stage: &mut Stage, columns: &[&[u8]]) -> Option<Refusal> {
    append(&mut stage.next_step, columns, &[false], &[false], None)
}

fn step(stage: &mut Stage, obs: &[u8], action: &[u8]) -> Option<Refusal> {
    columns(stage, &[obs, action])
}

fn ends(
    writer: &mut Writer,
    terminated: &[bool],
    truncated: &[bool],
    final_obs: Option<&[&[u8]]>,
) -> Option<Refusal> {
    append(writer, &[&[0; 8], &[0; 4]], terminated, truncated, final_obs)
}

fn append(
    writer: &mut Writer,
    columns: &[&[u8]],
    terminated: &[bool],
    truncated: &[bool],
    final_obs: Option<&[&[u8]]>,
) -> Option<Refusal> {
    let schema = schema();
    let step = Step { schema: &schema, columns, terminated, truncated, next_obs: None, final_obs };
    let outcome: Result<_, AppendError> = writer.append(step);
    refusal(outcome.map(<[_]>::to_vec))
}
