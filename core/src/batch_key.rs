//! Keys of batches that are no columns of a ring: the one table of reserved names.

pub(crate) const TERMINATED: &str = "terminated";
pub(crate) const TRUNCATED: &str = "truncated";
/// Whether a place of a window holds a transition.
pub(crate) const MASK: &str = "mask";
pub(crate) const FUTURE_MASK: &str = "future_mask";
pub(crate) const INDEX: &str = "index";
pub(crate) const AGE: &str = "age";
pub(crate) const N_REWARD: &str = "n_reward";
pub(crate) const N_DISCOUNT: &str = "n_discount";
/// Importance weights.
pub(crate) const WEIGHT: &str = "weight";
/// Flags of relabelled transitions.
pub(crate) const RELABELLED: &str = "relabelled";
/// Transitions of whole episodes, and their first places.
pub(crate) const LENGTH: &str = "length";
pub(crate) const OFFSETS: &str = "offsets";
/// Whether a transition named by its index is in the ring.
pub(crate) const FOUND: &str = "found";
/// Versions between the policy that made a row and the newest one.
pub(crate) const POLICY_AGE: &str = "policy_age";

/// The column with the version of the policy that made a row. It is a step column of one whole
/// number, and no key of batches without it.
pub(crate) const POLICY_VERSION: &str = "policy_version";

/// Names that no ring has: they were reserved from the first version on.
const FIRST: [&str; 14] = [
    "seq",
    "episode",
    "t",
    "flags",
    TERMINATED,
    TRUNCATED,
    MASK,
    INDEX,
    AGE,
    "future",
    FUTURE_MASK,
    "final_obs",
    N_REWARD,
    N_DISCOUNT,
];

/// Names that rings of earlier versions may have.
const LATER: [&str; 6] = [WEIGHT, RELABELLED, LENGTH, OFFSETS, FOUND, POLICY_AGE];

/// Returns whether no ring may have columns whose names have this first part.
pub(crate) fn is_never_a_column(first: &str) -> bool {
    FIRST.contains(&first) || first.starts_with("next_") || first.starts_with("n_next")
}

/// Returns whether no new ring may have columns whose names have this first part.
pub(crate) fn is_reserved(first: &str) -> bool {
    is_never_a_column(first) || LATER.contains(&first)
}

/// Returns the reserved names, for errors. Those that begin with a prefix are not among them.
pub(crate) fn reserved() -> String {
    [&FIRST[..], &LATER].concat().join(", ")
}

/// Returns the first part of a column's name, which is its key in a batch.
pub(crate) fn first_part(column: &str) -> &str {
    column.split('/').next().unwrap_or(column)
}
