//! Models of a sum tree that keeps priorities: a draw during a change of the exponent, and a
//! process that is killed after any store of such a change, or of an update. Each mutant must be
//! caught.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use backcast_layout::protocol::sum_tree::{
    Ancestors, LeafChange, Recomputed, clear_journal, commit, compute_all, given, is_unchanged,
    leaf, list_all, observe, recompute, repair, set_exponent, total, write_journal, write_kept,
    write_leaves,
};
use loom::thread;

use crate::sum_tree::{Mutant, Seen, Tree, change, check};

/// Maximum stores of a change of the exponent: the count, the exponent, 16 leaves, two sums, two
/// smallest leaves, the changes and the count.
const STORES: usize = 24;

fn set_exponent_of(tree: &Tree, exponent: u64) {
    tree.lock();
    let shape = &*tree.shape;
    repair(tree, shape, &mut Ancestors::default());
    match tree.mutant {
        Mutant::LateMarkOfAll => {
            tree.store_exponent(exponent);
            compute_all(tree, shape);
            list_all(tree, shape);
            clear_journal(tree, shape);
        }
        Mutant::LateExponent => {
            // The leaves are those of the new exponent, which the word does not have yet.
            list_all(tree, shape);
            let old = tree.exponent();
            tree.store_exponent(exponent);
            compute_all(tree, shape);
            tree.store_exponent(old);
            clear_journal(tree, shape);
            tree.store_exponent(exponent);
        }
        _ => set_exponent(tree, shape, exponent),
    }
    tree.unlock();
}

fn update(tree: &Tree, changes: &[LeafChange]) {
    tree.lock();
    let (shape, mut nodes) = (&*tree.shape, Ancestors::default());
    if tree.mutant != Mutant::NoRepair {
        repair(tree, shape, &mut nodes);
    }
    if tree.mutant == Mutant::LatePriority {
        let exponent = tree.exponent();
        let product = |of: &LeafChange| change(of.leaf, of.value * exponent);
        let leaves: Vec<LeafChange> = changes.iter().map(product).collect();
        nodes.begin(changes.iter().map(|change| change.leaf));
        write_journal(tree, shape, &leaves);
        write_leaves(tree, shape, &leaves);
        recompute(tree, shape, &mut nodes, Recomputed::Changed);
        clear_journal(tree, shape);
        write_kept(tree, shape, changes);
    } else {
        commit(tree, shape, changes, &mut nodes);
    }
    tree.unlock();
}

/// Checks every leaf against its priority, and the sums.
fn check_leaves(tree: &Tree) {
    let exponent = tree.exponent();
    for at in [0, 1, 8, 9] {
        let (value, priority) = (leaf(tree, &tree.shape, at), given(tree, &tree.shape, at));
        assert_eq!(value, priority * exponent, "lost: leaf {at} of priority {priority}");
    }
    tree.check_sums();
}

/// The exponent changes during a draw, which is by the old one or by the new one.
fn draw_beside_change(mutant: Mutant, seen: &Arc<Seen>) {
    let tree = Tree::keeping_priorities(mutant);
    update(&tree, &[change(1, 2), change(8, 3)]);
    let theirs = tree.clone();
    let changing = thread::spawn(move || set_exponent_of(&theirs, 2));
    if let Some(changes) = observe(&tree, &tree.shape) {
        let sum = total(&tree, &tree.shape);
        let found = tree.draw(sum - 1);
        let values = [1, 8].map(|at| leaf(&tree, &tree.shape, at));
        if is_unchanged(&tree, &tree.shape, changes) {
            let whole = [(5, [2, 3]), (10, [4, 6])].contains(&(sum, values));
            assert!(whole, "torn: {sum} and {values:?} are of no exponent");
            assert_eq!(found, Some(8), "torn: the draw is of no exponent");
            seen.drawn.fetch_add(1, SeqCst);
        } else {
            seen.moved.fetch_add(1, SeqCst);
        }
    }
    changing.join().expect("the change ends");
    assert_eq!(tree.exponent(), 2, "lost: the exponent");
    check_leaves(&tree);
}

