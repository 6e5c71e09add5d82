//! A reader of the lease order storm: takes leases and retention pins of older, newer and equal
//! rows beside those that it holds, releases them in any order, and checks all held rows after
//! each. Ends by itself, with an error, only if a row changed. `storm_orders DIR NAME SEED`

use std::env;
use std::error::Error;
use std::io::{Write, stdout};
use std::ops::Range;
use std::sync::Arc;

use backcast_core::{Base, Lease, LeaseError, RetentionPin, Ring};
use backcast_layout::protocol::{Words, readable};
use backcast_layout::{Lane, PinnedRows, ReaderPins, ReaderPinsError, RingStore};
use backcast_tests::certified::{is_row, leased_row, obs};
use backcast_tests::orders::Orders;
use backcast_tests::storm::mix;
use bytemuck::cast_slice_mut;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Distances of the first lease of a round from the oldest readable row, in rows.
const AHEAD: [u64; 5] = [20, 40, 64, 150, 250];
/// Most rows of a lease. Its pin is on the first row.
const ROWS: usize = 4;
const LONGEST: u64 = ROWS as u64;
/// Leases held at the same time.
const MOST: usize = 8;
/// Requests in a round.
const ASKS: u64 = 24;
/// Requests for older rows between two checks of the held rows.
const BURST: u64 = 32;
/// Requests for a row after one read of the lane's counters.
const STALE: u64 = 16;
/// Number of the observation column in the file, after the row headers.
const OBS: usize = 1;
/// Rows that a writer announces at a time.
const CHUNK: u64 = 16;
/// Rounds between two reports.
const ROUNDS_A_REPORT: u64 = 8;
/// Checks of a released row before the reader stops waiting for the writer.
const LOOKS_FOR_THE_WRITER: u32 = 200;

fn main() -> Outcome<()> {
    let args: Vec<String> = env::args().collect();
    let [_, dir, name, seed] = args.as_slice() else {
        return Err("usage: storm_orders DIR NAME SEED".into());
    };
    // Dies with the test, even while it is stopped.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let base = Base::at(dir);
    let rings = [Ring::attach_in(&base, name)?, Ring::attach_in(&base, name)?];
    let store = Arc::new(RingStore::attach(&base, name)?);
    let book = ReaderPins::open(&store)?.ok_or("no reader slot")?;
    let (dice, counts) = (seed.parse()?, Orders::default());
    let (leases, kept, held) = (Vec::new(), None, None);
    let mut reader = Reader { rings, store, book, leases, kept, held, dice, counts };
    // The parent changes when the test dies.
    let test = rustix::process::getppid();
    for round in 1_u64.. {
        reader.round()?;
        if round % ROUNDS_A_REPORT == 0 {
            if rustix::process::getppid() != test {
                break;
            }
            writeln!(stdout(), "{}", reader.counts.line())?;
        }
    }
    Err("the test that started this process is gone".into())
}

struct Reader {
    /// Two handles, each with a reader slot of its own.
    rings: [Ring; 2],
    store: Arc<RingStore>,
    /// Pins of a reader slot, without the checks that a lease makes before and after.
    book: Arc<ReaderPins>,
    /// Leases, each with the number of its handle.
    leases: Vec<(usize, Lease)>,
    /// A retention pin, in a third slot, and its first row.
    kept: Option<(RetentionPin, u64)>,
    /// Rows pinned through `book`, in a fourth slot.
    held: Option<PinnedRows>,
    dice: u64,
    counts: Orders,
}

impl Reader {
    fn below(&mut self, limit: u64) -> u64 {
        self.dice = mix(self.dice);
        self.dice % limit
    }

    fn handle(&mut self) -> usize {
        usize::from(self.below(2) == 1)
    }

    /// Returns the oldest first row of the leases of one handle.
    fn oldest(&self, handle: usize) -> Option<u64> {
        let ours = self.leases.iter().filter(|(of, _)| *of == handle);
        ours.map(|(_, lease)| lease.place().1.start).min()
    }

