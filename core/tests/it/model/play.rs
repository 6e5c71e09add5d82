//! Plays a case on a ring and on the model.

use backcast_core::{
    AppendError, AutoresetMode, Ring, Role, RowIndex, Schema, Step, Writer, WriterError,
    WriterOptions,
};

use crate::model::case::{Case, End, Mistake, Op};
use crate::model::lane::{Cells, Lane};

/// Generator of the bytes of rows (splitmix64).
#[derive(Debug)]
pub(crate) struct Bytes(pub(crate) u64);

impl Bytes {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn take(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend(self.next().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

/// A ring, its model, and the writers that feed both.
#[derive(Debug)]
pub(crate) struct Play {
    pub(crate) ring: Ring,
    pub(crate) lanes: Vec<Lane>,
    writers: Vec<Writer>,
    bytes: Bytes,
}

/// Owned columns of one step, which a [`Step`] borrows.
struct OwnedStep {
    columns: Vec<Vec<u8>>,
    finals: Option<Vec<Vec<u8>>>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
}

impl OwnedStep {
    fn append<'w>(&self, writer: &'w mut Writer) -> Result<&'w [RowIndex], AppendError> {
        let columns: Vec<&[u8]> = self.columns.iter().map(Vec::as_slice).collect();
        let finals = self.finals.as_ref();
        let finals: Option<Vec<&[u8]>> = finals.map(|f| f.iter().map(Vec::as_slice).collect());
        let schema = writer.schema().clone();
        writer.append(Step {
            schema: &schema,
            columns: &columns,
            terminated: &self.terminated,
            truncated: &self.truncated,
            next_obs: None,
            final_obs: finals.as_deref(),
        })
    }
}

impl Play {
    pub(crate) fn new(ring: Ring, case: &Case) -> Self {
        let lanes = (0..case.lanes).map(|_| Lane::new(case.lane_capacity)).collect();
        let mut play = Self { ring, lanes, writers: Vec::new(), bytes: Bytes(case.seed) };
        let (lanes, mode) = case.first_writer;
        play.come(lanes, mode);
        if case.warm_up > 0 {
            play.run(0, case.warm_up, 40);
        }
        play
    }

    /// Applies an operation to ring and model. Returns `false` if it is a comparison.
    pub(crate) fn op(&mut self, op: &Op) -> bool {
        match op {
            Op::Append { writer, ends } => self.append(*writer, *ends),
            Op::Run { writer, steps, period } => self.run(*writer, *steps, *period),
            Op::Restart { writer, lanes } => self.restart(*writer, *lanes),
            Op::Leave { writer } => self.leave(*writer),
            Op::Come { lanes, mode } => self.come(*lanes, *mode),
            Op::Wrong { writer, mistake, ends } => self.wrong(*writer, *mistake, *ends),
            Op::Compare => return false,
        }
        true
    }

    fn pick(&self, writer: usize) -> Option<usize> {
        writer.checked_rem(self.writers.len())
    }

    fn schema(&self) -> Schema {
        self.ring.schema().clone()
    }

    fn invent(&mut self, writer: usize, ends: [End; 4]) -> OwnedStep {
        let writer = &self.writers[writer];
        let lanes = writer.lanes().len();
        let schema = writer.schema().clone();
        let ends = &ends[..lanes];
        let mut random = |role: Option<Role>| {
            let columns = schema.columns().iter();
            let columns = columns.filter(|column| role.is_none_or(|role| column.role() == role));
            columns.map(|column| self.bytes.take(column.width() * lanes)).collect()
        };
        let columns = random(None);
        // Same-step environments may pass final observations although no episode ended.
        let finals = writer.autoreset_mode() != AutoresetMode::NextStep;
        let finals = finals.then(|| random(Some(Role::Obs)));
        let (terminated, truncated) = ends.iter().map(|end| end.flags()).unzip();
        OwnedStep { columns, finals, terminated, truncated }
    }

