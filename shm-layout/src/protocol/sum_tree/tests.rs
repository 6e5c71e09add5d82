use std::cell::{Cell, RefCell};

use proptest::prelude::*;

use super::*;

/// Word of the exponent of a tree that keeps priorities.
const EXPONENT: usize = 2;

/// A tree in private memory whose updater can be killed.
struct Tree {
    words: RefCell<Vec<u64>>,
    /// Stores until the updater is killed.
    left: Cell<usize>,
}

/// Leaf of a kept priority by an exponent: any function will do.
fn leaf_of(priority: u64, exponent: u64) -> u64 {
    if priority == 0 { 0 } else { (priority >> (exponent % 4)).max(1) }
}

impl Tree {
    fn new(shape: &TreeShape) -> Self {
        Self { words: RefCell::new(vec![0; shape.end()]), left: Cell::new(usize::MAX) }
    }
}

impl TreeWords for Tree {
    fn load(&self, word: usize) -> u64 {
        self.words.borrow().get(word).copied().unwrap_or(0)
    }

    fn line(&self, word: usize) -> [u64; FAN_OUT] {
        std::array::from_fn(|at| self.load(word + at))
    }

    fn store(&self, word: usize, value: u64, _: Ordering) {
        if self.left.get() > 0 {
            self.left.set(self.left.get() - 1);
            if let Some(place) = self.words.borrow_mut().get_mut(word) {
                *place = value;
            }
        }
    }

    fn fence(&self, _: TreeFence) {}

    fn replace_kept(&self, kept: &mut [u64]) {
        for kept in kept {
            *kept = leaf_of(*kept, self.load(EXPONENT));
        }
    }
}

fn shape(leaves: u64) -> TreeShape {
    // All kinds, by the number of leaves.
    let make = if leaves.is_multiple_of(3) { TreeShape::new } else { TreeShape::tracking_largest };
    let shape = make((0, 1), FAN_OUT, leaves).unwrap();
    match leaves % 4 {
        0 | 2 => shape.keeping_priorities(EXPONENT).unwrap(),
        1 => shape.counting_ranks().unwrap(),
        _ => shape,
    }
}

fn all_given(tree: &Tree, shape: &TreeShape) -> Vec<u64> {
    (0..shape.leaves()).map(|at| given(tree, shape, at)).collect()
}

fn leaves(tree: &Tree, shape: &TreeShape) -> Vec<u64> {
    (0..shape.leaves()).map(|at| leaf(tree, shape, at)).collect()
}

/// Checks every word of every level against the leaves.
fn check(tree: &Tree, shape: &TreeShape) -> Result<(), TestCaseError> {
    let (leaves, given) = (leaves(tree, shape), all_given(tree, shape));
    if shape.kept.is_some() {
        for (leaf, priority) in leaves.iter().zip(&given) {
            prop_assert_eq!(*leaf, leaf_of(*priority, tree.load(EXPONENT)));
        }
    }
    let mut width = 1;
    for level in &shape.levels {
        if shape.tracks_largest {
            for (node, below) in given.chunks(width).enumerate() {
                let largest = below.iter().copied().max();
                prop_assert_eq!(tree.load(level.largest + node), largest.unwrap_or(0));
            }
        }
        for (node, below) in leaves.chunks(width).enumerate() {
            prop_assert_eq!(tree.load(level.sums + node), below.iter().sum::<u64>());
            let least = below.iter().copied().filter(|value| *value > 0).min();
            prop_assert_eq!(tree.load(level.least + node), least.unwrap_or(0));
        }
        width *= FAN_OUT;
    }
    check_ranks(tree, shape, &leaves)?;
    prop_assert_eq!(total(tree, shape), leaves.iter().sum::<u64>());
    let smallest = leaves.iter().copied().filter(|value| *value > 0).min();
    prop_assert_eq!(least(tree, shape), smallest.unwrap_or(0));
    let most = given.iter().copied().max().filter(|_| shape.tracks_largest);
    prop_assert_eq!(largest(tree, shape), most);
    Ok(())
}

/// Checks that the counts of the buckets are those of the leaves, and that all leaves of a bucket
/// are found by their numbers.
fn check_ranks(tree: &Tree, shape: &TreeShape, leaves: &[u64]) -> Result<(), TestCaseError> {
    let mut counts = Vec::new();
    rank_counts(tree, shape, &mut counts);
    if shape.ranks.is_empty() {
        prop_assert!(counts.is_empty());
        return Ok(());
    }
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); RANK_BUCKETS];
    for (at, leaf) in leaves.iter().enumerate().filter(|(_, leaf)| **leaf > 0) {
        members[rank_bucket(*leaf).unwrap()].push(at);
    }
    for (bucket, (count, members)) in counts.iter().zip(&members).enumerate() {
        prop_assert_eq!(*count, members.len() as u64);
        for (number, at) in (0..).zip(members) {
            prop_assert_eq!(nth_in_bucket(tree, shape, bucket, number), Some(*at));
        }
        prop_assert_eq!(nth_in_bucket(tree, shape, bucket, *count), None);
    }
    Ok(())
}

