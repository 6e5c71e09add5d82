//! Columns in Parquet files: conversion to and from Arrow arrays, and reading of untrusted files.

mod arrays;
mod leaves;
mod untrusted_parquet;

use std::io;

use parquet::errors::ParquetError;

pub(crate) use arrays::{array, field};
pub(crate) use leaves::FileLeaf;
pub(crate) use untrusted_parquet::{LeafLayout, UntrustedParquet};

/// Returns the I/O error that a write failed with, else wraps the library's error.
pub(crate) fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(source) => io::Error::other(source),
        },
        error => io::Error::other(error),
    }
}
