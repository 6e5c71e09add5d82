//! Models of the sum tree: a draw during an update, and an updater that is killed after any of its
//! stores before another one takes the lock. Each mutant must be caught.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64 as Counter, Ordering::SeqCst};

use backcast_layout::protocol::sum_tree::{
    Ancestors, Descent, FAN_OUT, JOURNAL_ENTRIES, LeafChange, Recomputed, TreeFence, TreeShape,
    TreeWords, clear_journal, commit, commit_with, descend, is_unchanged, leaf, least, observe,
    recompute, repair, total, write_journal, write_leaves,
};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::thread;

use crate::holds;

/// Two nodes of leaves below one of sums.
const LEAVES: usize = 16;
/// Involuntary switches between the threads, per execution. Every mutant is caught with fewer.
const PREEMPTIONS: usize = 3;
/// Word that tells the row of leaf 9: its mark, which is moved with the leaf.
const MARK: usize = 2;
/// Word of the exponent of a tree that keeps priorities.
const EXPONENT: usize = 3;
/// Maximum stores of an update of two leaves.
const STORES: usize = 11;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    None,
    /// The descent accepts every leaf that it reaches.
    AnyLeaf,
    /// The reader does not look at the counts again.
    OneLook,
    /// The reader issues no fences.
    NoFence,
    /// The next holder does not read the journal.
    NoRepair,
    /// The count of the journal is stored after the leaves.
    LateJournal,
    /// The journal is emptied before the sums are right.
    EarlyClear,
    /// The mark of the newest row is moved when the journal is empty.
    LateMark,
    /// Parents are recomputed before the leaves are stored.
    SumsFirst,
    /// Updaters take no lock.
    NoLock,
    /// The lock does not order its holders.
    RelaxedLock,
    /// The exponent is changed before all leaves are marked as changing.
    LateMarkOfAll,
    /// The exponent is stored after the journal is emptied.
    LateExponent,
    /// Priorities are stored after the journal is emptied.
    LatePriority,
}

/// Words that loom tracks. All other words are always 0.
#[derive(Clone)]
pub(crate) struct Tree {
    words: Arc<BTreeMap<usize, AtomicU64>>,
    pub(crate) shape: Arc<TreeShape>,
    locked: Arc<AtomicBool>,
    pub(crate) mutant: Mutant,
    /// Number of stores before the updater is killed. Later stores do nothing.
    left: std::rc::Rc<std::cell::Cell<usize>>,
}

// SAFETY: loom runs one thread at a time, and each thread has a counter of its own.
#[expect(unsafe_code, reason = "loom's threads take turns")]
unsafe impl Send for Tree {}

impl Tree {
    fn new(mutant: Mutant) -> Self {
        Self::of(TreeShape::new((0, 1), FAN_OUT, LEAVES as u64), mutant)
    }

    /// Returns a tree that keeps priorities, with the exponent 1. A leaf is the product of its
    /// priority and the exponent.
    pub(crate) fn keeping_priorities(mutant: Mutant) -> Self {
        let shape = TreeShape::new((0, 1), FAN_OUT, LEAVES as u64);
        let tree = Self::of(shape.and_then(|shape| shape.keeping_priorities(EXPONENT)), mutant);
        tree.store(EXPONENT, 1, Ordering::Relaxed);
        tree
    }

    fn of(shape: Option<TreeShape>, mutant: Mutant) -> Self {
        let shape = shape.expect("a small tree");
        let used = words_of(&shape).into_iter().map(|word| (word, AtomicU64::new(0)));
        Self {
            words: Arc::new(used.collect()),
            shape: Arc::new(shape),
            locked: Arc::new(AtomicBool::new(false)),
            mutant,
            left: std::rc::Rc::new(std::cell::Cell::new(usize::MAX)),
        }
    }

    /// Returns the present exponent.
    pub(crate) fn exponent(&self) -> u64 {
        self.load(EXPONENT)
    }

    /// Stores the exponent.
    pub(crate) fn store_exponent(&self, exponent: u64) {
        self.store(EXPONENT, exponent, Ordering::Relaxed);
    }

    /// Returns a handle whose process is killed after `stores` stores.
    pub(crate) fn mortal(&self, stores: usize) -> Self {
        Self { left: std::rc::Rc::new(std::cell::Cell::new(stores)), ..self.clone() }
    }

    pub(crate) fn lock(&self) {
        if self.mutant == Mutant::NoLock {
            return;
        }
        let relaxed = self.mutant == Mutant::RelaxedLock;
        let order = if relaxed { Ordering::Relaxed } else { Ordering::Acquire };
        while self.locked.compare_exchange(false, true, order, Ordering::Relaxed).is_err() {
            thread::yield_now();
        }
    }

