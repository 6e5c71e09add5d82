//! Rings of transitions: slots and draws, windows, other handles and panels, files.

mod file;
mod joined;
mod slots;
mod windows;

use backcast_market::{
    Panel, PanelData, PanelOptions, TransitionBatch, TransitionOptions, TransitionRing,
    TransitionShape,
};

const DAYS: i32 = 40;

/// Six tickers; C is listed from day 9 on, and has no row on day 20. D has its last on day 32.
fn csv(scale: f64) -> String {
    let mut csv = "date,tic,open,high,low,close,volume,rsi,macd\n".to_owned();
    for day in 0..DAYS {
        for (at, ticker) in (0..).zip(["A", "B", "C", "D", "E", "VIX"]) {
            match ticker {
                "C" if day < 9 || day == 20 => continue,
                "D" if day > 32 => continue,
                _ => {}
            }
            let (month, of_month) = (1 + day / 28, 1 + day % 28);
            let price = scale * (f64::from(day) + 1.0 + 100.0 * f64::from(at));
            let [high, low, close] = [price + 2.0, price - 0.5, price + 1.0];
            let row = format!("{ticker},{price},{high},{low},{close},{day},{at},{}", day * 10);
            csv += &[&format!("2024-{month:02}-{of_month:02}"), ",", &row, "\n"].concat();
        }
    }
    csv
}

fn data(scale: f64) -> PanelData {
    let options = PanelOptions::default().macro_tickers(["VIX"]);
    PanelData::from_reader(csv(scale).as_bytes(), &options).unwrap()
}

fn without_macro() -> Panel {
    PanelData::from_reader(csv(1.0).as_bytes(), &PanelOptions::default()).unwrap().into_heap()
}

fn panel() -> Panel {
    data(1.0).into_heap()
}

fn shape() -> TransitionShape {
    TransitionShape { tickers: 2, action: vec![2, 2], objectives: 2 }
}

fn ring(capacity: u64) -> TransitionRing {
    TransitionRing::create(panel(), shape(), TransitionOptions::with_capacity(capacity)).unwrap()
}

/// Returns `n` transitions whose numbers identify them.
#[expect(clippy::cast_precision_loss, reason = "small")]
fn numbered(first: usize, n: usize) -> TransitionBatch {
    let mut batch = TransitionBatch::zeros(n, &shape());
    for at in 0..n {
        let number = first + at;
        let value = number as f32;
        let day = i32::try_from(number).unwrap() % (DAYS - 1);
        batch.env_ids[at] = i32::try_from(at).unwrap();
        batch.days[2 * at..2 * at + 2].copy_from_slice(&[day, day + 1]);
        let tokens = [[1, 2], [2, 1], [3, 5], [5, 4]][number % 4];
        batch.tokens[2 * at..2 * at + 2].copy_from_slice(&tokens);
        batch.cash[2 * at..2 * at + 2].copy_from_slice(&[value, -value]);
        for (place, number) in batch.shares[4 * at..4 * at + 4].iter_mut().zip(1..) {
            *place = i32::try_from(number * (first + at)).unwrap();
        }
        batch.avg_buy_prices[4 * at..4 * at + 4].fill(value / 2.0);
        batch.actions[4 * at..4 * at + 4].copy_from_slice(&[value, 0.5, -0.5, value + 0.25]);
        batch.rewards[2 * at..2 * at + 2].copy_from_slice(&[value, 1.0 / (value + 1.0)]);
        batch.ends[2 * at..2 * at + 2].copy_from_slice(&[
            u8::from(number.is_multiple_of(5)),
            u8::from(number.is_multiple_of(7)),
        ]);
    }
    batch
}

/// Returns the numbers of the transitions in all slots.
#[expect(clippy::cast_possible_truncation, reason = "small whole numbers")]
fn held(ring: &TransitionRing) -> Vec<i64> {
    let size = ring.len().unwrap().cast_signed();
    let all = ring.get(&(0..size).collect::<Vec<_>>()).unwrap();
    all.cash.chunks_exact(2).map(|cash| cash[0] as i64).collect()
}
