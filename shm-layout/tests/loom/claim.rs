//! Models of a table of claims: two claimants and the process that begins passes. A position goes
//! to one claimant, and a claimant has the ranges of the pass that it claims of. Each mutant must
//! give a row to two claimants, or lose one.

use std::ops::Range;
use std::sync::atomic::{AtomicU64 as Counter, Ordering::SeqCst};

use backcast_layout::protocol::claim::{
    ClaimFence, ClaimPass, ClaimWords, begin, give_back, position, read, take,
};
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::holds;

/// Positions of each pass.
const ROWS: u64 = 2;
/// Bits of the position in the word of the claims.
const POSITION_BITS: u32 = 40;
/// Words of a bank of one lane.
const WORDS: usize = 3;

/// A single change of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    None,
    /// The word is loaded and stored, instead of one compare-and-exchange.
    SplitExchange,
    /// The exchange has no release ordering.
    RelaxedExchange,
    /// Loads of the word have no acquire ordering.
    RelaxedLoad,
    /// All passes have one bank.
    OneBank,
    /// A reader does not look at the word again after it copied a bank.
    NoSecondLook,
    /// The fence after the copy of a bank is left out.
    NoCopiedFence,
    /// The fence before a bank is written is left out.
    NoWritingFence,
    /// Passes begin without the table's lock.
    NoLock,
    /// A claimant that gives a position back stores the word, whatever it is.
    BlindReturn,
    /// A pass begins after all positions were claimed, whatever was given back since.
    BlindBegin,
}

#[derive(Default)]
struct Seen {
    executions: Counter,
    claims: Counter,
    passes: Counter,
    retries: Counter,
    returns: Counter,
}

struct Shared {
    claim: AtomicU64,
    banks: [[AtomicU64; WORDS]; 2],
    /// The table's lock, which the kernel frees when its holder dies.
    lock: Mutex<()>,
    mutant: Mutant,
    /// Rows that were claimed.
    claimed: Mutex<Vec<u64>>,
    seen: std::sync::Arc<Seen>,
}

impl Shared {
    /// Returns a table whose first pass has begun.
    fn new(mutant: Mutant, seen: &std::sync::Arc<Seen>) -> Arc<Self> {
        let bank = || [0, 0, 0].map(AtomicU64::new);
        let shared = Self {
            claim: AtomicU64::new(0),
            banks: [bank(), bank()],
            lock: Mutex::new(()),
            mutant,
            claimed: Mutex::new(Vec::new()),
            seen: std::sync::Arc::clone(seen),
        };
        assert!(begin(&Process::of(&shared), &after(0), 0), "the first pass begins");
        Arc::new(shared)
    }

    /// Runs `change` with the lock of the table.
    fn locked(&self, change: impl FnOnce()) {
        let held = (self.mutant != Mutant::NoLock).then(|| self.lock.lock().unwrap());
        change();
        drop(held);
    }
}

/// Accesses of one process.
struct Process<'a> {
    shared: &'a Shared,
    /// Changes until the process is killed.
    left: std::cell::Cell<usize>,
    /// Word of the claims that the copy of a bank began with.
    first: std::cell::Cell<u64>,
    copied: std::cell::Cell<bool>,
}

impl<'a> Process<'a> {
    fn of(shared: &'a Shared) -> Self {
        Self::killed_after(shared, usize::MAX)
    }

    fn killed_after(shared: &'a Shared, changes: usize) -> Self {
        let (first, copied) = (0.into(), false.into());
        Self { shared, left: changes.into(), first, copied }
    }

    fn is_dead(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left == 0
    }

    fn word(&self, bank: usize, word: usize) -> &AtomicU64 {
        &self.shared.banks[if self.shared.mutant == Mutant::OneBank { 0 } else { bank }][word]
    }
}