    fn append(&mut self, writer: usize, ends: [End; 4]) {
        let Some(which) = self.pick(writer) else { return };
        let mut step = self.invent(which, ends);
        let schema = self.schema();
        let writer = &mut self.writers[which];
        let mode = writer.autoreset_mode();
        let nobody_ends = ends[..writer.lanes().len()].iter().all(|end| *end == End::Goes);
        let nothing_seen = schema.columns().iter().all(|column| column.role() == Role::Step);
        if (nobody_ends || nothing_seen) && self.bytes.next().is_multiple_of(2) {
            step.finals = None;
        }
        let numbers = writer.lanes().to_vec();
        let indices = step.append(writer).expect("a right append is taken").to_vec();
        assert_eq!(indices.len(), numbers.len());
        for (i, number) in numbers.into_iter().enumerate() {
            let lane = &mut self.lanes[number as usize];
            assert_eq!(indices[i], RowIndex::new(number, lane.head()), "the row's own index");
            if mode == AutoresetMode::NextStep && lane.awaits_final() {
                // The action and its reward are dropped, and the observation is the final one.
                lane.finish(final_cells(&schema, &obs_of(&schema, &step.columns), i));
                continue;
            }
            let (terminated, truncated) = ends[i].flags();
            lane.step(cells(&schema, &step.columns, i), terminated, truncated);
            if mode != AutoresetMode::NextStep && (terminated || truncated) {
                let finals = step.finals.as_deref().unwrap_or_default();
                lane.finish(final_cells(&schema, finals, i));
            }
        }
    }

    fn run(&mut self, writer: usize, steps: u32, period: u64) {
        for _ in 0..steps {
            let ends = [(); 4].map(|()| match self.bytes.next() % (2 * period) {
                0 => End::Terminates,
                1 => End::Truncates,
                _ => End::Goes,
            });
            self.append(writer, ends);
        }
    }

    fn restart(&mut self, writer: usize, lanes: [bool; 4]) {
        let Some(which) = self.pick(writer) else { return };
        let writer = &mut self.writers[which];
        let numbers = writer.lanes().to_vec();
        writer.restart(&lanes[..numbers.len()]).unwrap();
        for (number, _) in numbers.into_iter().zip(lanes).filter(|(_, marked)| *marked) {
            self.lanes[number as usize].restart();
        }
    }

    fn leave(&mut self, writer: usize) {
        if let Some(which) = self.pick(writer) {
            drop(self.writers.swap_remove(which));
        }
    }

    fn come(&mut self, asked: u32, mode: AutoresetMode) {
        let taken = self.taken();
        let free = self.ring.lanes() - u32::try_from(taken.len()).unwrap();
        let answer = self.ring.writer(WriterOptions::lanes(asked).autoreset(mode));
        match answer {
            Ok(writer) => {
                assert!(asked <= free, "{asked} lanes claimed, {free} were free");
                assert_eq!(writer.autoreset_mode(), mode);
                assert_eq!(writer.rows_written(), 0);
                let mut lanes = writer.lanes().to_vec();
                lanes.sort_unstable();
                lanes.dedup();
                assert_eq!(lanes.len(), asked as usize, "as many lanes as asked for");
                assert!(lanes.iter().all(|lane| !taken.contains(lane)), "{lanes:?} of {taken:?}");
                for lane in lanes {
                    self.lanes[lane as usize].change_writer();
                }
                self.writers.push(writer);
            }
            Err(WriterError::TooManyLanes { asked: a, lanes }) => {
                assert!(asked > self.ring.lanes());
                assert_eq!((a, lanes), (asked, self.ring.lanes()));
            }
            Err(WriterError::LanesTaken { asked: a, free: f, lanes, held }) => {
                assert!(asked > free && asked <= self.ring.lanes());
                assert_eq!((a, f, lanes), (asked, free, self.ring.lanes()));
                let named: Vec<u32> = held.iter().map(|held| held.lane).collect();
                assert_eq!(named, taken, "the lanes that are held");
                let me = u64::from(std::process::id());
                assert!(held.iter().all(|held| held.pid == me), "{held:?}");
            }
            Err(other) => panic!("no reason to refuse a writer: {other}"),
        }
    }

    /// Returns the lanes that writers hold, in order.
    pub(crate) fn taken(&self) -> Vec<u32> {
        let mut taken: Vec<u32> =
            self.writers.iter().flat_map(|writer| writer.lanes().to_vec()).collect();
        taken.sort_unstable();
        taken
    }

