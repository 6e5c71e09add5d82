//! Dense order of a ring's transitions, without the rows between them at which none starts.

use super::eligibility::{Eligibility, StartIndex};
use crate::index::RowIndex;
use crate::ring::Ring;

/// The transitions that a ring holds at one moment, numbered from 0 without gaps.
///
/// They are ordered by lane, and oldest first within a lane, which is the order of their indices.
/// FINAL rows, rows before a GAP and the newest row of each lane have no number: no transition
/// starts there. In a ring of one lane, number `i` is the i-th oldest transition.
///
/// The order is private to this handle. It reads the header of every row once, and needs at least
/// 32 bytes for each episode. Numbers change only with [`refresh`](Self::refresh).
///
/// ```
/// use backcast_core::{DType, Ring, RingOptions, Schema, StepColumns, WriterOptions};
///
/// let schema = Schema::builder().column("reward", DType::F32, &[]).build()?;
/// let ring = Ring::heap(&schema, RingOptions::with_capacity(100))?;
/// let mut writer = ring.writer(WriterOptions::lanes(1))?;
/// for step in 0..5 {
///     let reward = [1.0_f32];
///     let columns = StepColumns::of(&schema).with("reward", &reward)?;
///     writer.append(&columns.step(&[step == 2], &[false])?)?;
/// }
/// // Row 3 is the FINAL row of the first episode, and row 5 has no successor yet.
/// let order = ring.transition_order();
/// assert_eq!(order.len(), 4);
/// let rows: Vec<u64> = (0..4).filter_map(|i| order.index_at(i)).map(|row| row.seq()).collect();
/// assert_eq!((rows, order.index_at(4)), (vec![0, 1, 2, 4], None));
/// assert_eq!((order.position_of(4), order.position_of(3)), (Some(3), None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TransitionOrder {
    eligibility: Eligibility,
}

impl Ring {
    /// Returns the order of the transitions that the ring holds now. O(rows).
    #[must_use]
    pub fn transition_order(&self) -> TransitionOrder {
        let mut eligibility = Eligibility::new(self, StartIndex::new(0, 0));
        eligibility.use_index(true);
        eligibility.refresh();
        TransitionOrder { eligibility }
    }
}

impl TransitionOrder {
    /// Numbers the transitions that the ring holds now. O(rows published and overwritten since the
    /// last call + lanes).
    pub fn refresh(&mut self) {
        self.eligibility.refresh();
    }

    /// Returns the number of transitions.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.eligibility.starts().total()
    }

    /// Returns whether there are no transitions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the index of transition number `position`; see [`RowIndex`]. Returns `None` if
    /// `position` is not below [`len`](Self::len). O(log lanes + log episodes).
    #[must_use]
    pub fn index_at(&self, position: u64) -> Option<RowIndex> {
        let (lane, seq) = self.eligibility.starts().nth(position)?;
        Some(RowIndex::new(lane, seq))
    }

    /// Returns the number of the transition with an index. Returns `None` if, at the last
    /// [`refresh`](Self::refresh), the ring did not have the row, or no transition started there.
    /// O(log episodes).
    #[must_use]
    pub fn position_of(&self, index: impl Into<RowIndex>) -> Option<u64> {
        let row = index.into();
        if row < RowIndex(0) {
            return None;
        }
        self.eligibility.starts().position(row.lane(), row.seq())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::{
        AutoresetMode, DType, Ring, RingOptions, RowIndex, Schema, StepColumns, WriterOptions,
    };

    const LANES: u32 = 3;

    /// Returns the indices of all transitions, from the rows of every lane: the specification.
    fn listed(ring: &Ring) -> Vec<RowIndex> {
        let mut list = Vec::new();
        for lane in 0..LANES {
            let span = ring.lane_span(lane).unwrap();
            let rows = ring.rows(lane, span.clone()).unwrap();
            let flags = rows.column::<u32>("flags").unwrap();
            let flags = flags.to_vec();
            for (seq, pair) in span.zip(flags.windows(2)) {
                if pair[0] & crate::FINAL == 0 && pair[1] & crate::GAP == 0 {
                    list.push(RowIndex::new(lane, seq));
                }
            }
        }
        list
    }

    #[derive(Clone, Debug)]
    enum Op {
        /// Appends rows to some lanes, and ends their episodes with the last one.
        Append {
            lanes: u32,
            rows: u8,
            end: bool,
        },
        /// Drops the writer, so that the next one begins with a GAP.
        Leave,
        Refresh,
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => (1..=LANES, 1..30_u8, any::<bool>())
                .prop_map(|(lanes, rows, end)| Op::Append { lanes, rows, end }),
            1 => Just(Op::Leave),
            2 => Just(Op::Refresh),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(
            backcast_budget::cases(10_000)
        ))]

        #[test]
        fn transitions_are_numbered_like_a_list(ops in prop::collection::vec(op(), 1..20)) {
            let schema = Schema::builder().column("reward", DType::F32, &[]).build().unwrap();
            let ring = Ring::heap(&schema, RingOptions::with_capacity(90).lanes(LANES)).unwrap();
            let mut order = ring.transition_order();
            prop_assert!(order.is_empty());
            let mut writer = None;
            let mut before = listed(&ring);
            for op in ops {
                match op {
                    Op::Append { lanes, rows, end } => {
                        let width = lanes as usize;
                        if writer.as_ref().is_none_or(|(of, _)| *of != lanes) {
                            drop(writer.take());
                            let options =
                                WriterOptions::lanes(lanes).autoreset(AutoresetMode::NextStep);
                            writer = Some((lanes, ring.writer(options).unwrap()));
                        }
                        let Some((_, writer)) = &mut writer else { continue };
                        for row in 0..rows {
                            let (reward, over) = (vec![1.0; width], end && row + 1 == rows);
                            let columns = StepColumns::of(&schema);
                            let columns = columns.with::<f32>("reward", &reward).unwrap();
                            let ends = vec![over; width];
                            let step = columns.step(&ends, &[false; LANES as usize][..width]);
                            writer.append(&step.unwrap()).unwrap();
                        }
                    }
                    Op::Leave => writer = None,
                    Op::Refresh => {
                        order.refresh();
                        before = listed(&ring);
                    }
                }
                // Numbers stay until the next refresh.
                prop_assert_eq!(order.len(), before.len() as u64);
                for (position, index) in (0..).zip(&before) {
                    prop_assert_eq!(order.index_at(position), Some(*index));
                    prop_assert_eq!(order.position_of(*index), Some(position));
                }
                prop_assert_eq!(order.index_at(order.len()), None);
                for lane in 0..=LANES {
                    for seq in 0..200 {
                        let index = RowIndex::new(lane, seq);
                        let position = before.binary_search(&index).ok().map(|at| at as u64);
                        prop_assert_eq!(order.position_of(index), position);
                    }
                }
                prop_assert_eq!(order.position_of(-1), None);
            }
        }
    }
}
