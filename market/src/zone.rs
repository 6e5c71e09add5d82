//! Time zones: local times of instants, and instants of local times.

use std::{fs, path::Path};

use tz::TimeZone;

/// Directories of the time zone database.
const DATABASES: [&str; 3] = ["/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/etc/zoneinfo"];

const DAY_SECONDS: i64 = 86_400;

/// Offset of local time from UTC.
#[derive(Clone, Debug)]
pub(crate) enum Zone {
    Fixed(i64),
    Named(Box<TimeZone>),
}

impl Zone {
    /// Returns a zone by its name: an offset such as `+09:00`, `UTC`, or a name of the time zone
    /// database. Without a name it is UTC. Returns `None` if the name is unknown.
    pub(crate) fn of(name: Option<&str>) -> Option<Self> {
        match name {
            None | Some("UTC" | "Etc/UTC" | "GMT" | "Z") => Some(Self::Fixed(0)),
            Some(name) => offset_seconds(name).map(Self::Fixed).or_else(|| named(name)),
        }
    }

    /// Converts seconds since 1970 to local time; `None` out of range.
    pub(crate) fn local(&self, unix_seconds: i64) -> Option<i64> {
        unix_seconds.checked_add(self.ahead(unix_seconds)?)
    }

    /// Converts local time to seconds since 1970.
    pub(crate) fn utc(&self, local: i64) -> LocalTime {
        // Clocks are at most a day ahead or behind, and are not set twice within two days.
        let offset = |nearby: Option<i64>| self.ahead(nearby?);
        let utc = [offset(local.checked_sub(DAY_SECONDS)), offset(local.checked_add(DAY_SECONDS))]
            .map(|ahead| {
                let utc = local.checked_sub(ahead?)?;
                (self.local(utc) == Some(local)).then_some(utc)
            });
        match utc {
            [Some(first), Some(second)] if first != second => LocalTime::Twice,
            [Some(utc), _] | [None, Some(utc)] => LocalTime::Once(utc),
            [None, None] => LocalTime::Never,
        }
    }

    /// Returns the seconds by which clocks are ahead of UTC at an instant.
    fn ahead(&self, unix_seconds: i64) -> Option<i64> {
        match self {
            Self::Fixed(seconds) => Some(*seconds),
            Self::Named(zone) => {
                Some(zone.find_local_time_type(unix_seconds).ok()?.ut_offset().into())
            }
        }
    }
}

/// How often clocks show a local time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LocalTime {
    /// Once, at these seconds since 1970.
    Once(i64),
    /// Twice, since clocks were set back.
    Twice,
    /// Never, since clocks were set forward.
    Never,
}

/// Parses `+HH:MM`, `-HH:MM`, `+HHMM` or `+HH`, and returns the seconds ahead of UTC.
pub(crate) fn offset_seconds(name: &str) -> Option<i64> {
    let (sign, rest) = match name.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = match rest.len() {
        2 => (rest, "00"),
        4 => rest.split_at_checked(2)?,
        5 => rest.split_once(':')?,
        _ => return None,
    };
    let number = |text: &str, below: i64| {
        let digits = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().ok()).flatten().filter(|number: &i64| *number < below)
    };
    Some(sign * (number(hours, 24)? * 3600 + number(minutes, 60)? * 60))
}

fn named(name: &str) -> Option<Zone> {
    // The name comes from the file: its path must stay within the database.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_+-/".contains(&byte);
    if name.is_empty() || name.starts_with('/') || !name.bytes().all(plain) {
        return None;
    }
    let path = DATABASES.iter().map(|root| Path::new(root).join(name)).find(|path| path.is_file());
    let zone = TimeZone::from_tz_data(&fs::read(path?).ok()?).ok()?;
    Some(Zone::Named(Box::new(zone)))
}

#[cfg(test)]
mod tests {
    use super::Zone;

    #[test]
    fn offsets_and_utc_need_no_database() {
        for (name, ahead) in [
            (None, 0),
            (Some("UTC"), 0),
            (Some("+00:00"), 0),
            (Some("+09:00"), 9 * 3600),
            (Some("-0530"), -(5 * 3600 + 30 * 60)),
            (Some("+14"), 14 * 3600),
        ] {
            let zone = Zone::of(name).unwrap();
            assert_eq!(zone.local(1_000_000), Some(1_000_000 + ahead), "{name:?}");
            assert!(ahead <= 0 || zone.local(i64::MAX).is_none());
        }
    }

    #[test]
    fn a_name_cannot_leave_the_database() {
        for name in ["", "/etc/passwd", "../../../etc/passwd", "+9", "+24:00", "+09:60", "No/Where"]
        {
            assert!(Zone::of(Some(name)).is_none(), "{name:?}");
        }
    }
}
