//! Appends with `next_obs`: stored once if the next row continues with it, cut and counted if not.

use backcast_core::{
    AppendError, AutoresetMode, DType, Ends, FINAL, GAP, NoticeKind, ObsBytes, ResetHint, Ring,
    RingOptions, RowIndex, Schema, Step, TERMINATED, Writer, WriterOptions, WriterWarning,
};

const MODES: [AutoresetMode; 3] =
    [AutoresetMode::NextStep, AutoresetMode::SameStep, AutoresetMode::Disabled];

fn ring(lanes: u32) -> Ring {
    let schema = Schema::builder()
        .column("reward", DType::F32, &[])
        .column("obs/near", DType::F32, &[])
        .column("obs/far", DType::U8, &[3])
        .build()
        .unwrap();
    Ring::heap(&schema, RingOptions::with_capacity(200 * u64::from(lanes)).lanes(lanes)).unwrap()
}

/// Numbers of one row, the same on each of the writer's lanes.
struct Row {
    obs: u8,
    next: Option<u8>,
    last: Option<u8>,
    ends: bool,
    reward: f32,
}

fn row(obs: u8, next: impl Into<Option<u8>>) -> Row {
    Row { obs, next: next.into(), last: None, ends: false, reward: 0.0 }
}

fn ended(obs: u8, next: impl Into<Option<u8>>) -> Row {
    Row { ends: true, ..row(obs, next) }
}

/// Returns the bytes of the observation columns that hold number `n` on every lane.
fn obs(n: u8, lanes: usize) -> [Vec<u8>; 2] {
    let near: Vec<u8> = (0..lanes).flat_map(|_| f32::from(n).to_ne_bytes()).collect();
    [near, vec![n; 3 * lanes]]
}

fn append(writer: &mut Writer, row: &Row) -> Result<Vec<RowIndex>, AppendError> {
    let lanes = writer.lanes().len();
    let reward: Vec<u8> = (0..lanes).flat_map(|_| row.reward.to_ne_bytes()).collect();
    let shown = obs(row.obs, lanes);
    let [next, last] = [row.next, row.last].map(|n| n.map(|n| obs(n, lanes)));
    let [next, last] = [&next, &last].map(|o| o.as_ref().map(|[a, b]| [&a[..], &b[..]]));
    let schema = writer.schema().clone();
    let step = Step {
        schema: &schema,
        columns: &[&reward, &shown[0], &shown[1]],
        terminated: &vec![row.ends; lanes],
        truncated: &vec![false; lanes],
        next_obs: next.as_ref().map(|next| &next[..]),
        final_obs: last.as_ref().map(|last| &last[..]),
    };
    writer.append(step).map(<[RowIndex]>::to_vec)
}

/// Returns observation and flags of every row of a lane; both columns must hold the same number.
fn shown(ring: &Ring, lane: u32) -> Vec<(u8, u32)> {
    let rows = ring.rows(lane, ring.lane_span(lane).unwrap()).unwrap();
    let near = rows.column::<f32>("obs/near").unwrap();
    let far = rows.column::<u8>("obs/far").unwrap();
    let flags = rows.column::<u32>("flags").unwrap();
    for (near, far) in near.iter().zip(far.chunks(3)) {
        assert!(
            far.iter().all(|far| f32::from(*far).to_bits() == near.to_bits()),
            "{near} and {far:?}"
        );
    }
    far.chunks(3).map(|far| far[0]).zip(flags.iter().copied()).collect()
}

fn writer(ring: &Ring, mode: AutoresetMode) -> Writer {
    ring.writer(WriterOptions::lanes(ring.lanes()).autoreset(mode)).unwrap()
}

#[test]
fn the_next_observation_is_stored_once_in_every_mode() {
    for (mode, lanes) in MODES.into_iter().flat_map(|mode| [1, 3].map(|lanes| (mode, lanes))) {
        let ring = ring(lanes);
        let mut writer = writer(&ring, mode);
        for n in 1..50 {
            append(&mut writer, &row(n, n + 1)).unwrap();
        }
        drop(writer);
        for lane in 0..lanes {
            let rows = shown(&ring, lane);
            let plain = (1..50).map(|n| (n, 0));
            assert_eq!(rows, plain.chain([(50, FINAL)]).collect::<Vec<_>>(), "{mode}");
        }
        assert_eq!(ring.len(), 49 * u64::from(lanes), "the last transition is not lost");
        assert_eq!(ring.stats().lane_stats[0].cuts, 0);
    }
}