    fn round(&mut self) -> Outcome<()> {
        let lane = u32::try_from(self.below(self.rings[0].lanes().into()))?;
        let ahead = AHEAD[usize::try_from(self.below(AHEAD.len() as u64))?];
        let handle = self.handle();
        let oldest = self.readable(lane)?.start;
        if !self.ask(lane, handle, oldest + ahead)? {
            return Ok(());
        }
        self.counts.rounds += 1;
        if self.below(2) == 0 {
            let mut guard = RetentionPin::new(&self.rings[0])?;
            let from = oldest + ahead + self.below(CHUNK);
            if guard.keep(lane, from).is_ok() {
                self.kept = Some((guard, from));
            }
        }
        let memory = self.store.lane(lane).ok_or("a lane is missing")?;
        self.held = self.book.hold(lane, &memory, oldest + ahead).ok();
        for _ in 0..ASKS {
            self.freeze_older(lane)?;
            self.ask_for_more(lane)?;
            self.look(lane)?;
        }
        self.held = None;
        let left = self.leases.first().map(|(_, lease)| lease.place().1.start);
        while !self.leases.is_empty() || self.kept.is_some() {
            self.let_go()?;
            self.look(lane)?;
        }
        left.map_or(Ok(()), |seq| self.await_writer(lane, seq))
    }

    fn readable(&self, lane: u32) -> Outcome<Range<u64>> {
        Ok(self.rings[0].lane_span(lane).ok_or("a lane is missing")?)
    }

    fn ask_for_more(&mut self, lane: u32) -> Outcome<()> {
        let handle = self.handle();
        match self.below(16) {
            0 => self.let_go(),
            1 => {
                // A handle without a lease takes its first one beside those of the other handle.
                let (held, readable) = (self.oldest(handle), self.readable(lane)?);
                let newer = held.unwrap_or(readable.start) + 1 + self.below(200);
                let granted = self.ask(lane, handle, newer)?;
                self.counts.newer += u64::from(granted && held.is_some());
                Ok(())
            }
            2 => {
                let Some(equal) = self.oldest(handle) else { return Ok(()) };
                self.counts.equal += u64::from(self.ask(lane, handle, equal)?);
                Ok(())
            }
            3..=6 => self.keep_older(lane),
            _ => self.ask_for_older(lane, handle),
        }
    }

