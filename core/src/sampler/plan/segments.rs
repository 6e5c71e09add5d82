//! Segments: neighbouring rows of a column, which are prefetched together.

use std::ops::Range;

use backcast_layout::WindowSlice;

use super::prefetch_policy::{LONG, QUICK};
use super::{ArenaField, Source, Summed};
use crate::sampler::window::WindowExtent;

/// Neighbouring rows of a column that fields copy from. The rows of one item are prefetched
/// together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ColumnSegment {
    pub(crate) column: usize,
    /// Bytes of a row.
    pub(crate) width: usize,
    pub(crate) rows: u64,
    /// Rows from the first of a whole window to the first of these.
    pub(crate) lead: u64,
    /// Whether the segment begins after the last transition of the n-step return, which varies by
    /// item.
    pub(crate) after_run: bool,
    /// Whether all copies from it are long, so that it is prefetched between the cache lines of
    /// another item's copy.
    pub(crate) is_long: bool,
}

/// Rows of a segment that one field reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentSlice {
    /// Number of the segment among the plan's.
    pub(crate) segment: usize,
    /// First of the segment's rows, and how many.
    pub(crate) first: u64,
    pub(crate) rows: u64,
    /// Whether no field before this one copies from the segment.
    pub(crate) is_first: bool,
    /// Range among the slow bytes of an item, empty for a quick copy. The same share of another
    /// item's cache lines is prefetched during the copy.
    pub(crate) share: (usize, usize),
}

/// The segments of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segments {
    list: Vec<ColumnSegment>,
    /// Bytes of an item's copies that are not quick.
    slow_bytes: usize,
}

impl Segments {
    /// Returns the segments of windows of this extent, and sets the slice of each field. `summed`
    /// are the columns that n-step returns read.
    pub(super) fn of(
        fields: &mut [ArenaField],
        summed: impl Iterator<Item = Summed>,
        extent: WindowExtent,
    ) -> Self {
        let (mut list, mut slow_bytes) = (Vec::<ColumnSegment>::new(), 0_usize);
        let copied = fields.iter().filter_map(|field| ColumnSegment::of(field, extent));
        let summed = summed.map(|summed| ColumnSegment::summed(summed, extent));
        for wanted in copied.chain(summed) {
            match list.iter_mut().find(|segment| segment.touches(&wanted)) {
                Some(segment) => segment.grow(&wanted),
                None => list.push(wanted),
            }
        }
        let mut seen = vec![false; list.len()];
        for field in fields {
            field.slice = ColumnSegment::of(field, extent).and_then(|wanted| {
                let segment = list.iter().position(|segment| segment.touches(&wanted))?;
                let first = wanted.lead - list.get(segment)?.lead;
                let is_first = !std::mem::replace(seen.get_mut(segment)?, true);
                let before = slow_bytes;
                if field.item_bytes() > QUICK {
                    slow_bytes = slow_bytes.saturating_add(field.item_bytes());
                }
                let share = (before, slow_bytes);
                Some(SegmentSlice { segment, first, rows: wanted.rows, is_first, share })
            });
        }
        Self { list, slow_bytes }
    }

    /// Returns all segments.
    pub(crate) fn list(&self) -> &[ColumnSegment] {
        &self.list
    }

    /// Returns the bytes of the rows that an item is copied from, headers not counted.
    pub(crate) fn row_bytes(&self) -> usize {
        let bytes = |segment: &ColumnSegment| {
            usize::try_from(segment.rows).unwrap_or(0).saturating_mul(segment.width)
        };
        self.list.iter().map(bytes).fold(0, usize::saturating_add)
    }

    /// Returns which of another item's `lines` cache lines are prefetched while `slice` is copied.
    /// Returns `None` for a quick copy.
    #[inline]
    pub(crate) fn lines_meanwhile(
        &self,
        slice: &SegmentSlice,
        lines: usize,
    ) -> Option<Range<usize>> {
        let (from, to) = slice.share;
        let line = |bytes: usize| bytes.saturating_mul(lines).checked_div(self.slow_bytes);
        (from < to).then_some(line(from)?..line(to)?)
    }

    /// Returns whether some copy of an item is not quick.
    pub(crate) fn is_slow(&self) -> bool {
        self.slow_bytes > 0
    }
}

impl ColumnSegment {
    /// Returns the rows that a field reads of a window of this extent, if it reads any.
    fn of(field: &ArenaField, extent: WindowExtent) -> Option<Self> {
        let (rows, width) = (field.rows as u64, field.width);
        let back = extent.back;
        let (column, lead, after_run) = match field.source {
            Source::Column(column) => (column, back.saturating_add_signed(field.first), false),
            Source::NNext(column) => (column, back + extent.run(), true),
            Source::First(column) => (column, 0, false),
            _ => return None,
        };
        Some(Self { column, width, rows, lead, after_run, is_long: field.item_bytes() >= LONG })
    }