/// A process is killed after `stores` stores of a change of the exponent, while another one sets a
/// priority.
fn kill_of_change(stores: usize) -> impl Fn(Mutant, &Arc<Seen>) + Send + Sync + 'static {
    move |mutant, seen| {
        let tree = Tree::keeping_priorities(mutant);
        update(&tree, &[change(0, 2), change(8, 3)]);
        let mortal = tree.mortal(stores);
        let killed = thread::spawn(move || set_exponent_of(&mortal, 2));
        update(&tree, &[change(1, 7)]);
        killed.join().expect("the killed thread ends");
        finish(&tree, seen);
        assert_eq!(
            [0, 1, 8].map(|at| given(&tree, &tree.shape, at)),
            [2, 7, 3],
            "lost: priorities"
        );
    }
}

/// A process is killed after `stores` stores of an update, while another one changes the exponent.
fn kill_of_update(stores: usize) -> impl Fn(Mutant, &Arc<Seen>) + Send + Sync + 'static {
    move |mutant, seen| {
        let tree = Tree::keeping_priorities(mutant);
        update(&tree, &[change(0, 2), change(8, 3)]);
        let mortal = tree.mortal(stores);
        let killed = thread::spawn(move || update(&mortal, &[change(0, 5), change(9, 1)]));
        set_exponent_of(&tree, 2);
        killed.join().expect("the killed thread ends");
        finish(&tree, seen);
        assert_eq!(tree.exponent(), 2, "lost: the exponent");
        assert_eq!(given(&tree, &tree.shape, 8), 3, "lost: a priority");
    }
}

/// Takes the lock as the next holder, and checks the tree.
fn finish(tree: &Tree, seen: &Arc<Seen>) {
    tree.lock();
    let repaired =
        tree.mutant != Mutant::NoRepair && repair(tree, &tree.shape, &mut Ancestors::default());
    tree.unlock();
    seen.repaired.fetch_add(repaired.into(), SeqCst);
    check_leaves(tree);
}

#[test]
fn a_draw_that_met_no_change_is_by_one_exponent() {
    let (passed, seen) = check(Mutant::None, draw_beside_change);
    let [drawn, moved] = [&seen.drawn, &seen.moved].map(|counter| counter.load(SeqCst));
    println!("exponent: {drawn} drawn, {moved} repeated");
    assert!(passed, "a draw was by no exponent");
    assert!(drawn > 0 && moved > 0, "the model proves nothing");
}

#[test]
fn a_change_that_is_marked_late_is_drawn_from_in_the_middle() {
    let (passed, _) = check(Mutant::LateMarkOfAll, draw_beside_change);
    assert!(!passed, "the mutant was not caught");
}

#[test]
fn without_fences_a_draw_is_by_no_exponent() {
    let (passed, _) = check(Mutant::NoFence, draw_beside_change);
    assert!(!passed, "the mutant was not caught");
}

#[test]
fn leaves_are_of_their_priorities_after_a_kill_at_any_store() {
    let mut repaired = 0;
    for stores in 0..=STORES {
        let (passed, seen) = check(Mutant::None, kill_of_change(stores));
        assert!(passed, "killed after {stores} stores of a change of the exponent");
        repaired += seen.repaired.load(SeqCst);
        let (passed, seen) = check(Mutant::None, kill_of_update(stores));
        assert!(passed, "killed after {stores} stores of an update");
        repaired += seen.repaired.load(SeqCst);
    }
    println!("exponent: {repaired} repaired");
    assert!(repaired > 0, "the model proves nothing");
}

#[test]
fn without_a_repair_leaves_are_of_two_exponents() {
    assert!((0..=STORES).any(|stores| !check(Mutant::NoRepair, kill_of_change(stores)).0));
}

#[test]
fn a_killed_change_that_is_marked_late_leaves_two_exponents() {
    assert!((0..=STORES).any(|stores| !check(Mutant::LateMarkOfAll, kill_of_change(stores)).0));
}

#[test]
fn an_exponent_that_is_stored_after_the_change_is_lost() {
    assert!((0..=STORES + 2).any(|stores| !check(Mutant::LateExponent, kill_of_change(stores)).0));
}

#[test]
fn priorities_that_are_stored_after_the_change_are_not_those_of_the_leaves() {
    assert!((0..=STORES).any(|stores| !check(Mutant::LatePriority, kill_of_update(stores)).0));
}