impl ClaimWords for Process<'_> {
    fn claim(&self, order: Ordering) -> u64 {
        if self.copied.replace(false) && self.shared.mutant == Mutant::NoSecondLook {
            return self.first.get();
        }
        let relaxed = self.shared.mutant == Mutant::RelaxedLoad;
        let word = self.shared.claim.load(if relaxed { Ordering::Relaxed } else { order });
        self.first.set(word);
        word
    }

    fn exchange(&self, current: u64, new: u64) -> bool {
        if self.is_dead() {
            return true;
        }
        let claim = &self.shared.claim;
        let order = match self.shared.mutant {
            Mutant::SplitExchange => {
                let same = claim.load(Ordering::Acquire) == current;
                if same {
                    claim.store(new, Ordering::Release);
                }
                return same;
            }
            Mutant::RelaxedExchange => Ordering::Relaxed,
            _ => Ordering::AcqRel,
        };
        claim.compare_exchange(current, new, order, Ordering::Relaxed).is_ok()
    }

    fn load(&self, bank: usize, word: usize) -> u64 {
        self.word(bank, word).load(Ordering::Relaxed)
    }

    fn store(&self, bank: usize, word: usize, value: u64) {
        if !self.is_dead() {
            self.word(bank, word).store(value, Ordering::Relaxed);
        }
    }

    fn fence(&self, at: ClaimFence) {
        match (at, self.shared.mutant) {
            (ClaimFence::Copied, Mutant::NoCopiedFence)
            | (ClaimFence::Writing, Mutant::NoWritingFence) => {}
            (ClaimFence::Copied, _) => fence(Ordering::Acquire),
            (ClaimFence::Writing, _) => fence(Ordering::Release),
        }
        self.copied.set(at == ClaimFence::Copied);
    }
}

/// Returns what begins the pass after number `number`.
fn after(number: u64) -> ClaimPass {
    let rows = |first: u64| first..first + ROWS;
    ClaimPass { number, round: 10 + number, ranges: vec![rows(ROWS * number)] }
}

/// Begins a pass, however many positions of the last one are claimed. Returns `false` if another
/// pass goes on. Tries again only after another process has claimed or given back a position.
fn begin_after_any(process: &Process<'_>, pass: &ClaimPass) -> bool {
    loop {
        let (number, claimed) = position(process);
        if number != pass.number {
            return false;
        }
        if begin(process, pass, claimed) {
            return true;
        }
    }
}

/// Returns the pass that goes on, which must be whole: as its beginner described it.
fn copy(process: &Process<'_>, others: &[ClaimPass]) -> ClaimPass {
    let pass = read(process, 1);
    let is = |begun: &ClaimPass| (begun.round, &begun.ranges) == (pass.round, &pass.ranges);
    let whole = is(&after(pass.number.wrapping_sub(1))) || others.iter().any(is);
    assert!(whole, "pass {pass:?} is torn");
    pass
}

/// Returns another pass after the first one, with more rows.
fn longer() -> ClaimPass {
    let mut pass = ClaimPass { round: 99, ..after(1) };
    pass.ranges.iter_mut().for_each(|rows| rows.end += ROWS);
    pass
}

fn claim_one(process: &Process<'_>, pass: &ClaimPass) -> Option<u64> {
    let Range { start, end } = pass.ranges[0];
    let taken = take(process, pass.number, end - start, 1)?;
    process.shared.seen.claims.fetch_add(1, SeqCst);
    Some(start + taken.start)
}

/// Claims rows, and begins the next pass when all of one are claimed.
fn claimant(shared: &Shared, rows: usize) {
    let process = Process::of(shared);
    for _ in 0..rows {
        let row = loop {
            let pass = copy(&process, &[]);
            if let Some(row) = claim_one(&process, &pass) {
                break row;
            }
            shared.seen.retries.fetch_add(1, SeqCst);
            shared.locked(|| {
                let found = copy(&process, &[]);
                if found.number != pass.number {
                    return;
                }
                let next = after(found.number);
                let all = found.number << POSITION_BITS | ROWS;
                let begun = if shared.mutant == Mutant::BlindBegin {
                    process.claim(Ordering::Acquire) == all && begin_after_any(&process, &next)
                } else {
                    begin(&process, &next, ROWS)
                };
                if begun {
                    shared.seen.passes.fetch_add(1, SeqCst);
                }
            });
        };
        shared.claimed.lock().unwrap().push(row);
    }
}

fn run(
    bound: usize,
    mutant: Mutant,
    model: impl Fn(&std::sync::Arc<Seen>) + Send + Sync + 'static,
) -> (bool, std::sync::Arc<Seen>) {
    let seen = std::sync::Arc::new(Seen::default());
    let counters = std::sync::Arc::clone(&seen);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(bound);
    let passed = holds(&builder, move || {
        counters.executions.fetch_add(1, SeqCst);
        model(&counters);
    });
    let [executions, claims, begun, retries] =
        [&seen.executions, &seen.claims, &seen.passes, &seen.retries].map(|c| c.load(SeqCst));
    println!(
        "{mutant:?}: {executions} executions, {claims} claims, {begun} passes, {retries} retries"
    );
    (passed, seen)
}

