//! Sizes and paths as error messages show them.

use std::path::Path;

const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// Returns a number of bytes in binary units, such as `512 B`, `20 TiB` or `15.6 GiB`. Numbers
/// below 100 have up to one decimal.
#[must_use]
pub fn binary_size(bytes: u64) -> String {
    let (mut unit, mut place) = (1_u64, 0);
    // Rounding may carry into the next unit: 1,048,575 bytes are 1 MiB, not 1024 KiB.
    while place + 1 < UNITS.len() && rounded(bytes, unit) >= 1024 {
        unit *= 1024;
        place += 1;
    }
    let name = UNITS.get(place).copied().unwrap_or_default();
    // `rest < unit <= 2^60`, so ten times `rest` fits.
    let (whole, rest) = (bytes / unit, bytes % unit);
    let tenths = whole * 10 + (rest * 10 + unit / 2) / unit;
    if tenths < 1000 && !tenths.is_multiple_of(10) {
        format!("{}.{} {name}", tenths / 10, tenths % 10)
    } else {
        format!("{} {name}", rounded(bytes, unit))
    }
}

fn rounded(bytes: u64, unit: u64) -> u64 {
    bytes / unit + u64::from(bytes % unit >= unit.div_ceil(2))
}

/// Names the object that a file belongs to, and its base directory, such as
/// ``ring `pong` in /dev/shm/backcast-1000``. An object without a name is a new ring or panel.
/// Returns the path if it belongs to no object.
pub(crate) fn object_at(path: &Path) -> String {
    for folder in path.ancestors() {
        let Some(name) = folder.file_name().and_then(|name| name.to_str()) else { continue };
        let Some(base) = folder.parent().filter(|base| !base.as_os_str().is_empty()) else {
            continue;
        };
        for kind in ["ring", "panel", "params"] {
            let object = name.strip_suffix(kind).and_then(|name| name.strip_suffix('.'));
            if let Some(object) = object.filter(|object| !object.starts_with('.')) {
                return format!("{kind} `{object}` in {}", base.display());
            }
        }
        if name.starts_with('.') {
            return format!("a new ring or panel in {}", base.display());
        }
    }
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_figures_and_binary_units() {
        for (bytes, text) in [
            (0, "0 B"),
            (512, "512 B"),
            (1 << 10, "1 KiB"),
            (1_536, "1.5 KiB"),
            (1_048_575, "1 MiB"),
            (16_777_216_000, "15.6 GiB"),
            (20 << 40, "20 TiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(binary_size(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn files_are_named_by_their_objects() {
        let base = "/dev/shm/backcast-7";
        let at = |file: &str| object_at(&Path::new(base).join(file));
        for (file, name) in
            [("pong.ring/lane-0001.dat", "ring `pong`"), ("prices.panel", "panel `prices`")]
        {
            let text = at(file);
            assert!(text.starts_with(name) && text.ends_with(base), "{text}");
        }
        let new = at(".building-01");
        assert!(!new.contains(".building") && new.ends_with(base), "{new}");
        assert_eq!(at(".building-01/ring.ctl"), new);
        assert_eq!(object_at(Path::new("/data/x.csv")), "/data/x.csv");
    }
}
