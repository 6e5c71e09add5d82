//! Counts of leaves by bucket, which find the leaf of a rank.
//!
//! A bucket has the leaves that agree in their highest bit and in the four bits below it: those of
//! a bucket differ by less than one part in 16. The counts are a tree of their own for each bucket,
//! in the order of the leaves. On its lowest level a word has the counts of eight segments, a byte
//! each. Every word of a higher level is the sum of eight words of the level below.
//!
//! A change counts its leaves anew in step 2, one by one. The repair counts the groups of the
//! leaves in the journal again, and the words above them.

use std::sync::atomic::Ordering::Relaxed;

use super::{LeafChange, TreeWords, child_at, leaf, sum};
use crate::layout::tree_shape::{FAN_OUT, GROUP_LEAVES, RANK_BUCKETS, SEGMENT_LEAVES, TreeShape};

/// Bits of a leaf below its highest one that tell its bucket.
const BITS: u32 = 4;
/// Buckets of the leaves of one highest bit.
const OCTAVE: usize = 1 << BITS;

/// A node on the way down, and the number of the leaf that is sought among those below it.
struct Place {
    node: usize,
    rest: u64,
}

impl Place {
    /// Moves to the child that has the leaf, by the counts of all children.
    fn enter(&mut self, counts: [u64; FAN_OUT]) {
        let (child, skipped) = child_at(counts, self.rest);
        self.node = self.node * FAN_OUT + child;
        self.rest = self.rest.wrapping_sub(skipped);
    }
}

/// Returns the bucket of a leaf that is not 0. Larger leaves have larger or equal buckets.
#[must_use]
pub fn rank_bucket(leaf: u64) -> Option<usize> {
    let highest = leaf.checked_ilog2()?;
    let shift = highest.saturating_sub(BITS);
    let bucket = shift as usize * OCTAVE + usize::try_from(leaf >> shift).ok()?;
    Some(bucket.min(RANK_BUCKETS - 1))
}

/// Counts the leaves of every bucket into `counts`, the smallest leaves first. Leaves it empty if
/// the tree does not draw by rank.
pub fn rank_counts(tree: &impl TreeWords, shape: &TreeShape, counts: &mut Vec<u64>) {
    counts.clear();
    if let Some(top) = shape.ranks.last() {
        counts.extend((0..RANK_BUCKETS).map(|bucket| tree.load(top.word(bucket, 0))));
    }
}

/// Returns a leaf of a bucket by its number among them, in the order of the leaves. `None` if there
/// are fewer, or if the counts changed meanwhile. Takes no lock.
pub fn nth_in_bucket(
    tree: &impl TreeWords,
    shape: &TreeShape,
    bucket: usize,
    number: u64,
) -> Option<usize> {
    let (groups, above) = shape.ranks.split_first()?;
    let mut place = Place { node: 0, rest: number };
    // The level of the single node has nothing beside it.
    for level in above.iter().rev().skip(1) {
        place.enter(tree.line(level.word(bucket, place.node * FAN_OUT)));
    }
    place.enter(tree.line(groups.word(bucket, place.node * FAN_OUT)).map(sum_of_bytes));
    if place.node >= groups.nodes {
        return None;
    }
    place.enter(bytes(tree.load(groups.word(bucket, place.node))));
    let Place { node: segment, rest } = place;
    nth_within(tree, shape, segment * SEGMENT_LEAVES, bounds(bucket), rest)
}

/// Returns the leaf of a number among those of a segment that lie within bounds.
fn nth_within(
    tree: &impl TreeWords,
    shape: &TreeShape,
    first: usize,
    (low, high): (u64, u64),
    mut rest: u64,
) -> Option<usize> {
    for at in (first..first + SEGMENT_LEAVES).step_by(FAN_OUT) {
        // The leaves are padded with zeros to whole lines.
        let line = tree.line(shape.leaf(at)?);
        let within = line.map(|leaf| u64::from(leaf >= low && leaf < high));
        let count = sum(within);
        if rest < count {
            let (place, _) = child_at(within, rest);
            // A hostile process may have stored what is no padding.
            return Some(at + place).filter(|leaf| shape.leaf(*leaf).is_some());
        }
        rest -= count;
    }
    None
}

