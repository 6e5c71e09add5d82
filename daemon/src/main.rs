//! The `backcast` command.

fn main() {}
