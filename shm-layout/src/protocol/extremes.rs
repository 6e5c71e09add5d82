//! Largest and smallest leaves of a sum tree, exact.
//!
//! A search walks the tree from its top, the most promising child first. It skips nodes that cannot
//! hold a better leaf than those found. The sum of a node bounds its largest leaf, and each node
//! stores its smallest. O(leaves) where priorities are alike, far less where few stand out.

use std::collections::BinaryHeap;

use super::sum_tree::{FAN_OUT, TreeWords};
use crate::layout::tree_shape::TreeShape;

/// Order in which a search returns leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extreme {
    /// The largest leaf first.
    Largest,
    /// The smallest leaf that is not 0 first.
    Smallest,
}

/// Rank of a leaf, or bound of a node: the value, or its complement, then the number of the leaf.
type Rank = (u64, usize);

impl Extreme {
    fn rank(self, value: u64, leaf: usize) -> Rank {
        match self {
            Self::Largest => (u64::MAX - value, leaf),
            Self::Smallest => (value, leaf),
        }
    }
}

/// Returns up to `want` leaves that are not 0 and that `accepts` takes, in order. Of equal leaves
/// the one with the lower number comes first.
pub fn extremes(
    tree: &impl TreeWords,
    shape: &TreeShape,
    extreme: Extreme,
    want: usize,
    accepts: impl FnMut(usize) -> bool,
) -> Vec<usize> {
    let mut search = Search { tree, shape, extreme, want, accepts, found: BinaryHeap::new() };
    if let (Some(top), true) = (shape.levels.len().checked_sub(1), want > 0) {
        search.visit(top, 0);
    }
    let found = search.found.into_sorted_vec();
    found.into_iter().map(|(_, leaf)| leaf).collect()
}

struct Search<'a, T, A> {
    tree: &'a T,
    shape: &'a TreeShape,
    extreme: Extreme,
    want: usize,
    accepts: A,
    /// The best leaves so far; the worst of them on top.
    found: BinaryHeap<Rank>,
}

impl<T: TreeWords, A: FnMut(usize) -> bool> Search<'_, T, A> {
    /// Returns whether a leaf of this rank, or a node with this bound, is no better than those
    /// found.
    fn is_beaten(&self, rank: Rank) -> bool {
        self.found.len() >= self.want && self.found.peek().is_some_and(|worst| rank > *worst)
    }

    /// Visits the children of a node, which are nodes of the level `depth`.
    fn visit(&mut self, depth: usize, node: usize) {
        let Some(level) = self.shape.levels.get(depth) else { return };
        let first = match self.extreme {
            Extreme::Largest => level.sums,
            Extreme::Smallest => level.least,
        };
        let values = self.tree.line(first + node * FAN_OUT);
        // Leaves below a node of this level, as a power of two.
        let width = depth * FAN_OUT.trailing_zeros() as usize;
        let mut children = [((u64::MAX, usize::MAX), 0); FAN_OUT];
        for ((child, value), number) in children.iter_mut().zip(values).zip(node * FAN_OUT..) {
            if value > 0 && number < level.nodes {
                *child = (self.extreme.rank(value, number << width), number);
            }
        }
        children.sort_unstable();
        for (rank, number) in children {
            if rank.1 == usize::MAX || self.is_beaten(rank) {
                return;
            }
            if depth > 0 {
                self.visit(depth - 1, number);
            } else if (self.accepts)(number) {
                self.found.push(rank);
                if self.found.len() > self.want {
                    self.found.pop();
                }
            }
        }
    }
}
