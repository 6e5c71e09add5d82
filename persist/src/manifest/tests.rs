use backcast_core::DType;

use super::params::SavedArray;
use super::*;

/// Bytes of a body of one to eight rows: six columns, each padded to 64 bytes.
const BODY: u64 = 6 * 64;
/// Bytes of a frame.
const FRAME: u64 = 32;

/// Returns a batch of a file with `columns` columns, `body_at` right behind the frame.
fn batch(columns: usize, lane: u32, rows: &Range<u64>, frame_at: u64) -> SavedBatch {
    SavedBatch {
        lane,
        first: rows.start,
        rows: rows.end - rows.start,
        frame_at,
        body_at: frame_at + FRAME,
        frame_crc32: 0,
        column_crc32: vec![0; columns],
    }
}

/// Returns a file of batches of one to eight rows, which follow each other.
fn chunk(file: &str, columns: u32, batches: &[(u32, Range<u64>)]) -> SavedChunk {
    let whole = FRAME + 64 * u64::from(columns);
    let places = (0..).map(|number| 100 + number * whole);
    let batches: Vec<SavedBatch> = batches
        .iter()
        .zip(places)
        .map(|((lane, rows), at)| batch(columns as usize, *lane, rows, at))
        .collect();
    let bytes = 100 + whole * batches.len() as u64;
    SavedChunk { file: file.to_owned(), bytes, unix_ns: 0, head_crc32: 0, tail_crc32: 0, batches }
}

fn ring(uuid: &str, file: &str) -> SavedRing {
    let schema = Schema::builder().column("x", DType::F32, &[]).build().unwrap();
    SavedRing {
        uuid: uuid.repeat(16),
        created_unix_ns: 0,
        columns: schema.columns().iter().map(SavedColumn::of).collect(),
        lanes: 2,
        lane_capacity: 8,
        lane_policy: "overwrite".to_owned(),
        lease_timeout_ms: 0,
        reader_slots: 4,
        follow: None,
        chunks: vec![chunk(file, 6, &[(0, 2..5), (0, 5..8), (1, 0..8)])],
    }
}

fn snapshot(label: &str, ring: &SavedRing) -> SavedSnapshot {
    SavedSnapshot {
        label: label.to_owned(),
        unix_ns: 0,
        ring: ring.uuid.clone(),
        lanes: vec![(2, 8), (0, 8)],
        state: Value::Null,
        tables: Vec::new(),
        claims: Vec::new(),
        learned: Vec::new(),
        limiters: Vec::new(),
        params: Vec::new(),
    }
}

fn table(name: &str, file: &str) -> SavedTable {
    SavedTable {
        name: name.to_owned(),
        exponent: 1.0,
        eps: 0.0,
        stride: 1,
        tracks_largest: false,
        keeps_priorities: false,
        counts_ranks: false,
        largest: 0,
        chunks: vec![chunk(file, 3, &[(0, 2..4), (1, 0..8), (0, 4..8)])],
    }
}

fn claims(name: &str) -> SavedClaims {
    SavedClaims {
        name: name.to_owned(),
        selector: "consume".to_owned(),
        shuffled: false,
        times: 1,
        seed: 0,
        pass: 0,
        round: 0,
        lanes: vec![(3, 8), (5, 5)],
        claimed: 0,
        passes: 0,
        drawn: 0,
    }
}

fn learned(name: &str, file: &str) -> SavedLearned {
    SavedLearned {
        name: name.to_owned(),
        columns: vec![("value".to_owned(), DType::F32.code().to_owned())],
        chunks: vec![chunk(file, 4, &[(0, 2..8)])],
    }
}

fn limiter() -> SavedLimiter {
    SavedLimiter {
        samples_per_insert: 1.0,
        min_size: 1,
        min_diff: None,
        max_diff: None,
        no_learner: "wait".to_owned(),
        no_writer: "pass".to_owned(),
        enabled: true,
        inserts: 0,
        samples: 0,
        deletes: 0,
        dropped_at: 0,
    }
}

