//! Restores rings: creates rings that already have rows, before any process sees them.

use std::ops::Range;

use backcast_layout::{
    Exist, LimitCounts, RingStore, SegmentError, UnnamedLane, UnnamedRing, page_size,
};

use super::Ring;
use super::create::spec;
use super::options::RingOptions;
use crate::error::RestoreError;
use crate::limiter::limits::LimiterCounts;
use crate::row_flags::{FINAL, GAP, TERMINATED, TRUNCATED};
use crate::row_header::{PARTS, RowHeader};
use crate::schema::Schema;

/// Flags that a row can have; others are dropped.
const FLAGS: u32 = TERMINATED | TRUNCATED | FINAL | GAP;

/// A ring that is being filled and has no name yet.
#[derive(Debug)]
pub struct Filling<'a> {
    unnamed: &'a UnnamedRing<'a>,
    schema: &'a Schema,
    lanes: Vec<Option<UnnamedLane>>,
    /// Header of the last row given, per lane.
    last: Vec<Option<RowHeader>>,
    /// Headers of the rows given last.
    marks: Vec<RowHeader>,
}

impl Ring {
    /// Creates a ring with the rows that `fill` gives it. The ring gets its name when it is
    /// complete. After an error nothing of it is left, and an existing object keeps the name.
    /// `fill` may be called again if another process took the name first. With
    /// [`Exist::Attach`](crate::Exist::Attach) an existing object is an error too, because it
    /// would lack the rows.
    ///
    /// A writer that claims a lane continues after the newest row, as after a dead writer: it
    /// begins a new episode, after a gap.
    ///
    /// ```
    /// use backcast_core::{DType, RestoreError, Ring, RingOptions, Schema};
    ///
    /// let schema = Schema::builder().column("reward", DType::F32, &[]).build()?;
    /// let ring = Ring::restore_heap(&schema, RingOptions::with_capacity(100), |filling| {
    ///     filling.begin(0, 40..42)?; // lane 0 gets rows 40 and 41 back
    ///     let (seq, episode) = ([40_u64, 41], [3_u64, 3]);
    ///     let (t, flags, reward) = ([7_u32, 8], [0_u32, 0], [1.0_f32, 2.0]);
    ///     filling.rows(0, 2, &[
    ///         bytemuck::cast_slice(&seq),
    ///         bytemuck::cast_slice(&episode),
    ///         bytemuck::cast_slice(&t),
    ///         bytemuck::cast_slice(&flags),
    ///         bytemuck::cast_slice(&reward),
    ///     ])
    /// })?;
    /// assert_eq!(ring.lane_span(0), Some(40..42));
    /// assert_eq!(ring.rows(0, 40..42)?.column::<f32>("reward")?, [1.0, 2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restore<E: From<RestoreError>>(
        name: &str,
        schema: &Schema,
        options: RingOptions,
        mut fill: impl FnMut(&mut Filling<'_>) -> Result<(), E>,
    ) -> Result<Self, E> {
        let spec = spec(schema, &options, page_size()).map_err(RestoreError::from)?;
        let RingOptions { base, exist, persistent, .. } = options;
        let exist = if exist == Exist::Replace { exist } else { Exist::Error };
        let filled = |unnamed: &UnnamedRing<'_>| filled(unnamed, schema, &mut fill);
        let made = RingStore::create_filled(&base, name, &spec, exist, persistent, filled);
        let (store, _) = made.map_err(Failure::into_error)?;
        Ok(Self::of(store).map_err(RestoreError::from)?)
    }

