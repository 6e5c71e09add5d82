//! Parts of the layout crate that the crates above use, and that a learner or an actor does not
//! need: loops for wide vectors, memory, sockets and locks of the daemon, texts.

pub use backcast_layout::{
    BaseLock, DAEMON_SOCKET, HugeArray, LaneAlias, LockAttempt, MAX_NAME_BYTES, MemfdKeeper,
    MirroredBlocks, MirroredBlocksMut, Peer, RANK_BLOCK, SealedSegment, ShownNumber, SimdKernel,
    ThreadPool, binary_size, boot_id_hash, closest_name, copy_slice, flock_holders, memory_left,
    name_problem, prefetch_l2, printable, ranks, receive, run_simd, send_with_descriptor,
    trunc_to_i32,
};
