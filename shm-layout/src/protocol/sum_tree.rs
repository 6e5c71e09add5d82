//! Sum tree: draws in proportion to priorities while another process updates them, with sums that
//! are always exact.
//!
//! The tree has fan-out 8, words of 64 bits, and a cache line per node. Level 0 has the leaves.
//! Every word of a higher level is the sum of eight words of the level below. For each of these
//! words, the level also has the smallest leaf below it that is not 0. A tree that tracks its
//! largest leaf has the largest one too.
//!
//! One process at a time changes the tree: the holder of its lock, which the kernel releases when
//! the process dies. A change ([`commit`]):
//!
//! 1. writes the numbers of its leaves into the journal, release fence, then their count;
//! 2. issues a release fence and stores the leaves;
//! 3. recomputes the sum of every ancestor of those leaves, level by level, from its eight
//!    children, and the smallest and largest leaf of every ancestor below which one has changed;
//! 4. counts the change (release) and stores the journal's count 0 (release).
//!
//! [`commit_with`] stores other words between steps 3 and 4, which readers see with the leaves.
//!
//! The next holder finds the journal's count that a killed one left. It recomputes all words of the
//! ancestors of the leaves in the journal ([`repair`]). Recomputing is idempotent, so a kill during
//! the repair changes nothing.
//!
//! Sums are exact for this reason. At any moment, every word above level 0 that is not an ancestor
//! of a leaf in the journal equals the sum of its children. Steps 2 and 3 store only to leaves in
//! the journal and their ancestors. Step 4 empties the journal after all ancestors were recomputed,
//! children first. Integer sums are not rounded, so no error accumulates.
//!
//! A tree may keep the priorities of its leaves, which are then functions of these and of an
//! exponent that can change ([`set_exponent`]).
//!
//! A tree may count its leaves by bucket, to find the leaf of a rank ([`nth_in_bucket`]).
//!
//! A reader that finds the journal empty, and the same count of changes before and after its loads
//! ([`observe`], [`is_unchanged`]), has read one state of the tree.
//!
//! [`descend`] takes no lock. If sums change during a descent, it may reach a leaf that is not
//! above the rest, or no leaf. Such a draw has found none, and is made again.

mod kept;
mod ranks;

use std::array;
use std::hint::select_unpredictable;
use std::sync::atomic::Ordering::{self, Relaxed};

pub use self::kept::{
    ALL_LEAVES, compute_all, is_exponent_changing, list_all, set_exponent, write_kept,
};
use self::kept::{compute_listed, write_computed};
pub use self::ranks::{nth_in_bucket, rank_bucket, rank_counts};
use self::ranks::{recount, write_counted};
pub use crate::layout::tree_shape::{FAN_OUT, JOURNAL_ENTRIES, RANK_BUCKETS, TreeShape};

/// Nodes of a level that the processor's nearest caches keep. A prefetch of their lines only takes
/// time.
const CACHED_NODES: usize = 1 << 12;

/// Fences of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeFence {
    /// Between the entries of the journal and their count. Release.
    Listed,
    /// Between the count and the leaves. Release.
    Counted,
    /// Between the sums of a part of a change and the list of the next part. Release.
    Summed,
    /// Reader, between looking at the counts and reading the tree. Acquire.
    Observed,
    /// Reader, between reading the tree and looking at the counts again. Acquire.
    Descended,
}

/// Memory of a tree, in words of 64 bits that are numbered from the start of its file.
pub trait TreeWords {
    /// Loads a word. 0 outside the memory.
    fn load(&self, word: usize) -> u64;
    /// Loads the words of a cache line. Zeros outside the memory.
    fn line(&self, word: usize) -> [u64; FAN_OUT];
    /// Stores a word. Does nothing outside the memory.
    fn store(&self, word: usize, value: u64, order: Ordering);
    /// Executes a fence of a change.
    fn fence(&self, at: TreeFence);
    /// Prefetches the cache line of a word.
    fn prefetch(&self, _word: usize) {}
    /// Replaces kept priorities by the leaves that the present exponent gives, and 0 by 0.
    fn replace_kept(&self, _kept: &mut [u64]) {}
}

