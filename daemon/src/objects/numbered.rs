//! Saves snapshots under numbered labels.

use backcast_persist::{SaveError, SaveReport, Store};

/// Saves under the first free label of s1, s2, and so on. Other processes may do so at the same
/// time.
pub(crate) fn save_numbered(
    store: &Store,
    name: &str,
    save: impl Fn(&str) -> Result<SaveReport, SaveError>,
) -> Result<SaveReport, SaveError> {
    let listing = store.snapshots(name)?;
    let taken = |label: &str| listing.snapshots.iter().any(|snapshot| snapshot.label == label);
    let mut number = 1_u64;
    loop {
        let label = format!("s{number}");
        if !taken(&label) {
            match save(&label) {
                Err(SaveError::LabelTaken { .. }) => {}
                saved => return saved,
            }
        }
        number += 1;
    }
}
