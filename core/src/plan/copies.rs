//! What of windows is copied: neighbouring rows of a column, which are asked for together.

use std::ops::Range;

use backcast_layout::RunPart;

use super::{Fill, Source};
use crate::window::Reach;

/// Neighbouring rows of a column that fills copy from: of an item, they are asked for together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) column: usize,
    /// Bytes of a row.
    pub(crate) width: usize,
    pub(crate) rows: u64,
    /// Rows from the first of a whole window to the first of these.
    pub(crate) lead: u64,
    /// They begin after the last transition of the n-step return, wherever that is.
    pub(crate) after_run: bool,
    /// All that is copied from it is long, and another item's is asked for between its lines.
    pub(crate) is_long: bool,
}

/// Rows of a stretch that are copied as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copied {
    /// Number among the plan's.
    pub(crate) stretch: usize,
    /// The first of the stretch's rows, and how many.
    pub(crate) first: u64,
    pub(crate) rows: u64,
    /// No fill before this one copies from the stretch.
    pub(crate) is_first: bool,
    /// Its share of the bytes of an item that take some time to copy, of which those before it come first; empty if it takes
    /// none. As large a share of another item's lines is asked for meanwhile.
    pub(crate) share: (usize, usize),
}

/// Bytes up to which a copy is a few instructions, among which there is no time to ask for other memory.
const QUICK: usize = 64;
/// Bytes from which on a copy takes so long that requests go between its lines and not before it.
const LONG: usize = 1 << 10;

/// What the fills of a plan copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Copies {
    stretches: Vec<Stretch>,
    /// Bytes of an item that take some time to copy.
    slow_bytes: usize,
}

impl Copies {
    /// Those of windows that reach so far. Each fill is told what it copies.
    pub(super) fn of(fills: &mut [Fill], reach: Reach) -> Self {
        let (mut stretches, mut slow_bytes) = (Vec::<Stretch>::new(), 0_usize);
        for wanted in fills.iter().filter_map(|fill| Stretch::of(fill, reach)) {
            match stretches.iter_mut().find(|stretch| stretch.touches(&wanted)) {
                Some(stretch) => stretch.grow(&wanted),
                None => stretches.push(wanted),
            }
        }
        let mut seen = vec![false; stretches.len()];
        for fill in fills {
            fill.copied = Stretch::of(fill, reach).and_then(|wanted| {
                let stretch = stretches.iter().position(|stretch| stretch.touches(&wanted))?;
                let first = wanted.lead - stretches.get(stretch)?.lead;
                let is_first = !std::mem::replace(seen.get_mut(stretch)?, true);
                let before = slow_bytes;
                if fill.item_bytes() > QUICK {
                    slow_bytes = slow_bytes.saturating_add(fill.item_bytes());
                }
                let share = (before, slow_bytes);
                Some(Copied { stretch, first, rows: wanted.rows, is_first, share })
            });
        }
        Self { stretches, slow_bytes }
    }

    pub(crate) fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    /// Bytes of rows that an item's columns are copied from, marks left out.
    pub(crate) fn row_bytes(&self) -> usize {
        let bytes = |of: &Stretch| usize::try_from(of.rows).unwrap_or(0).saturating_mul(of.width);
        self.stretches.iter().map(bytes).fold(0, usize::saturating_add)
    }

    /// Which of so many lines of another item are asked for while this is copied; `None`: that takes too little time.
    #[inline]
    pub(crate) fn asked_meanwhile(&self, copied: &Copied, lines: usize) -> Option<Range<usize>> {
        let (from, to) = copied.share;
        let line = |bytes: usize| bytes.saturating_mul(lines).checked_div(self.slow_bytes);
        (from < to).then_some(line(from)?..line(to)?)
    }

    /// Whether something of an item takes some time to copy.
    pub(crate) fn is_slow(&self) -> bool {
        self.slow_bytes > 0
    }
}

impl Stretch {
    /// The rows that a fill copies of a window that reaches so far, if it copies any.
    fn of(fill: &Fill, reach: Reach) -> Option<Self> {
        let (rows, width) = (fill.rows as u64, fill.width);
        let (column, lead, after_run) = match fill.source {
            Source::Column(column) => (column, reach.back.saturating_add_signed(fill.first), false),
            Source::NNext(column) => (column, reach.back + reach.run(), true),
            _ => return None,
        };
        Some(Self { column, width, rows, lead, after_run, is_long: fill.item_bytes() >= LONG })
    }