fn params(name: &str, file: &str) -> SavedParams {
    SavedParams {
        name: name.to_owned(),
        version: 3,
        versions_kept: 1,
        spare_slots: 1,
        reader_slots: 1,
        arrays: vec![SavedArray {
            name: "w".to_owned(),
            dtype: DType::F32.code().to_owned(),
            shape: vec![4],
        }],
        chunks: vec![chunk(file, 3, &[(0, 0..1)])],
    }
}

/// Returns a manifest of two snapshots. The second has everything that a snapshot may have.
fn manifest() -> Manifest {
    let ring = ring("0f", "a0.arrow");
    let full = SavedSnapshot {
        tables: vec![table("of_leaves", "b0.arrow")],
        claims: vec![claims("of_claims")],
        learned: vec![learned("of_values", "c0.arrow")],
        limiters: vec![limiter()],
        params: vec![params("policy", "d0.arrow")],
        ..snapshot("full", &ring)
    };
    let snapshots = vec![snapshot("plain", &ring), full];
    Manifest { snapshots, rings: vec![ring], ..Manifest::new("pong") }
}

/// Change of a manifest, and what is wrong with it then; nothing if it is empty.
type Case = (&'static str, fn(&mut Manifest), &'static str);

fn check(cases: &[Case]) {
    for (name, change, problem) in cases {
        let mut changed = manifest();
        change(&mut changed);
        let found = changed.problem("pong");
        let fits = match &found {
            None => problem.is_empty(),
            Some(found) => !problem.is_empty() && found.contains(problem),
        };
        assert!(fits, "{name}: {found:?}");
    }
}

fn batch_of(manifest: &mut Manifest, at: usize) -> &mut SavedBatch {
    &mut manifest.rings[0].chunks[0].batches[at]
}

/// Makes both snapshots hold these rows of a lane.
fn hold(manifest: &mut Manifest, lane: usize, rows: (u64, u64)) {
    for snapshot in &mut manifest.snapshots {
        snapshot.lanes[lane] = rows;
        // A pass of claims has no rows behind the saved ones.
        snapshot.claims.clear();
    }
}

#[test]
fn rings_and_files_at_their_limits_are_valid_and_beyond_them_not() {
    let cases: &[Case] = &[
        ("nothing", |_| (), ""),
        ("long identity", |m| m.rings[0].uuid.push('0'), "not a UUID"),
        ("capacity", |m| m.rings[0].lane_capacity = MAX_SEQ, ""),
        ("large capacity", |m| m.rings[0].lane_capacity = MAX_SEQ + 1, "its lanes keep"),
        ("small capacity", |m| m.rings[0].lane_capacity = 7, "rows 0..8 of lane 1"),
        (
            "all lanes",
            |m| {
                m.rings[0].lanes = MAX_LANES;
                for snapshot in &mut m.snapshots {
                    snapshot.lanes.resize(MAX_LANES as usize, (0, 0));
                    snapshot.claims.clear();
                }
            },
            "",
        ),
        ("a lane less", |m| m.rings[0].lanes = 1, "8 rows of lane 1"),
        (
            "last rows",
            |m| {
                batch_of(m, 2).first = MAX_SEQ - 8;
                hold(m, 1, (MAX_SEQ - 8, MAX_SEQ));
            },
            "",
        ),
        (
            "rows behind the last",
            |m| {
                batch_of(m, 2).first = MAX_SEQ - 7;
                hold(m, 1, (MAX_SEQ - 7, MAX_SEQ));
            },
            "8 rows of lane 1",
        ),
        ("more columns", |m| batch_of(m, 1).column_crc32.push(0), "checksums of 7 columns"),
        (
            "no frame",
            |m| {
                batch_of(m, 2).body_at -= FRAME;
                m.rings[0].chunks[0].bytes -= FRAME;
            },
            "",
        ),
        ("body before the frame", |m| batch_of(m, 2).body_at -= FRAME + 1, "does not fit"),
        ("overflow", |m| batch_of(m, 2).body_at = u64::MAX, "does not fit"),
        ("late frame", |m| batch_of(m, 1).frame_at += 1, "does not fit"),
        ("early frame", |m| batch_of(m, 1).frame_at -= 1, "does not fit"),
        ("byte too few", |m| m.rings[0].chunks[0].bytes -= 1, "does not fit"),
        ("byte more", |m| m.rings[0].chunks[0].bytes += 1, ""),
        ("repeated row", |m| batch_of(m, 1).first = 4, "rows of lane 0 are listed twice"),
        ("missing row", |m| batch_of(m, 1).first = 6, "rows 2..8 of lane 0 are not saved"),
        ("part", |m| hold(m, 0, (3, 7)), ""),
        ("row before", |m| hold(m, 0, (1, 8)), "rows 1..8 of lane 0 are not saved"),
        ("row behind", |m| hold(m, 0, (2, 9)), "rows 2..9 of lane 0 are not saved"),
        ("backward", |m| hold(m, 0, (8, 2)), "rows 8..2 of lane 0 are not saved"),
        ("no rows anywhere", |m| hold(m, 0, (MAX_SEQ, MAX_SEQ)), ""),
        ("no rows too far", |m| hold(m, 0, (MAX_SEQ + 1, MAX_SEQ + 1)), "are not saved"),
        ("policy", |m| m.rings[0].lane_policy = "ask".to_owned(), "its lane policy is ask"),
        ("timeout without wait", |m| m.rings[0].lease_timeout_ms = 1, "its lane policy is"),
    ];
    check(cases);
}

