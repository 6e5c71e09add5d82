//! Batches of short items, hand by hand.

use std::mem;
use std::ops::Range;

use backcast_layout::Lane;
use backcast_layout::protocol::Words;

use super::Sampler;
use super::job::{Job, Stopped, Wanted};
use super::pick::{Drawn, NO_DRAW};
use crate::block::{Block, Item, MOST};
use crate::hand::{Asked, Hand};
use crate::index::RowIndex;

/// Items of a hand that are filled one by one; if there are more, all are looked at together.
const FEW: u32 = 4;

impl Sampler {
    /// Fills a batch, of which one hand is on its way into the cache while the one before it is copied. How many
    /// draws it took.
    ///
    /// `lane`: one whose list of columns most share.
    pub(super) fn fill_hands<'a>(
        &mut self,
        job: Job<'a>,
        lane: &'a Lane,
        arenas: &mut [&mut [u8]],
    ) -> Result<u64, Stopped> {
        let plan = job.filler.plan;
        let (reach, batch) = (self.reach, plan.batch());
        let span = |number: usize| (number * MOST).min(batch)..((number + 1) * MOST).min(batch);
        let hand = Hand::new(lane, reach, plan.copies().stretches());
        let mut hands = [hand.clone(), hand];
        let [mut now, mut next] = hands.each_mut();
        let (mut block, mut attempts) = (None, 0);
        let asked = if plan.copies().is_slow() { Asked::Meanwhile } else { Asked::AtOnce };
        self.deal(job, span(0), now, Asked::AtOnce);
        for number in 0..batch.div_ceil(MOST) {
            self.deal(job, span(number + 1), next, asked);
            attempts += self.fill_dealt(job, now, next, &mut block, arenas)?;
            mem::swap(&mut now, &mut next);
        }
        if let Some(block) = block {
            // After an error it is made anew.
            self.scratch[0] = Block::into_memory(block);
        }
        Ok(attempts)
    }

    /// Draws some items for the first time. The memory of their windows is asked for at once, or later.
    fn deal<'a>(&mut self, job: Job<'a>, items: Range<usize>, hand: &mut Hand<'a>, asked: Asked) {
        let back = self.reach.back;
        let ahead = self.reach.after_first() - back;
        hand.begin(items.start, asked);
        let mut drawn = [NO_DRAW; MOST];
        match job.wanted {
            Wanted::Draws(batch) => self.first_draws(batch, items.clone(), &mut drawn),
            Wanted::Rows(index) => {
                let index = index.get(items.clone()).unwrap_or_default();
                for (drawn, index) in drawn.iter_mut().zip(index) {
                    let (lane, seq) = (RowIndex(*index).lane() as usize, RowIndex(*index).seq());
                    let span = self.spans.get(lane).filter(|span| span.rows().contains(&seq));
                    *drawn = span.map_or(NO_DRAW, |span| (lane, seq - span.rows().start));
                }
            }
        }
        for (item, (number, older)) in items.zip(drawn) {
            let (Some(lane), Some(span)) = (job.lanes.get(number), self.spans.get(number)) else {
                let index = match job.wanted {
                    Wanted::Draws(_) => None,
                    Wanted::Rows(index) => index.get(item),
                };
                hand.push(index.map_or(RowIndex::NONE, |index| RowIndex(*index)), 0, None);
                continue;
            };
            let age = span.newer(older);
            let there = older >= back && age >= ahead;
            let slot = span.slot_of(older.saturating_sub(back), lane.slots());
            hand.push(span.index_of(older), age, there.then_some((lane, slot)));
        }
    }

    /// Fills what a hand has: all at once, and what that cannot fill, item by item. The next one is asked for meanwhile. How
    /// many draws it took.
    fn fill_dealt<'a>(
        &mut self,
        job: Job<'a>,
        hand: &Hand<'a>,
        next: &Hand<'a>,
        block: &mut Option<Block<'a>>,
        arenas: &mut [&mut [u8]],
    ) -> Result<u64, Stopped> {
        let mut right = hand.quiet();
        // Items in whose windows something happens are filled too, with what stands there, and once more.
        if right == 0 {
            if let Some(runs) = next.unasked() {
                runs.ask_for_all();
            }
        } else if fill_hand(job, hand, next, arenas) {
            right &= hand.still_whole();
        } else {
            right = 0;
        }
        if right == hand.all() {
            return Ok(hand.count() as u64);
        }
        let wrong = !right & hand.all();
        // Of most batches no hand needs one.
        let block = block.get_or_insert_with(|| {
            let memory = mem::take(&mut self.scratch[0]);
            Block::over(memory, MOST, self.reach, job.filler.plan.copies().stretches())
        });
        self.events += wrong.count_ones() as usize;
        if wrong.count_ones() <= FEW {
            self.fill_some(job, hand, wrong, block, arenas)
        } else {
            self.fill_closely(job, hand, right, block, arenas)
        }
    }

    /// Fills some items of a hand anew, one by one. How many draws all items took.
    #[inline(never)]
    fn fill_some<'a>(
        &mut self,
        job: Job<'a>,
        hand: &Hand<'a>,
        some: u32,
        block: &mut Block<'a>,
        arenas: &mut [&mut [u8]],
    ) -> Result<u64, Stopped> {
        let mut attempts = hand.count() as u64;
        for (number, index) in hand.index().iter().enumerate() {
            if some & 1 << number == 0 {
                continue;
            }
            let item = hand.first() + number;
            block.begin(item);
            self.look_from(job, item, Drawn::first(RowIndex(*index)), block)?;
            attempts += u64::from(self.fill_alone(job, item, block, arenas)?);
        }
        Ok(attempts)
    }

    /// Fills all items of a hand anew as a block, of which those that are `quiet` need no second look. How many draws all
    /// took.
    #[inline(never)]
    fn fill_closely<'a>(
        &mut self,
        job: Job<'a>,
        hand: &Hand<'a>,
        quiet: u32,
        block: &mut Block<'a>,
        arenas: &mut [&mut [u8]],
    ) -> Result<u64, Stopped> {
        block.begin(hand.first());
        for (number, (index, age)) in hand.index().iter().zip(hand.ages()).enumerate() {
            match hand.runs().get(number).filter(|_| quiet & 1 << number != 0) {
                Some(run) => {
                    block.push(Item { run, index: RowIndex(*index), age: *age, attempt: 0 });
                }
                None => self.look_from(
                    job,
                    hand.first() + number,
                    Drawn::first(RowIndex(*index)),
                    block,
                )?,
            }
        }
        block.find(job.filler.plan.copies().stretches());
        job.filler.fill(block, None, arenas);
        if block.is_still_whole() {
            return Ok(block.attempts());
        }
        self.fill_some_again(job, block, arenas)
    }
}