/// A leaf and its new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeafChange {
    /// Number of the leaf.
    pub leaf: usize,
    /// New value of the leaf. In a tree that keeps priorities, its new priority, or 0 for none.
    pub value: u64,
}

/// A draw on its way down the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descent {
    /// Before the descent, a number below the total. After it, the remainder within the leaf.
    pub rest: u64,
    /// The node reached, and after the descent the leaf.
    pub node: usize,
    /// Value of the leaf. 0 if the sums changed during the descent: draw again.
    pub value: u64,
}

impl Descent {
    /// Returns a descent that begins with a number below the total.
    #[must_use]
    pub fn of(rest: u64) -> Self {
        Self { rest, node: 0, value: 0 }
    }
}

/// Returns the value of a leaf. 0 for a leaf that the tree lacks.
pub fn leaf(tree: &impl TreeWords, shape: &TreeShape, leaf: usize) -> u64 {
    shape.leaf(leaf).map_or(0, |word| tree.load(word))
}

/// Prefetches a leaf.
pub fn prefetch_leaf(tree: &impl TreeWords, shape: &TreeShape, leaf: usize) {
    if let Some(word) = shape.leaf(leaf) {
        tree.prefetch(word);
        if let Some(kept) = shape.kept {
            tree.prefetch(kept.priorities + leaf);
        }
    }
}

/// Returns the word of a leaf that changes give: its priority if the tree keeps it, else the leaf.
/// 0 for a leaf that the tree lacks.
pub fn given(tree: &impl TreeWords, shape: &TreeShape, leaf: usize) -> u64 {
    let place = shape.leaf(leaf);
    let place = place.map(|word| shape.kept.map_or(word, |kept| kept.priorities + leaf));
    place.map_or(0, |word| tree.load(word))
}

/// Returns the sum of all leaves, with eight loads.
pub fn total(tree: &impl TreeWords, shape: &TreeShape) -> u64 {
    shape.top().map_or(0, |top| sum(tree.line(top.sums)))
}

/// Returns the smallest leaf that is not 0, or 0 if all are 0, with eight loads.
pub fn least(tree: &impl TreeWords, shape: &TreeShape) -> u64 {
    shape.top().map_or(0, |top| smallest(tree.line(top.least)))
}

/// Returns the largest leaf, or priority if the tree keeps them, with eight loads. `None` if the
/// tree does not track it.
pub fn largest(tree: &impl TreeWords, shape: &TreeShape) -> Option<u64> {
    let top = shape.top().filter(|_| shape.tracks_largest)?;
    Some(in_pairs(tree.line(top.largest), u64::max))
}

/// Nodes whose words a change computes again. Memory that changes reuse.
#[derive(Debug, Default)]
pub struct Ancestors {
    /// Leaves in ascending order, then their ancestors on one level after the other.
    nodes: Vec<usize>,
    /// Ancestors on the same level whose smallest leaf has changed.
    of_least: Vec<usize>,
    /// Ancestors on the same level whose largest leaf has changed.
    of_largest: Vec<usize>,
    /// Leaves of kept priorities.
    computed: Vec<u64>,
}

impl Ancestors {
    /// Stores the leaves whose ancestors a change computes again.
    pub fn begin(&mut self, leaves: impl Iterator<Item = usize>) {
        self.nodes.clear();
        self.nodes.extend(leaves);
        self.nodes.sort_unstable();
    }
}

/// Changes leaves. The caller holds the tree's lock and has [repaired](repair) the tree. If a leaf
/// is changed twice, the later value counts.
pub fn commit(
    tree: &impl TreeWords,
    shape: &TreeShape,
    changes: &[LeafChange],
    ancestors: &mut Ancestors,
) {
    for changes in changes.chunks(JOURNAL_ENTRIES) {
        make(tree, shape, changes, ancestors);
        clear_journal(tree, shape);
    }
}

