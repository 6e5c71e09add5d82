//! Steps of a case, and changes of the model that must be found.

/// Next step of a case.
#[derive(Clone, Copy)]
pub(super) enum Op {
    /// Rows are appended, and may evict others.
    Append,
    /// A sampler draws.
    Sample,
    /// Priorities of some rows change.
    Update,
    /// A sampler is killed between two draws, or in the middle of one.
    Kill,
    /// Every row is dropped.
    Clear,
    /// An episode of a lane is dropped, maybe with older ones, or refused.
    DropEpisode,
}

/// Steps that cases choose from; one that is listed more often is chosen more often.
pub(super) const OPS: [Op; 14] = [
    Op::Append,
    Op::Append,
    Op::Append,
    Op::Append,
    Op::Sample,
    Op::Sample,
    Op::Sample,
    Op::Sample,
    Op::Update,
    Op::Update,
    Op::Kill,
    Op::Kill,
    Op::Clear,
    Op::DropEpisode,
];

/// Change of the model, which a selector must contradict.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Mutant {
    None,
    /// Weights or ranks of this selector are a little wrong.
    Wrong(&'static str),
    /// Draws in proportion to priorities have other weights.
    WrongProportions,
    /// Rows that a killed sampler claimed are claimed again.
    KillLosesNothing,
    /// New rows enter with the priority 1 and not with the largest.
    EntersAtOne,
    /// Updates of evicted rows are not dropped.
    UpdatesOfEvictedRowsCount,
    /// Rows stay when all are dropped.
    ClearIsIgnored,
    /// Rows stay when an episode is dropped.
    DropEpisodeIsIgnored,
}
