//! Whole markets: one module for each theme.

mod conservation;