    /// Creates a ring like [`restore`](Self::restore), in private memory, without a name.
    #[expect(clippy::needless_pass_by_value, reason = "the same call as `restore`")]
    pub fn restore_heap<E: From<RestoreError>>(
        schema: &Schema,
        options: RingOptions,
        mut fill: impl FnMut(&mut Filling<'_>) -> Result<(), E>,
    ) -> Result<Self, E> {
        let spec = spec(schema, &options, 1).map_err(RestoreError::from)?;
        let made = RingStore::heap_filled(&spec, |unnamed| filled(unnamed, schema, &mut fill));
        let store = made.map_err(Failure::into_error)?;
        Ok(Self::of(store).map_err(RestoreError::from)?)
    }
}

/// Calls `fill`, and checks that all rows were given.
fn filled<E: From<RestoreError>>(
    unnamed: &UnnamedRing<'_>,
    schema: &Schema,
    fill: &mut impl FnMut(&mut Filling<'_>) -> Result<(), E>,
) -> Result<(), Failure<E>> {
    let lanes = (0..unnamed.spec().lanes).map(|_| None).collect();
    let last = vec![None; unnamed.spec().lanes as usize];
    let mut filling = Filling { unnamed, schema, lanes, last, marks: Vec::new() };
    fill(&mut filling).map_err(Failure::Filling)?;
    filling.finish().map_err(|error| Failure::Filling(error.into()))
}

/// Error of creating a ring: of its files, or of `fill`.
enum Failure<E> {
    Segment(SegmentError),
    Filling(E),
}

impl<E> From<SegmentError> for Failure<E> {
    fn from(error: SegmentError) -> Self {
        Self::Segment(error)
    }
}

impl<E: From<RestoreError>> Failure<E> {
    fn into_error(self) -> E {
        match self {
            Self::Segment(error) => RestoreError::from(error).into(),
            Self::Filling(error) => error,
        }
    }
}

impl Filling<'_> {
    /// Returns the lanes of the ring.
    #[must_use]
    pub fn lanes(&self) -> u32 {
        self.unnamed.spec().lanes
    }

    /// Returns the rows that a lane keeps for readers: a longer range is refused.
    #[must_use]
    pub fn lane_capacity(&self) -> u64 {
        self.unnamed.spec().lane_capacity
    }

    /// Sets the rows that a lane gets. None before `rows.start` will exist; the next one written
    /// will be `rows.end`. A lane that is not begun is empty.
    pub fn begin(&mut self, lane: u32, rows: Range<u64>) -> Result<(), RestoreError> {
        let (from, to, limit) = (rows.start, rows.end, self.lane_capacity());
        let missing = self.missing(lane)?;
        if let Some(missing) = missing {
            let (from, to) = (missing.start, missing.end);
            return Err(RestoreError::BegunTwice { lane, from, to });
        }
        if from > to || to - from > limit {
            return Err(RestoreError::BadRange { lane, from, to, limit });
        }
        let begun = self.unnamed.lane(lane, rows)?;
        let begun = begun.ok_or(RestoreError::BadRange { lane, from, to, limit })?;
        if let Some(place) = self.lanes.get_mut(lane as usize) {
            *place = Some(begun);
        }
        Ok(())
    }

    /// Stores the next `rows` rows of a lane. One buffer per column, in the order of
    /// [`Rows::columns`](crate::Rows::columns): `seq`, `episode`, `t`, `flags`, then the schema's;
    /// C order. A row with `t > 0` must continue the episode of the row before it, if that was
    /// given. One copy.
    pub fn rows(&mut self, lane: u32, rows: u64, columns: &[&[u8]]) -> Result<(), RestoreError> {
        let missing = self.missing(lane)?.ok_or(RestoreError::NotBegun { lane })?;
        if rows > missing.end - missing.start {
            let (from, to) = (missing.start, missing.end);
            return Err(RestoreError::TooManyRows { lane, rows, from, to });
        }
        self.check_sizes(rows, columns)?;
        self.read_marks(columns);
        for (expected, mark) in (missing.start..).zip(&self.marks) {
            if mark.seq != expected {
                return Err(RestoreError::OutOfOrder { lane, expected, found: mark.seq });
            }
        }
        let before = self.last.get(lane as usize).copied().flatten();
        let mut pairs = before
            .iter()
            .chain(&self.marks)
            .zip(self.marks.iter().skip(usize::from(before.is_none())));
        if let Some((_, mark)) = pairs.find(|(before, mark)| !mark.may_follow(before)) {
            let RowHeader { seq: row, episode, t, .. } = *mark;
            return Err(RestoreError::BrokenEpisode { lane, row, episode, t });
        }
        if let (Some(last), Some(mark)) = (self.last.get_mut(lane as usize), self.marks.last()) {
            *last = Some(*mark);
        }
        let marks: &[u8] = bytemuck::cast_slice(&self.marks);
        let stored: Vec<&[u8]> =
            std::iter::once(marks).chain(columns.iter().skip(PARTS.len()).copied()).collect();
        if let Some(Some(lane)) = self.lanes.get_mut(lane as usize) {
            lane.store(rows, &stored);
        }
        Ok(())
    }

    pub(crate) fn schema(&self) -> &Schema {
        self.schema
    }

    pub(crate) fn unnamed(&self) -> &UnnamedRing<'_> {
        self.unnamed
    }

    /// Returns the rows of each lane; none of a lane that was not begun.
    pub(crate) fn begun(&self) -> Vec<Range<u64>> {
        let rows =
            |lane: &Option<UnnamedLane>| lane.as_ref().map(UnnamedLane::rows).unwrap_or_default();
        self.lanes.iter().map(rows).collect()
    }