/// Returns the smallest leaf of a bucket, and the smallest one above it.
fn bounds(bucket: usize) -> (u64, u64) {
    let low = |bucket: usize| match (bucket / OCTAVE).checked_sub(1) {
        None => bucket as u64,
        Some(shift) => ((OCTAVE + bucket % OCTAVE) as u64) << shift.min(u64::BITS as usize - 8),
    };
    (low(bucket).max(1), if bucket < RANK_BUCKETS - 1 { low(bucket + 1) } else { u64::MAX })
}

/// Step 2 of a change of a tree that draws by rank: stores the leaves, and counts them.
pub(super) fn write_counted(tree: &impl TreeWords, shape: &TreeShape, changes: &[LeafChange]) {
    for change in changes {
        let Some(word) = shape.leaf(change.leaf) else { continue };
        let (before, now) = (rank_bucket(tree.load(word)), rank_bucket(change.value));
        tree.store(word, change.value, Relaxed);
        if before != now {
            for (bucket, more) in [(before, u64::MAX), (now, 1)] {
                if let Some(bucket) = bucket {
                    add(tree, shape, (bucket, change.leaf), more);
                }
            }
        }
    }
}

/// Adds to the counts of a bucket on all levels above a leaf.
fn add(tree: &impl TreeWords, shape: &TreeShape, (bucket, leaf): (usize, usize), more: u64) {
    let (mut node, segment) = (leaf / GROUP_LEAVES, leaf / SEGMENT_LEAVES % FAN_OUT);
    let mut more_of_word = more.wrapping_shl(8 * u32::try_from(segment).unwrap_or(0));
    for level in &shape.ranks {
        let word = level.word(bucket, node);
        tree.store(word, tree.load(word).wrapping_add(more_of_word), Relaxed);
        (node, more_of_word) = (node / FAN_OUT, more);
    }
}

/// Counts the groups of some leaves again, given in ascending order, and all words above them.
pub(super) fn recount(tree: &impl TreeWords, shape: &TreeShape, leaves: &[usize]) {
    let Some((groups, above)) = shape.ranks.split_first() else { return };
    let mut nodes: Vec<usize> = leaves.iter().map(|leaf| leaf / GROUP_LEAVES).collect();
    nodes.dedup();
    let mut counts = vec![0_u64; RANK_BUCKETS];
    for group in &nodes {
        counts.fill(0);
        for (segment, first) in (0..FAN_OUT).zip((group * GROUP_LEAVES..).step_by(SEGMENT_LEAVES)) {
            for at in first..first + SEGMENT_LEAVES {
                let count = rank_bucket(leaf(tree, shape, at)).and_then(|of| counts.get_mut(of));
                if let Some(count) = count {
                    *count += 1 << (8 * segment);
                }
            }
        }
        for (bucket, count) in counts.iter().enumerate() {
            tree.store(groups.word(bucket, *group), *count, Relaxed);
        }
    }
    let mut below = groups;
    for level in above {
        for node in &mut *nodes {
            *node /= FAN_OUT;
        }
        nodes.dedup();
        for (node, bucket) in nodes.iter().flat_map(|node| (0..RANK_BUCKETS).map(|b| (*node, b))) {
            let children = tree.line(below.word(bucket, node * FAN_OUT));
            let is_of_groups = below.first == groups.first;
            let children = if is_of_groups { children.map(sum_of_bytes) } else { children };
            tree.store(level.word(bucket, node), sum(children), Relaxed);
        }
        below = level;
    }
}

fn bytes(word: u64) -> [u64; FAN_OUT] {
    word.to_le_bytes().map(u64::from)
}

/// Returns the sum of the bytes of a word.
fn sum_of_bytes(word: u64) -> u64 {
    sum(bytes(word))
}
