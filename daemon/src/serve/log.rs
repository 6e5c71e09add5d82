//! Log of the daemon on stderr, as lines of text or JSON.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;

use clap::ValueEnum;
use serde::Deserialize;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::{Registry, fmt};

/// Format of a line.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// Text for people. The default.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Minimum level.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// Failures.
    Error,
    /// Problems that need attention.
    Warn,
    /// Changes of objects: created, resized, saved, loaded, evicted, removed. The default.
    #[default]
    Info,
    /// Also every refusal.
    Debug,
    /// All messages.
    Trace,
}

impl From<Level> for LevelFilter {
    fn from(level: Level) -> Self {
        match level {
            Level::Error => Self::ERROR,
            Level::Warn => Self::WARN,
            Level::Info => Self::INFO,
            Level::Debug => Self::DEBUG,
            Level::Trace => Self::TRACE,
        }
    }
}

/// The log of the process, whose level can change.
#[derive(Debug)]
pub(crate) struct Log(Option<reload::Handle<LevelFilter, Registry>>);

impl Log {
    /// Starts logging for the process. A program with its own subscriber keeps it.
    pub(crate) fn begin(form: LogFormat, level: Level) -> io::Result<Self> {
        // Uses a descriptor of its own, since the command may keep stderr locked.
        let stderr = Stderr(Arc::new(File::from(io::stderr().as_fd().try_clone_to_owned()?)));
        let (filter, handle) = reload::Layer::new(LevelFilter::from(level));
        let lines =
            fmt::layer().with_ansi(false).with_target(false).with_writer(move || stderr.clone());
        let registry = tracing_subscriber::registry().with(filter);
        let begun = match form {
            LogFormat::Text => tracing::subscriber::set_global_default(registry.with(lines)),
            LogFormat::Json => tracing::subscriber::set_global_default(
                registry.with(lines.json().flatten_event(true)),
            ),
        };
        Ok(Self(begun.is_ok().then_some(handle)))
    }

    /// Changes the level.
    pub(crate) fn set_level(&self, level: Level) {
        if let Some(handle) = &self.0 {
            let _ = handle.reload(LevelFilter::from(level));
        }
    }
}

/// Writer to stderr without a buffer.
#[derive(Clone, Debug)]
struct Stderr(Arc<File>);

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.0).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
