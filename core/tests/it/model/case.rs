//! Test cases that proptest generates: schemas, rings and operations on them.

use std::fmt;

use backcast_core::{AutoresetMode, Boundary, DType, Role, SamplerOptions, Schema};
use proptest::prelude::*;

/// One test case. Small and printable; the bytes of all rows follow from `seed`.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) schema: Schema,
    pub(crate) lanes: u32,
    pub(crate) lane_capacity: u64,
    pub(crate) seed: u64,
    pub(crate) first_writer: (u32, AutoresetMode),
    /// Steps written before anything else, so that mapped lanes wrap too.
    pub(crate) warm_up: u32,
    pub(crate) ops: Vec<Op>,
    pub(crate) windows: Vec<Windows>,
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{ schema: {}, lanes: {}, ", self.schema, self.lanes)?;
        write!(f, "lane_capacity: {}, seed: {}, ", self.lane_capacity, self.seed)?;
        write!(f, "first_writer: {:?}, warm_up: {}, ", self.first_writer, self.warm_up)?;
        write!(f, "ops: {:?}, windows: {:?} }}", self.ops, self.windows)
    }
}

/// An operation on a ring. Numbers that select something are taken modulo the number of choices.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// One append of a writer, with the end of each of its lanes.
    Append { writer: usize, ends: [End; 4] },
    /// Many appends; an episode ends about once in `period` steps.
    Run { writer: usize, steps: u32, period: u64 },
    /// Environments were reset, some of them in the middle of an episode.
    Restart { writer: usize, lanes: [bool; 4] },
    /// A writer is dropped at any point.
    Leave { writer: usize },
    /// Another writer claims lanes, free or not.
    Come { lanes: u32, mode: AutoresetMode },
    /// An append that must be refused and change nothing.
    Wrong { writer: usize, mistake: Mistake, ends: [End; 4] },
    /// Compares ring and model.
    Compare,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Goes,
    Terminates,
    Truncates,
    Both,
}

impl End {
    pub(crate) fn flags(self) -> (bool, bool) {
        (matches!(self, End::Terminates | End::Both), matches!(self, End::Truncates | End::Both))
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Mistake {
    ColumnMissing,
    ColumnTooShort(usize),
    ColumnTooLong(usize),
    TerminatedTooShort,
    TruncatedTooLong,
    RestartTooLong,
    /// A missing final observation, or an unexpected one.
    FinalObsMissingOrUnexpected,
    FinalObsColumnMissing,
    FinalObsTooShort(usize),
}

/// Options of a sampler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    pub(crate) history: Option<u32>,
    pub(crate) future: u32,
    pub(crate) n_step: Option<(u32, f64)>,
    pub(crate) boundary: Boundary,
    pub(crate) stride: u32,
    pub(crate) copy: bool,
}

impl Windows {
    /// Returns the number of rows of a window, the successor of its last transition included.
    pub(crate) fn rows(self) -> u64 {
        let (n, _) = self.n_step.unwrap_or((1, 0.0));
        u64::from(self.history.unwrap_or(1)) + u64::from(self.future.max(n - 1)) + 1
    }

