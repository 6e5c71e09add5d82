//! Compares the fast path with the planner, and both with a model of rows.
//!
//! Every case plays random steps on several rings: by appends, by the planner alone, by `extend`,
//! and in place. Rows, indices, errors, warnings and statistics must be those of the model.

mod model;
mod plans;
mod steps;

use std::iter;

use self::model::Row;
use self::steps::{Dice, Setup, Steps, invent};
use crate::autoreset::AutoresetMode;
use crate::error::AppendError;
use crate::index::RowIndex;
use crate::wait::WhenBlocked;
use crate::writer::step::{ObsBytes, Step};
use crate::writer::{Ends, Writer, WriterWarning};
use crate::{FINAL, GAP, Ring, RingOptions};

const MODES: [AutoresetMode; 3] =
    [AutoresetMode::NextStep, AutoresetMode::SameStep, AutoresetMode::Disabled];

/// Ways to append a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Append,
    /// By the planner, without the fast path.
    Plan,
    Extend,
    /// Row by row in place. Only for one lane.
    Reserve,
}

/// A ring that is filled in one way, its writer, and its model.
struct Played {
    case: u64,
    way: Way,
    setup: Setup,
    ring: Ring,
    writer: Option<Writer>,
    /// Rows that earlier writers wrote.
    rows_before: u64,
    /// Warnings taken from the writer.
    warnings: Vec<WriterWarning>,
    model: model::Writer,
}

/// Counts of events over all cases.
#[derive(Debug, Default)]
struct Tally {
    fast: u64,
    planned: u64,
    refused: u64,
    cuts: u64,
    suspect_resets: u64,
    warnings: u64,
}

impl Played {
    fn new(case: u64, way: Way, setup: Setup) -> Self {
        let Setup { mode, lanes, observes, lane_capacity, .. } = setup;
        let options = RingOptions::with_capacity(lane_capacity * lanes as u64)
            .lanes(u32::try_from(lanes).unwrap());
        let ring = Ring::heap(&setup.schema(), options).unwrap();
        let writer = Some(ring.writer(setup.options()).unwrap());
        // The step columns of a reserved FINAL row are discarded before they are looked at.
        let model = model::Writer::new(mode, lanes, observes, way != Way::Reserve);
        Self { case, way, setup, ring, writer, rows_before: 0, warnings: Vec::new(), model }
    }

    fn what(&self) -> String {
        format!("case {}, {:?}, {:?}", self.case, self.way, self.setup)
    }

    /// Appends steps, and returns the index of every row.
    fn append(&mut self, steps: &Steps, tally: &mut Tally) -> Result<Vec<RowIndex>, AppendError> {
        let (way, schema) = (self.way, self.ring.schema().clone());
        let writer = self.writer.as_mut().unwrap();
        if way == Way::Extend {
            let all = 0..steps.count();
            return steps.with(&schema, all, |steps| writer.extend(steps).map(<[_]>::to_vec));
        }
        let mut indices = Vec::new();
        for at in 0..steps.count() {
            steps.with(&schema, at..at + 1, |step| {
                match way {
                    Way::Append => {
                        writer.planned.clear();
                        indices.extend_from_slice(writer.append(step)?);
                        let fast = u64::from(writer.planned.is_empty());
                        tally.fast += fast;
                        tally.planned += 1 - fast;
                    }
                    Way::Plan | Way::Extend => {
                        writer.append_with_care(step, WhenBlocked::Wait)?;
                        indices.extend_from_slice(&writer.indices);
                    }
                    Way::Reserve => indices.push(reserve(writer, step)?),
                }
                Ok::<_, AppendError>(())
            })?;
        }
        Ok(indices)
    }

    /// Appends steps to ring and model.
    fn play(&mut self, steps: &Steps, tally: &mut Tally) {
        let appended = self.append(steps, tally);
        if let Some((_, refused)) = steps.refused(self.setup) {
            tally.refused += 1;
            assert_eq!(appended, Err(refused), "{}", self.what());
            return;
        }
        let mut expected = Vec::new();
        for step in steps.moments.chunks(steps.lanes) {
            for (lane, moment) in step.iter().enumerate() {
                let seq = self.model.step(lane, *moment);
                expected.push(RowIndex::new(u32::try_from(lane).unwrap(), seq));
            }
        }
        assert_eq!(appended, Ok(expected), "{}", self.what());
    }

    fn restart(&mut self, chosen: &[bool]) {
        self.writer.as_mut().unwrap().restart(chosen).unwrap();
        let lanes = self.model.lanes.iter_mut().zip(chosen).filter(|(_, chosen)| **chosen);
        lanes.for_each(|(lane, _)| lane.restart());
    }

    fn finish(&mut self) {
        self.writer.as_mut().unwrap().finish().unwrap();
        self.model.lanes.iter_mut().for_each(model::Lane::finish);
    }

    /// Drops the writer, and makes another.
    fn change_writer(&mut self) {
        self.writer = None;
        self.model.change();
        self.warnings.clear();
        self.rows_before = self.heads();
        self.writer = Some(self.ring.writer(self.setup.options()).unwrap());
    }

    fn heads(&self) -> u64 {
        self.model.lanes.iter().map(model::Lane::head).sum()
    }

    /// Compares warnings and counts of the writer with the model.
    fn compare_writer(&mut self) {
        let writer = self.writer.as_mut().unwrap();
        let has_warnings = writer.has_warnings();
        let mut taken: Vec<_> = iter::from_fn(|| writer.take_warning()).collect();
        taken.reverse();
        let awaits_final: Vec<bool> = writer.awaits_final().collect();
        let rows_written = writer.rows_written();
        assert_eq!(has_warnings, !taken.is_empty());
        self.warnings.extend(taken);
        assert_eq!(self.warnings, self.model.warnings, "{}", self.what());
        let expected: Vec<_> = self.model.lanes.iter_mut().map(model::Lane::awaits_final).collect();
        assert_eq!(awaits_final, expected, "{}", self.what());
        assert_eq!(rows_written, self.heads() - self.rows_before, "{}", self.what());
    }

