//! Damaged panels: checks of the segment, and the market's checks of an untrusted description.

use std::error::Error;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use backcast_core::plumbing::SealedSegment;
use backcast_core::{Base, Exist, ObjectKind, SegmentError};
use backcast_market::{Panel, PanelData, PanelError, PanelOptions};
use backcast_tests::fuzz::Tally;
use backcast_tests::fuzz::dice::Dice;
use backcast_tests::fuzz::files::{damage_any, odd_number, put_files, read_files};
use backcast_tests::fuzz::rings::{make_ring, schema, segment_kind, tmpfs};
use backcast_tests::limits::{limit_memory, watch};
use rand::RngExt;

use crate::cases;

const CSV: &str = "\
date,tic,open,high,low,close,volume,rsi
2024-01-02,AAPL,10.0,11.0,9.5,10.5,1000,50
2024-01-02,MSFT,20.0,21.0,19.5,20.5,1500,40
2024-01-03,AAPL,10.5,12.0,10.0,11.5,1200,61
2024-01-03,VIX,13.0,13.5,12.5,13.2,0,55
";

#[test]
fn damaged_panels_are_refused_with_a_typed_error_or_work() -> Result<(), Box<dyn Error>> {
    let dir = tmpfs();
    let base = Base::at(dir.path());
    let share = |csv: &str, name| {
        let data = PanelData::from_reader(csv.as_bytes(), &PanelOptions::default())?;
        data.share(name, &base, Exist::Error, true).map(drop)
    };
    share(CSV, "victim")?;
    share(&CSV.replace("MSFT", "NVDA"), "twin")?;
    make_ring(&base, "ring", &schema()?)?;
    let files = |name: &str| read_files(&base.path().join(name));
    let (healthy, twin, ring) = (files("victim.panel")?, files("twin.panel")?, files("ring.ring")?);
    limit_memory();
    let progress = watch();
    let mut tally = Tally::new();
    for case in 0..cases(10_000) / 4 {
        let mut dice = Dice::seeded(case);
        let victim = base.path().join("victim.panel");
        put_files(&victim, &healthy)?;
        let what = if dice.random() {
            let file = if dice.random_ratio(1, 8) { "panel.lck" } else { "panel.dat" };
            damage_any(&victim, file, &[&twin, &ring], &mut dice)?
        } else {
            damage_repaired(&victim.join("panel.dat"), &mut dice)?
        };
        let label = format!("panel case {case}: {what}");
        progress.send(label.clone())?;
        let outcome = catch_unwind(AssertUnwindSafe(|| attach(&base, &mut dice)));
        let outcomes = outcome.unwrap_or_else(|_| panic!("{label}: panicked"));
        for outcome in outcomes {
            *tally.entry(outcome).or_default() += 1;
        }
    }
    println!("panels: {tally:#?}");
    let segment = ["Permission", "Corrupt", "WrongVersion", "Io", "works"];
    let panel = ["Damaged", "works"];
    let kinds = segment.map(|kind| format!("segment: {kind}")).into_iter();
    for kind in kinds.chain(panel.map(|kind| format!("panel: {kind}"))) {
        assert!(tally.contains_key(&kind), "{kind} never occurred");
    }
    Ok(())
}