#[test]
fn where_another_observation_follows_the_episode_is_cut_and_counted() {
    for lanes in [1, 2] {
        let ring = ring(lanes);
        let mut writer = writer(&ring, AutoresetMode::Disabled);
        append(&mut writer, &row(1, 2)).unwrap();
        let at = append(&mut writer, &row(7, 8)).unwrap();
        assert_eq!(at[0].seq(), 2, "the row's own index, not the FINAL one's");
        // Cut and ended by one append: three rows in one publish.
        let at = append(&mut writer, &ended(20, 21)).unwrap();
        assert_eq!(at[0].seq(), 4);
        append(&mut writer, &row(30, None)).unwrap();
        for lane in 0..lanes {
            let expected = [
                (1, 0),
                (2, FINAL),
                (7, GAP),
                (8, FINAL),
                (20, GAP | TERMINATED),
                (21, FINAL),
                (30, 0),
            ];
            assert_eq!(shown(&ring, lane), expected);
            assert_eq!(ring.stats().lane_stats[lane as usize].cuts, 2);
        }
        assert_eq!(
            (writer.rows_written(), ring.len()),
            (7 * u64::from(lanes), 3 * u64::from(lanes))
        );
    }
}

#[test]
fn only_cuts_of_more_than_a_twentieth_cause_one_warning() {
    let ring = ring(1);
    let mut writer = writer(&ring, AutoresetMode::Disabled);
    for n in 0..100 {
        append(&mut writer, &row(n, n + 1)).unwrap();
    }
    let cut = |writer: &mut Writer| append(writer, &row(200, 200)).map(drop).unwrap();
    for _ in 0..5 {
        cut(&mut writer);
        append(&mut writer, &row(100, 101)).unwrap();
    }
    assert!(writer.has_warnings());
    let Some(WriterWarning::Cuts { cuts, appends }) = writer.take_warning() else {
        panic!("cuts are told")
    };
    assert!(cuts * 20 > appends && (cuts - 1) * 20 <= appends, "{cuts} of {appends}");
    assert!(!writer.has_warnings());
    cut(&mut writer);
    assert_eq!(writer.take_warning(), None);
    let [notice] = &*writer.notices() else { panic!("{:?}", writer.notices()) };
    assert_eq!((notice.kind, notice.count), (NoticeKind::SuspectRows, 1));
    assert!(notice.text.contains(&format!("{cuts} of {appends}")), "{notice}");
}

#[test]
fn a_restart_ends_the_episodes_of_the_lanes_chosen_with_what_waits() {
    let ring = ring(2);
    let mut writer = writer(&ring, AutoresetMode::Disabled);
    append(&mut writer, &row(1, 2)).unwrap();
    writer.restart(&[true, false]).unwrap();
    assert_eq!((shown(&ring, 0).len(), shown(&ring, 1).len()), (2, 1));
    append(&mut writer, &row(2, 3)).unwrap();
    assert_eq!(shown(&ring, 0), [(1, 0), (2, FINAL), (2, GAP)]);
    assert_eq!(shown(&ring, 1), [(1, 0), (2, 0)]);
    writer.finish().unwrap();
    writer.finish().unwrap();
    assert_eq!(shown(&ring, 1), [(1, 0), (2, 0), (3, FINAL)]);
    assert_eq!(ring.stats().lane_stats.iter().map(|lane| lane.cuts).sum::<u64>(), 0);
}

#[test]
fn an_end_in_next_step_mode_keeps_what_it_led_to() {
    let ring = ring(1);
    let mut writer = writer(&ring, AutoresetMode::NextStep);
    append(&mut writer, &ended(1, 2)).unwrap();
    append(&mut writer, &row(2, 10)).unwrap();
    append(&mut writer, &ended(10, 11)).unwrap();
    drop(writer);
    assert_eq!(shown(&ring, 0), [(1, TERMINATED), (2, FINAL), (10, TERMINATED), (11, FINAL)]);
    assert_eq!(ring.stats().lane_stats[0].suspect_resets, 0);
}