fn changes(leaves: usize) -> impl Strategy<Value = Vec<LeafChange>> {
    let change = (0..leaves, prop_oneof![Just(0), 1..1_u64 << 40]);
    let change = change.prop_map(|(leaf, value)| LeafChange { leaf, value });
    prop::collection::vec(change, 0..60)
}

proptest! {
    #[test]
    fn every_word_is_the_sum_of_its_leaves_after_every_change(
        (count, all) in (1..700_usize).prop_flat_map(|count| {
            (Just(count), prop::collection::vec(changes(count), 1..6))
        }),
    ) {
        let shape = shape(count as u64);
        let (tree, mut model) = (Tree::new(&shape), vec![0; count]);
        let mut scratch = Ancestors::default();
        for changes in all {
            commit(&tree, &shape, &changes, &mut scratch);
            for LeafChange { leaf, value } in changes {
                model[leaf] = value;
            }
            prop_assert_eq!(&all_given(&tree, &shape), &model);
            prop_assert!(!is_journal_used(&tree, &shape));
            check(&tree, &shape)?;
        }
    }

    #[test]
    fn a_killed_updater_is_repaired_whatever_it_had_stored(
        (count, first, second) in (1..700_usize)
            .prop_flat_map(|count| (Just(count), changes(count), changes(count))),
        kill in 0..400_usize,
        kill_of_repair in 0..400_usize,
    ) {
        let shape = shape(count as u64);
        let (tree, mut scratch) = (Tree::new(&shape), Ancestors::default());
        commit(&tree, &shape, &first, &mut scratch);
        let before = all_given(&tree, &shape);
        tree.left.set(kill);
        commit(&tree, &shape, &second, &mut scratch);
        tree.left.set(kill_of_repair);
        repair(&tree, &shape, &mut scratch);
        tree.left.set(usize::MAX);
        repair(&tree, &shape, &mut scratch);
        check(&tree, &shape)?;
        for (leaf, (now, before)) in all_given(&tree, &shape).into_iter().zip(before).enumerate() {
            let mut given = second.iter().filter(|change| change.leaf == leaf);
            prop_assert!(now == before || given.any(|change| change.value == now));
        }
    }

    #[test]
    fn a_killed_change_of_the_exponent_is_finished_and_an_old_one_gives_the_old_leaves(
        (count, first) in (1..700_usize).prop_flat_map(|count| {
            (Just(2 * count), changes(2 * count))
        }),
        exponents in prop::collection::vec(0..4_u64, 1..4),
        kill in 0..4_000_usize,
        kill_of_repair in 0..4_000_usize,
    ) {
        let shape = shape(count as u64);
        let (tree, mut scratch) = (Tree::new(&shape), Ancestors::default());
        commit(&tree, &shape, &first, &mut scratch);
        let (before, priorities) = (leaves(&tree, &shape), all_given(&tree, &shape));
        let mut old = 0;
        for exponent in exponents {
            tree.left.set(kill);
            set_exponent(&tree, &shape, exponent);
            let finished = tree.left.get() > 0;
            prop_assert!(!finished || tree.load(EXPONENT) == exponent);
            tree.left.set(kill_of_repair);
            repair(&tree, &shape, &mut scratch);
            tree.left.set(usize::MAX);
            repair(&tree, &shape, &mut scratch);
            prop_assert!(!is_journal_used(&tree, &shape));
            prop_assert!([old, exponent].contains(&tree.load(EXPONENT)));
            old = tree.load(EXPONENT);
            check(&tree, &shape)?;
            prop_assert_eq!(&all_given(&tree, &shape), &priorities);
        }
        set_exponent(&tree, &shape, 0);
        prop_assert_eq!(leaves(&tree, &shape), before);
        check(&tree, &shape)?;
    }

    #[test]
    fn a_descent_ends_at_the_leaf_that_covers_its_number(
        (count, changes) in (1..700_usize).prop_flat_map(|count| {
            (Just(count), changes(count))
        }),
        numbers in prop::collection::vec(any::<u64>(), 1..40),
    ) {
        let shape = shape(count as u64);
        let tree = Tree::new(&shape);
        commit(&tree, &shape, &changes, &mut Ancestors::default());
        let (leaves, total) = (leaves(&tree, &shape), total(&tree, &shape));
        prop_assume!(total > 0);
        let mut draws: Vec<_> = numbers.iter().map(|n| Descent::of(n % total)).collect();
        descend(&tree, &shape, &mut draws);
        for (number, draw) in numbers.iter().map(|n| n % total).zip(draws) {
            let before: u64 = leaves[..draw.node].iter().sum();
            prop_assert!((before..before + leaves[draw.node]).contains(&number));
            prop_assert_eq!((draw.rest, draw.value), (number - before, leaves[draw.node]));
        }
        // Numbers that are not below the total find no leaf.
        let mut beyond = [total, u64::MAX].map(Descent::of);
        descend(&tree, &shape, &mut beyond);
        prop_assert!(beyond.iter().all(|draw| draw.value == 0));
    }

    #[test]
    fn any_bytes_give_a_leaf_of_the_tree_or_none(
        count in 1..700_usize,
        seed in any::<u64>(),
        numbers in prop::collection::vec(any::<u64>(), 1..40),
    ) {
        let shape = shape(count as u64);
        let tree = Tree::new(&shape);
        let mut dice = seed;
        for word in tree.words.borrow_mut().iter_mut() {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *word = if dice >> 60 == 0 { u64::MAX } else { dice >> (dice >> 58) };
        }
        let mut draws: Vec<_> = numbers.into_iter().map(Descent::of).collect();
        descend(&tree, &shape, &mut draws);
        for draw in draws.iter().filter(|draw| draw.value > 0) {
            prop_assert!(draw.node < count && draw.value == leaf(&tree, &shape, draw.node));
        }
        for (bucket, number) in [(0, 0), (592, 3), (600, u64::MAX), (usize::MAX >> 9, 5)] {
            let found = nth_in_bucket(&tree, &shape, bucket, number);
            prop_assert!(found.is_none_or(|at| at < count));
        }
        repair(&tree, &shape, &mut Ancestors::default());
        let _ = (total(&tree, &shape), least(&tree, &shape));
    }
}

