//! The environments over panels and over simulated markets, in one binary.

mod costs;
mod episodes;
mod golden;
mod honesty;
mod limits;
mod market;
mod splits;
mod trading;
mod units;
mod universe;
mod views;
