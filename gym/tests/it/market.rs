//! Small made-up markets for the tests of the environment.

use std::fmt::Write;

use backcast_market::{Panel, PanelData, PanelOptions};

/// One row: open, high, low, close, volume and two indicators.
pub(crate) type Row = [f64; 7];

/// Rows by day and ticker, from which a panel is made.
#[derive(Clone)]
pub(crate) struct Market {
    pub(crate) tickers: Vec<String>,
    /// `[day][ticker]`; `None` where there is no row.
    pub(crate) rows: Vec<Vec<Option<Row>>>,
}

impl Market {
    /// Returns a random walk, repeatable by seed.
    pub(crate) fn random(seed: u64, tickers: usize, days: usize) -> Self {
        let mut state = seed.wrapping_mul(2) + 1;
        let mut uniform = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            f64::from(u32::try_from(state >> 33).unwrap()) / f64::from(1_u32 << 31)
        };
        let mut price = vec![100.0; tickers];
        let mut row = |price: &mut f64| {
            let open = *price * (0.97 + 0.06 * uniform());
            let close = open * (0.97 + 0.06 * uniform());
            *price = close;
            Some([open, open.max(close), open.min(close), close, 1000.0, uniform(), -uniform()])
        };
        let rows = (0..days).map(|_| price.iter_mut().map(&mut row).collect()).collect();
        Self { tickers: (0..tickers).map(|ticker| format!("T{ticker:02}")).collect(), rows }
    }

    /// Sets open, high, low and close of a ticker to one price on each day.
    pub(crate) fn flat(mut self, ticker: usize, prices: &[f64]) -> Self {
        for (day, &price) in prices.iter().enumerate() {
            self.rows[day][ticker] = Some([price, price, price, price, 1.0, 0.0, 0.0]);
        }
        self
    }

    pub(crate) fn without(mut self, ticker: usize, days: impl IntoIterator<Item = usize>) -> Self {
        for day in days {
            self.rows[day][ticker] = None;
        }
        self
    }

    pub(crate) fn panel(&self) -> Panel {
        self.panel_with_macros(&[])
    }

    pub(crate) fn panel_with_macros(&self, macros: &[&str]) -> Panel {
        let mut csv = "date,tic,open,high,low,close,volume,x,y\n".to_owned();
        for (day, rows) in self.rows.iter().enumerate() {
            let (year, month, of_month) = (2000 + day / 336, 1 + day / 28 % 12, 1 + day % 28);
            for (ticker, row) in self.tickers.iter().zip(rows) {
                let Some([open, high, low, close, volume, x, y]) = row else { continue };
                let date = format!("{year}-{month:02}-{of_month:02}");
                let prices = format!("{open},{high},{low},{close}");
                writeln!(csv, "{date},{ticker},{prices},{volume},{x},{y}").unwrap();
            }
        }
        let options = PanelOptions::default().macro_tickers(macros.iter().copied());
        PanelData::from_reader(csv.as_bytes(), &options).unwrap().into_heap()
    }
}

/// Returns pseudo-random actions in `[-1, 1]`, repeatable by seed.
pub(crate) fn actions(seed: u64, len: usize) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    std::iter::repeat_with(|| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        f64::from(u32::try_from(state >> 33).unwrap()) / f64::from(1_u32 << 30) - 1.0
    })
    .take(len)
    .collect()
}
