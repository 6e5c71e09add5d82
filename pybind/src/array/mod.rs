//! `NumPy` arrays: creation, conversion to the dtypes of columns, filling in place, and reuse.

pub(crate) mod allocation;
pub(crate) mod convert;
pub(crate) mod nested;
pub(crate) mod plain;
pub(crate) mod pool;
pub(crate) mod view;