    /// Leases the row that the writer overwrites next, repeatedly. Keeps few of these leases, as
    /// each blocks the writer.
    fn ask_for_older(&mut self, lane: u32, handle: usize) -> Outcome<()> {
        let Some(held) = self.oldest(handle) else { return Ok(()) };
        for _ in 0..BURST {
            let start = self.readable(lane)?.start;
            if held <= start {
                break;
            }
            match self.rings[handle].lease(lane, start..start + 1) {
                Ok(lease) => {
                    self.counts.older += 1;
                    if self.below(4 * BURST) == 0 {
                        self.leases.push((handle, lease));
                        break;
                    }
                }
                Err(LeaseError::NotReadable { .. }) => self.counts.older_gone += 1,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads the lane's counters and pins its oldest row, as a handle does for a lease. Then pins
    /// the same row repeatedly, as a reader does that was delayed after the read.
    fn freeze_older(&mut self, lane: u32) -> Outcome<()> {
        let Some(held) = &self.held else { return Ok(()) };
        let memory = self.store.lane(lane).ok_or("a lane is missing")?;
        for _ in 0..BURST {
            let start = readable(&*memory, memory.capacity()).start;
            if held.start() <= start {
                break;
            }
            for _ in 0..STALE {
                match self.book.hold(lane, &memory, start) {
                    Ok(older) => drop(older),
                    Err(ReaderPinsError::Lapped(_)) => self.counts.older_late += 1,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    /// Moves the retention pin back to a row whose slot the writer announces now or soon, and
    /// forward again.
    fn keep_older(&mut self, lane: u32) -> Outcome<()> {
        for _ in 0..BURST / 4 {
            // A row near the one that the writer overwrites.
            let ahead = self.below(3 * CHUNK);
            let (head, slots) = (self.readable(lane)?.end, self.rings[0].slots());
            let Some((guard, from)) = &mut self.kept else { break };
            let older = (head + ahead).saturating_sub(slots + 2 * CHUNK);
            if older >= *from {
                break;
            }
            match guard.keep(lane, older) {
                Ok(()) => {
                    self.counts.kept_back += 1;
                    guard.keep(lane, *from)?;
                }
                Err(LeaseError::Pins(_)) => self.counts.kept_back_late += 1,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Leases some rows from `start` on, and keeps the lease. Returns `false` if they are not
    /// readable.
    fn ask(&mut self, lane: u32, handle: usize, start: u64) -> Outcome<bool> {
        let length = 1 + self.below(LONGEST);
        match self.rings[handle].lease(lane, start..start + length) {
            Ok(lease) => {
                let beside = self.leases.iter().any(|(of, _)| *of != handle);
                self.counts.two_handles += u64::from(beside);
                self.leases.push((handle, lease));
                if self.leases.len() > MOST {
                    self.let_go()?;
                }
                Ok(true)
            }
            Err(LeaseError::NotReadable { .. } | LeaseError::Pins(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Drops a random lease, or the retention pin if there is none.
    fn let_go(&mut self) -> Outcome<()> {
        if self.leases.is_empty() {
            self.kept = None;
            return Ok(());
        }
        let which = usize::try_from(self.below(self.leases.len() as u64))?;
        let (handle, lease) = self.leases.swap_remove(which);
        drop(lease);
        self.counts.ended_early += u64::from(self.oldest(handle).is_some());
        Ok(())
    }

    /// Checks every row that is held.
    fn look(&mut self, lane: u32) -> Outcome<()> {
        for (handle, lease) in &self.leases {
            let (lane, range) = lease.place();
            for (row, seq) in range.enumerate() {
                if !is_row(lane, seq, leased_row(lease, row)) {
                    let what = format!("row {seq} of lane {lane}, handle {handle}");
                    return Err(format!("{what}, changed under its lease").into());
                }
            }
        }
        if let Some(held) = &self.held
            && !has_row(held.memory(), lane, held.start())
        {
            let seq = held.start();
            return Err(format!("row {seq} of lane {lane} changed while it was held").into());
        }
        if let Some((guard, from)) = &self.kept {
            let kept = guard.span(lane).ok_or("nothing is kept")?;
            let rows = *from..(from + LONGEST).min(kept.end);
            if !is_kept(guard, lane, rows)? {
                return Err(format!("row {from} of lane {lane} changed while it was kept").into());
            }
        }
        self.counts.looks += 1;
        Ok(())
    }

    /// The control: released rows are overwritten, and the checks detect that.
    fn await_writer(&mut self, lane: u32, seq: u64) -> Outcome<()> {
        let memory = self.store.lane(lane).ok_or("a lane is missing")?;
        for _ in 0..LOOKS_FOR_THE_WRITER {
            if !has_row(&memory, lane, seq) {
                self.counts.overwritten += 1;
                break;
            }
            std::thread::yield_now();
        }
        Ok(())
    }
}

/// Returns whether the observation in a row's slot is that row's.
fn has_row(memory: &Lane, lane: u32, seq: u64) -> bool {
    let mut word = [0];
    memory.copy_out(OBS, seq % memory.slots(), 1, cast_slice_mut(&mut word));
    word[0] == obs(lane, seq)
}

/// Returns whether the rows that a retention pin keeps are those that were written; at most
/// [`LONGEST`].
fn is_kept(guard: &RetentionPin, lane: u32, rows: Range<u64>) -> Outcome<bool> {
    let count = usize::try_from(rows.end.saturating_sub(rows.start))?;
    let (mut seqs, mut episodes, mut obs) = ([0_u64; ROWS], [0_u64; ROWS], [0_u64; ROWS]);
    let (mut steps, mut flags) = ([0_u32; ROWS], [0_u32; ROWS]);
    let (mut words, mut rewards) = ([[0_u64; 2]; ROWS], [0_f32; ROWS]);
    let mut out = [
        cast_slice_mut(&mut seqs[..count]),
        cast_slice_mut(&mut episodes[..count]),
        cast_slice_mut(&mut steps[..count]),
        cast_slice_mut(&mut flags[..count]),
        cast_slice_mut(&mut obs[..count]),
        cast_slice_mut(&mut words[..count]),
        cast_slice_mut(&mut rewards[..count]),
    ];
    guard.rows_into(lane, rows.clone(), &mut out)?;
    Ok(rows.enumerate().all(|(row, seq)| {
        is_row(lane, seq, (obs[row], words[row], rewards[row])) && seqs[row] == seq
    }))
}
