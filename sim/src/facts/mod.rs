//! Stylised facts of a simulated market: statistics and their pass bands.