#[cfg(not(test))]
use copy_hand as fill_hand;
#[cfg(test)]
use tests::copy_late as fill_hand;

/// Copies all items of a hand. `false`: that is not possible at once.
#[inline]
fn copy_hand(job: Job<'_>, hand: &Hand<'_>, next: &Hand<'_>, arenas: &mut [&mut [u8]]) -> bool {
    job.filler.fill_hand(hand, next, arenas)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::{
        Boundary, DType, LanePolicy, Ring, RingOptions, SamplerOptions, Schema, StepColumns,
        WriterOptions,
    };

    thread_local! {
        /// Runs once, between the draw of a hand and its copy.
        static BEFORE_THE_COPY: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
    }

    pub(super) fn copy_late(
        job: Job<'_>,
        hand: &Hand<'_>,
        next: &Hand<'_>,
        arenas: &mut [&mut [u8]],
    ) -> bool {
        if let Some(work) = BEFORE_THE_COPY.take() {
            work();
        }
        copy_hand(job, hand, next, arenas)
    }

    #[test]
    fn items_whose_rows_are_overwritten_before_the_copy_are_drawn_again() {
        let schema = Schema::builder().column("obs", DType::U64, &[]).build().unwrap();
        let options = RingOptions::with_capacity(200).lane_policy(LanePolicy::Overwrite);
        let ring = Ring::heap(&schema, options).unwrap();
        let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
        let mut append = move |rows: std::ops::Range<u64>| {
            for row in rows {
                let obs = [row];
                let mut columns = StepColumns::of(&schema).with("obs", &obs).unwrap();
                writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
            }
        };
        let slots = ring.slots();
        append(0..slots);
        let options = SamplerOptions::seeded(5).boundary(Boundary::Mask);
        let mut sampler = ring.sampler(options).unwrap();
        // Once around and a half: every slot holds a later row than the one that was drawn.
        BEFORE_THE_COPY.set(Some(Box::new(move || append(slots..2 * slots + slots / 2))));
        let batch = sampler.sample(64).unwrap();
        assert!(BEFORE_THE_COPY.take().is_none(), "no hand was copied at once");
        assert!(sampler.lapped() > 0);
        let rows = batch.column::<u64>("obs").unwrap().iter().copied().collect::<Vec<_>>();
        let index = batch.column::<i64>("index").unwrap();
        let drawn = index.iter().map(|index| RowIndex(*index).seq()).collect::<Vec<_>>();
        assert_eq!(rows, drawn);
    }
}