    /// Releases the lock, as the kernel also does when the process is killed.
    pub(crate) fn unlock(&self) {
        let relaxed = self.mutant == Mutant::RelaxedLock;
        let order = if relaxed { Ordering::Relaxed } else { Ordering::Release };
        self.locked.store(false, order);
    }

    fn update(&self, changes: &[LeafChange]) {
        self.lock();
        let (shape, mut nodes) = (&*self.shape, Ancestors::default());
        if self.mutant != Mutant::NoRepair {
            repair(self, shape, &mut nodes);
        }
        nodes.begin(changes.iter().map(|change| change.leaf));
        match self.mutant {
            Mutant::LateJournal => {
                write_leaves(self, shape, changes);
                write_journal(self, shape, changes);
                recompute(self, shape, &mut nodes, Recomputed::Changed);
                clear_journal(self, shape);
            }
            Mutant::EarlyClear => {
                write_journal(self, shape, changes);
                write_leaves(self, shape, changes);
                clear_journal(self, shape);
                recompute(self, shape, &mut nodes, Recomputed::Changed);
            }
            Mutant::SumsFirst => {
                write_journal(self, shape, changes);
                recompute(self, shape, &mut nodes, Recomputed::Changed);
                write_leaves(self, shape, changes);
                clear_journal(self, shape);
            }
            _ => commit(self, shape, changes, &mut nodes),
        }
        self.unlock();
    }

    /// Draws a leaf. Returns `None` if the sums changed during the descent.
    pub(crate) fn draw(&self, number: u64) -> Option<usize> {
        let mut draw = [Descent::of(number)];
        descend(self, &self.shape, &mut draw);
        let [draw] = draw;
        (draw.value > 0 || self.mutant == Mutant::AnyLeaf).then_some(draw.node)
    }

    pub(crate) fn check_sums(&self) {
        let leaves = (0..LEAVES).map(|at| leaf(self, &self.shape, at));
        let leaves: Vec<u64> = leaves.collect();
        let smallest = leaves.iter().copied().filter(|value| *value > 0).min().unwrap_or(0);
        let is = (total(self, &self.shape), least(self, &self.shape));
        assert_eq!(is, (leaves.iter().sum(), smallest), "lost: sums of {leaves:?}");
    }
}

/// Returns the words that the models use: the count, the changes, the mark, the exponent, two
/// entries, leaves 0, 1, 8 and 9, the sums and smallest leaves of both nodes, and the priorities of
/// these leaves if the tree keeps them.
fn words_of(shape: &TreeShape) -> Vec<usize> {
    let leaves = FAN_OUT + JOURNAL_ENTRIES;
    let (sums, smallest) = (leaves + LEAVES, leaves + LEAVES + FAN_OUT);
    let kept = (smallest + FAN_OUT..shape.end()).step_by(LEAVES);
    [0, 1, MARK, EXPONENT, FAN_OUT, FAN_OUT + 1]
        .into_iter()
        .chain([0, 1, 8, 9].map(|leaf| leaves + leaf))
        .chain(kept.flat_map(|kept| [0, 1, 8, 9].map(|leaf| kept + leaf)))
        .chain([sums, sums + 1, smallest, smallest + 1])
        .collect()
}

impl TreeWords for Tree {
    fn load(&self, word: usize) -> u64 {
        self.words.get(&word).map_or(0, |place| place.load(Ordering::Relaxed))
    }

    fn line(&self, word: usize) -> [u64; FAN_OUT] {
        std::array::from_fn(|at| self.load(word + at))
    }

    fn store(&self, word: usize, value: u64, order: Ordering) {
        if self.left.get() == 0 {
            return;
        }
        self.left.set(self.left.get() - 1);
        match self.words.get(&word) {
            Some(place) => place.store(value, order),
            None => assert_eq!(value, 0, "the model has no word {word}"),
        }
    }

    fn fence(&self, at: TreeFence) {
        match at {
            TreeFence::Listed | TreeFence::Counted | TreeFence::Summed => {
                loom::sync::atomic::fence(Ordering::Release);
            }
            TreeFence::Observed | TreeFence::Descended => {
                if self.mutant != Mutant::NoFence {
                    loom::sync::atomic::fence(Ordering::Acquire);
                }
            }
        }
    }

    fn replace_kept(&self, kept: &mut [u64]) {
        let exponent = self.load(EXPONENT);
        for kept in kept {
            *kept *= exponent;
        }
    }
}