#[test]
fn next_observations_of_another_size_are_refused_and_change_nothing() {
    for lanes in 1..4 {
        let ring = ring(lanes);
        let mut writer = writer(&ring, AutoresetMode::NextStep);
        append(&mut writer, &row(1, 2)).unwrap();
        let lanes = lanes as usize;
        let (reward, now, schema) = (vec![0; 4 * lanes], obs(2, lanes), ring.schema().clone());
        let right = obs(3, lanes).map(|bytes| bytes.len());
        let sizes = (0..16).flat_map(|near| (0..16).map(move |far| [near, far]));
        for sizes in sizes.filter(|sizes| *sizes != right) {
            let next = sizes.map(|bytes| vec![0; bytes]);
            let step = Step {
                schema: &schema,
                columns: &[&reward, &now[0], &now[1]],
                terminated: &vec![false; lanes],
                truncated: &vec![false; lanes],
                next_obs: Some(&[&next[0], &next[1]]),
                final_obs: None,
            };
            assert!(writer.append(step).is_err(), "{sizes:?} bytes for {lanes} lanes");
            assert_eq!(shown(&ring, 0), [(1, 0)]);
        }
        append(&mut writer, &row(2, 3)).unwrap();
        assert_eq!(shown(&ring, 0), [(1, 0), (2, 0)]);
    }
}

#[test]
fn an_end_without_its_observation_is_refused_and_changes_nothing() {
    for mode in [AutoresetMode::SameStep, AutoresetMode::Disabled] {
        let ring = ring(1);
        let mut writer = writer(&ring, mode);
        append(&mut writer, &row(1, 2)).unwrap();
        let bare = append(&mut writer, &ended(2, None)).unwrap_err();
        assert_eq!(bare, AppendError::MissingFinalObs { lane: 0, mode });
        if mode == AutoresetMode::SameStep {
            // In this mode the next observation is that of the reset.
            assert_eq!(append(&mut writer, &ended(2, 3)).unwrap_err(), bare);
        }
        append(&mut writer, &Row { last: Some(3), ..ended(2, 9) }).unwrap();
        assert_eq!(shown(&ring, 0), [(1, 0), (2, TERMINATED), (3, FINAL)], "{mode}");
    }
}

#[test]
fn a_mode_that_rows_contradict_is_reported_once_and_counted() {
    let reported = |mode, rows: &[Row]| {
        let ring = ring(1);
        let mut writer = writer(&ring, mode);
        for row in rows {
            append(&mut writer, row).unwrap();
        }
        let hint = writer.take_warning().map(|warning| match warning {
            WriterWarning::Reset { lane: 0, hint, .. } => hint,
            other => panic!("{other}"),
        });
        assert_eq!(writer.take_warning(), None, "once");
        (hint, ring.stats().lane_stats[0].suspect_resets)
    };
    let (next, disabled) = (AutoresetMode::NextStep, AutoresetMode::Disabled);
    let rewarded = |row| Row { reward: 1.0, ..row };
    let again = [ended(1, 2), row(2, 3), row(3, 4), ended(4, 5), row(5, 6)];
    assert_eq!(reported(disabled, &again), (Some(ResetHint::Repeated), 2));
    let final_obs = [Row { last: Some(2), ..ended(1, 8) }, row(2, 3)];
    assert_eq!(reported(AutoresetMode::SameStep, &final_obs), (Some(ResetHint::Repeated), 1));
    assert_eq!(
        reported(next, &[ended(1, 2), row(10, 11), row(11, 12)]),
        (Some(ResetHint::Differs), 1)
    );
    assert_eq!(reported(next, &[ended(1, 2), rewarded(row(2, 3))]), (Some(ResetHint::Acted), 1));
    assert_eq!(reported(next, &[ended(1, None), ended(2, None)]), (Some(ResetHint::Acted), 1));
    let minus_zero = Row { reward: -0.0, ..row(2, 3) };
    assert_eq!(reported(next, &[ended(1, 2), minus_zero]), (None, 0));
    assert_eq!(reported(disabled, &[ended(1, 2), row(10, 11)]), (None, 0));
}