/// The journal lists a second part while it is in use for the first one.
#[test]
fn an_updater_killed_between_parts_of_a_change_is_repaired() {
    let (shape, mut scratch) = (shape(3_003), Ancestors::default());
    let changes: Vec<_> = (0..3_003).map(|leaf| LeafChange { leaf, value: 3 }).collect();
    let mut ends = [0_u32; 2];
    for kill in (0..9_000).step_by(89) {
        let (tree, mut told) = (Tree::new(&shape), false);
        tree.left.set(kill);
        commit_with(&tree, &shape, &changes, &mut scratch, || told = tree.left.get() > 0);
        let finished = tree.left.get() > 0;
        tree.left.set(usize::MAX);
        assert_eq!(repair(&tree, &shape, &mut scratch), kill > 2_048 && !finished, "{kill}");
        check(&tree, &shape).unwrap();
        // Words that are stored with the leaves are stored after all of them.
        assert!(!told || leaves(&tree, &shape).iter().all(|leaf| *leaf == 3), "{kill}");
        ends[usize::from(finished)] += 1;
    }
    assert!(ends.iter().all(|end| *end > 0), "the test proves nothing: {ends:?}");
}

#[test]
fn buckets_have_the_order_of_the_leaves_and_differ_by_less_than_one_part_in_16() {
    assert_eq!(rank_bucket(0), None);
    let leaves =
        (0..40).flat_map(|bit| (0..64).map(move |part| (1_u64 << bit) + ((part << bit) >> 6)));
    let mut leaves: Vec<u64> = leaves.chain([1 << 40]).collect();
    leaves.sort_unstable();
    for pair in leaves.windows(2) {
        let [low, high] = [pair[0], pair[1]].map(|leaf| rank_bucket(leaf).unwrap());
        assert!(low <= high && high <= low + 1 && high < RANK_BUCKETS, "{pair:?}");
    }
    for leaf in &leaves {
        let same = leaves.iter().filter(|of| rank_bucket(**of) == rank_bucket(*leaf));
        assert!(same.into_iter().all(|of| of.abs_diff(*leaf) * 16 < *of.max(leaf).min(&(1 << 41))));
    }
    assert_eq!(rank_bucket(1 << 40), Some(RANK_BUCKETS - 1));
}

/// More groups than a node of the counts has children.
#[test]
fn counts_of_many_groups_are_found_and_counted_again() {
    let shape = TreeShape::new((0, 1), FAN_OUT, 70_001).unwrap().counting_ranks().unwrap();
    let (tree, mut scratch) = (Tree::new(&shape), Ancestors::default());
    let value = |leaf: usize| (leaf as u64 * 7_919) % 300;
    let changes: Vec<_> = (0..70_001).map(|leaf| LeafChange { leaf, value: value(leaf) }).collect();
    commit(&tree, &shape, &changes, &mut scratch);
    check(&tree, &shape).unwrap();
    let again: Vec<_> = (0..2_000).map(|n| LeafChange { leaf: n * 35, value: 1 << 30 }).collect();
    tree.left.set(2_048 + 9_000);
    commit(&tree, &shape, &again, &mut scratch);
    assert_eq!(tree.left.replace(usize::MAX), 0, "the change is not killed");
    assert!(repair(&tree, &shape, &mut scratch));
    check(&tree, &shape).unwrap();
}

#[test]
fn more_changes_than_the_journal_lists_are_made_in_steps() {
    let shape = shape(10_001);
    let tree = Tree::new(&shape);
    let changes: Vec<_> = (0..10_000).map(|leaf| LeafChange { leaf, value: 3 }).collect();
    commit(&tree, &shape, &changes, &mut Ancestors::default());
    assert_eq!((total(&tree, &shape), least(&tree, &shape)), (30_000, 3));
    check(&tree, &shape).unwrap();
}