pub(crate) fn change(leaf: usize, value: u64) -> LeafChange {
    LeafChange { leaf, value }
}

#[derive(Default)]
pub(crate) struct Seen {
    executions: Counter,
    pub(crate) drawn: Counter,
    pub(crate) moved: Counter,
    pub(crate) repaired: Counter,
}

pub(crate) fn check(
    mutant: Mutant,
    run: impl Fn(Mutant, &std::sync::Arc<Seen>) + Send + Sync + 'static,
) -> (bool, std::sync::Arc<Seen>) {
    let seen = std::sync::Arc::new(Seen::default());
    let counters = std::sync::Arc::clone(&seen);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    let passed = holds(&builder, move || {
        counters.executions.fetch_add(1, SeqCst);
        run(mutant, &counters);
    });
    (passed, seen)
}

/// Leaf 1 loses its priority during a draw. Leaf 0 never has one.
fn draw_beside_update(mutant: Mutant, seen: &std::sync::Arc<Seen>) {
    let tree = Tree::new(mutant);
    tree.update(&[change(1, 2), change(8, 3)]);
    let theirs = tree.clone();
    let updater = thread::spawn(move || theirs.update(&[change(1, 0), change(9, 4)]));
    match tree.draw(1) {
        Some(found) => {
            assert!([1, 8, 9].contains(&found), "lost: leaf {found} was never given a priority");
            seen.drawn.fetch_add(1, SeqCst);
        }
        None => {
            seen.moved.fetch_add(1, SeqCst);
        }
    }
    updater.join().expect("the updater ends");
    tree.check_sums();
    let after = tree.draw(6).expect("lost: a draw of a tree at rest");
    assert_eq!(after, 9, "lost: the wrong leaf");
}

/// A draw that met no change is one of the tree before or after it: it finds a leaf, and its total
/// is the sum of the leaves.
fn unchanged_draw(mutant: Mutant, seen: &std::sync::Arc<Seen>) {
    let tree = Tree::new(mutant);
    tree.update(&[change(1, 2), change(8, 3)]);
    let theirs = tree.clone();
    let updater = thread::spawn(move || theirs.update(&[change(1, 0), change(9, 4)]));
    if let Some(changes) = observe(&tree, &tree.shape) {
        let sum = total(&tree, &tree.shape);
        let found = tree.draw(sum - 1);
        if mutant == Mutant::OneLook || is_unchanged(&tree, &tree.shape, changes) {
            let expected = if sum == 5 { 8 } else { 9 };
            assert!([5, 7].contains(&sum), "torn: {sum} is the sum of no state");
            assert_eq!(found, Some(expected), "torn: the draw is of no state");
            seen.drawn.fetch_add(1, SeqCst);
        } else {
            seen.moved.fetch_add(1, SeqCst);
        }
    }
    updater.join().expect("the updater ends");
}

/// A leaf passes to a newer row during a draw. Value and row that met no change belong together.
fn unchanged_row(mutant: Mutant, seen: &std::sync::Arc<Seen>) {
    let tree = Tree::new(mutant);
    tree.update(&[change(9, 3)]);
    let theirs = tree.clone();
    let updater = thread::spawn(move || {
        let (shape, changes, mut nodes) = (&*theirs.shape, [change(9, 4)], Ancestors::default());
        let mark = || theirs.store(MARK, 1, Ordering::Release);
        if mutant == Mutant::LateMark {
            commit(&theirs, shape, &changes, &mut nodes);
            mark();
        } else {
            commit_with(&theirs, shape, &changes, &mut nodes, mark);
        }
    });
    if let Some(changes) = observe(&tree, &tree.shape) {
        let (value, mark) = (leaf(&tree, &tree.shape, 9), tree.load(MARK));
        if is_unchanged(&tree, &tree.shape, changes) {
            assert!([(3, 0), (4, 1)].contains(&(value, mark)), "torn: {value} of row {mark}");
            seen.drawn.fetch_add(1, SeqCst);
        } else {
            seen.moved.fetch_add(1, SeqCst);
        }
    }
    updater.join().expect("the updater ends");
}