    /// Returns the rows of a column that an n-step return reads of a window of this extent.
    fn summed(Summed { column, dtype }: Summed, extent: WindowExtent) -> Self {
        let (width, rows, lead) = (dtype.size(), extent.run(), extent.back);
        Self { column, width, rows, lead, after_run: false, is_long: false }
    }

    /// Returns the segment's rows in a whole window.
    pub(crate) fn slice(&self) -> WindowSlice {
        WindowSlice { column: self.column, width: self.width, first: self.lead, rows: self.rows }
    }

    /// Returns whether the two overlap or are adjacent in every window.
    fn touches(&self, other: &Self) -> bool {
        (self.column, self.after_run) == (other.column, other.after_run)
            && self.lead <= other.lead + other.rows
            && other.lead <= self.lead + self.rows
    }

    /// Extends the segment by one that [touches](Self::touches) it.
    fn grow(&mut self, other: &Self) {
        let end = (self.lead + self.rows).max(other.lead + other.rows);
        self.lead = self.lead.min(other.lead);
        self.rows = end - self.lead;
        self.is_long &= other.is_long;
    }
}

#[cfg(test)]
mod tests {
    use backcast_layout::DType;

    use super::*;
    use crate::sampler::columns::SelectedColumns;
    use crate::sampler::options::SamplerOptions;
    use crate::sampler::plan::tests::plan_of;
    use crate::sampler::plan::{BatchPlan, ExtraColumns};
    use crate::schema::{Schema, USER};

    /// Returns column, lead and rows of what a batch copies of a float observation and a float
    /// action.
    fn segments(options: &SamplerOptions) -> Vec<(usize, u64, u64)> {
        let options = &options.draws;
        let schema = Schema::builder()
            .column("obs", DType::F32, &[])
            .column("action", DType::F32, &[])
            .build()
            .unwrap();
        let extent = WindowExtent {
            back: u64::from(options.history.unwrap_or(1)) - 1,
            ahead: options.future.into(),
            steps: 0,
        };
        let selection = SelectedColumns::alike(&schema, options.history);
        let plan =
            BatchPlan::new(&schema, 2, options, &selection, extent, None, ExtraColumns::default());
        for field in plan.fields() {
            let Some(SegmentSlice { segment, first, rows, .. }) = field.slice else { continue };
            let of = plan.segments().list()[segment];
            assert_eq!(rows, field.rows as u64);
            assert_eq!((of.lead + first).cast_signed(), extent.back.cast_signed() + field.first);
            assert!(first + rows <= of.rows);
        }
        let firsts = plan.fields().iter().filter_map(|field| field.slice.filter(|of| of.is_first));
        let firsts: Vec<usize> = firsts.map(|of| of.segment).collect();
        assert_eq!(firsts, (0..plan.segments().list().len()).collect::<Vec<_>>());
        plan.segments().list().iter().map(|of| (of.column - USER, of.lead, of.rows)).collect()
    }

    #[test]
    fn slow_copies_prefetch_all_lines_of_another_item() {
        let seeded = SamplerOptions::seeded(1);
        let schema = Schema::builder()
            .column("obs", DType::F32, &[84])
            .column("action", DType::F32, &[6])
            .column("pixels", DType::U8, &[200])
            .build()
            .unwrap();
        let extent = WindowExtent { back: 0, ahead: 0, steps: 0 };
        let selection = SelectedColumns::alike(&schema, None);
        let plan = BatchPlan::new(
            &schema,
            2,
            &seeded.draws,
            &selection,
            extent,
            None,
            ExtraColumns::default(),
        );
        assert!(plan.segments().is_slow());
        let copied = || plan.fields().iter().filter_map(|field| field.slice);
        for lines in [0, 1, 2, 3, 17, 100] {
            let asked =
                copied().filter_map(|copied| plan.segments().lines_meanwhile(&copied, lines));
            let asked: Vec<Range<usize>> = asked.collect();
            assert_eq!(asked.len(), 3, "observations, their successors and pixels, and no action");
            let ends = asked.iter().scan(0, |at, lines| {
                assert_eq!(lines.start, *at);
                *at = lines.end;
                Some(*at)
            });
            assert_eq!(ends.last(), Some(lines));
        }
        assert!(plan.segments().list().iter().all(|segment| !segment.is_long));
        let [quick, slow, long] = [16, 17, 256].map(|numbers| plan_of(numbers, &seeded));
        assert_eq!(
            [&quick, &slow, &long].map(|plan| plan.segments().is_slow()),
            [false, true, true]
        );
        assert_eq!([&slow, &long].map(|plan| plan.segments().list()[0].is_long), [false, true]);
    }

    #[test]
    fn neighbouring_rows_of_a_column_are_prefetched_once() {
        let seeded = SamplerOptions::seeded(1);
        assert_eq!(segments(&seeded), [(0, 0, 2), (1, 0, 1)]);
        for copy in [false, true] {
            let windows = seeded.clone().history(4).future(2).copy(copy);
            assert_eq!(segments(&windows), [(0, 0, 7), (1, 0, 6)], "copy: {copy}");
        }
    }
}