#[test]
fn names_and_files_of_tables_and_parameters_are_listed_once_and_in_order() {
    let cases: &[Case] = &[
        ("table's name", |m| m.snapshots[1].tables[0].name = "../a".to_owned(), "of a table"),
        ("claims' name", |m| m.snapshots[1].claims[0].name = "../a".to_owned(), "of a table"),
        ("values' name", |m| m.snapshots[1].learned[0].name = "../a".to_owned(), "of a table"),
        ("parameters' name", |m| m.snapshots[1].params[0].name = "../a".to_owned(), "parameters"),
        ("same table", |m| m.snapshots[1].claims.push(claims("of_leaves")), "listed twice"),
        (
            "same values",
            |m| m.snapshots[1].learned.push(learned("of_claims", "e0.arrow")),
            "of a table is not valid, or is listed twice",
        ),
        ("two tables", |m| m.snapshots[1].tables.push(table("more", "e0.arrow")), ""),
        ("two parameters", |m| m.snapshots[1].params.push(params("of_leaves", "e0.arrow")), ""),
        (
            "same parameters",
            |m| m.snapshots[1].params.push(params("policy", "e0.arrow")),
            "of parameters is not valid, or is listed twice",
        ),
        (
            "same file",
            |m| m.snapshots[1].tables.push(table("more", "a0.arrow")),
            "\"a0.arrow\" is not the name of a chunk, or is listed twice",
        ),
        (
            "gap in a table",
            |m| m.snapshots[1].tables[0].chunks[0].batches[2].first = 5,
            "values of lane 0 are not in order",
        ),
        (
            "gap in values",
            |m| {
                let rows = [(0, 2..5), (0, 6..8)];
                m.snapshots[1].learned[0].chunks = vec![chunk("e0.arrow", 4, &rows)];
            },
            "values of lane 0 are not in order",
        ),
    ];
    check(cases);
    let manifest = manifest();
    assert_eq!(manifest.snapshots.iter().map(SavedSnapshot::rows).collect::<Vec<_>>(), [14; 2]);
    let files: Vec<_> = manifest.chunks().map(|chunk| chunk.file.as_str()).collect();
    assert_eq!(files, ["a0.arrow", "b0.arrow", "c0.arrow", "d0.arrow"]);
    let bytes = SnapshotParams::from(&manifest.snapshots[1].params[0]).bytes;
    assert_eq!(bytes, 100 + FRAME + 3 * 64);
    assert_eq!(manifest.rings[0].chunks[0].bytes, 100 + 3 * (FRAME + BODY));
}

