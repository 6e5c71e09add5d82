//! Settings from flags and from a TOML file with the same names. Flags win.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use backcast_core::plumbing::closest_name;
use clap::ValueEnum;
use thiserror::Error;
use toml::{Table, Value};

use super::budget::{Budget, WhenFull};
use super::error::ServeError;
use super::log::{Level, LogFormat};
use super::options::ServeOptions;
use super::persist::{GivenPersist, PersistOptions, RING_KEYS, STORE_KEY};

/// Valid intervals in seconds.
const INTERVAL_S: std::ops::RangeInclusive<f64> = 0.05..=3600.0;

/// Optional settings of the flags or of the file.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct GivenSettings {
    /// Maximum memory of all rings and panels together: `8GiB`, or `50%` of what the file system
    /// and the memory limit allow [default: 95%].
    #[arg(long, value_name = "SIZE")]
    budget: Option<Budget>,
    /// Policy for rings that do not fit: refuse them, shrink them to the rest of the budget, or
    /// evict unused rings to disk [default: refuse].
    #[arg(long, value_name = "WHAT", hide_possible_values = true)]
    when_full: Option<WhenFull>,
    /// Create every ring in sealed memory, which no process can truncate. Linux.
    #[arg(long)]
    memfd: bool,
    /// Time between two sweeps: `2s`, `500ms` [default: 2s].
    #[arg(long, value_name = "TIME")]
    interval: Option<Interval>,
    /// Serve metrics for Prometheus at http://ADDR:PORT/metrics; port 0 picks a free one.
    #[arg(long, value_name = "ADDR:PORT")]
    metrics: Option<Address>,
    /// Allow --metrics on an address that other machines can reach.
    #[arg(long)]
    metrics_any_address: bool,
    /// Socket for clients [default: daemon.sock beside the rings].
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    persist: GivenPersist,
    /// Settings by ring; only in the file.
    #[arg(skip)]
    rings: BTreeMap<String, GivenPersist>,
    /// Log as text or json, on stderr [default: text].
    #[arg(long, value_name = "FORM", hide_possible_values = true)]
    log: Option<LogFormat>,
    /// Log from this level on: error, warn, info, debug or trace [default: info].
    #[arg(long, value_name = "LEVEL", hide_possible_values = true)]
    log_level: Option<Level>,
}

/// Settings of one run.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) options: ServeOptions,
    pub(crate) log: LogFormat,
    pub(crate) log_level: Level,
}

/// Top-level keys of the file: the flags without `--`, and the table `persist`.
const KEYS: [&str; 10] = [
    "budget",
    "when-full",
    "memfd",
    "interval",
    "metrics",
    "metrics-any-address",
    "socket",
    "persist",
    "log",
    "log-level",
];

impl GivenSettings {
    /// Combines the flags with the settings of the file.
    pub(crate) fn settle(&self, file: Option<&Path>) -> Result<Settings, ServeError> {
        let file = file.map(read).transpose()?.unwrap_or_default();
        let defaults = ServeOptions::default();
        let persist = self.persist_with(&file);
        let options = ServeOptions {
            budget: self.budget.or(file.budget).unwrap_or_default(),
            when_full: self.when_full.or(file.when_full).unwrap_or_default(),
            memfd: self.memfd || file.memfd,
            interval: self.interval.or(file.interval).map_or(defaults.interval, |i| i.0),
            socket: self.socket.clone().or(file.socket),
            metrics: self.metrics.or(file.metrics).map(|address| address.0),
            metrics_any_address: self.metrics_any_address || file.metrics_any_address,
            max_connections: defaults.max_connections,
            persist,
        };
        options.check()?;
        Ok(Settings {
            options,
            log: self.log.or(file.log).unwrap_or_default(),
            log_level: self.log_level.or(file.log_level).unwrap_or_default(),
        })
    }

    fn persist_with(&self, file: &Self) -> PersistOptions {
        let given = self.persist.or(&file.persist);
        let defaults = PersistOptions::default();
        let all = given.over(defaults.all);
        let rings = file.rings.iter().map(|(name, ring)| (name.clone(), ring.over(all)));
        PersistOptions { store: given.store, all, rings: rings.collect() }
    }
}