/// Changes leaves like [`commit`], and calls `store_more` before it empties the journal. A reader
/// that met no change has read all of these stores, or none. Without changes it only calls
/// `store_more`.
pub fn commit_with(
    tree: &impl TreeWords,
    shape: &TreeShape,
    changes: &[LeafChange],
    ancestors: &mut Ancestors,
    store_more: impl FnOnce(),
) {
    for (part, changes) in changes.chunks(JOURNAL_ENTRIES).enumerate() {
        if part > 0 {
            // The leaves that the journal lists have their sums, so the list may go.
            tree.fence(TreeFence::Summed);
        }
        make(tree, shape, changes, ancestors);
    }
    store_more();
    if !changes.is_empty() {
        clear_journal(tree, shape);
    }
}

/// Steps 1 to 3 of a change of as many leaves as the journal lists.
fn make(
    tree: &impl TreeWords,
    shape: &TreeShape,
    changes: &[LeafChange],
    ancestors: &mut Ancestors,
) {
    // Draws wait while the journal is in use, so prepare as much as possible before.
    ancestors.begin(changes.iter().map(|change| change.leaf));
    prefetch_parents(tree, shape, &ancestors.nodes);
    if shape.kept.is_some() {
        ancestors.computed.clear();
        ancestors.computed.extend(changes.iter().map(|change| change.value));
        tree.replace_kept(&mut ancestors.computed);
    }
    write_journal(tree, shape, changes);
    if shape.kept.is_some() {
        write_kept(tree, shape, changes);
        write_computed(tree, shape, changes, &ancestors.computed);
    } else if !shape.ranks.is_empty() {
        write_counted(tree, shape, changes);
    } else {
        write_leaves(tree, shape, changes);
    }
    recompute(tree, shape, ancestors, Recomputed::Changed);
}

/// Step 1 of a change: lists its leaves in the journal.
pub fn write_journal(tree: &impl TreeWords, shape: &TreeShape, changes: &[LeafChange]) {
    let changes = changes.get(..JOURNAL_ENTRIES).unwrap_or(changes);
    for (word, change) in (shape.journal..).zip(changes) {
        tree.store(word, change.leaf as u64, Relaxed);
    }
    tree.fence(TreeFence::Listed);
    tree.store(shape.count, changes.len() as u64, Relaxed);
    tree.fence(TreeFence::Counted);
}

/// Step 2 of a change: stores the leaves.
pub fn write_leaves(tree: &impl TreeWords, shape: &TreeShape, changes: &[LeafChange]) {
    for change in changes {
        if let Some(word) = shape.leaf(change.leaf) {
            tree.store(word, change.value, Relaxed);
        }
    }
}

/// Prefetches the cache lines that [`recompute`] reads of the two lowest levels, which have nearly
/// all words of a tree.
fn prefetch_parents(tree: &impl TreeWords, shape: &TreeShape, leaves: &[usize]) {
    for (level, width) in shape.levels.iter().take(2).zip([FAN_OUT, FAN_OUT * FAN_OUT]) {
        let mut before = None;
        for leaf in leaves {
            let node = leaf / width;
            if before.replace(node) != Some(node) && node * FAN_OUT < level.nodes {
                tree.prefetch(level.sums + node * FAN_OUT);
                if level.least != level.sums {
                    tree.prefetch(level.least + node * FAN_OUT);
                }
                if level.largest != level.sums {
                    tree.prefetch(level.largest + node * FAN_OUT);
                }
            }
        }
    }
}

/// Ancestors whose smallest and largest leaf is computed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recomputed {
    /// Those below which such a leaf has changed: few, since most changes are of other leaves.
    /// All words above the leaves were right before the change.
    Changed,
    /// All.
    All,
}