    fn wrong(&mut self, writer: usize, mistake: Mistake, ends: [End; 4]) {
        let Some(which) = self.pick(writer) else { return };
        let mut step = self.invent(which, ends);
        let next_step = step.finals.is_none();
        let before = (self.ring.len(), self.spans(), self.writers[which].rows_written());
        let lanes = self.writers[which].lanes().len();
        let schema = self.schema();
        let all: Vec<(String, usize)> =
            schema.columns().iter().map(|c| (c.name().to_owned(), c.width() * lanes)).collect();
        let obs: Vec<(String, usize)> = schema
            .columns()
            .iter()
            .filter(|c| c.role() == Role::Obs)
            .map(|c| (c.name().to_owned(), c.width() * lanes))
            .collect();
        let resize = |columns: &mut Vec<Vec<u8>>, which: usize, of: &[(String, usize)], by| {
            let at = which % of.len();
            let (name, expected) = of[at].clone();
            let got = expected.checked_add_signed(by).unwrap();
            columns[at].resize(got, 1);
            let (steps, width) = (1, expected / lanes);
            AppendError::WrongSize { name, expected, got, steps, lanes, width }
        };
        let mut restart = None;
        let expected = match mistake {
            Mistake::ColumnMissing => {
                step.columns.pop();
                AppendError::WrongColumnCount { got: all.len() - 1, expected: all.len() }
            }
            Mistake::ColumnTooShort(at) => resize(&mut step.columns, at, &all, -1),
            Mistake::ColumnTooLong(at) => resize(&mut step.columns, at, &all, 1),
            Mistake::TerminatedTooShort => {
                step.terminated.pop();
                AppendError::WrongFlags { name: "terminated", got: lanes - 1, steps: 1, lanes }
            }
            Mistake::TruncatedTooLong => {
                step.truncated.push(true);
                AppendError::WrongFlags { name: "truncated", got: lanes + 1, steps: 1, lanes }
            }
            Mistake::RestartTooLong => {
                restart = Some(vec![true; lanes + 1]);
                AppendError::WrongFlags { name: "lanes", got: lanes + 1, steps: 1, lanes }
            }
            Mistake::FinalObsMissingOrUnexpected if next_step => {
                step.finals = Some(obs.iter().map(|(_, bytes)| vec![1; *bytes]).collect());
                AppendError::UnexpectedFinalObs
            }
            Mistake::FinalObsMissingOrUnexpected => {
                let ended = ends[..lanes].iter().position(|end| *end != End::Goes);
                let Some(lane) = ended.filter(|_| !obs.is_empty()) else { return };
                step.finals = None;
                AppendError::MissingFinalObs { lane, mode: self.writers[which].autoreset_mode() }
            }
            Mistake::FinalObsColumnMissing | Mistake::FinalObsTooShort(_)
                if next_step || obs.is_empty() =>
            {
                return;
            }
            Mistake::FinalObsColumnMissing => {
                step.finals.as_mut().unwrap().pop();
                AppendError::WrongObsCount {
                    name: "final_obs",
                    got: obs.len() - 1,
                    expected: obs.len(),
                }
            }
            Mistake::FinalObsTooShort(at) => resize(step.finals.as_mut().unwrap(), at, &obs, -1),
        };
        let writer = &mut self.writers[which];
        let answer = match restart {
            Some(lanes) => writer.restart(&lanes),
            None => step.append(writer).map(|_| ()),
        };
        assert_eq!(answer, Err(expected), "{mistake:?}");
        let after = (self.ring.len(), self.spans(), self.writers[which].rows_written());
        assert_eq!(after, before, "a refused append changes nothing");
    }

    fn spans(&self) -> Vec<std::ops::Range<u64>> {
        (0..self.ring.lanes()).map(|lane| self.ring.lane_span(lane).unwrap()).collect()
    }
}

/// Returns row `i` of all columns as readers see it: bytes of bools are 0 or 1.
fn cells(schema: &Schema, columns: &[Vec<u8>], i: usize) -> Cells {
    let columns = schema.columns().iter().zip(columns);
    columns
        .map(|(column, bytes)| {
            let mut cell = bytes[i * column.width()..(i + 1) * column.width()].to_vec();
            if column.dtype() == backcast_core::DType::Bool {
                for byte in &mut cell {
                    *byte = u8::from(*byte != 0);
                }
            }
            cell
        })
        .collect()
}

/// Returns the FINAL row of lane `i` from its observation columns; all others are zero.
fn final_cells(schema: &Schema, obs: &[Vec<u8>], i: usize) -> Cells {
    let lanes_bytes = |column: &backcast_core::Column| vec![0; column.width() * (i + 1)];
    let mut obs = obs.iter();
    let columns: Vec<Vec<u8>> = schema
        .columns()
        .iter()
        .map(|column| match column.role() {
            Role::Obs => obs.next().unwrap().clone(),
            Role::Step => lanes_bytes(column),
        })
        .collect();
    cells(schema, &columns, i)
}

fn obs_of(schema: &Schema, columns: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let columns = schema.columns().iter().zip(columns);
    columns.filter(|(column, _)| column.role() == Role::Obs).map(|(_, b)| b.clone()).collect()
}
