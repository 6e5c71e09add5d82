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
    pub(crate) nodes: usize,
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
    end: usize,
}

impl TreeShape {
    /// Returns the shape of a tree of `leaves` leaves. The count of the journal is the word
    /// `count`, that of changes the word `changes`. Everything else is from word `first` on, which
    /// begins a cache line. Returns `None` if there are no leaves, or more than `usize` can count.
    #[must_use]
    pub fn new((count, changes): (usize, usize), first: usize, leaves: u64) -> Option<Self> {
        let mut nodes = usize::try_from(leaves).ok().filter(|nodes| *nodes > 0)?;
        let mut end = first.checked_add(JOURNAL_ENTRIES)?;
        let mut levels = Vec::new();
        loop {
            let room = nodes.checked_next_multiple_of(FAN_OUT)?;
            let sums = end;
            end = end.checked_add(room)?;
            let least = if levels.is_empty() { sums } else { end };
            if !levels.is_empty() {
                end = end.checked_add(room)?;
            }
            levels.push(TreeLevel { sums, least, nodes });
            if nodes <= FAN_OUT {
                return Some(Self { count, changes, journal: first, levels, end });
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