/// An updater is killed after `stores` stores, and another one takes the lock.
fn kill(stores: usize) -> impl Fn(Mutant, &std::sync::Arc<Seen>) + Send + Sync + 'static {
    move |mutant, seen| {
        let tree = Tree::new(mutant);
        tree.update(&[change(0, 2), change(8, 3)]);
        let mortal = tree.mortal(stores);
        let killed = thread::spawn(move || mortal.update(&[change(0, 5), change(9, 1)]));
        tree.update(&[change(1, 7)]);
        killed.join().expect("the killed updater's thread ends");
        // The next holder takes the lock in every case.
        tree.lock();
        let repaired =
            mutant != Mutant::NoRepair && repair(&tree, &tree.shape, &mut Ancestors::default());
        tree.unlock();
        seen.repaired.fetch_add(repaired.into(), SeqCst);
        tree.check_sums();
    }
}

#[test]
fn a_draw_beside_an_update_gives_a_leaf_with_a_priority_or_none() {
    let (passed, seen) = check(Mutant::None, draw_beside_update);
    let [executions, drawn, moved] =
        [&seen.executions, &seen.drawn, &seen.moved].map(|counter| counter.load(SeqCst));
    println!("sum tree: {executions} executions, {drawn} drawn, {moved} moved");
    assert!(passed, "a draw went wrong");
    assert!(drawn > 0 && moved > 0, "the model proves nothing");
}

#[test]
fn a_draw_that_met_no_change_is_of_one_state_of_the_tree() {
    let (passed, seen) = check(Mutant::None, unchanged_draw);
    let [drawn, moved] = [&seen.drawn, &seen.moved].map(|counter| counter.load(SeqCst));
    println!("sum tree: {drawn} drawn, {moved} repeated");
    assert!(passed, "a draw was of no state");
    assert!(drawn > 0 && moved > 0, "the model proves nothing");
}

#[test]
fn a_leaf_that_met_no_change_is_read_with_its_row() {
    let (passed, seen) = check(Mutant::None, unchanged_row);
    let [read, moved] = [&seen.drawn, &seen.moved].map(|counter| counter.load(SeqCst));
    println!("sum tree: {read} read, {moved} repeated");
    assert!(passed, "a leaf was read with another row");
    assert!(read > 0 && moved > 0, "the model proves nothing");
}

#[test]
fn marks_that_are_moved_after_the_change_belong_to_another_state() {
    let (passed, _) = check(Mutant::LateMark, unchanged_row);
    assert!(!passed, "the mutant was not caught");
}

#[test]
fn without_a_second_look_a_draw_is_of_no_state_of_the_tree() {
    let (passed, _) = check(Mutant::OneLook, unchanged_draw);
    assert!(!passed, "the mutant was not caught");
}

#[test]
fn without_the_readers_fences_a_draw_is_of_no_state_of_the_tree() {
    let (passed, _) = check(Mutant::NoFence, unchanged_draw);
    assert!(!passed, "the mutant was not caught");
}

#[test]
fn the_sums_are_exact_after_a_kill_at_any_store() {
    let (mut executions, mut repaired) = (0, 0);
    for stores in 0..=STORES {
        let (passed, seen) = check(Mutant::None, kill(stores));
        assert!(passed, "killed after {stores} stores");
        executions += seen.executions.load(SeqCst);
        repaired += seen.repaired.load(SeqCst);
    }
    println!("sum tree: {executions} executions, {repaired} repaired");
    assert!(repaired > 0, "the model proves nothing");
}

/// Checks that a mutant is caught with a kill after some store, or without a kill.
fn dies(mutant: Mutant) {
    let caught = (0..=STORES).find(|stores| !check(mutant, kill(*stores)).0);
    println!("{mutant:?}: caught by a kill after {caught:?} stores");
    assert!(caught.is_some(), "{mutant:?} was not caught");
}

#[test]
fn a_descent_that_believes_every_leaf_draws_one_without_a_priority() {
    let (passed, _) = check(Mutant::AnyLeaf, draw_beside_update);
    assert!(!passed, "the mutant was not caught");
}

#[test]
fn without_a_repair_the_sums_of_a_killed_updater_stay_wrong() {
    dies(Mutant::NoRepair);
}

#[test]
fn a_journal_that_is_written_after_the_leaves_misses_them() {
    dies(Mutant::LateJournal);
}

#[test]
fn a_journal_that_is_emptied_early_hides_sums_that_are_wrong() {
    dies(Mutant::EarlyClear);
}

#[test]
fn sums_that_are_computed_before_the_leaves_are_stored_stay_wrong() {
    dies(Mutant::SumsFirst);
}

#[test]
fn updaters_without_a_lock_overwrite_each_others_sums() {
    dies(Mutant::NoLock);
}

#[test]
fn a_lock_that_orders_nothing_hides_leaves_from_the_next_holder() {
    dies(Mutant::RelaxedLock);
}