    pub(crate) fn options(self, seed: u64) -> SamplerOptions {
        let Self { history, future, n_step, boundary, copy, .. } = self;
        let options = SamplerOptions::seeded(seed).future(future).boundary(boundary);
        let options = options.copy(copy);
        let options = match history {
            Some(history) => options.history(history),
            None => options,
        };
        match n_step {
            Some((n, gamma)) => options.n_step(n).gamma(gamma),
            None => options,
        }
    }
}

fn mode() -> impl Strategy<Value = AutoresetMode> {
    prop_oneof![
        Just(AutoresetMode::NextStep),
        Just(AutoresetMode::SameStep),
        Just(AutoresetMode::Disabled),
    ]
}

fn ends() -> impl Strategy<Value = [End; 4]> {
    prop::array::uniform4(prop_oneof![
        6 => Just(End::Goes),
        2 => Just(End::Terminates),
        1 => Just(End::Truncates),
        1 => Just(End::Both),
    ])
}

fn mistake() -> impl Strategy<Value = Mistake> {
    prop_oneof![
        1 => Just(Mistake::ColumnMissing),
        1 => any::<usize>().prop_map(Mistake::ColumnTooShort),
        1 => any::<usize>().prop_map(Mistake::ColumnTooLong),
        1 => Just(Mistake::TerminatedTooShort),
        1 => Just(Mistake::TruncatedTooLong),
        1 => Just(Mistake::RestartTooLong),
        3 => Just(Mistake::FinalObsMissingOrUnexpected),
        1 => Just(Mistake::FinalObsColumnMissing),
        1 => any::<usize>().prop_map(Mistake::FinalObsTooShort),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let writer = || 0..4_usize;
    prop_oneof![
        10 => (writer(), ends()).prop_map(|(writer, ends)| Op::Append { writer, ends }),
        4 => (writer(), 1..30_u32, 1..12_u64)
            .prop_map(|(writer, steps, period)| Op::Run { writer, steps, period }),
        2 => (writer(), any::<[bool; 4]>())
            .prop_map(|(writer, lanes)| Op::Restart { writer, lanes }),
        1 => writer().prop_map(|writer| Op::Leave { writer }),
        2 => (1..=5_u32, mode()).prop_map(|(lanes, mode)| Op::Come { lanes, mode }),
        2 => (writer(), mistake(), ends())
            .prop_map(|(writer, mistake, ends)| Op::Wrong { writer, mistake, ends }),
        1 => Just(Op::Compare),
    ]
}

fn windows() -> impl Strategy<Value = Windows> {
    let n_step = (1..8_u32, prop_oneof![Just(0.0), Just(1.0), Just(0.99), 0.0..1.0_f64]);
    let boundary = prop_oneof![
        2 => Just(Boundary::Mask),
        1 => Just(Boundary::Reject),
        1 => Just(Boundary::Clamp),
    ];
    (
        prop::option::weighted(0.75, 1..9_u32),
        0..6_u32,
        prop::option::of(n_step),
        boundary,
        prop_oneof![3 => Just(1), 1 => 2..7_u32],
        any::<bool>(),
    )
        .prop_map(|(history, future, n_step, boundary, stride, copy)| Windows {
            history,
            future,
            n_step,
            boundary,
            stride,
            copy,
        })
}

/// Returns columns with every element type, odd widths, nested names and observations under other
/// names; sometimes no observation at all.
fn schema() -> impl Strategy<Value = Schema> {
    let shapes: [&[u32]; 6] = [&[], &[1], &[7], &[3], &[2, 3], &[2, 1, 2]];
    let array = (prop::sample::select(DType::ALL.to_vec()), prop::sample::select(shapes.to_vec()));
    let names = vec!["obs/x", "action", "obs/deep/y", "day", "reward", "info/a", "done"];
    let chosen =
        (any::<bool>(), prop::bool::weighted(0.7), prop::sample::subsequence(names, 1..=5));
    (chosen, prop::collection::vec(array, 5)).prop_map(|((flat, summed, mut names), arrays)| {
        if flat {
            // The observation is one array instead of a dict.
            names.retain(|name| !name.starts_with("obs/"));
            names.insert(names.len() / 2, "obs");
        }
        if summed && !names.contains(&"reward") {
            let last = names.len() - 1;
            names[last] = "reward";
        }
        let builder = names.into_iter().zip(arrays).fold(
            Schema::builder(),
            |builder, (name, (dtype, shape))| match name {
                // A reward type that n-step returns can sum.
                "reward" if summed => {
                    let wide = dtype.size() % 8 == 0;
                    builder.column(name, if wide { DType::F64 } else { DType::F32 }, &[])
                }
                "day" => builder.column_as(name, dtype, shape, Role::Obs),
                _ => builder.column(name, dtype, shape),
            },
        );
        builder.build().unwrap()
    })
}

/// Returns cases whose lanes keep between `capacities.start` and `capacities.end` rows.
pub(crate) fn case(
    capacities: std::ops::Range<u64>,
    ops: std::ops::Range<usize>,
    warm_up: impl Strategy<Value = u32>,
) -> impl Strategy<Value = Case> {
    (
        schema(),
        1..=4_u32,
        capacities,
        any::<u64>(),
        (1..=4_u32, mode()),
        warm_up,
        prop::collection::vec(op(), ops),
        prop::collection::vec(windows(), 2),
    )
        .prop_map(
            |(schema, lanes, lane_capacity, seed, (first, mode), warm_up, ops, windows)| {
                let first_writer = (first.min(lanes), mode);
                Case { schema, lanes, lane_capacity, seed, first_writer, warm_up, ops, windows }
            },
        )
}