fn read(path: &Path) -> Result<GivenSettings, ServeError> {
    let text = fs::read_to_string(path)
        .map_err(|source| ServeError::ReadConfig { path: path.to_owned(), source })?;
    let table: Table = text.parse().map_err(|error: toml::de::Error| ServeError::BadConfig {
        path: path.to_owned(),
        why: error.to_string().trim_end().to_owned(),
    })?;
    let file = File { path, table: &table };
    file.has_only(&KEYS)?;
    let nothing = Table::new();
    let persist = File { path, table: file.table("persist")?.unwrap_or(&nothing) };
    persist.has_only(&[RING_KEYS.as_slice(), &[STORE_KEY, "ring"]].concat())?;
    let mut rings = BTreeMap::new();
    for (name, value) in persist.table("ring")?.unwrap_or(&nothing) {
        let Value::Table(table) = value else {
            let why = format!("write [persist.ring.{name}], and the keys below it");
            return Err(persist.bad("ring", value, why));
        };
        let ring = File { path, table };
        ring.has_only(&RING_KEYS)?;
        rings.insert(name.clone(), ring.persist()?);
    }
    Ok(GivenSettings {
        budget: file.parsed("budget")?,
        when_full: file.word("when-full")?,
        memfd: file.flag("memfd")?,
        interval: file.parsed("interval")?,
        metrics: file.parsed("metrics")?,
        metrics_any_address: file.flag("metrics-any-address")?,
        socket: file.text("socket")?.map(PathBuf::from),
        persist: GivenPersist {
            store: persist.text(STORE_KEY)?.map(PathBuf::from),
            ..persist.persist()?
        },
        rings,
        log: file.word("log")?,
        log_level: file.word("log-level")?,
    })
}

/// A table of the file, whose values are parsed as the flags are.
struct File<'a> {
    path: &'a Path,
    table: &'a Table,
}

impl File<'_> {
    fn bad(&self, key: &'static str, value: &Value, why: impl std::fmt::Display) -> ServeError {
        let (path, value) = (self.path.to_owned(), value.to_string());
        ServeError::BadValue { path, key, value, why: why.to_string() }
    }

    fn has_only(&self, keys: &[&str]) -> Result<(), ServeError> {
        let Some(key) = self.table.keys().find(|key| !keys.contains(&key.as_str())) else {
            return Ok(());
        };
        let near = closest_name(key, keys.iter().copied()).map(str::to_owned);
        let (path, key, known) = (self.path.to_owned(), key.clone(), keys.join(", "));
        Err(ServeError::UnknownKey { path, key, near, known })
    }

    fn table(&self, key: &'static str) -> Result<Option<&Table>, ServeError> {
        match self.table.get(key) {
            None => Ok(None),
            Some(Value::Table(table)) => Ok(Some(table)),
            Some(value) => Err(self.bad(key, value, format!("write [{key}], and its keys below"))),
        }
    }

    /// Parses the keys that `[persist]` and its tables of rings share.
    fn persist(&self) -> Result<GivenPersist, ServeError> {
        let newest: Option<Newest> = self.parsed("newest")?;
        Ok(GivenPersist {
            mode: self.parsed("mode")?,
            store: None,
            every: self.parsed("every")?,
            newest: newest.map(|newest| newest.0),
            flush: self.parsed("flush")?,
            keep_bytes: self.parsed("keep-bytes")?,
            keep_age: self.parsed("keep-age")?,
        })
    }

    fn text(&self, key: &'static str) -> Result<Option<String>, ServeError> {
        match self.table.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            // A number means the same as on the command line.
            Some(Value::Integer(number)) => Ok(Some(number.to_string())),
            Some(Value::Float(number)) => Ok(Some(number.to_string())),
            Some(value) => Err(self.bad(key, value, "give a text, in quotes")),
        }
    }

    fn parsed<T: FromStr<Err: std::fmt::Display>>(
        &self,
        key: &'static str,
    ) -> Result<Option<T>, ServeError> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let why = |error: T::Err| self.bad(key, &Value::String(text.clone()), error);
        text.parse().map(Some).map_err(why)
    }

    fn word<T: ValueEnum>(&self, key: &'static str) -> Result<Option<T>, ServeError> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let words: Vec<String> = T::value_variants()
            .iter()
            .filter_map(|word| Some(word.to_possible_value()?.get_name().to_owned()))
            .collect();
        let why =
            |_| self.bad(key, &Value::String(text.clone()), format!("use {}", words.join(", ")));
        T::from_str(&text, false).map(Some).map_err(why)
    }

    fn flag(&self, key: &'static str) -> Result<bool, ServeError> {
        match self.table.get(key) {
            None => Ok(false),
            Some(Value::Boolean(on)) => Ok(*on),
            Some(value) => Err(self.bad(key, value, "use true or false")),
        }
    }
}

