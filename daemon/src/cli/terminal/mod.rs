//! Full-screen views: switches and restores the terminal, reads its keys, runs a view's loop.

pub(crate) mod keys;
pub(crate) mod live;
pub(crate) mod screen;