    /// Sets the counts of the limiter, and the inserts at the last drop of rows. Does nothing in a
    /// ring without a limiter.
    pub fn limit_counts(
        &mut self,
        counts: LimiterCounts,
        dropped_at: u64,
    ) -> Result<(), RestoreError> {
        let LimiterCounts { inserts, samples, deletes } = counts;
        let counts = LimitCounts { inserts, samples, deletes, dropped_at };
        Ok(self.unnamed.set_limit_counts(counts)?)
    }

    /// Returns the rows still to be given; `None` for a lane that is not begun.
    pub fn missing(&self, lane: u32) -> Result<Option<Range<u64>>, RestoreError> {
        let lanes = self.lanes();
        let place =
            self.lanes.get(lane as usize).ok_or(RestoreError::NoSuchLane { lane, lanes })?;
        Ok(place.as_ref().map(UnnamedLane::missing))
    }

    fn check_sizes(&self, rows: u64, columns: &[&[u8]]) -> Result<(), RestoreError> {
        let expected = self.schema.all();
        if columns.len() != expected.len() {
            let (got, expected) = (columns.len(), expected.len());
            return Err(RestoreError::WrongColumnCount { got, expected });
        }
        for (column, bytes) in expected.iter().zip(columns) {
            let (width, got) = (column.width(), bytes.len());
            if Some(got as u64) != rows.checked_mul(width as u64) {
                let name = column.name().to_owned();
                return Err(RestoreError::WrongSize { name, rows, width, got });
            }
        }
        Ok(())
    }

    /// Joins the built-in columns to row headers.
    fn read_marks(&mut self, columns: &[&[u8]]) {
        let rows = columns.first().map_or(0, |seq| seq.len() / PARTS[0].dtype.size());
        self.marks.clear();
        self.marks.resize(rows, RowHeader::default());
        for (part, bytes) in PARTS.iter().zip(columns) {
            let values = bytes.chunks_exact(part.dtype.size());
            for (mark, value) in self.marks.iter_mut().zip(values) {
                let mark = bytemuck::bytes_of_mut(mark);
                mark[part.offset..part.offset + value.len()].copy_from_slice(value);
            }
        }
        for mark in &mut self.marks {
            mark.flags &= FLAGS;
        }
    }

    fn finish(self) -> Result<(), RestoreError> {
        for (lane, begun) in (0..).zip(&self.lanes) {
            if let Some(missing) = begun.as_ref().map(UnnamedLane::missing)
                && !missing.is_empty()
            {
                let (from, to) = (missing.start, missing.end);
                return Err(RestoreError::Incomplete { lane, from, to });
            }
        }
        self.lanes.into_iter().flatten().for_each(UnnamedLane::finish);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AutoresetMode, DType, LimiterError, RateLimiter, ReadError, RingError, SamplerOptions,
        StepColumns, WriterError, WriterOptions,
    };

    fn schema() -> Schema {
        let schema = Schema::builder().column("obs", DType::F32, &[3]).column("a", DType::U8, &[]);
        schema.build().unwrap()
    }

    /// Returns a ring of two lanes, of which the first has been written `steps` times.
    fn written(steps: u16) -> Ring {
        let options = RingOptions::with_capacity(64).lanes(2);
        let ring = Ring::heap(&schema(), options).unwrap();
        let mut writer =
            ring.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
        for step in 0..steps {
            let (obs, a) = ([f32::from(step); 3], [step.to_le_bytes()[0]]);
            let columns =
                StepColumns::of(ring.schema()).with("obs", &obs).unwrap().with("a", &a).unwrap();
            writer.append(&columns.step(&[step % 10 == 9], &[false]).unwrap()).unwrap();
        }
        drop(writer);
        ring
    }

    fn copy(
        from: &Ring,
        options: RingOptions,
        lanes: &[(u32, Range<u64>)],
    ) -> Result<Ring, RestoreError> {
        Ring::restore_heap(from.schema(), options, |filling| {
            for (lane, range) in lanes {
                filling.begin(*lane, range.clone())?;
                let rows = from.rows(*lane, range.clone()).unwrap();
                let columns: Vec<&[u8]> =
                    rows.columns().iter().map(|c| rows.bytes(c.name()).unwrap()).collect();
                filling.rows(*lane, rows.len() as u64, &columns)?;
            }
            Ok(())
        })
    }

    fn same_rows(a: &Ring, b: &Ring, lane: u32, range: Range<u64>) {
        let (a, b) = (a.rows(lane, range.clone()).unwrap(), b.rows(lane, range).unwrap());
        for column in a.columns() {
            assert_eq!(a.bytes(column.name()), b.bytes(column.name()), "{}", column.name());
        }
    }

