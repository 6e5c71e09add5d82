//! Self-certifying rows: every word, flag and episode end follows from lane and sequence number. A
//! window can be checked by its index alone, with a few multiplications.

use backcast_core::{
    Batch, DType, Element, Lease, Ring, RowIndex, SamplerOptions, Schema, SchemaError, StepColumns,
    Writer,
};

/// Transitions up to and including the drawn one.
const HISTORY: u32 = 5;
/// Transitions after it.
const FUTURE: u32 = 2;
/// Transitions of a return.
const N_STEP: u32 = 3;
/// Places of both windows.
const PAST: usize = HISTORY as usize;
const AHEAD: usize = FUTURE as usize;
/// Discount with which sums of a few small whole rewards are exact in an `f32`.
const GAMMA: f32 = 0.5;

/// Number of the first column after the built-in ones.
const BUILT_IN: usize = 4;

/// Step columns of a row.
pub type Words = [u64; 2];

/// Returns a schema with an observation of one word, a column of two words, and a reward.
pub fn schema() -> Result<Schema, SchemaError> {
    Schema::builder()
        .column("obs", DType::U64, &[])
        .column("words", DType::U64, &[2])
        .column("reward", DType::F32, &[])
        .build()
}

/// Returns options for windows, futures and returns, in independent arrays.
#[must_use]
pub fn options(seed: u64) -> SamplerOptions {
    let options = SamplerOptions::seeded(seed).history(HISTORY).future(FUTURE).copy(true);
    options.n_step(N_STEP).gamma(GAMMA.into())
}

/// Returns the observation of a row, which is unique.
#[must_use]
pub fn obs(lane: u32, seq: u64) -> u64 {
    (u64::from(lane) << 48 | seq).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Returns the words of a row that is not FINAL.
#[must_use]
pub fn words(lane: u32, seq: u64) -> Words {
    let obs = obs(lane, seq);
    [!obs, obs.rotate_left(32)]
}

/// Returns the reward of a row that is not FINAL: 1 to 256.
#[must_use]
pub fn reward(lane: u32, seq: u64) -> f32 {
    1.0 + f32::from(obs(lane, seq).to_be_bytes()[0])
}

/// Returns the number of rows of an episode, the FINAL one included.
fn length(lane: u32) -> u64 {
    19 + 2 * u64::from(lane)
}

/// Returns whether the row is FINAL.
#[must_use]
pub fn is_final(lane: u32, seq: u64) -> bool {
    seq % length(lane) == length(lane) - 1
}

/// Returns whether the transition is terminated, and whether it is truncated.
fn ends(lane: u32, seq: u64) -> (bool, bool) {
    let last = is_final(lane, seq + 1);
    let odd = seq / length(lane) % 2 == 1;
    (last && !odd, last && odd)
}

/// Appends rows to all lanes of a new writer, in `next_step` mode, until `go_on` returns false.
/// Returns the number of steps.
pub fn write(
    ring: &Ring,
    writer: &mut Writer,
    mut go_on: impl FnMut() -> bool,
) -> Result<u64, Box<dyn std::error::Error>> {
    let lanes = writer.lanes().to_vec();
    let first = |lane: &u32| ring.lane_span(*lane).map(|span| span.end).ok_or("a lane is missing");
    let mut seqs: Vec<u64> = lanes.iter().map(first).collect::<Result<_, _>>()?;
    let (mut terminated, mut truncated) = (vec![false; lanes.len()], vec![false; lanes.len()]);
    let mut steps = 0;
    while go_on() {
        let places = || lanes.iter().copied().zip(seqs.iter().copied());
        let obs: Vec<u64> = places().map(|(lane, seq)| obs(lane, seq)).collect();
        let words: Vec<u64> = places().flat_map(|(lane, seq)| words(lane, seq)).collect();
        let rewards: Vec<f32> = places().map(|(lane, seq)| reward(lane, seq)).collect();
        for (i, (lane, seq)) in places().enumerate() {
            (terminated[i], truncated[i]) = ends(lane, seq);
        }
        let columns = StepColumns::of(ring.schema());
        let columns = columns.with("obs", &obs)?.with("words", &words)?;
        let columns = columns.with("reward", &rewards)?;
        writer.append(&columns.step(&terminated, &truncated)?)?;
        for seq in &mut seqs {
            *seq += 1;
        }
        steps += 1;
    }
    Ok(steps)
}

/// Checks every window of a batch. Returns the number of rows in them, or the first error.
pub fn check(batch: &Batch) -> Result<u64, String> {
    let arrays = Arrays::of(batch)?;
    let mut rows = 0;
    for (b, index) in arrays.index.iter().enumerate() {
        let (lane, seq) = (RowIndex(*index).lane(), RowIndex(*index).seq());
        rows += arrays
            .check(b, lane, seq)
            .ok_or_else(|| format!("lane {lane}, row {seq}: torn; {}", arrays.show(b)))?;
    }
    Ok(rows)
}

/// Returns whether a row that was read without windows is the requested one.
#[must_use]
pub fn is_row(lane: u32, seq: u64, (obs, words, reward): (u64, Words, f32)) -> bool {
    let step = if is_final(lane, seq) {
        ([0, 0], 0.0)
    } else {
        (self::words(lane, seq), self::reward(lane, seq))
    };
    obs == self::obs(lane, seq) && words == step.0 && reward.to_bits() == step.1.to_bits()
}

/// Returns row `row` of a lease, for [`is_row`].
///
/// # Panics
/// If the lease has another schema, or fewer rows.
#[must_use]
pub fn leased_row(lease: &Lease, row: usize) -> (u64, Words, f32) {
    let (mut obs, mut words, mut reward) = ([0], [0; 2], [0.0]);
    let read = lease.copy_row(BUILT_IN, row, bytemuck::cast_slice_mut(&mut obs))
        && lease.copy_row(BUILT_IN + 1, row, bytemuck::cast_slice_mut(&mut words))
        && lease.copy_row(BUILT_IN + 2, row, bytemuck::cast_slice_mut(&mut reward));
    assert!(read, "columns of the schema");
    (obs[0], words, reward[0])
}

/// Arrays of a batch.
struct Arrays<'a> {
    index: &'a [i64],
    past: Part<'a>,
    future: Part<'a>,
    n_reward: &'a [f32],
    n_discount: &'a [f32],
    n_next_obs: &'a [u64],
}

