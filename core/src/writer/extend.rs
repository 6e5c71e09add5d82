//! Appends many steps in one call. A writer of one lane copies consecutive rows together.

use backcast_layout::protocol::notify;

use super::{Writer, row};
use crate::error::AppendError;
use crate::index::RowIndex;
use crate::wait::WhenBlocked;
use crate::writer::step::Step;

impl Writer {
    /// Appends several steps in order, like one call of [`append`](Self::append) for each. The
    /// leading axes of every column and of the flags are `[steps, lanes]`. Returns the index of the
    /// row of each step, `[steps, lanes]`.
    ///
    /// Everything that can be checked is checked before the first step. If a later step fails, such
    /// as by an interrupted wait, the steps before it stay, and the error says how many.
    ///
    /// With one lane, rows are copied and published up to 64 at a time.
    pub fn extend<'s>(&mut self, steps: impl Into<Step<'s>>) -> Result<&[RowIndex], AppendError> {
        self.extend_all(&steps.into())
    }

    fn extend_all(&mut self, steps: &Step<'_>) -> Result<&[RowIndex], AppendError> {
        let lanes = self.lanes.len();
        let count = steps.terminated.len() / lanes.max(1);
        self.indices.clear();
        self.check_steps(steps, count)?;
        let mut parts = Parts::of(self, steps);
        let mut done = 0;
        let mut outcome = Ok(());
        while done < count && outcome.is_ok() {
            if let Err(unlinked) = self.follow_notices() {
                outcome = Err(unlinked);
                break;
            }
            let allowed = usize::try_from(self.room()).unwrap_or(usize::MAX);
            let block = self.block(steps, done, count).min(allowed);
            let before = self.transitions();
            if block > 1 && self.append_block(steps, done, block) {
                self.count_inserts(before);
                done += block;
                continue;
            }
            let step = parts.step(done);
            let wanted = self.wanted(&step);
            outcome = self.pass_limiter(wanted, WhenBlocked::Wait);
            if outcome.is_ok() {
                if !self.append_continuing(&step) {
                    outcome = self.append_by_plan(&step, WhenBlocked::Wait);
                }
                self.count_inserts(before);
                done += usize::from(outcome.is_ok());
            }
        }
        notify(&self.ring.store().published());
        match outcome {
            Ok(()) => Ok(&self.indices),
            Err(error) if done == 0 => Err(error),
            Err(source) => {
                Err(AppendError::After { appended: done, asked: count, source: Box::new(source) })
            }
        }
    }
}

/// Splits steps, whose sizes were checked, into single ones.
struct Parts<'a> {
    steps: Step<'a>,
    lanes: usize,
    columns: Vec<&'a [u8]>,
    nexts: Vec<&'a [u8]>,
    finals: Vec<&'a [u8]>,
}

impl<'a> Parts<'a> {
    fn of(writer: &Writer, steps: &Step<'a>) -> Self {
        let [columns, nexts, finals] = [const { Vec::new() }; 3];
        Self { steps: *steps, lanes: writer.lanes.len(), columns, nexts, finals }
    }