#[test]
fn values_claims_limits_and_parameters_are_those_that_a_ring_can_have() {
    let cases: &[Case] = &[
        ("no values", |m| m.snapshots[1].learned[0].columns.clear(), "no table has its columns"),
        (
            "wide values",
            |m| m.snapshots[1].learned[0].columns[0].1 = DType::F64.code().to_owned(),
            "no table has its columns",
        ),
        (
            "selector",
            |m| m.snapshots[1].claims[0].selector = "all".to_owned(),
            "its selector is unknown",
        ),
        ("epoch", |m| m.snapshots[1].claims[0].selector = "epoch".to_owned(), ""),
        ("lanes", |m| m.snapshots[1].claims[0].lanes.truncate(1), "its pass has 1 lanes"),
        ("pass", |m| m.snapshots[1].claims[0].lanes[1] = (6, 5), "rows 6..5 of its pass"),
        ("late pass", |m| m.snapshots[1].claims[0].lanes[0] = (3, 9), "rows 3..9 of its pass"),
        ("two limiters", |m| m.snapshots[1].limiters.push(limiter()), "rate limiter is not valid"),
        (
            "no learner",
            |m| m.snapshots[1].limiters[0].no_learner = "ask".to_owned(),
            "rate limiter is not valid",
        ),
        (
            "no writer",
            |m| m.snapshots[1].limiters[0].no_writer = "ask".to_owned(),
            "rate limiter is not valid",
        ),
        ("no arrays", |m| m.snapshots[1].params[0].arrays.clear(), "its arrays are not valid"),
        ("no version", |m| m.snapshots[1].params[0].version = 0, "does not hold version 0"),
        (
            "no file",
            |m| m.snapshots[1].params[0].chunks.clear(),
            "its file does not hold version 3",
        ),
        (
            "no version and no file",
            |m| {
                m.snapshots[1].params[0].version = 0;
                m.snapshots[1].params[0].chunks.clear();
            },
            "",
        ),
        (
            "two rows",
            |m| m.snapshots[1].params[0].chunks = vec![chunk("e0.arrow", 3, &[(0, 0..2)])],
            "its file does not hold version 3",
        ),
    ];
    check(cases);
}

#[test]
fn only_a_policy_that_waits_has_a_timeout() {
    let longest = u64::try_from(LanePolicy::MAX_TIMEOUT.as_millis()).unwrap();
    for policy in ["overwrite", "drop_new", "fail", "block"] {
        for timeout in [0, 1, longest, longest + 1] {
            let saved = SavedRing {
                lane_policy: policy.to_owned(),
                lease_timeout_ms: timeout,
                ..ring("0f", "a0.arrow")
            };
            let most = if policy == "block" { longest } else { 0 };
            let found = saved.policy();
            assert_eq!(found.is_some(), timeout <= most, "{policy}, {timeout} ms");
            if let Some(found) = found {
                let waits = u64::try_from(found.timeout().as_millis()).unwrap();
                assert_eq!((found.as_str(), waits), (policy, timeout));
            }
        }
    }
}

#[test]
fn contiguous_rows_are_joined_and_a_snapshot_names_the_batches_that_it_shares_rows_with() {
    let mut saved = ring("0f", "a0.arrow");
    saved.chunks.push(chunk("a1.arrow", 6, &[(1, 20..24), (0, 8..9), (1, 8..12)]));
    let run = |start, end| Range::<u64> { start, end };
    let covered = [(0, vec![run(2, 9)]), (1, vec![run(0, 12), run(20, 24)])];
    assert_eq!(saved.covered(), BTreeMap::from(covered));
    let snapshot = SavedSnapshot { lanes: vec![(4, 8)], ..snapshot("a", &saved) };
    for (lane, rows) in [(0, 0..4), (0, 0..5), (0, 5..6), (0, 7..9), (0, 8..9), (1, 4..8)] {
        let shared = lane == 0 && rows.clone().any(|row| (4..8).contains(&row));
        assert_eq!(snapshot.names(&batch(6, lane, &rows, 0)), shared, "{lane}: {rows:?}");
    }
}