/// History or future of all windows.
struct Part<'a> {
    mask: &'a [bool],
    obs: &'a [u64],
    next_obs: &'a [u64],
    words: &'a [u64],
    reward: &'a [f32],
    terminated: &'a [bool],
    truncated: &'a [bool],
}

impl<'a> Arrays<'a> {
    fn of(batch: &'a Batch) -> Result<Self, String> {
        Ok(Self {
            index: array(batch, "index")?,
            past: Part::of(batch, "mask", "")?,
            future: Part::of(batch, "future_mask", "future/")?,
            n_reward: array(batch, "n_reward")?,
            n_discount: array(batch, "n_discount")?,
            n_next_obs: array(batch, "n_next_obs")?,
        })
    }

    /// Returns the number of rows of item `b`, or `None` if one of them is wrong.
    fn check(&self, b: usize, lane: u32, seq: u64) -> Option<u64> {
        let t = seq % length(lane);
        let left = length(lane) - 1 - t;
        // The history ends with the drawn row, and the future begins after it.
        let (past, future) = (self.past.count::<PAST>(b), self.future.count::<AHEAD>(b));
        let fits = left > 0 && 1 <= past && past <= t + 1 && future < left;
        // Places before the lane's first row are masked.
        let oldest = (seq + 1).wrapping_sub(u64::from(HISTORY));
        let whole = self.past.check::<PAST>(b, lane, oldest, u64::from(HISTORY) - past, past)
            && self.future.check::<AHEAD>(b, lane, seq + 1, 0, future);
        (fits && whole && self.returns(b, lane, seq, left)).then_some(past + future + 1)
    }

    /// Checks that the return sums as many transitions as its next observation implies.
    fn returns(&self, b: usize, lane: u32, seq: u64, left: u64) -> bool {
        let run =
            (1..=left.min(u64::from(N_STEP))).find(|k| obs(lane, seq + k) == self.n_next_obs[b]);
        let Some(run) = run else { return false };
        let (mut sum, mut discount) = (0.0, 1.0);
        for k in 0..run {
            sum += discount * reward(lane, seq + k);
            discount *= GAMMA;
        }
        let discount = if ends(lane, seq + run - 1).0 { 0.0 } else { discount };
        [self.n_reward[b], self.n_discount[b]].map(f32::to_bits)
            == [sum, discount].map(f32::to_bits)
    }

    fn show(&self, b: usize) -> String {
        let returns = (self.n_reward[b], self.n_discount[b], self.n_next_obs[b]);
        let (past, future) = (self.past.show::<PAST>(b), self.future.show::<AHEAD>(b));
        format!("past {past}, future {future}, return {returns:?}")
    }
}

impl<'a> Part<'a> {
    fn of(batch: &'a Batch, mask: &str, prefix: &str) -> Result<Self, String> {
        let key = |leaf| format!("{prefix}{leaf}");
        Ok(Self {
            mask: array(batch, mask)?,
            obs: array(batch, &key("obs"))?,
            next_obs: array(batch, &key("next_obs"))?,
            words: array(batch, &key("words"))?,
            reward: array(batch, &key("reward"))?,
            terminated: array(batch, &key("terminated"))?,
            truncated: array(batch, &key("truncated"))?,
        })
    }

    /// Returns the places of item `b` that hold a transition.
    fn count<const LEN: usize>(&self, b: usize) -> u64 {
        self.mask[b * LEN..(b + 1) * LEN].iter().map(|there| u64::from(*there)).sum()
    }

    /// Returns whether `count` places from `from` on hold consecutive rows, of which `first` is in
    /// the first place, and all others are zero.
    fn check<const LEN: usize>(
        &self,
        b: usize,
        lane: u32,
        first: u64,
        from: u64,
        count: u64,
    ) -> bool {
        (0..LEN as u64).all(|place| {
            let at = b * LEN + usize::try_from(place).unwrap_or(LEN);
            let there = from <= place && place < from + count;
            let seq = first.wrapping_add(place);
            let (obs, next, words, reward, ends) = if there {
                let end = ends(lane, seq);
                let next = self::obs(lane, seq + 1);
                (self::obs(lane, seq), next, words(lane, seq), reward(lane, seq), end)
            } else {
                (0, 0, [0, 0], 0.0, (false, false))
            };
            self.mask[at] == there
                && self.obs[at] == obs
                && self.next_obs[at] == next
                && self.words[2 * at..2 * at + 2] == words
                && self.reward[at].to_bits() == reward.to_bits()
                && (self.terminated[at], self.truncated[at]) == ends
        })
    }

    fn show<const LEN: usize>(&self, b: usize) -> String {
        let all = b * LEN..(b + 1) * LEN;
        let (mask, obs) = (&self.mask[all.clone()], &self.obs[all.clone()]);
        format!("{mask:?} {obs:x?} {:x?}", &self.words[2 * all.start..2 * all.end])
    }
}

fn array<'a, T: Element>(batch: &'a Batch, key: &str) -> Result<&'a [T], String> {
    let array = batch.column::<T>(key).map_err(|error| error.to_string())?;
    array.to_slice().ok_or_else(|| format!("{key} is not in one piece"))
}
