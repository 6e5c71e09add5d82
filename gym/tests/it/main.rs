//! The environments over panels and over simulated markets, in one binary.

mod costs;
mod episodes;
mod golden;
mod honesty;
mod limits;
mod margins;
mod market;
mod rewards;
mod shown;
mod splits;
mod starts;
mod trading;
mod units;
mod universe;
mod views;