#[test]
fn another_observation_is_not_the_final_row_of_a_next_step_episode() {
    let ring = ring(1);
    let mut writer = writer(&ring, AutoresetMode::NextStep);
    append(&mut writer, &ended(1, 2)).unwrap();
    append(&mut writer, &row(10, 11)).unwrap();
    append(&mut writer, &row(11, 12)).unwrap();
    assert_eq!(shown(&ring, 0), [(1, TERMINATED), (2, FINAL), (11, 0)]);
}

#[test]
fn reserved_rows_are_those_that_appends_make() {
    for mode in MODES {
        let [appended, reserved] = [(); 2].map(|()| ring(1));
        let [mut one, mut other] = [&appended, &reserved].map(|ring| writer(ring, mode));
        for n in 0..120_u8 {
            let next_step = mode == AutoresetMode::NextStep;
            let (ends, cut) = (n % 7 == 6, n % 11 == 10);
            let last = (ends && mode == AutoresetMode::SameStep).then_some(n + 1);
            let begins = if cut { n + 100 } else { n };
            let each = Row {
                last,
                ends,
                ..row(begins, (n % 3 > 0 || (ends && !next_step)).then_some(n + 1))
            };
            let index = append(&mut one, &each).unwrap();
            let [next, last] = [each.next, each.last].map(|n| n.map(|n| obs(n, 1)));
            let [next, last] = [&next, &last].map(|o| o.as_ref().map(|[a, b]| [&a[..], &b[..]]));
            let mut row = other.reserve().unwrap();
            row.column("reward").unwrap().write(&[0.0_f32]).unwrap();
            row.column("obs/near").unwrap().write(&[f32::from(begins)]).unwrap();
            row.column("obs/far").unwrap().fill(begins);
            let schema = reserved.schema();
            let obs = |columns| ObsBytes { schema, columns };
            let ends = Ends {
                terminated: ends,
                truncated: false,
                next_obs: next.as_ref().map(|next| obs(&next[..])),
                final_obs: last.as_ref().map(|last| obs(&last[..])),
            };
            assert_eq!(row.commit_with(&ends).unwrap(), index[0], "{mode}, row {n}");
            assert_eq!(shown(&reserved, 0), shown(&appended, 0), "{mode}, row {n}");
        }
        assert_eq!(reserved.stats().lane_stats[0].cuts, appended.stats().lane_stats[0].cuts);
        assert!(appended.stats().lane_stats[0].cuts > 3);
        let mut row = other.reserve().unwrap();
        row.column("reward").unwrap().write(&[0.0_f32]).unwrap();
        row.column("obs/near").unwrap().write(&[0.0_f32]).unwrap();
        row.column("obs/far").unwrap().fill(0_u8);
        if mode != AutoresetMode::NextStep {
            let refused = row.commit(true, false).unwrap_err();
            assert_eq!(refused, AppendError::MissingFinalObs { lane: 0, mode });
        }
    }
}

