//! Panels from their files to their windows, and rings of transitions over them, in one binary.

mod bars;
mod frames;
mod loading;
mod parquet;
mod sharing;
mod splits;
mod transitions;
mod windows;