/// Damages fields of the header, or the description, and repairs the checksum.
fn damage_repaired(path: &Path, dice: &mut Dice) -> std::io::Result<String> {
    // Offsets of the header's fields, as in docs/layout.md.
    const VERSION: usize = 8;
    const META_BYTES: usize = 16;
    const DATA_BYTES: usize = 24;
    const META_HASH: usize = 32;
    const BOOT_ID: usize = 72;
    const CRC: usize = 4092;
    let mut bytes = fs::read(path)?;
    let len = bytes.len() as u64;
    let meta = u64::from_le_bytes(bytes[META_BYTES..][..8].try_into().unwrap_or_default());
    let end = 4096 + usize::try_from(meta).unwrap_or(0);
    // The version has four bytes, the other fields eight or more.
    let mut set = |at: usize, value: u64| {
        let size = if at == VERSION { 4 } else { 8 };
        bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
    };
    let what = match dice.random_range(0..4) {
        0 => {
            let at =
                [VERSION, META_BYTES, DATA_BYTES, META_HASH, 64, BOOT_ID][dice.random_range(0..6)];
            let value = odd_number(dice);
            set(at, value);
            format!("byte {at} of the header set to {value:#x}")
        }
        1 => {
            // Splits the same bytes differently, or into sizes whose sum overflows.
            let meta = odd_number(dice);
            let at = meta.wrapping_add(4096 + 4095) / 4096 * 4096;
            set(META_BYTES, meta);
            set(DATA_BYTES, len.wrapping_sub(at));
            format!("{meta:#x} bytes of description")
        }
        2 => {
            let flips = dice.random_range(1..4);
            for _ in 0..flips {
                let at = dice.random_range(4096..end);
                bytes[at] ^= 1 << dice.random_range(0..8);
            }
            format!("{flips} bits of the description flipped")
        }
        _ => {
            let text = String::from_utf8_lossy(&bytes[4096..end]).into_owned();
            let (from, to) = [
                ("[\"AAPL\"", "[\"ZZZZ\""),
                ("\"2024-01-02\"", "\"2024-13-02\""),
                ("\"2024-01-03\"", "\"2024-01-01\""),
                ("\"VIX\"", "\"VIX\",\"VIY\""),
                ("\"rsi\"", "\"rsi\",\"low\""),
                ("[", "[[[[[["),
                ("\"version\":1", "\"version\":2"),
                ("\"tickers\"", "\"ticker\""),
                ("true", "null"),
            ][dice.random_range(0..9)];
            let changed = text.replacen(from, to, 1);
            let data = bytes.split_off(end.next_multiple_of(4096));
            bytes.truncate(4096);
            bytes.extend(changed.as_bytes());
            bytes[META_BYTES..][..8].copy_from_slice(&(changed.len() as u64).to_le_bytes());
            bytes.resize(bytes.len().next_multiple_of(4096), 0);
            bytes.extend(data);
            format!("{from} became {to}")
        }
    };
    let meta = u64::from_le_bytes(bytes[META_BYTES..][..8].try_into().unwrap_or_default());
    let end = usize::try_from(meta).ok().and_then(|meta| meta.checked_add(4096));
    if let Some(description) = end.and_then(|end| bytes.get(4096..end)) {
        let hash = *blake3::hash(description).as_bytes();
        bytes[META_HASH..META_HASH + 32].copy_from_slice(&hash);
    }
    let sum = crc32fast::hash(&bytes[..CRC]);
    bytes[CRC..CRC + 4].copy_from_slice(&sum.to_le_bytes());
    fs::write(path, bytes)?;
    Ok(format!("{what}, checksums repaired"))
}

fn attach(base: &Base, dice: &mut Dice) -> Vec<String> {
    let segment = match SealedSegment::attach(base, ObjectKind::Panel, "victim") {
        Ok(segment) => {
            read_words(&segment, dice);
            "works"
        }
        Err(error) => segment_kind(&error),
    };
    let panel = match Panel::attach_in(base, "victim") {
        Ok(panel) => {
            use_panel(&panel, dice);
            "works"
        }
        Err(PanelError::Segment(error)) => {
            assert_eq!(segment_kind(&error), segment);
            "Segment"
        }
        Err(error @ PanelError::Damaged { .. }) => {
            assert!(error.to_string().contains("victim"), "{error}");
            "Damaged"
        }
        Err(error) => panic!("{error}"),
    };
    vec![format!("segment: {segment}"), format!("panel: {panel}")]
}

fn read_words(segment: &SealedSegment, dice: &mut Dice) {
    let data = segment.data_bytes();
    let all = segment.words64(0, data / 8).expect("the data it says it has");
    assert!(all.iter().fold(0, |sum: u64, word| sum ^ word.load(Relaxed)) != 1);
    for _ in 0..4 {
        let number = |dice: &mut Dice| usize::try_from(odd_number(dice)).unwrap_or(usize::MAX);
        let (offset, count) = (number(dice), number(dice));
        let fits = |size| count.checked_mul(size)?.checked_add(offset).filter(|end| *end <= data);
        let refused = |found: Option<&SegmentError>| {
            found.is_none_or(|error| matches!(error, SegmentError::OutOfBounds { .. }))
        };
        let (wide, narrow) = (segment.words64(offset, count), segment.words32(offset, count));
        assert!(wide.is_err() || fits(8).is_some(), "{count} words at {offset} of {data}");
        assert!(narrow.is_err() || fits(4).is_some(), "{count} words at {offset} of {data}");
        assert!(refused(wide.err().as_ref()) && refused(narrow.err().as_ref()));
    }
}

fn use_panel(panel: &Panel, dice: &mut Dice) {
    let (tickers, days) = (panel.tickers().len(), panel.days());
    assert_eq!(panel.values().len(), tickers * days * panel.columns().len());
    for ticker in 0..=tickers {
        for day in 0..=days {
            let listed = panel.listed(ticker, day);
            assert_eq!(panel.value(ticker, day, 0).is_some(), listed);
        }
        assert!(panel.first_day(ticker).is_none_or(|day| day < days));
    }
    let plan = panel.window_shape(2, 3, 4, 1).expect("a small window");
    let (mut arena, mut mask) = (vec![0.0; plan.arena_len()], vec![false; plan.mask_len()]);
    let tokens: [i64; 6] = std::array::from_fn(|_| dice.random_range(-1..6));
    // Unknown tokens and days are errors of the caller.
    let _ = panel.windows_into(&[0, dice.random()], &tokens, 3, 4, 1, &mut arena, &mut mask);
}