#[test]
fn names_of_chunk_files_have_1_to_64_digits_and_dashes() {
    let stem = "0f-9a".repeat(13);
    for (name, is_one) in [
        ("0.arrow".to_owned(), true),
        ("-.arrow".to_owned(), true),
        ("af09.arrow".to_owned(), true),
        (format!("{}.arrow", &stem[..64]), true),
        (format!("{}.arrow", &stem[..65]), false),
        (".arrow".to_owned(), false),
        ("ag.arrow".to_owned(), false),
        ("A.arrow".to_owned(), false),
        ("a.arrow.arrow".to_owned(), false),
        ("a.arrow.tmp".to_owned(), false),
        ("a".to_owned(), false),
    ] {
        assert_eq!(is_chunk_name(&name), is_one, "{name}");
    }
}

#[test]
fn files_are_kept_for_a_snapshot_or_within_the_limits_of_a_follower() {
    let files = ["a0.arrow", "a1.arrow", "a2.arrow"];
    let rows = [0..4, 4..8, 8..12];
    let limits = |keep_bytes, keep_ns| Followed { keep_bytes, keep_ns, ..Followed::default() };
    let bytes = 100 + FRAME + BODY;
    for (held, follow, kept) in [
        ((4, 8), None, &files[1..2]),
        ((3, 9), None, &files[..]),
        ((8, 9), None, &files[2..]),
        ((0, 1), Some(limits(None, None)), &files[..1]),
        ((8, 9), Some(limits(Some(2 * bytes), None)), &files[1..]),
        ((8, 9), Some(limits(Some(2 * bytes - 1), None)), &files[2..]),
        ((8, 9), Some(limits(Some(3 * bytes), None)), &files[..]),
        ((8, 9), Some(limits(None, Some(14))), &files[2..]),
        ((8, 9), Some(limits(None, Some(15))), &files[1..]),
        ((8, 9), Some(limits(Some(3 * bytes), Some(25))), &files[..]),
        ((8, 9), Some(limits(Some(2 * bytes), Some(25))), &files[1..]),
    ] {
        let mut saved = SavedRing { follow: follow.clone(), ..ring("0f", "a0.arrow") };
        saved.chunks = files
            .iter()
            .zip(&rows)
            .zip([10, 20, 30])
            .map(|((file, rows), unix_ns)| SavedChunk {
                unix_ns,
                ..chunk(file, 6, &[(0, rows.clone())])
            })
            .collect();
        let of_saved = SavedSnapshot { lanes: vec![held, (0, 0)], ..snapshot("a", &saved) };
        let mut manifest = Manifest {
            rings: vec![ring("1f", "b0.arrow"), saved],
            snapshots: vec![of_saved],
            ..Manifest::new("pong")
        };
        manifest.prune(35);
        assert_eq!(manifest.rings.len(), 1, "a ring without snapshots is removed");
        let left: Vec<_> = manifest.chunks().map(|chunk| chunk.file.as_str()).collect();
        assert_eq!(left, kept, "{held:?}, {follow:?}");
    }
}

#[test]
fn a_ring_is_followed_anew_only_if_its_live_snapshot_was_removed() {
    let rings: Vec<SavedRing> = ["0a", "0b", "0c", "0d"]
        .into_iter()
        .map(|uuid| SavedRing { follow: Some(Followed::default()), ..ring(uuid, "a0.arrow") })
        .collect();
    let before = Manifest {
        snapshots: vec![
            snapshot(LIVE, &rings[0]),
            snapshot(LIVE, &rings[1]),
            snapshot("label", &rings[1]),
            snapshot("label", &rings[2]),
        ],
        rings: rings.clone(),
        ..Manifest::new("pong")
    };
    for (kept, followed) in [
        (&[][..], [false, false, true, true]),
        (&[0][..], [true, false, true, true]),
        (&[1, 3][..], [false, true, true, true]),
        (&[2][..], [false, false, true, true]),
        (&[0, 1, 2, 3][..], [true; 4]),
    ] {
        let snapshots = kept.iter().map(|at: &usize| before.snapshots[*at].clone()).collect();
        let mut after = Manifest { snapshots, ..before.clone() };
        after.reset_unfollowed(&before);
        let found: Vec<_> = after.rings.iter().map(|ring| ring.follow.is_some()).collect();
        assert_eq!(found, followed, "{kept:?}");
    }
}