/// Step 3 of a change: recomputes the ancestors of some leaves, children first.
pub fn recompute(
    tree: &impl TreeWords,
    shape: &TreeShape,
    ancestors: &mut Ancestors,
    recomputed: Recomputed,
) {
    let Ancestors { nodes, of_least, of_largest, .. } = ancestors;
    of_least.clear();
    of_largest.clear();
    let renew = |word: usize, value: u64| {
        let is_new = tree.load(word) != value;
        if is_new {
            tree.store(word, value, Relaxed);
        }
        is_new || recomputed == Recomputed::All
    };
    let most = |children| in_pairs(children, u64::max);
    for (depth, pair) in shape.levels.windows(2).enumerate() {
        let [below, level] = pair else { continue };
        parents(nodes, level.nodes, |node| {
            let children = tree.line(below.sums + node * FAN_OUT);
            tree.store(level.sums + node, sum(children), Relaxed);
            // A leaf is its own smallest and largest.
            if depth == 0 && renew(level.least + node, smallest(children)) {
                of_least.push(node);
            }
            if depth == 0 && shape.tracks_largest {
                let is_of_leaves = below.largest == below.sums;
                let children =
                    if is_of_leaves { children } else { tree.line(below.largest + node * FAN_OUT) };
                if renew(level.largest + node, most(children)) {
                    of_largest.push(node);
                }
            }
            true
        });
        if depth > 0 {
            parents(of_least, level.nodes, |node| {
                renew(level.least + node, smallest(tree.line(below.least + node * FAN_OUT)))
            });
            parents(of_largest, level.nodes, |node| {
                renew(level.largest + node, most(tree.line(below.largest + node * FAN_OUT)))
            });
        }
    }
}

/// Replaces nodes in ascending order by their parents of a level of `count` nodes. Keeps those
/// parents for which `keep` returns `true`.
fn parents(nodes: &mut Vec<usize>, count: usize, mut keep: impl FnMut(usize) -> bool) {
    let mut before = None;
    nodes.retain_mut(|node| {
        *node /= FAN_OUT;
        // Siblings are adjacent, so each parent is computed once.
        before.replace(*node) != Some(*node) && *node < count && keep(*node)
    });
}

/// Step 4 of a change: empties the journal.
pub fn clear_journal(tree: &impl TreeWords, shape: &TreeShape) {
    // ORDERING: release: a reader that sees the new count of changes sees the sums of this one.
    let changes = tree.load(shape.changes).wrapping_add(1);
    tree.store(shape.changes, changes, Ordering::Release);
    // ORDERING: release: all stores of the earlier steps come before it, so a process that is
    // killed before the sums are right leaves the count. The lock orders the next holder after it.
    tree.store(shape.count, 0, Ordering::Release);
}

/// Finishes the change of a holder that was killed. Returns `true` if there was one. The caller
/// holds the tree's lock.
pub fn repair(tree: &impl TreeWords, shape: &TreeShape, ancestors: &mut Ancestors) -> bool {
    let count = tree.load(shape.count);
    if count == 0 {
        return false;
    }
    if is_exponent_changing(tree, shape) {
        compute_all(tree, shape);
        clear_journal(tree, shape);
        return true;
    }
    let count = usize::try_from(count).unwrap_or(usize::MAX).min(JOURNAL_ENTRIES);
    let listed = (shape.journal..).take(count).map(|word| usize::try_from(tree.load(word)));
    ancestors.begin(listed.flatten().filter(|leaf| *leaf < shape.leaves()));
    compute_listed(tree, shape, ancestors);
    recount(tree, shape, &ancestors.nodes);
    recompute(tree, shape, ancestors, Recomputed::All);
    clear_journal(tree, shape);
    true
}

/// Returns whether a change is under way, or was when its process was killed. Without the lock the
/// result is only a hint.
pub fn is_journal_used(tree: &impl TreeWords, shape: &TreeShape) -> bool {
    tree.load(shape.count) != 0
}

