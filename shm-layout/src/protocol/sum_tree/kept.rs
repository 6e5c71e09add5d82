//! Leaves that are computed of kept priorities, and changes of their exponent.
//!
//! A change stores the priorities of its leaves too in step 2, and the repair computes the leaves
//! of the journal again. A change of the exponent ([`set_exponent`]) stores [`ALL_LEAVES`] as the
//! journal's count, then the exponent, all leaves and all words above them. The repair does so too.
//! Priorities do not change, so an exponent that returns gives equal leaves.

use std::sync::atomic::Ordering::Relaxed;

use super::{Ancestors, LeafChange, TreeFence, TreeWords, clear_journal, smallest, sum};
use crate::layout::tree_shape::{FAN_OUT, TreeShape};

/// Count of a journal that lists no leaf, and stands for all: the exponent is being changed.
pub const ALL_LEAVES: u64 = u64::MAX;
/// Leaves that a change of the exponent computes at a time.
const LEAVES_TOGETHER: usize = 64 * FAN_OUT;

/// Step 2 of a change of a tree that keeps priorities, first half: stores the priorities.
pub fn write_kept(tree: &impl TreeWords, shape: &TreeShape, changes: &[LeafChange]) {
    let Some(kept) = shape.kept else { return };
    for change in changes.iter().filter(|change| shape.leaf(change.leaf).is_some()) {
        tree.store(kept.priorities + change.leaf, change.value, Relaxed);
    }
}

/// Second half of that step: stores the leaves of the priorities.
pub(super) fn write_computed(
    tree: &impl TreeWords,
    shape: &TreeShape,
    changes: &[LeafChange],
    computed: &[u64],
) {
    for (change, value) in changes.iter().zip(computed) {
        if let Some(word) = shape.leaf(change.leaf) {
            tree.store(word, *value, Relaxed);
        }
    }
}

/// Changes the exponent, and all leaves with it. The caller holds the tree's lock and has
/// [repaired](super::repair) the tree. Does nothing to a tree that keeps no priorities. O(leaves).
pub fn set_exponent(tree: &impl TreeWords, shape: &TreeShape, exponent: u64) {
    let Some(kept) = shape.kept else { return };
    list_all(tree, shape);
    tree.store(kept.exponent, exponent, Relaxed);
    compute_all(tree, shape);
    clear_journal(tree, shape);
}

/// Marks all leaves as changing: the first step of a change of the exponent.
pub fn list_all(tree: &impl TreeWords, shape: &TreeShape) {
    tree.store(shape.count, ALL_LEAVES, Relaxed);
    tree.fence(TreeFence::Counted);
}

/// Computes all leaves of the kept priorities, then all sums and smallest leaves. The largest
/// priorities stay.
pub fn compute_all(tree: &impl TreeWords, shape: &TreeShape) {
    let Some(kept) = shape.kept else { return };
    let leaves = shape.leaves();
    let mut computed = [0; LEAVES_TOGETHER];
    for first in (0..leaves).step_by(LEAVES_TOGETHER) {
        let count = LEAVES_TOGETHER.min(leaves - first);
        let Some(computed) = computed.get_mut(..count) else { continue };
        for (line, at) in computed.chunks_mut(FAN_OUT).zip((first..).step_by(FAN_OUT)) {
            for (place, priority) in line.iter_mut().zip(tree.line(kept.priorities + at)) {
                *place = priority;
            }
        }
        tree.replace_kept(computed);
        for (leaf, value) in (first..).zip(computed) {
            if let Some(word) = shape.leaf(leaf) {
                tree.store(word, *value, Relaxed);
            }
        }
    }
    for (depth, pair) in shape.levels.windows(2).enumerate() {
        let [below, level] = pair else { continue };
        for node in 0..level.nodes {
            let children = tree.line(below.sums + node * FAN_OUT);
            tree.store(level.sums + node, sum(children), Relaxed);
            let children =
                if depth == 0 { children } else { tree.line(below.least + node * FAN_OUT) };
            tree.store(level.least + node, smallest(children), Relaxed);
        }
    }
}

/// Computes the leaves of a killed change of the kept priorities, which may be those of the change
/// or older ones.
pub(super) fn compute_listed(tree: &impl TreeWords, shape: &TreeShape, ancestors: &mut Ancestors) {
    let Some(kept) = shape.kept else { return };
    let Ancestors { nodes, computed, .. } = ancestors;
    computed.clear();
    computed.extend(nodes.iter().map(|leaf| tree.load(kept.priorities + leaf)));
    tree.replace_kept(computed);
    for (leaf, value) in nodes.iter().zip(computed) {
        if let Some(word) = shape.leaf(*leaf) {
            tree.store(word, *value, Relaxed);
        }
    }
}

/// Returns whether a change of the exponent is under way, or was when its process was killed.
/// Without the lock the result is only a hint.
pub fn is_exponent_changing(tree: &impl TreeWords, shape: &TreeShape) -> bool {
    shape.kept.is_some() && tree.load(shape.count) == ALL_LEAVES
}