    #[test]
    fn a_restored_ring_has_the_rows_and_draws_what_the_first_would_draw() {
        for steps in [0, 1, 20, 300] {
            let ring = written(steps);
            let span = ring.lane_span(0).unwrap();
            let again = copy(&ring, ring.options(), &[(0, span.clone())]).unwrap();
            assert_eq!(again.lane_span(0), Some(span.clone()));
            assert_eq!(again.len(), ring.len());
            same_rows(&ring, &again, 0, span);
            if ring.is_empty() {
                continue;
            }
            let draw = |ring: &Ring| {
                let mut sampler = ring.sampler(SamplerOptions::seeded(3).history(4)).unwrap();
                let batch = sampler.sample(64).unwrap();
                batch.column::<f32>("obs").unwrap().iter().copied().collect::<Vec<_>>()
            };
            assert_eq!(draw(&ring), draw(&again));
        }
    }

    #[test]
    fn rows_older_than_the_first_do_not_exist_and_a_writer_goes_on_after_the_last() {
        let ring = written(300);
        let head = ring.lane_span(0).unwrap().end;
        let again = copy(&ring, ring.options(), &[(0, head - 5..head)]).unwrap();
        assert_eq!(again.lane_span(0), Some(head - 5..head));
        assert!(matches!(again.rows(0, head - 6..head), Err(ReadError::NotReadable { .. })));
        let mut writer =
            again.writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep)).unwrap();
        // Two laps: restored rows are overwritten like any others.
        for step in 1..=2 * again.slots() {
            let (obs, a) = ([0.5_f32; 3], [7_u8]);
            let columns =
                StepColumns::of(again.schema()).with("obs", &obs).unwrap().with("a", &a).unwrap();
            writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
            let span = again.lane_span(0).unwrap();
            assert_eq!(span.end, head + step);
            assert_eq!(span.start, (head - 5).max(span.end - again.lane_capacity()));
            again.rows(0, span.clone()).unwrap();
            if let Some(first) = again.rows(0, head..head + 1).ok().filter(|_| span.start <= head) {
                assert_eq!(first.column::<u32>("flags").unwrap(), [GAP]);
            }
        }
    }

    #[test]
    fn snapshots_are_read_only_and_leased_whole() {
        let ring = written(300);
        let span = ring.lane_span(0).unwrap();
        let snapshot = copy(&ring, ring.options().snapshot(true), &[(0, span.clone())]).unwrap();
        assert!(snapshot.is_snapshot());
        let refused = snapshot
            .writer(WriterOptions::lanes(1).autoreset(AutoresetMode::NextStep))
            .unwrap_err();
        assert!(matches!(refused, WriterError::Snapshot { .. }), "{refused}");
    }

    #[test]
    fn a_queue_that_a_new_ring_refuses_is_restored() {
        let options = || RingOptions::with_capacity(64).limiter(RateLimiter::queue(64));
        let refused = Ring::heap(&schema(), options()).unwrap_err();
        let RingError::Limiter(LimiterError::QueueBeyondCapacity { size: 64.0, most: 63 }) =
            refused
        else {
            panic!("{refused}")
        };
        assert!(Ring::heap(&schema(), options().limiter(RateLimiter::queue(63))).is_ok());
        let restored = Ring::restore_heap(&schema(), options(), |_| Ok::<(), RestoreError>(()));
        let limits = restored.unwrap().limiter().unwrap().limits().unwrap();
        assert_eq!(limits, RateLimiter::queue(64));
    }

    #[test]
    fn rows_that_do_not_follow_one_another_are_refused() {
        // Episode, t, flags of two rows, given together and one by one.
        let give = |[first, second]: [(u64, u32, u32); 2], at_once: bool| {
            Ring::restore_heap(&schema(), RingOptions::with_capacity(64), |filling| {
                filling.begin(0, 5..7)?;
                let rows = [(5_u64, first), (6, second)];
                for rows in rows.chunks(if at_once { 2 } else { 1 }) {
                    let seq: Vec<u64> = rows.iter().map(|(seq, _)| *seq).collect();
                    let episode: Vec<u64> =
                        rows.iter().map(|(_, (episode, ..))| *episode).collect();
                    let t: Vec<u32> = rows.iter().map(|(_, (_, t, _))| *t).collect();
                    let flags: Vec<u32> = rows.iter().map(|(_, (.., flags))| *flags).collect();
                    let [seq, episode]: [&[u8]; 2] =
                        [&seq, &episode].map(|v| bytemuck::cast_slice(v));
                    let [t, flags]: [&[u8]; 2] = [&t, &flags].map(|v| bytemuck::cast_slice(v));
                    let (obs, a) = (vec![0; 12 * rows.len()], vec![0; rows.len()]);
                    filling.rows(0, rows.len() as u64, &[seq, episode, t, flags, &obs, &a])?;
                }
                Ok::<(), RestoreError>(())
            })
        };
        for at_once in [true, false] {
            for follows in [
                [(3, 8, 0), (3, 9, 0)],
                [(3, 8, GAP), (3, 9, TRUNCATED)],
                [(3, 8, TERMINATED), (3, 9, FINAL)],
                [(3, 8, FINAL), (4, 0, 0)],
                [(3, 8, TERMINATED), (4, 0, GAP)],
                [(3, u32::MAX, 0), (3, u32::MAX, 0)],
            ] {
                assert!(give(follows, at_once).is_ok(), "{follows:?}");
            }
            for broken in [
                [(3, 8, 0), (3, 10, 0)],
                [(3, 8, 0), (4, 9, 0)],
                [(3, 8, 0), (3, 9, GAP)],
                [(3, 8, FINAL), (3, 9, 0)],
                [(3, 8, TERMINATED), (3, 9, 0)],
                [(3, 8, TRUNCATED), (3, 9, TRUNCATED)],
            ] {
                let refused = give(broken, at_once).unwrap_err();
                assert!(
                    matches!(refused, RestoreError::BrokenEpisode { lane: 0, row: 6, .. }),
                    "{broken:?}: {refused}"
                );
            }
        }
    }

    #[test]
    fn mismatched_rows_are_refused_with_the_reason() {
        use RestoreError as E;
        type IsRight = fn(&E) -> bool;
        let ring = written(40);
        let options = || ring.options();
        let fill = |fill: &mut dyn FnMut(&mut Filling<'_>) -> Result<(), RestoreError>| {
            Ring::restore_heap(ring.schema(), options(), |filling| fill(filling)).unwrap_err()
        };
        let rows = ring.rows(0, 30..32).unwrap();
        let columns: Vec<&[u8]> =
            rows.columns().iter().map(|c| rows.bytes(c.name()).unwrap()).collect();
        let refused: [(E, IsRight); 11] = [
            (fill(&mut |f| f.begin(2, 0..1)), |e| matches!(e, E::NoSuchLane { lane: 2, .. })),
            (fill(&mut |f| f.begin(0, 0..33)), |e| {
                matches!(e, E::BadRange { from: 0, to: 33, limit: 32, .. })
            }),
            (fill(&mut |f| f.begin(0, Range { start: 9, end: 3 })), |e| {
                matches!(e, E::BadRange { from: 9, to: 3, .. })
            }),
            (fill(&mut |f| f.begin(0, (1 << 48) - 1..1 << 48)), |e| {
                matches!(e, E::BadRange { to: 0x1_0000_0000_0000, .. })
            }),
            (fill(&mut |f| f.begin(0, 0..2).and_then(|()| f.begin(0, 0..2))), |e| {
                matches!(e, E::BegunTwice { lane: 0, from: 0, to: 2 })
            }),
            (fill(&mut |f| f.rows(0, 2, &columns)), |e| matches!(e, E::NotBegun { lane: 0 })),
            (fill(&mut |f| f.begin(0, 30..31).and_then(|()| f.rows(0, 2, &columns))), |e| {
                matches!(e, E::TooManyRows { rows: 2, from: 30, to: 31, .. })
            }),
            (fill(&mut |f| f.begin(0, 31..33).and_then(|()| f.rows(0, 2, &columns))), |e| {
                matches!(e, E::OutOfOrder { expected: 31, found: 30, .. })
            }),
            (
                fill(&mut |f| f.begin(0, 30..33).and_then(|()| f.rows(0, 3, &columns))),
                |e| matches!(e, E::WrongSize { name, rows: 3, .. } if name == "seq"),
            ),
            (fill(&mut |f| f.begin(0, 30..32).and_then(|()| f.rows(0, 2, &columns[1..]))), |e| {
                matches!(e, E::WrongColumnCount { expected: 6, .. })
            }),
            (fill(&mut |f| f.begin(0, 30..33).and_then(|()| f.rows(0, 2, &columns))), |e| {
                matches!(e, E::Incomplete { from: 32, to: 33, .. })
            }),
        ];
        for (error, is_right) in refused {
            assert!(is_right(&error), "{error:?}");
            let message = error.to_string();
            assert!(!message.contains("  "), "{message} has a gap");
        }
    }
}
