//! Names that every panel shares: the cash token and the price columns.

/// Name of token 0, which stands for cash.
pub const CASH: &str = "<CASH>";

/// The five columns that every panel begins with, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum PriceColumn {
    /// First price of the day, the only one known when a decision is made.
    Open = 0,
    /// Highest price of the day.
    High = 1,
    /// Lowest price of the day.
    Low = 2,
    /// Last price of the day.
    Close = 3,
    /// Shares traded.
    Volume = 4,
}

impl PriceColumn {
    /// All price columns, in order.
    pub const ALL: [Self; 5] = [Self::Open, Self::High, Self::Low, Self::Close, Self::Volume];

    /// Returns the column's name in files and in [`Panel::columns`](crate::Panel::columns).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::High => "high",
            Self::Low => "low",
            Self::Close => "close",
            Self::Volume => "volume",
        }
    }
}
