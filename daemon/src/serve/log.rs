//! What the daemon says while it runs, on stderr: lines of text or JSON, from a level on.

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

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Form {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// From which level on.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// What ended something.
    Error,
    /// What somebody should look at.
    Warn,
    /// What was made and removed.
    #[default]
    Info,
    /// Every refusal.
    Debug,
    /// Everything.
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

/// The level of a running log.
#[derive(Debug)]
pub(crate) struct Log(Option<reload::Handle<LevelFilter, Registry>>);

impl Log {
    /// Begins to log for the whole process; a program that logs already keeps its own way.
    pub(crate) fn begin(form: Form, level: Level) -> io::Result<Self> {
        // A descriptor of its own: the command may have stderr locked for as long as it runs.
        let stderr = Stderr(Arc::new(File::from(io::stderr().as_fd().try_clone_to_owned()?)));
        let (filter, handle) = reload::Layer::new(LevelFilter::from(level));
        let lines =
            fmt::layer().with_ansi(false).with_target(false).with_writer(move || stderr.clone());
        let registry = tracing_subscriber::registry().with(filter);
        let begun = match form {
            Form::Text => tracing::subscriber::set_global_default(registry.with(lines)),
            Form::Json => tracing::subscriber::set_global_default(
                registry.with(lines.json().flatten_event(true)),
            ),
        };
        Ok(Self(begun.is_ok().then_some(handle)))
    }

    /// Another level from now on.
    pub(crate) fn set_level(&self, level: Level) {
        if let Some(handle) = &self.0 {
            let _ = handle.reload(LevelFilter::from(level));
        }
    }
}

/// Unbuffered, a line at a time.
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
