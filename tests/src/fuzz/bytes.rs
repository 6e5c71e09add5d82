//! Mutations of bytes of any format: flips, cuts, splices, repetitions, special bytes.

use rand::{Rng, RngExt, seq::IndexedRandom};

use super::dice::Dice;

/// Bytes that are special to some parser.
const ODD: &[&[u8]] = &[
    b"\0",
    b"\"",
    b"\r",
    b"\n",
    b",",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\x1f\x8b",
    b"PAR1",
    b"\x80\x80\x80",
    b"\xff\xff\xff\x7f",
    b"-",
    b"e999",
    b"\xe2\x80\xae",
];

/// Changes some bytes, most often within `focus`, and returns a description.
pub fn mutate(
    bytes: &mut Vec<u8>,
    other: &[u8],
    focus: std::ops::Range<usize>,
    dice: &mut Dice,
) -> String {
    let place = |bytes: &[u8], dice: &mut Dice| {
        let near = focus.start < focus.end.min(bytes.len()) && dice.random_ratio(2, 3);
        let range =
            if near { focus.start..focus.end.min(bytes.len()) } else { 0..bytes.len().max(1) };
        dice.random_range(range)
    };
    let at = place(bytes, dice);
    let length = dice.random_range(1..64_usize);
    let end = (at + length).min(bytes.len());
    match dice.random_range(0..12) {
        0..=4 => {
            let flips = dice.random_range(1..5);
            for _ in 0..flips {
                let at = place(bytes, dice);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << dice.random_range(0..8);
                }
            }
            format!("{flips} bits flipped near {at}")
        }
        5 => {
            bytes.truncate(at);
            format!("cut to {at} bytes")
        }
        6 => {
            bytes.drain(at..end);
            format!("{length} bytes removed at {at}")
        }
        7 => {
            let again = bytes[at..end].to_vec();
            bytes.splice(at..at, again);
            format!("{length} bytes at {at} repeated")
        }
        8 => {
            let from = dice.random_range(0..other.len().max(1));
            let piece = &other[from..(from + length).min(other.len())];
            bytes.splice(at..end, piece.iter().copied());
            format!("{length} bytes of another file at {at}")
        }
        9 => {
            let mut noise = vec![0; end - at];
            dice.fill_bytes(&mut noise);
            bytes[at..end].copy_from_slice(&noise);
            format!("{length} bytes of noise at {at}")
        }
        10 => {
            let value: u8 = *[0, 0xff, 0x7f, 0x80, 0x01].choose(dice).unwrap_or(&0);
            bytes[at..end].fill(value);
            format!("{length} bytes of {value} at {at}")
        }
        _ => {
            let odd = *ODD.choose(dice).unwrap_or(&&b""[..]);
            bytes.splice(at..at, odd.iter().copied());
            format!("{odd:?} at {at}")
        }
    }
}
