//! Rows of the kill storm. Every byte follows from lane, sequence number and the writer's life, so
//! that a reader can tell a whole row from a torn one, and one writer from the next.

use backcast_core::{DType, FINAL, GAP, Rows, Schema, SchemaError, TERMINATED, TRUNCATED};

/// Words of `obs/pixels`: many, so that a random moment is often in the middle of a row.
pub const PIXELS: usize = 512;
/// Number of the column `life` in the file, after the row headers.
pub const LIFE_COLUMN: usize = 1;
/// Number of the column `obs/pixels` in the file.
pub const PIXELS_COLUMN: usize = 2;

/// Returns the storm's columns: the writer's life, a wide array, and a checksum after it.
pub fn schema() -> Result<Schema, SchemaError> {
    Schema::builder()
        .column("obs/life", DType::U64, &[])
        .column("obs/pixels", DType::U64, &[512])
        .column("obs/check", DType::U64, &[])
        .column("action", DType::I32, &[])
        .column("reward", DType::F32, &[])
        .build()
}

/// The finaliser of `SplitMix64` (Steele, Lea, Flood: "Fast splittable pseudorandom number
/// generators", OOPSLA 2014), which makes consecutive numbers unlike.
#[must_use]
pub fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Returns the first pixel of a row. The k-th is larger by k, so that no two rows share a word in
/// one place.
#[must_use]
pub fn first_pixel(lane: u32, seq: u64, life: u64) -> u64 {
    mix(mix(u64::from(lane) << 48 | seq) ^ life)
}

/// Returns the checksum of a row.
#[must_use]
pub fn check(lane: u32, seq: u64, life: u64) -> u64 {
    mix(first_pixel(lane, seq, life) ^ u64::MAX)
}

/// Returns the action of a row that is not FINAL; never 0, which FINAL rows hold.
#[must_use]
pub fn action(lane: u32, seq: u64) -> i32 {
    i32::from_ne_bytes([0x01, bytes(lane, seq)[0], bytes(lane, seq)[1], 0x7f])
}

/// Returns the reward of a row that is not FINAL; never 0.
#[must_use]
pub fn reward(lane: u32, seq: u64) -> f32 {
    1.0 + f32::from(bytes(lane, seq)[2])
}

fn bytes(lane: u32, seq: u64) -> [u8; 8] {
    mix(seq << 12 | u64::from(lane)).to_ne_bytes()
}

/// Writes a row's pixels.
pub fn draw_pixels(out: &mut [u64], lane: u32, seq: u64, life: u64) {
    let first = first_pixel(lane, seq, life);
    for (pixel, k) in out.iter_mut().zip(0..) {
        *pixel = first.wrapping_add(k);
    }
}

/// Returns whether pixels, life and checksum belong to the same row.
pub fn is_whole(
    pixels: impl IntoIterator<Item = u64>,
    life: u64,
    checksum: u64,
    (lane, seq): (u32, u64),
) -> bool {
    let first = first_pixel(lane, seq, life);
    let pixels_fit = pixels.into_iter().zip(0..).all(|(pixel, k)| pixel == first.wrapping_add(k));
    pixels_fit && checksum == check(lane, seq, life)
}

/// An audited row, for the comparison with its neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Sequence number.
    pub seq: u64,
    /// Life of its writer.
    pub life: u64,
    episode: u64,
    t: u32,
    flags: u32,
}

/// Checks every row of a validated copy. Returns all rows, or the first error.
pub fn audit(rows: &Rows) -> Result<Vec<Seen>, String> {
    let (lane, range) = rows.place();
    let column = |name| rows.column::<u64>(name).map_err(|e| e.to_string());
    let word = |name| rows.column::<u32>(name).map_err(|e| e.to_string());
    let (seqs, episodes, steps, flags) =
        (column("seq")?, column("episode")?, word("t")?, word("flags")?);
    let (lives, pixels, checks) =
        (column("obs/life")?, column("obs/pixels")?, column("obs/check")?);
    let actions = rows.column::<i32>("action").map_err(|e| e.to_string())?;
    let rewards = rows.column::<f32>("reward").map_err(|e| e.to_string())?;
    let mut seen: Vec<Seen> = Vec::with_capacity(rows.len());
    for (i, seq) in range.enumerate() {
        let row = Seen { seq, life: lives[i], episode: episodes[i], t: steps[i], flags: flags[i] };
        let place = format!("lane {lane}, {row:?}");
        if seqs[i] != seq {
            return Err(format!("{place}: the slot holds row {}", seqs[i]));
        }
        let pixels = pixels[i * PIXELS..(i + 1) * PIXELS].iter().copied();
        if !is_whole(pixels, row.life, checks[i], (lane, seq)) {
            return Err(format!("{place}: torn"));
        }
        let is_final = row.flags & FINAL != 0;
        let (action, reward) =
            if is_final { (0, 0.0) } else { (action(lane, seq), reward(lane, seq)) };
        if actions[i] != action || rewards[i].to_bits() != reward.to_bits() {
            return Err(format!("{place}: action {} and reward {}", actions[i], rewards[i]));
        }
        match seen.last() {
            Some(before) => follows(before, &row).map_err(|why| format!("{place}: {why}"))?,
            None if seq == 0 && (row.t, row.episode, row.flags & GAP) != (0, 0, 0) => {
                return Err(format!("{place}: the first row of a lane"));
            }
            None => {}
        }
        seen.push(row);
    }
    Ok(seen)
}

/// Returns whether a row may follow another. Episodes end with FINAL or are cut by a GAP. A GAP
/// occurs exactly where a successor took over, and an episode begins with t = 0. A writer's life
/// determines its mode, as in `storm_writer`.
fn follows(before: &Seen, row: &Seen) -> Result<(), String> {
    let ended = before.flags & (TERMINATED | TRUNCATED) != 0;
    let (gap, after_final) = (row.flags & GAP != 0, before.flags & FINAL != 0);
    let wrong = |what: &str| Err(format!("{what} after {before:?}"));
    if gap != (row.life != before.life) || row.life < before.life {
        return wrong("a GAP without a new life, or the other way round,");
    }
    // In same-step and disabled mode an end and its FINAL row are published together.
    if gap && ended && matches!(before.life % 4, 1 | 2) {
        return wrong("a GAP in place of the FINAL row");
    }
    if gap || after_final {
        let begins = row.t == 0 && row.episode == before.episode + 1 && row.flags & FINAL == 0;
        return if begins { Ok(()) } else { wrong("no beginning of an episode") };
    }
    if row.t != before.t + 1 || row.episode != before.episode {
        return wrong("no continuation of its episode");
    }
    if ended != (row.flags & FINAL != 0) {
        return wrong("a FINAL row without an end, or the other way round,");
    }
    Ok(())
}