    /// Compares all rows, and the statistics of the lanes.
    fn compare_rows(&self, tally: &mut Tally) {
        let mut transitions = 0;
        let stats = self.ring.stats();
        for ((number, lane), stats) in (0..).zip(&self.model.lanes).zip(&stats.lane_stats) {
            let mut expected = lane.rows();
            let forgotten = lane.head().saturating_sub(self.setup.lane_capacity);
            expected.drain(..usize::try_from(forgotten).unwrap());
            assert_eq!(shown(&self.ring, number, self.setup), expected, "{}", self.what());
            let leads_on = |pair: &&[Row]| pair[0].flags & FINAL == 0 && pair[1].flags & GAP == 0;
            transitions += expected.windows(2).filter(leads_on).count() as u64;
            let counts = (stats.cuts, stats.suspect_resets, stats.dropped);
            assert_eq!(counts, (lane.cuts, lane.suspect_resets, 0), "{}", self.what());
            tally.cuts += lane.cuts;
            tally.suspect_resets += lane.suspect_resets;
        }
        assert_eq!(self.ring.len(), transitions, "{}", self.what());
        tally.warnings += self.warnings.len() as u64;
    }
}

/// Writes a step in place.
fn reserve(writer: &mut Writer, step: &Step<'_>) -> Result<RowIndex, AppendError> {
    let mut row = writer.reserve()?;
    for (at, bytes) in step.columns.iter().enumerate() {
        row.write_bytes(at, bytes)?;
    }
    let obs = |columns| ObsBytes { schema: step.schema, columns };
    row.commit_with(&Ends {
        terminated: step.terminated[0],
        truncated: step.truncated[0],
        next_obs: step.next_obs.map(obs),
        final_obs: step.final_obs.map(obs),
    })
}

/// Returns the readable rows of a lane.
fn shown(ring: &Ring, lane: u32, setup: Setup) -> Vec<Row> {
    let rows = ring.rows(lane, ring.lane_span(lane).unwrap()).unwrap();
    let seqs = rows.column::<u64>("seq").unwrap();
    let episodes = rows.column::<u64>("episode").unwrap();
    let (ts, flags) = (rows.column::<u32>("t").unwrap(), rows.column::<u32>("flags").unwrap());
    let rewards = rows.column::<f32>("reward").unwrap();
    let actions = rows.column::<u8>("action").unwrap();
    let observations = setup
        .observes
        .then(|| (rows.column::<u8>("obs/near").unwrap(), rows.column::<f32>("obs/far").unwrap()));
    let row = |at: usize| {
        let obs = observations.map_or(0, |(near, far)| {
            let [obs, again] = [near[2 * at], near[2 * at + 1]];
            assert_eq!((obs, f32::from(obs).to_bits()), (again, far[at].to_bits()));
            obs
        });
        Row {
            seq: seqs[at],
            episode: episodes[at],
            t: ts[at],
            flags: flags[at],
            obs,
            action: actions[at],
            has_reward: rewards[at] != 0.0,
        }
    };
    (0..seqs.len()).map(row).collect()
}

/// Plays a case in every way.
fn play(case: u64, tally: &mut Tally) {
    let mut dice = Dice(case);
    let setup = Setup::new(&mut dice);
    let ways = [Way::Append, Way::Plan, Way::Extend, Way::Reserve];
    let ways = ways.into_iter().filter(|way| *way != Way::Reserve || setup.lanes == 1);
    let mut all: Vec<_> = ways.map(|way| Played::new(case, way, setup)).collect();
    let mut led_to = vec![None; setup.lanes];
    let mut action = 0;
    for _ in 0..=dice.below(8) {
        match dice.below(12) {
            0 => {
                let chosen: Vec<bool> = led_to.iter().map(|_| dice.one_in(2)).collect();
                for played in &mut all {
                    played.restart(&chosen);
                }
            }
            1 => all.iter_mut().for_each(Played::finish),
            2 => all.iter_mut().for_each(Played::change_writer),
            _ => {
                let mut steps = invent(setup, &mut dice, &mut led_to, &mut action);
                if let Some((at, _)) = steps.refused(setup) {
                    // Play the refused step by itself: `extend` refuses all of its steps for one.
                    let refused = at * setup.lanes..(at + 1) * setup.lanes;
                    steps = Steps::new(setup, steps.moments[refused].to_vec());
                }
                for played in &mut all {
                    played.play(&steps, tally);
                }
            }
        }
        all.iter_mut().for_each(Played::compare_writer);
        if dice.one_in(4) {
            for played in &all {
                played.compare_rows(&mut Tally::default());
            }
        }
    }
    for mut played in all {
        played.writer = None;
        played.model.lanes.iter_mut().for_each(model::Lane::finish);
        played.compare_rows(tally);
    }
}

#[test]
fn every_way_to_append_makes_the_rows_of_the_model() {
    let cases = backcast_budget::budget(100_000);
    let mut tally = Tally::default();
    (0..cases).for_each(|case| play(case, &mut tally));
    let Tally { fast, planned, refused, cuts, suspect_resets, warnings } = tally;
    let least = fast.min(planned).min(refused).min(cuts).min(suspect_resets).min(warnings);
    assert!(cases < 1_000 || least > cases / 20, "{tally:?}");
}