/// A number of snapshots, within the limits of the flag.
struct Newest(u16);

impl FromStr for Newest {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let newest = text.parse().ok().filter(|newest| (1..=1000).contains(newest));
        newest.map(Self).ok_or("use a number from 1 to 1000")
    }
}

/// A numeric address with a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address(SocketAddr);

/// Error of a text that is not a numeric address with a port.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "`{text}` is not an address with a port from 0 to {}; write numbers, 127.0.0.1:9464 or \
     [::1]:9464: names are not looked up",
    u16::MAX
)]
pub(crate) struct BadAddress {
    text: String,
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        text.trim().parse().map(Self).map_err(|_| BadAddress { text: text.to_owned() })
    }
}

/// An interval: `2s`, `500ms`, `1.5`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval(Duration);

/// Error of a text that is not an interval.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "interval `{text}` is not valid; write seconds or milliseconds, 2s or 500ms, from {}s to {}s",
    INTERVAL_S.start(),
    INTERVAL_S.end()
)]
pub(crate) struct BadInterval {
    text: String,
}

impl FromStr for Interval {
    type Err = BadInterval;

    fn from_str(text: &str) -> Result<Self, BadInterval> {
        let trimmed = text.trim();
        let (number, scale) = match trimmed.strip_suffix("ms") {
            Some(number) => (number, 1e-3),
            None => (trimmed.strip_suffix('s').unwrap_or(trimmed), 1.0),
        };
        let seconds = number.trim().parse::<f64>().ok().map(|number| number * scale);
        let seconds = seconds.filter(|seconds| INTERVAL_S.contains(seconds));
        let interval = seconds.map(|seconds| Self(Duration::from_secs_f64(seconds)));
        interval.ok_or_else(|| BadInterval { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(text: &str, flags: &GivenSettings) -> Result<Settings, ServeError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("backcast.toml");
        fs::write(&path, text).unwrap();
        flags.settle(Some(&path))
    }

    #[test]
    fn the_file_sets_values_without_flags() {
        let text = "budget = \"8GiB\"\nwhen-full = \"shrink\"\ninterval = \"500ms\"\n\
                    metrics = \"127.0.0.1:9464\"\nsocket = \"/tmp/s\"\nlog = \"json\"\n\
                    log-level = \"debug\"\nmetrics-any-address = true\nmemfd = true\n";
        let Settings { options, log, log_level } =
            settled(text, &GivenSettings::default()).unwrap();
        assert_eq!(options.budget, Budget::Bytes(8 << 30));
        assert_eq!(options.when_full, WhenFull::Shrink);
        assert_eq!(options.interval, Duration::from_millis(500));
        assert_eq!(options.metrics, Some("127.0.0.1:9464".parse().unwrap()));
        assert_eq!(options.socket, Some("/tmp/s".into()));
        assert!(options.metrics_any_address && options.memfd);
        assert_eq!((log, log_level), (LogFormat::Json, Level::Debug));
        let flags = GivenSettings { budget: Some(Budget::Percent(7)), ..GivenSettings::default() };
        let options = settled(text, &flags).unwrap().options;
        assert_eq!((options.budget, options.when_full), (Budget::Percent(7), WhenFull::Shrink));
        assert_eq!(
            settled("budget = 4096", &GivenSettings::default()).unwrap().options.budget,
            Budget::Bytes(4096)
        );
    }

    #[test]
    fn rings_are_persisted_as_flags_file_and_their_own_table_say() {
        use backcast_persist::{Keep, PersistMode};
        let text = "[persist]\nmode = \"periodic\"\nstore = \"/data\"\nevery = \"90s\"\n\
                    newest = 5\n\
                    keep-bytes = \"1GiB\"\n[persist.ring.pong]\nmode = \"block\"\nflush = \"1s\"\n\
                    keep-age = \"7d\"\n";
        let persist = settled(text, &GivenSettings::default()).unwrap().options.persist;
        assert_eq!(persist.store, Some("/data".into()));
        let all = persist.of("other", None);
        assert_eq!(
            (all.mode, all.every, all.newest),
            (PersistMode::Periodic, Duration::from_secs(90), 5)
        );
        assert_eq!(all.keep, Keep { bytes: Some(1 << 30), age: None });
        assert_eq!(
            persist.of("other", Some(PersistMode::Off)).mode,
            PersistMode::Off,
            "its creator said so"
        );
        let pong = persist.of("pong", Some(PersistMode::Off));
        assert_eq!(
            (pong.mode, pong.flush, pong.newest),
            (PersistMode::Block, Duration::from_secs(1), 5)
        );
        assert_eq!(pong.keep.age, Some(Duration::from_secs(7 * 86400)));
        let persist =
            GivenPersist { mode: Some(PersistMode::Continuous), ..GivenPersist::default() };
        let flags = GivenSettings { persist, ..GivenSettings::default() };
        let persist = settled(text, &flags).unwrap().options.persist;
        assert_eq!(persist.of("other", None).mode, PersistMode::Continuous);
        assert_eq!(persist.of("pong", None).mode, PersistMode::Block);
        assert_eq!(
            settled("", &GivenSettings::default()).unwrap().options.persist.all.mode,
            PersistMode::Off
        );
    }

    #[test]
    fn mistakes_in_the_file_are_named() {
        for (text, parts) in [
            ("bugdet = \"8GiB\"", &["`bugdet`", "`budget`", "when-full"][..]),
            ("zzz = 1", &["`zzz`", "budget"]),
            ("when_full = \"evict\"", &["`when-full`"]),
            ("budget = \"8 gigs\"", &["budget = \"8 gigs\"", "8GiB"]),
            ("budget = [1]", &["budget", "quotes"]),
            ("when-full = \"panic\"", &["when-full", "refuse", "shrink", "evict"]),
            ("interval = \"0s\"", &["interval `0s`", "500ms"]),
            ("interval = 1e9", &["interval", "3600s"]),
            ("metrics = \"9464\"", &["metrics", "`9464`", "0 to 65535", "127.0.0.1:9464"]),
            ("metrics = \"0.0.0.0:1\"", &["--metrics 0.0.0.0:1", "--metrics-any-address"]),
            ("metrics-any-address = 1", &["metrics-any-address"]),
            ("log-level = \"loud\"", &["error", "warn", "info", "debug", "trace"]),
            ("budget = ", &["backcast.toml", "line 1"]),
            ("persist = \"on\"", &["persist", "[persist]"]),
            ("[persist]\nmod = \"off\"", &["`mod`", "`mode`"]),
            ("[persist]\nmode = \"always\"", &["mode", "periodic"]),
            ("[persist]\nevery = \"1w\"", &["every", "10min"]),
            ("[persist]\nnewest = 0", &["newest", "1 to 1000"]),
            ("[persist]\nkeep-bytes = \"lots\"", &["keep-bytes", "8GiB"]),
            ("[persist.ring]\npong = 1", &["[persist.ring.pong]"]),
            ("[persist.ring.pong]\nstore = \"x\"", &["`store`", "keep-age"]),
            ("[persist.ring.\"..\"]\nmode = \"off\"", &["[persist.ring...]", "with a dot"]),
            ("[persist.ring.\"po*\"]\nmode = \"off\"", &["po*", "name of one ring"]),
            ("[persist.ring.\"a/../b\"]\nmode = \"off\"", &["a/../b", "a character"]),
            ("[persist.ring.\"pong@1\"]\nmode = \"off\"", &["pong@1", "label"]),
        ] {
            let error = settled(text, &GivenSettings::default()).unwrap_err();
            assert!(error.is_usage(), "{text}: {error}");
            for part in parts {
                assert!(error.to_string().contains(part), "{text}: {part}: {error}");
            }
        }
        let missing =
            GivenSettings::default().settle(Some(Path::new("/no/such.toml"))).unwrap_err();
        assert!(missing.to_string().contains("/no/such.toml"), "{missing}");
    }
}
