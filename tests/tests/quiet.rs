//! Publishing makes no system call: a writer process gives up the right to make any, and publishes.
#![cfg(target_os = "linux")]

use std::error::Error;
use std::process::Command;

use backcast_budget::BoundedCommand;
use backcast_core::{Base, LanePolicy, Ring, RingOptions};
use backcast_tests::storm::schema;
use tempfile::TempDir;

const ROWS: u64 = 1_000_000;

#[test]
fn a_writer_that_may_make_no_system_call_publishes_a_million_rows() -> Result<(), Box<dyn Error>> {
    for policy in [LanePolicy::default(), LanePolicy::Overwrite] {
        let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new())?;
        let base = Base::at(dir.path());
        let options = RingOptions::with_capacity(1_000).base(base).lane_policy(policy);
        let ring = Ring::create("quiet", &schema()?, options)?;
        let output = Command::new(env!("CARGO_BIN_EXE_quiet_writer"))
            .arg(dir.path())
            .args(["quiet", &ROWS.to_string()])
            .output_bounded()?;
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said, "quiet\n", "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{}: the kernel killed it", output.status);
        assert_eq!(ring.rows_published(), ROWS);
        println!("{ROWS} rows under lane policy {policy} without a system call");
    }
    Ok(())
}