#[test]
fn many_steps_at_once_are_the_same_rows_as_one_by_one() {
    for (lanes, mode) in [1_usize, 3].into_iter().flat_map(|lanes| MODES.map(|mode| (lanes, mode)))
    {
        let [one, many] = [(); 2].map(|()| ring(u32::try_from(lanes).unwrap()));
        let [mut append, mut extend] = [&one, &many].map(|ring| writer(ring, mode));
        let mut first = 0_u8;
        for steps in [1_u8, 17, 64, 0, 30] {
            let numbers = first..first + steps;
            let obs_of = |at: u8, n: u8| if at % 13 == 12 { n + 100 } else { n };
            let ends: Vec<bool> = numbers.clone().flat_map(|n| vec![n % 9 == 8; lanes]).collect();
            let columns = |shift: u8, jumps: bool| {
                let shown = numbers
                    .clone()
                    .map(|n| obs(if jumps { obs_of(n, n) } else { n + shift }, lanes));
                shown.fold([Vec::new(), Vec::new()], |[mut a, mut b], [near, far]| {
                    a.extend(near);
                    b.extend(far);
                    [a, b]
                })
            };
            let (now, next) = (columns(0, true), columns(1, false));
            let reward = vec![0; 4 * lanes * usize::from(steps)];
            let go_on = vec![false; ends.len()];
            let part = |at: Option<usize>| {
                let cut = |bytes: &[u8], width: usize| match at {
                    Some(at) => bytes[at * width * lanes..(at + 1) * width * lanes].to_vec(),
                    None => bytes.to_vec(),
                };
                [
                    cut(&reward, 4),
                    cut(&now[0], 4),
                    cut(&now[1], 3),
                    cut(&next[0], 4),
                    cut(&next[1], 3),
                ]
            };
            let with = |at: Option<usize>, work: &mut dyn FnMut(&Step<'_>) -> Vec<RowIndex>| {
                let [reward, near, far, next_near, next_far] = part(at);
                let range = at.map_or(0..ends.len(), |at| at * lanes..(at + 1) * lanes);
                let finals = mode == AutoresetMode::SameStep;
                work(&Step {
                    schema: one.schema(),
                    columns: &[&reward, &near, &far],
                    terminated: &ends[range.clone()],
                    truncated: &go_on[range],
                    next_obs: Some(&[&next_near, &next_far]),
                    final_obs: finals.then_some(&[&next_near, &next_far]),
                })
            };
            let mut expected = Vec::new();
            for at in 0..usize::from(steps) {
                expected.extend(with(Some(at), &mut |step| append.append(step).unwrap().to_vec()));
            }
            let found = with(None, &mut |steps| extend.extend(steps).unwrap().to_vec());
            assert_eq!(found, expected, "{lanes} lanes, {mode}, {steps} steps");
            for lane in 0..u32::try_from(lanes).unwrap() {
                assert_eq!(shown(&many, lane), shown(&one, lane), "{mode}, {steps} steps");
            }
            first += steps;
        }
        assert_eq!(many.stats().lane_stats[0].cuts, one.stats().lane_stats[0].cuts);
        assert!(one.stats().lane_stats[0].cuts > 0);
    }
}

#[test]
fn a_long_run_without_ends_is_the_same_rows_as_one_by_one() {
    let [one, many] = [(); 2].map(|()| ring(1));
    let [mut single, mut extend] = [&one, &many].map(|ring| writer(ring, AutoresetMode::Disabled));
    let number = |at: u32| u8::try_from(at % 251).unwrap();
    let mut first = 0;
    for steps in [190, 1, 64, 700] {
        let numbers = first..first + steps;
        let columns = |shift: u32| {
            let shown = numbers.clone().map(|at| obs(number(at + shift), 1));
            let (near, far): (Vec<_>, Vec<_>) = shown.map(|[near, far]| (near, far)).unzip();
            [near.concat(), far.concat()]
        };
        let ([near, far], [next_near, next_far]) = (columns(0), columns(1));
        let go_on = vec![false; near.len() / 4];
        let found = extend.extend(Step {
            schema: many.schema(),
            columns: &[&vec![0; near.len()], &near, &far],
            terminated: &go_on,
            truncated: &go_on,
            next_obs: Some(&[&next_near, &next_far]),
            final_obs: None,
        });
        let found = found.unwrap().to_vec();
        let rows =
            numbers.flat_map(|at| append(&mut single, &row(number(at), number(at + 1))).unwrap());
        assert_eq!(found, rows.collect::<Vec<_>>(), "{steps} steps");
        assert_eq!(shown(&many, 0), shown(&one, 0), "{steps} steps");
        first += steps;
    }
    assert_eq!(many.stats().lane_stats[0].cuts, 0);
}

#[test]
fn several_lanes_want_their_mode_said() {
    let ring = ring(2);
    let refused = ring.writer(WriterOptions::lanes(2)).unwrap_err().to_string();
    for mode in MODES {
        assert!(refused.contains(mode.as_str()), "{refused}");
    }
    let one = ring.writer(WriterOptions::lanes(1)).unwrap();
    assert_eq!(one.autoreset_mode(), AutoresetMode::Disabled);
}