    fn step(&mut self, at: usize) -> Step<'_> {
        let count = self.steps.terminated.len() / self.lanes;
        let split = |part: &mut Vec<&'a [u8]>, whole: &[&'a [u8]]| {
            part.clear();
            part.extend(whole.iter().map(|bytes| row(bytes, bytes.len() / count, at)));
        };
        split(&mut self.columns, self.steps.columns);
        split(&mut self.nexts, self.steps.next_obs.unwrap_or_default());
        split(&mut self.finals, self.steps.final_obs.unwrap_or_default());
        let lanes = at * self.lanes..(at + 1) * self.lanes;
        Step {
            schema: self.steps.schema,
            columns: &self.columns,
            terminated: &self.steps.terminated[lanes.clone()],
            truncated: &self.steps.truncated[lanes],
            next_obs: self.steps.next_obs.is_some().then_some(&*self.nexts),
            final_obs: self.steps.final_obs.is_some().then_some(&*self.finals),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::{AutoresetMode, DType, LanePolicy, Ring, RingOptions, Schema, WriterOptions};

    fn schema() -> Schema {
        let builder = Schema::builder().column("obs", DType::U64, &[3]);
        builder.column("reward", DType::F32, &[]).build().unwrap()
    }

    fn ring(lanes: u32, capacity: u64, policy: LanePolicy) -> Ring {
        let options = RingOptions::with_capacity(capacity).lanes(lanes).lane_policy(policy);
        Ring::heap(&schema(), options).unwrap()
    }

    /// Columns of some rows, and of their final observations. All values differ.
    struct Data {
        obs: Vec<u64>,
        reward: Vec<f32>,
        finals: Vec<u64>,
        terminated: Vec<bool>,
        truncated: Vec<bool>,
    }

    impl Data {
        /// Returns `rows` rows. Each of the two flags is set in about one row of `length`.
        fn new(rows: u16, length: u64) -> Self {
            let mut dice = 7_u64;
            let mut ends = || {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (dice >> 33).is_multiple_of(length)
            };
            Self {
                obs: (0..u64::from(rows) * 3).collect(),
                reward: (0..rows).map(f32::from).collect(),
                finals: (0..u64::from(rows) * 3).map(|x| x + (1 << 32)).collect(),
                terminated: (0..rows).map(|_| ends()).collect(),
                truncated: (0..rows).map(|_| ends()).collect(),
            }
        }

        fn with_steps<R>(&self, finals: bool, work: impl FnOnce(&Step<'_>) -> R) -> R {
            let schema = schema();
            let columns = [bytemuck::cast_slice(&self.obs), bytemuck::cast_slice(&self.reward)];
            let last = [bytemuck::cast_slice(&self.finals)];
            work(&Step {
                schema: &schema,
                columns: &columns,
                terminated: &self.terminated,
                truncated: &self.truncated,
                next_obs: None,
                final_obs: finals.then_some(&last),
            })
        }
    }

    /// Returns the bytes of every column of every readable row, lane after lane.
    fn contents(ring: &Ring) -> Vec<Vec<u8>> {
        let stats = ring.stats().lane_stats;
        let rows = stats.iter().map(|of| ring.rows(of.lane, of.head - of.rows..of.head).unwrap());
        let columns = |rows: crate::Rows| {
            let names = ["seq", "episode", "t", "flags", "obs", "reward"];
            names.map(|name| rows.bytes(name).unwrap().to_vec())
        };
        rows.flat_map(columns).collect()
    }

    #[test]
    fn many_steps_at_once_are_the_same_rows_as_one_by_one() {
        let modes = [AutoresetMode::NextStep, AutoresetMode::SameStep, AutoresetMode::Disabled];
        for (lanes, length, mode) in [1_u32, 3].into_iter().flat_map(|lanes| {
            [2_u64, 9, 60].into_iter().flat_map(move |l| modes.map(|mode| (lanes, l, mode)))
        }) {
            let [one, many] = [(); 2].map(|()| ring(lanes, 200, LanePolicy::default()));
            let options = WriterOptions::lanes(lanes).autoreset(mode);
            let (mut append, mut extend) =
                (one.writer(options).unwrap(), many.writer(options).unwrap());
            let finals = mode != AutoresetMode::NextStep;
            // Several calls, which wrap around the end of the lanes' memory.
            for steps in [1_u16, 15, 16, 17, 64, 0, 200] {
                let data = Data::new(steps * u16::try_from(lanes).unwrap(), length);
                let (expected, found) = data.with_steps(finals, |steps| {
                    let mut parts = Parts::of(&append, steps);
                    let count = steps.terminated.len() / lanes as usize;
                    let mut expected = Vec::new();
                    for at in 0..count {
                        expected.extend_from_slice(append.append(parts.step(at)).unwrap());
                    }
                    (expected, extend.extend(steps).unwrap().to_vec())
                });
                assert_eq!(found, expected, "{lanes} lanes, {mode}, {steps} steps");
                assert_eq!(extend.rows_written(), append.rows_written());
                assert_eq!(contents(&many), contents(&one), "{lanes} lanes, {mode}");
            }
        }
    }

    #[test]
    fn appended_tells_the_rows_of_the_last_call_and_of_no_other() {
        for lanes in [1_u16, 3] {
            let ring = ring(lanes.into(), 200, LanePolicy::default());
            let mut writer = ring
                .writer(WriterOptions::lanes(lanes.into()).autoreset(AutoresetMode::NextStep))
                .unwrap();
            let rows_of = |seqs: Range<u64>| {
                let rows = seqs.flat_map(|seq| (0..lanes).map(move |n| (n, seq)));
                rows.map(|(n, seq)| RowIndex::new(n.into(), seq)).collect::<Vec<_>>()
            };
            let one = Data::new(lanes, u64::MAX);
            let short = Data { reward: Vec::new(), ..Data::new(lanes, u64::MAX) };
            let mut seq = 0;
            for steps in [0, 1, 2, 20] {
                let many = Data::new(steps * lanes, u64::MAX);
                many.with_steps(false, |steps| writer.extend(steps).unwrap().len());
                assert_eq!(writer.appended(), rows_of(seq..seq + u64::from(steps)));
                seq += u64::from(steps);
                for _ in 0..2 {
                    one.with_steps(false, |step| assert!(writer.append(step).is_ok()));
                    assert_eq!(writer.appended(), rows_of(seq..seq + 1), "after {steps} steps");
                    seq += 1;
                }
                short.with_steps(false, |step| assert!(writer.append(step).is_err()));
                assert!(writer.appended().is_empty());
                one.with_steps(false, |step| assert!(writer.append(step).is_ok()));
                seq += 1;
                short.with_steps(false, |steps| assert!(writer.extend(steps).is_err()));
                assert!(writer.appended().is_empty());
            }
        }
    }

    #[test]
    fn a_lease_in_the_way_leaves_the_steps_before_it_and_says_how_many() {
        let ring = ring(1, 64, LanePolicy::Fail);
        let mut writer =
            ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
        Data::new(64, u64::MAX).with_steps(false, |steps| writer.extend(steps).unwrap().len());
        let lease = ring.lease(0, 10..12).unwrap();
        let error = Data::new(64, u64::MAX)
            .with_steps(false, |steps| writer.extend(steps).map(<[RowIndex]>::len).unwrap_err());
        let AppendError::After { appended, asked: 64, source } = &error else { panic!("{error}") };
        assert!(matches!(**source, AppendError::Leased { .. }), "{error}");
        let slots = ring.stats().slots;
        // Up to the slot of the first leased row.
        assert_eq!(*appended as u64, slots + 10 - 64, "{error}");
        assert_eq!(writer.rows_written(), 64 + *appended as u64);
        let text = error.to_string();
        assert!(text.contains(&appended.to_string()) && text.contains("64"), "{text}");
        drop(lease);
        Data::new(64, u64::MAX).with_steps(false, |steps| writer.extend(steps).unwrap().len());
        assert_eq!(writer.rows_written(), 128 + *appended as u64);
    }

    #[test]
    fn errors_are_raised_before_any_row_is_appended() {
        let ring = ring(2, 64, LanePolicy::default());
        let options = WriterOptions::lanes(2).autoreset(AutoresetMode::SameStep);
        let mut writer = ring.writer(options).unwrap();
        let data = Data::new(8, 2);
        assert!(data.terminated.contains(&true));
        let missing = data.with_steps(false, |steps| writer.extend(steps).map(|_| ()).unwrap_err());
        assert!(matches!(missing, AppendError::MissingFinalObs { .. }), "{missing}");
        let odd = Data { terminated: vec![false; 7], ..Data::new(8, 2) };
        let odd = odd.with_steps(true, |steps| writer.extend(steps).map(|_| ()).unwrap_err());
        assert!(odd.to_string().contains("3 steps"), "{odd}");
        let short = Data { reward: vec![0.0; 7], ..Data::new(8, 2) };
        let short = short.with_steps(true, |steps| writer.extend(steps).map(|_| ()).unwrap_err());
        assert!(matches!(short, AppendError::WrongSize { .. }), "{short}");
        assert_eq!(writer.rows_written(), 0);
    }
}