/// Returns the count of changes, or `None` while a change is under way. Loads that follow are of
/// one state of the tree if [`is_unchanged`] returns `true` after them.
pub fn observe(tree: &impl TreeWords, shape: &TreeShape) -> Option<u64> {
    let (count, changes) = (tree.load(shape.count), tree.load(shape.changes));
    tree.fence(TreeFence::Observed);
    (count == 0).then_some(changes)
}

/// Returns whether no change was made since [`observe`] returned `changes`.
pub fn is_unchanged(tree: &impl TreeWords, shape: &TreeShape, changes: u64) -> bool {
    // A reader that loaded a word of a change sees its count in the journal, or that of its end.
    tree.fence(TreeFence::Descended);
    let count = tree.load(shape.count);
    tree.fence(TreeFence::Descended);
    count == 0 && tree.load(shape.changes) == changes
}

/// Moves draws down to their leaves, all of them one level at a time. So the processor fetches
/// several cache lines of a level in parallel. Takes no lock.
pub fn descend(tree: &impl TreeWords, shape: &TreeShape, draws: &mut [Descent]) {
    for (depth, level) in shape.levels.iter().enumerate().rev() {
        let below = depth.checked_sub(1).and_then(|below| shape.levels.get(below));
        for draw in &mut *draws {
            let words = tree.line(level.sums + draw.node * FAN_OUT);
            let (child, skipped) = child_at(words, draw.rest);
            draw.node = draw.node * FAN_OUT + child;
            draw.rest = draw.rest.wrapping_sub(skipped);
            if let Some(below) = below {
                if below.nodes > CACHED_NODES {
                    tree.prefetch(below.sums + draw.node * FAN_OUT);
                }
            } else {
                let value = leaf(tree, shape, draw.node);
                draw.value = if draw.rest < value { value } else { 0 };
            }
        }
    }
}

/// Returns the child of a node in which a number falls, and the sum of the children before it. A
/// number beyond the node's sum falls in the last child. Avoids branches, since the child cannot be
/// predicted.
fn child_at(words: [u64; FAN_OUT], rest: u64) -> (usize, u64) {
    let half = words[0].wrapping_add(words[1]).wrapping_add(words[2].wrapping_add(words[3]));
    let in_half = rest >= half;
    let skipped = select_unpredictable(in_half, half, 0);
    let four: [u64; 4] =
        array::from_fn(|at| select_unpredictable(in_half, words[at + 4], words[at]));
    let pair = four[0].wrapping_add(four[1]);
    let in_pair = rest.wrapping_sub(skipped) >= pair;
    let skipped = skipped.wrapping_add(select_unpredictable(in_pair, pair, 0));
    let first = select_unpredictable(in_pair, four[2], four[0]);
    let is_second = rest.wrapping_sub(skipped) >= first;
    let skipped = skipped.wrapping_add(select_unpredictable(is_second, first, 0));
    (4 * usize::from(in_half) + 2 * usize::from(in_pair) + usize::from(is_second), skipped)
}

fn sum(words: [u64; FAN_OUT]) -> u64 {
    in_pairs(words, u64::wrapping_add)
}

/// Returns the smallest word that is not 0, or 0.
fn smallest(words: [u64; FAN_OUT]) -> u64 {
    in_pairs(words.map(|word| word.wrapping_sub(1)), u64::min).wrapping_add(1)
}

/// Combines the words of a line in pairs, then the results: fewer operations wait for another than
/// in a chain.
fn in_pairs(words: [u64; FAN_OUT], of: impl Fn(u64, u64) -> u64) -> u64 {
    let four: [u64; 4] = array::from_fn(|at| of(words[2 * at], words[2 * at + 1]));
    of(of(four[0], four[1]), of(four[2], four[3]))
}

#[cfg(test)]
mod tests;