/// Two processes claim three rows of two passes, and one of them begins the second pass.
fn two_claimants(mutant: Mutant) -> (bool, std::sync::Arc<Seen>) {
    run(3, mutant, move |seen| {
        let shared = Shared::new(mutant, seen);
        let other = thread::spawn({
            let shared = Arc::clone(&shared);
            move || claimant(&shared, 1)
        });
        claimant(&shared, 2);
        other.join().unwrap();
        let mut rows = shared.claimed.lock().unwrap().clone();
        rows.sort_unstable();
        assert_eq!(rows, [0, 1, 2], "a row went to two claimants, or was lost");
    })
}

/// One process begins two passes, of which the second is written where the first one stood; another
/// copies a pass and claims of it.
fn copies_beside_passes(mutant: Mutant) -> (bool, std::sync::Arc<Seen>) {
    run(4, mutant, move |seen| {
        let shared = Shared::new(mutant, seen);
        let beginner = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let process = Process::of(&shared);
                for number in 1..3 {
                    let begun = begin_after_any(&process, &after(number));
                    assert!(begun, "nobody else begins passes");
                    shared.seen.passes.fetch_add(1, SeqCst);
                }
            }
        });
        let process = Process::of(&shared);
        let pass = copy(&process, &[]);
        if claim_one(&process, &pass).is_none() {
            shared.seen.retries.fetch_add(1, SeqCst);
        }
        beginner.join().unwrap();
    })
}

/// A process is killed at each of its changes while it begins a pass. The next one begins another,
/// with more rows, and a third copies what goes on.
fn a_killed_beginner(mutant: Mutant) -> (bool, std::sync::Arc<Seen>) {
    let seen = std::sync::Arc::new(Seen::default());
    for changes in 0..=WORDS {
        let longer = longer();
        let (passed, found) = run(3, mutant, move |seen| {
            let shared = Shared::new(mutant, seen);
            let beginners = thread::spawn({
                let (shared, longer) = (Arc::clone(&shared), longer.clone());
                move || {
                    let victim = Process::killed_after(&shared, changes);
                    shared.locked(|| {
                        begin_after_any(&victim, &after(1));
                    });
                    let next = Process::of(&shared);
                    shared.locked(|| assert!(begin_after_any(&next, &longer), "pass lost"));
                    shared.seen.passes.fetch_add(1, SeqCst);
                }
            });
            let process = Process::of(&shared);
            let pass = copy(&process, std::slice::from_ref(&longer));
            if claim_one(&process, &pass).is_none() {
                shared.seen.retries.fetch_add(1, SeqCst);
            }
            beginners.join().unwrap();
        });
        if !passed {
            return (false, found);
        }
        for (all, more) in [
            (&seen.claims, &found.claims),
            (&seen.passes, &found.passes),
            (&seen.retries, &found.retries),
        ] {
            all.fetch_add(more.load(SeqCst), SeqCst);
        }
    }
    (true, seen)
}

/// Two processes begin the same pass, each with other rows, and copy what goes on.
fn two_beginners(mutant: Mutant) -> (bool, std::sync::Arc<Seen>) {
    run(3, mutant, move |seen| {
        let shared = Shared::new(mutant, seen);
        let longer = longer();
        let run = |shared: &Shared, pass: &ClaimPass, longer: &ClaimPass| {
            let process = Process::of(shared);
            shared.locked(|| {
                if begin_after_any(&process, pass) {
                    shared.seen.passes.fetch_add(1, SeqCst);
                }
            });
            let pass = copy(&process, std::slice::from_ref(longer));
            if claim_one(&process, &pass).is_none() {
                shared.seen.retries.fetch_add(1, SeqCst);
            }
        };
        let other = thread::spawn({
            let (shared, longer) = (Arc::clone(&shared), longer.clone());
            move || run(&shared, &longer, &longer)
        });
        run(&shared, &after(1), &longer);
        other.join().unwrap();
    })
}

/// A process claims a position and gives it back, while another claims all that it
/// can. A returned position is claimed anew, and every other one belongs to one process.
fn a_returned_claim(mutant: Mutant) -> (bool, std::sync::Arc<Seen>) {
    run(4, mutant, move |seen| {
        let shared = Shared::new(mutant, seen);
        let other = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let process = Process::of(&shared);
                let pass = copy(&process, &[]);
                while let Some(row) = claim_one(&process, &pass) {
                    shared.claimed.lock().unwrap().push(row);
                }
            }
        });
        let process = Process::of(&shared);
        if let Some(taken) = take(&process, 1, ROWS, 1) {
            let is_returned = if mutant == Mutant::BlindReturn {
                shared.claim.store(1 << POSITION_BITS | taken.start, Ordering::Release);
                true
            } else {
                give_back(&process, 1, &taken)
            };
            if is_returned {
                shared.seen.returns.fetch_add(1, SeqCst);
            } else {
                shared.claimed.lock().unwrap().push(taken.start);
            }
        }
        other.join().unwrap();
        let (_, next) = position(&process);
        let mut rows = shared.claimed.lock().unwrap().clone();
        rows.sort_unstable();
        let expected: Vec<u64> = (0..next).collect();
        assert_eq!(rows, expected, "a row went to two claimants, or was lost");
    })
}

