//! Draws, gathers, reads and waits that cannot be served.

use std::time::Duration;

use backcast_core::{ColumnWindow, ColumnWindows, RowIndex, SamplerOptions};

use crate::refusals::stage::{KEPT, Stage};
use crate::refusals::{Refusal, Row, refusal, row};

pub(crate) const ROWS: &[Row] = &[
    row(
        "a history of nothing",
        |s| windows(s, |o| o.history(0)),
        "EmptyWindow",
        &["history is 0", "at least 1", "leave history out"],
    ),
    row(
        "a history longer than a lane",
        |s| windows(s, |o| o.history(60)),
        "BadWindow",
        &["history 60", "61 rows", "50", "larger capacity"],
    ),
    row(
        "a future longer than a lane",
        |s| windows(s, |o| o.future(49)),
        "BadWindow",
        &["future 49", "51 rows", "50", "shorter"],
    ),
    row(
        "a return longer than a lane",
        |s| windows(s, |o| o.n_step(50).gamma(0.9)),
        "BadWindow",
        &["n_step 50", "51 rows", "50", "shorter"],
    ),
    row(
        "a return without its discount",
        |s| windows(s, |o| o.n_step(3)),
        "BadGamma",
        &["n_step 3", "give gamma", "0 to 1"],
    ),
    row(
        "a discount of nothing",
        |s| windows(s, |o| o.gamma(0.9)),
        "BadGamma",
        &["gamma 0.9", "give n_step"],
    ),
    row(
        "a discount above one",
        |s| windows(s, |o| o.n_step(3).gamma(99.0)),
        "BadGamma",
        &["is 99", "0 to 1"],
    ),
    row(
        "a return without rewards",
        |s| windows(s, |o| o.n_step(3).gamma(0.9)),
        "BadReward",
        &["`reward`", "none among obs", "create the ring with"],
    ),
    row(
        "a return discounted by no column",
        |s| windows(s, |o| o.n_step(3).discount_column()),
        "BadReward",
        &["`reward`", "none among obs"],
    ),
    row(
        "a window of no column",
        |s| columns(s, ColumnWindows::default().column("reward", ColumnWindow::First)),
        "UnknownColumn",
        &["`reward`", "obs, action, terminated, truncated", "\"*\""],
    ),
    row(
        "windows of no column at all",
        |s| columns(s, ColumnWindows::default()),
        "NoColumns",
        &["no column is selected", "name one"],
    ),
    row(
        "a window by column that is empty",
        |s| columns(s, ColumnWindows::default().rest(ColumnWindow::History(0))),
        "EmptyWindow",
        &["history is 0", "at least 1"],
    ),
    row(
        "a draw from an empty ring",
        |s| refusal(s.empty_sampler.sample(1)),
        "Empty",
        &["no transition yet", "0 rows", "`wait`"],
    ),
    row(
        "a batch of nothing",
        |s| refusal(s.sampler.sample(0)),
        "BadBatchSize",
        &["is 0", "from 1"],
    ),
    row(
        "a batch beyond counting",
        |s| refusal(s.sampler.sample(1 << 40)),
        "BadBatchSize",
        &["1099511627776", "16777216"],
    ),
    row(
        "a gather of nothing",
        |s| gather(s, &[]),
        "BadIndexCount",
        &["index names 0 transitions", "from 1 to 16777216"],
    ),
    row(
        "an index that was overwritten",
        |s| gather(s, &[index(0, 100), index(0, 0)]),
        "Lapped",
        &["index[1]", "lane 0, row 0", "oldest row is 70", "larger capacity"],
    ),
    row(
        "an index of the newest row",
        |s| gather(s, &[index(0, 119)]),
        "BadIndex",
        &["index[0]", "row 119", "newest row of its lane", "gather"],
    ),
    row("an index not yet published", |s| gather(s, &[index(0, 120)]), "BadIndex", &["row 120"]),
    row(
        "an index of no lane",
        |s| gather(s, &[index(9, 0)]),
        "BadIndex",
        &["lane 9", "fewer lanes"],
    ),
    row("a negative index", |s| gather(s, &[-1]), "BadIndex", &["-1", "row that was dropped"]),
    row("rows of no lane", |s| refusal(s.ring.rows(9, 0..1)), "NoSuchLane", &["lane 9", "0 to 3"]),
    row(
        "rows that were overwritten",
        |s| refusal(s.ring.rows(0, 60..80)),
        "NotReadable",
        &["60..80", "70..120", "lane 0", "ask for"],
    ),
    row(
        "rows to come",
        |s| refusal(s.ring.rows(0, 110..121)),
        "NotReadable",
        &["110..121", "70..120"],
    ),
    row(
        "rows of a column that is not there",
        |s| refusal(s.ring.rows(0, 100..101).unwrap().column::<f32>("reward").map(<[f32]>::to_vec)),
        "UnknownKey",
        &["`reward`", "obs, action"],
    ),
    row(
        "rows as another type",
        |s| refusal(s.ring.rows(0, 100..101).unwrap().column::<f64>("obs").map(<[f64]>::to_vec)),
        "WrongDType",
        &["`obs`", "f4", "f8", "ask for"],
    ),
    row(
        "a wait that never ends",
        |s| refusal(s.ring.wait_for(197, None)),
        "Never",
        &["197", "200", "196", "wait for fewer"],
    ),
    row(
        "a wait that takes too long",
        |s| refusal(s.ring.wait_for(KEPT, Some(Duration::ZERO))),
        "TimedOut",
        &["holds 49", "50", "backcast stat"],
    ),
];

fn windows(stage: &Stage, ask: fn(SamplerOptions) -> SamplerOptions) -> Option<Refusal> {
    refusal(stage.ring.sampler(ask(SamplerOptions::seeded(1))))
}

fn columns(stage: &Stage, columns: ColumnWindows) -> Option<Refusal> {
    refusal(stage.ring.sampler(SamplerOptions::seeded(1).columns(columns)))
}

fn gather(stage: &mut Stage, index: &[i64]) -> Option<Refusal> {
    refusal(stage.sampler.gather(index))
}

fn index(lane: u32, seq: u64) -> i64 {
    RowIndex::new(lane, seq).0
}