    /// The rows, of a whole window.
    pub(crate) fn part(&self) -> RunPart {
        RunPart { column: self.column, width: self.width, first: self.lead, rows: self.rows }
    }

    /// Whether the two overlap or stand side by side in every window.
    fn touches(&self, other: &Self) -> bool {
        (self.column, self.after_run) == (other.column, other.after_run)
            && self.lead <= other.lead + other.rows
            && other.lead <= self.lead + self.rows
    }

    /// Takes in what [touches](Self::touches) it.
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
    use crate::plan::BatchPlan;
    use crate::plan::tests::plan_of;
    use crate::sampler_options::SamplerOptions;
    use crate::schema::{Schema, USER};

    /// What a batch copies of a float observation and a float action: column, lead and rows.
    fn stretches(options: SamplerOptions) -> Vec<(usize, u64, u64)> {
        let schema = Schema::builder()
            .column("obs", DType::F32, &[])
            .column("action", DType::F32, &[])
            .build()
            .unwrap();
        let reach = Reach {
            back: u64::from(options.history.unwrap_or(1)) - 1,
            ahead: options.future.into(),
            steps: 0,
        };
        let plan = BatchPlan::new(&schema, 2, &options, reach, None);
        for fill in plan.fills() {
            let Some(Copied { stretch, first, rows, .. }) = fill.copied else { continue };
            let of = plan.copies().stretches()[stretch];
            assert_eq!(rows, fill.rows as u64);
            assert_eq!((of.lead + first).cast_signed(), reach.back.cast_signed() + fill.first);
            assert!(first + rows <= of.rows);
        }
        let firsts = plan.fills().iter().filter_map(|fill| fill.copied.filter(|of| of.is_first));
        let firsts: Vec<usize> = firsts.map(|of| of.stretch).collect();
        assert_eq!(firsts, (0..plan.copies().stretches().len()).collect::<Vec<_>>());
        plan.copies().stretches().iter().map(|of| (of.column - USER, of.lead, of.rows)).collect()
    }

    #[test]
    fn what_takes_time_to_copy_asks_for_all_lines_of_another_item() {
        let seeded = SamplerOptions::seeded(1);
        let schema = Schema::builder()
            .column("obs", DType::F32, &[84])
            .column("action", DType::F32, &[6])
            .column("pixels", DType::U8, &[200])
            .build()
            .unwrap();
        let reach = Reach { back: 0, ahead: 0, steps: 0 };
        let plan = BatchPlan::new(&schema, 2, &seeded, reach, None);
        assert!(plan.copies().is_slow());
        let copied = || plan.fills().iter().filter_map(|fill| fill.copied);
        for lines in [0, 1, 2, 3, 17, 100] {
            let asked = copied().filter_map(|copied| plan.copies().asked_meanwhile(&copied, lines));
            let asked: Vec<Range<usize>> = asked.collect();
            assert_eq!(asked.len(), 3, "observations, their successors and pixels, and no action");
            let ends = asked.iter().scan(0, |at, lines| {
                assert_eq!(lines.start, *at);
                *at = lines.end;
                Some(*at)
            });
            assert_eq!(ends.last(), Some(lines));
        }
        assert!(plan.copies().stretches().iter().all(|stretch| !stretch.is_long));
        let [quick, slow, long] = [16, 17, 256].map(|numbers| plan_of(numbers, seeded));
        assert_eq!([&quick, &slow, &long].map(|plan| plan.copies().is_slow()), [false, true, true]);
        assert_eq!([&slow, &long].map(|plan| plan.copies().stretches()[0].is_long), [false, true]);
    }

    #[test]
    fn neighbouring_rows_of_a_column_are_asked_for_once() {
        let seeded = SamplerOptions::seeded(1);
        assert_eq!(stretches(seeded), [(0, 0, 2), (1, 0, 1)]);
        for copy in [false, true] {
            let windows = seeded.history(4).future(2).copy(copy);
            assert_eq!(stretches(windows), [(0, 0, 7), (1, 0, 6)], "copy: {copy}");
        }
    }
}
