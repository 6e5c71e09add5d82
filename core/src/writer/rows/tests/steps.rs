//! Random steps of the lanes of a writer.

use std::ops::Range;

use super::MODES;
use super::model::Moment;
use crate::autoreset::AutoresetMode;
use crate::error::AppendError;
use crate::writer::step::Step;
use crate::{DType, Schema, WriterOptions};

/// Number generator of a case (splitmix64).
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, n: u8) -> u8 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        u8::try_from((z ^ (z >> 31)) % u64::from(n)).unwrap()
    }

    pub(super) fn one_in(&mut self, n: u8) -> bool {
        self.below(n) == 0
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.below(u8::try_from(choices.len()).unwrap()))]
    }
}

/// Options of a case: its writer, and how often things happen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) mode: AutoresetMode,
    pub(super) lanes: usize,
    pub(super) observes: bool,
    pub(super) lane_capacity: u64,
    /// One step in this many ends an episode.
    end_in: u8,
    /// One in this many begins with a random observation, whichever the one before led to.
    jump_in: u8,
    /// One in this many has a reward.
    reward_in: u8,
}

impl Setup {
    pub(super) fn new(dice: &mut Dice) -> Self {
        Self {
            mode: dice.of(&MODES),
            lanes: dice.of(&[1, 1, 2, 3]),
            observes: !dice.one_in(8),
            lane_capacity: 8 + u64::from(dice.below(40)),
            end_in: dice.of(&[2, 4, 12, 200]),
            jump_in: dice.of(&[3, 12, 200]),
            reward_in: dice.of(&[1, 2, 8]),
        }
    }

    pub(super) fn schema(self) -> Schema {
        let builder = Schema::builder().column("reward", DType::F32, &[]);
        let builder = if self.observes {
            builder.column("obs/near", DType::U8, &[2]).column("obs/far", DType::F32, &[])
        } else {
            builder
        };
        builder.column("action", DType::U8, &[]).build().unwrap()
    }

    pub(super) fn options(self) -> WriterOptions {
        WriterOptions::lanes(u32::try_from(self.lanes).unwrap()).autoreset(self.mode)
    }
}

/// Steps of all lanes, `[steps, lanes]`.
pub(super) struct Steps {
    pub(super) lanes: usize,
    pub(super) moments: Vec<Moment>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
    columns: Vec<RowBytes>,
    next: Option<Vec<RowBytes>>,
    last: Option<Vec<RowBytes>>,
}

/// Bytes of a column, and the width of a row.
type RowBytes = (Vec<u8>, usize);

fn float(n: u8) -> [u8; 4] {
    f32::from(n).to_ne_bytes()
}

fn obs(setup: Setup, numbers: impl Iterator<Item = u8> + Clone) -> Vec<RowBytes> {
    if !setup.observes {
        return Vec::new();
    }
    let near = numbers.clone().flat_map(|n| [n, n]).collect();
    vec![(near, 2), (numbers.flat_map(float).collect(), 4)]
}

/// Returns some rows of columns.
fn parts<'a>(columns: &'a [RowBytes], rows: &Range<usize>) -> Vec<&'a [u8]> {
    columns.iter().map(|(bytes, width)| &bytes[rows.start * width..rows.end * width]).collect()
}

impl Steps {
    pub(super) fn new(setup: Setup, moments: Vec<Moment>) -> Self {
        let all = moments.iter();
        let reward = all.clone().flat_map(|m| float(m.has_reward.into())).collect();
        let mut columns = vec![(reward, 4)];
        columns.extend(obs(setup, all.clone().map(|m| m.obs)));
        columns.push((all.clone().map(|m| m.action).collect(), 1));
        let given = |number: fn(&Moment) -> Option<u8>| {
            let numbers: Option<Vec<u8>> = moments.iter().map(number).collect();
            numbers.map(|numbers| obs(setup, numbers.into_iter()))
        };
        Self {
            lanes: setup.lanes,
            columns,
            next: given(|m| m.next),
            last: given(|m| m.last),
            terminated: all.clone().map(|m| m.terminated).collect(),
            truncated: all.map(|m| m.truncated).collect(),
            moments,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.moments.len() / self.lanes
    }

    /// Calls `work` with some of the steps.
    pub(super) fn with<R>(
        &self,
        schema: &Schema,
        at: Range<usize>,
        work: impl FnOnce(&Step<'_>) -> R,
    ) -> R {
        let rows = at.start * self.lanes..at.end * self.lanes;
        let [next, last] = [&self.next, &self.last]
            .map(|columns| columns.as_ref().map(|columns| parts(columns, &rows)));
        work(&Step {
            schema,
            columns: &parts(&self.columns, &rows),
            terminated: &self.terminated[rows.clone()],
            truncated: &self.truncated[rows.clone()],
            next_obs: next.as_deref(),
            final_obs: last.as_deref(),
        })
    }

    /// Returns the error of the first step that a writer must refuse, and its number.
    pub(super) fn refused(&self, setup: Setup) -> Option<(usize, AppendError)> {
        let mode = setup.mode;
        if mode == AutoresetMode::NextStep {
            return self.last.is_some().then_some((0, AppendError::UnexpectedFinalObs));
        }
        let lacks = |moment: &Moment| {
            let stands_in = mode == AutoresetMode::Disabled && moment.next.is_some();
            setup.observes && moment.ends() && moment.last.is_none() && !stands_in
        };
        let at = self.moments.iter().position(lacks)?;
        Some((at / self.lanes, AppendError::MissingFinalObs { lane: at % self.lanes, mode }))
    }
}

/// Generates steps. Most of those after a step with a `next_obs` begin with that observation.
pub(super) fn invent(
    setup: Setup,
    dice: &mut Dice,
    led_to: &mut [Option<u8>],
    action: &mut u8,
) -> Steps {
    let count = if dice.one_in(8) { 1 + dice.below(40) } else { 1 + dice.below(4) };
    let has_next = dice.one_in(2);
    let has_last =
        if setup.mode == AutoresetMode::NextStep { dice.one_in(40) } else { !dice.one_in(4) };
    let mut moments = Vec::new();
    for _ in 0..count {
        for led_to in &mut *led_to {
            *action = action.wrapping_add(1);
            let ends = dice.one_in(setup.end_in);
            let obs = led_to.filter(|_| !dice.one_in(setup.jump_in));
            let moment = Moment {
                obs: obs.unwrap_or(dice.below(3)),
                action: *action,
                has_reward: dice.one_in(setup.reward_in),
                terminated: ends && dice.one_in(2),
                truncated: ends && dice.one_in(2),
                next: has_next.then(|| dice.below(3)),
                last: has_last.then(|| dice.below(3)),
            };
            *led_to = moment.next;
            moments.push(moment);
        }
    }
    Steps::new(setup, moments)
}