/// A process claims a position and gives it back, while another claims two rows, and begins the
/// second pass if all rows of the first one are claimed. Every position before the next one belongs
/// to a process.
fn a_returned_claim_beside_a_beginner(mutant: Mutant) -> (bool, std::sync::Arc<Seen>) {
    run(3, mutant, move |seen| {
        let shared = Shared::new(mutant, seen);
        let other = thread::spawn({
            let shared = Arc::clone(&shared);
            move || claimant(&shared, 2)
        });
        let process = Process::of(&shared);
        if let Some(taken) = take(&process, 1, ROWS, 1) {
            if give_back(&process, 1, &taken) {
                shared.seen.returns.fetch_add(1, SeqCst);
            } else {
                shared.claimed.lock().unwrap().push(taken.start);
            }
        }
        other.join().unwrap();
        let (number, next) = position(&process);
        let mut rows = shared.claimed.lock().unwrap().clone();
        rows.sort_unstable();
        let expected: Vec<u64> = (0..ROWS * (number - 1) + next).collect();
        assert_eq!(rows, expected, "a row went to two claimants, or was lost");
    })
}

fn passes((passed, seen): (bool, std::sync::Arc<Seen>)) {
    assert!(passed, "a row went to two claimants, or a pass was torn");
    for counter in [&seen.claims, &seen.passes] {
        assert!(counter.load(SeqCst) > 0, "the model proves nothing");
    }
}

fn dies((passed, _): (bool, std::sync::Arc<Seen>)) {
    assert!(!passed, "the mutant was not caught");
}

#[test]
fn every_row_goes_to_one_claimant() {
    passes(two_claimants(Mutant::None));
}

#[test]
fn a_copied_pass_is_whole() {
    passes(copies_beside_passes(Mutant::None));
}

#[test]
fn a_killed_beginner_leaves_the_pass_that_went_on() {
    passes(a_killed_beginner(Mutant::None));
}

#[test]
fn one_of_two_beginners_begins_the_pass() {
    passes(two_beginners(Mutant::None));
}

#[test]
fn a_returned_claim_goes_to_one_other() {
    let (passed, seen) = a_returned_claim(Mutant::None);
    assert!(passed, "a row went to two claimants, or was lost");
    assert!(seen.returns.load(SeqCst) > 0, "the model proves nothing");
}

#[test]
fn a_returned_claim_is_not_lost_to_the_next_pass() {
    let (passed, seen) = a_returned_claim_beside_a_beginner(Mutant::None);
    assert!(passed, "a row went to two claimants, or was lost");
    assert!(seen.returns.load(SeqCst) > 0, "the model proves nothing");
}

#[test]
fn a_pass_that_begins_blindly_loses_a_returned_claim() {
    dies(a_returned_claim_beside_a_beginner(Mutant::BlindBegin));
}

#[test]
fn a_claim_that_is_returned_blindly_goes_to_two() {
    dies(a_returned_claim(Mutant::BlindReturn));
}

#[test]
fn a_claim_that_is_loaded_and_stored_goes_to_two() {
    dies(two_claimants(Mutant::SplitExchange));
}

#[test]
fn a_pass_that_begins_relaxed_is_copied_torn() {
    dies(copies_beside_passes(Mutant::RelaxedExchange));
}

#[test]
fn a_pass_that_is_looked_at_relaxed_is_copied_torn() {
    dies(copies_beside_passes(Mutant::RelaxedLoad));
}

#[test]
fn one_bank_is_overwritten_while_its_pass_goes_on() {
    dies(copies_beside_passes(Mutant::OneBank));
    dies(a_killed_beginner(Mutant::OneBank));
}

#[test]
fn without_a_second_look_a_torn_copy_is_used() {
    dies(copies_beside_passes(Mutant::NoSecondLook));
}

#[test]
fn without_the_fence_after_the_copy_it_is_torn() {
    dies(copies_beside_passes(Mutant::NoCopiedFence));
}

#[test]
fn without_the_fence_before_the_bank_a_copy_is_torn() {
    dies(copies_beside_passes(Mutant::NoWritingFence));
}

#[test]
fn without_the_lock_a_pass_that_goes_on_is_overwritten() {
    dies(two_beginners(Mutant::NoLock));
}
