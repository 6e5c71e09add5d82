//! Places of the words of a sum tree.

/// Children of a node: as many words as a cache line of 64 bytes has.
pub const FAN_OUT: usize = 8;
/// Maximum leaves that the journal lists. Larger changes are made in parts.
pub const JOURNAL_ENTRIES: usize = 2048;

/// Places of the words of one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TreeLevel {
    /// First word of the sums, or on level 0 of the leaves.
    pub(crate) sums: usize,
    /// First word of the smallest leaves. On level 0 this equals `sums`: a leaf is its own
    /// smallest.
    pub(crate) least: usize,
    /// First word of the largest leaves. Equals `sums` on level 0, and on all levels of a tree that
    /// does not track its largest leaf. In a tree that keeps priorities it tracks the largest of
    /// these, which are on level 0.
    pub(crate) largest: usize,
    pub(crate) nodes: usize,
}

/// Places of what a tree has in addition if it keeps the priorities of its leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptPlaces {
    /// Word of the exponent that leaves are computed by.
    pub(crate) exponent: usize,
    /// First word of the priorities, one for each leaf.
    pub(crate) priorities: usize,
}

/// Leaves whose numbers in the buckets of ranks are one byte each.
pub(crate) const SEGMENT_LEAVES: usize = 128;
/// Leaves of a group of segments, whose bytes are one word for each bucket.
pub(crate) const GROUP_LEAVES: usize = FAN_OUT * SEGMENT_LEAVES;
/// Buckets of ranks: enough for leaves of 40 bits, 16 for each factor of 2.
pub const RANK_BUCKETS: usize = 593;

/// Places of the counts on one level, a word for each bucket and node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RankLevel {
    /// First word.
    pub(crate) first: usize,
    /// Nodes of a bucket.
    pub(crate) nodes: usize,
    /// Words from one bucket to the next.
    pub(crate) stride: usize,
}

impl RankLevel {
    /// Returns the word of a node.
    pub(crate) fn word(&self, bucket: usize, node: usize) -> usize {
        self.first + bucket * self.stride + node
    }
}

/// Places of the words of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeShape {
    /// Word of the count of journal entries in use.
    pub(crate) count: usize,
    /// Word of the count of changes.
    pub(crate) changes: usize,
    /// First word of the journal.
    pub(crate) journal: usize,
    /// Levels, from the leaves up.
    pub(crate) levels: Vec<TreeLevel>,
    /// Whether the levels have words with the largest leaves.
    pub(crate) tracks_largest: bool,
    /// `None` if leaves are not computed of kept priorities.
    pub(crate) kept: Option<KeptPlaces>,
    /// Counts of leaves by bucket, from groups of segments up to a single node. Empty if the tree
    /// does not draw by rank.
    pub(crate) ranks: Vec<RankLevel>,
    end: usize,
}

impl TreeShape {
    /// Returns the shape of a tree of `leaves` leaves. The count of the journal is the word
    /// `count`, that of changes the word `changes`. Everything else is from word `first` on, which
    /// begins a cache line. Returns `None` if there are no leaves, or more than `usize` can count.
    #[must_use]
    pub fn new(counts: (usize, usize), first: usize, leaves: u64) -> Option<Self> {
        Self::of(counts, first, leaves, false)
    }

    /// Returns the shape of a tree that tracks its largest leaf, like [`new`](Self::new).
    #[must_use]
    pub fn tracking_largest(counts: (usize, usize), first: usize, leaves: u64) -> Option<Self> {
        Self::of(counts, first, leaves, true)
    }

    fn of(
        (count, changes): (usize, usize),
        first: usize,
        leaves: u64,
        tracks_largest: bool,
    ) -> Option<Self> {
        let mut nodes = usize::try_from(leaves).ok().filter(|nodes| *nodes > 0)?;
        let mut end = first.checked_add(JOURNAL_ENTRIES)?;
        let mut levels = Vec::new();
        loop {
            let room = nodes.checked_next_multiple_of(FAN_OUT)?;
            let sums = end;
            end = end.checked_add(room)?;
            let (mut least, mut largest) = (sums, sums);
            if !levels.is_empty() {
                least = end;
                end = end.checked_add(room)?;
                if tracks_largest {
                    largest = end;
                    end = end.checked_add(room)?;
                }
            }
            levels.push(TreeLevel { sums, least, largest, nodes });
            if nodes <= FAN_OUT {
                let (journal, kept, ranks) = (first, None, Vec::new());
                let shape =
                    Self { count, changes, journal, levels, tracks_largest, kept, ranks, end };
                return Some(shape);
            }
            nodes = nodes.div_ceil(FAN_OUT);
        }
    }

    /// Returns the shape of a tree whose leaves are computed of kept priorities. These are words
    /// at its end, and the exponent is the word `exponent`. If it tracks its largest leaf, it
    /// tracks the largest priority instead. Returns `None` if it has more words than `usize` can
    /// count.
    #[must_use]
    pub fn keeping_priorities(mut self, exponent: usize) -> Option<Self> {
        let (priorities, tracks_largest) = (self.end, self.tracks_largest);
        let room = self.leaves().checked_next_multiple_of(FAN_OUT)?;
        self.end = self.end.checked_add(room)?;
        self.kept = Some(KeptPlaces { exponent, priorities });
        if let Some(leaves) = self.levels.first_mut().filter(|_| tracks_largest) {
            leaves.largest = priorities;
        }
        Some(self)
    }

    /// Returns the shape of a tree that counts its leaves by bucket, so that it draws by rank. The
    /// counts are words at its end. Returns `None` if it has more words than `usize` can count.
    #[must_use]
    pub fn counting_ranks(mut self) -> Option<Self> {
        let mut nodes = self.leaves().div_ceil(GROUP_LEAVES);
        loop {
            // The level of the single node always stands above the groups.
            let is_top = nodes == 1 && !self.ranks.is_empty();
            let stride = if is_top { 1 } else { nodes.checked_next_multiple_of(FAN_OUT)? };
            self.ranks.push(RankLevel { first: self.end, nodes, stride });
            let words = stride.checked_mul(RANK_BUCKETS)?.checked_next_multiple_of(FAN_OUT)?;
            self.end = self.end.checked_add(words)?;
            if is_top {
                return Some(self);
            }
            nodes = nodes.div_ceil(FAN_OUT);
        }
    }

    /// Returns one past the last word.
    #[must_use]
    pub fn end(&self) -> usize {
        self.end
    }

    /// Returns the number of leaves.
    #[must_use]
    pub fn leaves(&self) -> usize {
        self.levels.first().map_or(0, |level| level.nodes)
    }

    /// Returns the word of a leaf, or `None` for a leaf that the tree lacks.
    pub(crate) fn leaf(&self, leaf: usize) -> Option<usize> {
        self.levels.first().filter(|level| leaf < level.nodes).map(|level| level.sums + leaf)
    }

    /// Returns the top level, which has the words of one node.
    pub(crate) fn top(&self) -> Option<&TreeLevel> {
        self.levels.last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_of_no_leaf_or_of_too_many_are_none() {
        for leaves in [0, u64::MAX, u64::MAX - 100] {
            assert_eq!(TreeShape::new((0, 1), FAN_OUT, leaves), None, "{leaves}");
        }
        for (leaves, levels) in [(1, 1), (8, 1), (9, 2), (64, 2), (65, 3)] {
            let shape = TreeShape::new((0, 1), FAN_OUT, leaves).unwrap();
            assert_eq!(shape.levels.len(), levels, "{leaves}");
        }
    }
}
