//! Compares everything that a ring shows with the model.

use std::collections::BTreeMap;

use backcast_core::{
    Boundary, DType, ReadError, Ring, Role, RowIndex, SampleError, Sampler, Schema,
};

use crate::model::case::Windows;
use crate::model::drawn::{Drawn, gathered, typed};
use crate::model::lane::{FINAL, Lane, Row, Transition};
use crate::model::play::{Bytes, Play};

/// A transition and its neighbours; `None` beyond the ends of the episode and of the memory.
struct Item<'a> {
    lane: u32,
    drawn: Transition<'a>,
    /// Oldest first, ending with the transition itself.
    past: Vec<Option<Transition<'a>>>,
    future: Vec<Option<Transition<'a>>>,
    /// The transitions of the n-step return, from the drawn one on.
    returns: Vec<Transition<'a>>,
}

type Flag = fn(&Transition<'_>) -> bool;

/// Expected content of a place of a batch.
enum Place<'a> {
    Cell(&'a [u8]),
    /// Zeros.
    Masked,
    /// Zeros, or the valid neighbour whose memory the place shares.
    MaskedBeside(&'a [u8]),
}

/// Compares the number of transitions, and every row bit by bit.
pub(crate) fn rows(play: &Play, ring: &Ring) {
    let count = |lane: &Lane| lane.transitions().iter().map(Vec::len).sum::<usize>() as u64;
    assert_eq!(ring.len(), play.lanes.iter().map(count).sum::<u64>(), "len");
    let (stats, taken) = (ring.stats(), play.taken());
    assert_eq!(stats.transitions, ring.len());
    assert_eq!(ring.is_empty(), stats.transitions == 0);
    for (number, lane) in (0..).zip(&play.lanes) {
        let rows = lane.rows();
        let oldest = rows.first().map_or(lane.head(), |row| row.seq);
        assert_eq!(ring.lane_span(number), Some(oldest..lane.head()), "lane {number}");
        let said = &stats.lane_stats[number as usize];
        assert_eq!(
            (said.lane, said.head, said.rows, said.transitions, said.episodes, said.held),
            (
                number,
                lane.head(),
                rows.len() as u64,
                count(lane),
                lane.episodes(),
                taken.contains(&number)
            )
        );
        let read = ring.rows(number, oldest..lane.head()).unwrap();
        assert_eq!(read.place(), (number, oldest..lane.head()));
        assert_eq!(read.len(), rows.len());
        let column = |i: usize| {
            rows.iter().flat_map(|row| row.cells[i].iter().copied()).collect::<Vec<u8>>()
        };
        assert!(rows.iter().map(|r| r.seq).eq(read.column::<u64>("seq").unwrap().iter().copied()));
        let episodes = read.column::<u64>("episode").unwrap();
        assert!(rows.iter().map(|r| r.episode).eq(episodes.iter().copied()), "{episodes:?}");
        let t = read.column::<u32>("t").unwrap();
        assert!(rows.iter().map(|r| r.t).eq(t.iter().copied()), "{t:?}");
        let flags = read.column::<u32>("flags").unwrap();
        assert!(rows.iter().map(|r| r.flags).eq(flags.iter().copied()), "{flags:?}");
        for (i, user) in ring.schema().columns().iter().enumerate() {
            assert_eq!(read.bytes(user.name()), Some(&*column(i)), "{}", user.name());
        }
        refused_rows(ring, number, oldest, lane.head());
    }
    let lanes = ring.lanes();
    assert_eq!(ring.lane_span(lanes), None);
    let none = ring.rows(lanes, 0..0).unwrap_err();
    assert_eq!(none, ReadError::NoSuchLane { lane: lanes.into(), lanes });
}

fn refused_rows(ring: &Ring, lane: u32, oldest: u64, head: u64) {
    let refuse = |from: u64, to: u64| {
        let expected = ReadError::NotReadable { lane, from, to, oldest, head };
        assert_eq!(ring.rows(lane, from..to).map(|_| ()).unwrap_err(), expected);
    };
    refuse(oldest, head + 1);
    refuse(head + 1, head + 2);
    if let Some(gone) = oldest.checked_sub(1) {
        refuse(gone, head);
        refuse(0, oldest);
    }
    assert!(ring.rows(lane, head..head).unwrap().is_empty());
    if head > oldest {
        let newest = ring.rows(lane, head - 1..head).unwrap();
        assert_eq!(newest.column::<u64>("seq").unwrap(), [head - 1]);
    }
}

/// Compares every transition by a gather, the refusal of every other row, and draws from both
/// handles.
pub(crate) fn windows(play: &Play, ring: &Ring, windows: Windows, seed: u64) {
    let schema = ring.schema().clone();
    let state = crate::strided(&play.ring, windows.options(seed), windows.stride);
    let mut sampler = match state.and_then(|state| play.ring.sampler(state)) {
        Ok(sampler) => sampler,
        Err(SampleError::BadWindow { rows, limit, .. }) => {
            assert!(windows.rows() > ring.lane_capacity(), "{windows:?} fits");
            assert_eq!((rows, limit), (windows.rows(), ring.lane_capacity()));
            return;
        }
        Err(SampleError::BadReward { found }) => {
            let summed = schema.column("reward").is_some_and(|reward| {
                matches!(reward.dtype(), DType::F32 | DType::F64) && reward.shape().is_empty()
            });
            assert!(windows.n_step.is_some() && !summed, "{found}");
            return;
        }
        Err(other) => panic!("{other}"),
    };
    assert!(windows.rows() <= ring.lane_capacity(), "{windows:?} does not fit");
    let all = items(&play.lanes, windows);
    let transitions: Vec<i64> = all.iter().map(Item::index).collect();
    let (items, cut): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|item| item.is_drawn(windows.boundary));
    let index: Vec<i64> = items.iter().map(Item::index).collect();
    for item in &cut {
        let refused = sampler.gather(&[item.index()]).unwrap_err();
        let SampleError::BadIndex { position: 0, index, .. } = refused else { panic!("{refused}") };
        assert_eq!(index, item.index());
    }
    if !items.is_empty() {
        let drawn = gathered(&mut sampler, &index).unwrap();
        check(&drawn, &items.iter().collect::<Vec<_>>(), &schema, windows);
        let mut batch = sampler.gather(&index).unwrap();
        assert_eq!(typed(&batch, &schema), drawn, "typed columns");
        sampler.gather_over(&index, &mut batch).unwrap();
        assert_eq!(typed(&batch, &schema), drawn, "over an earlier batch");
    }
    non_transitions(play, &mut sampler, (&transitions, &index), seed);

    let mut twin = ring.sampler(sampler.state()).unwrap();
    let on_stride = items.iter().filter(|item| item.is_on_stride(windows));
    let by_index: BTreeMap<i64, &Item<'_>> = on_stride.map(|item| (item.index(), item)).collect();
    for round in 0..2 {
        let before = sampler.sampled();
        let batch = match sampler.sample(17) {
            Ok(batch) => batch,
            Err(SampleError::NoWindow { longest, needed, .. }) => {
                assert!(items.is_empty() && !cut.is_empty(), "{} to be drawn", items.len());
                let lanes = play.lanes.iter().flat_map(Lane::transitions);
                assert_eq!(Some(longest), lanes.map(|episode| episode.len() as u64).max());
                assert!(longest < needed && windows.boundary == Boundary::Reject);
                return;
            }
            Err(SampleError::NoStride { longest, .. }) => {
                assert!(by_index.is_empty() && windows.stride > 1, "{} to be drawn", items.len());
                let lanes = play.lanes.iter().flat_map(Lane::transitions);
                assert_eq!(Some(longest), lanes.map(|episode| episode.len() as u64).max());
                return;
            }
            Err(SampleError::NoHistory { history, longest }) => {
                assert!(items.is_empty() && !cut.is_empty(), "{} to be drawn", items.len());
                let lanes = play.lanes.iter().flat_map(Lane::transitions);
                assert_eq!(Some(longest), lanes.map(|episode| episode.len() as u64).max());
                assert_eq!((Some(history), windows.boundary), (windows.history, Boundary::Clamp));
                return;
            }
            Err(SampleError::Empty { rows }) => {
                assert!(transitions.is_empty(), "{} transitions, none drawn", transitions.len());
                let readable = play.lanes.iter().map(|lane| lane.rows().len() as u64);
                assert_eq!(rows, readable.sum::<u64>());
                return;
            }
            Err(other) => panic!("{other}"),
        };
        assert_eq!((batch.len(), sampler.sampled() - before), (17, 17));
        let drawn = typed(&batch, &schema);
        let expected: Vec<&Item<'_>> = batch
            .index()
            .iter()
            .map(|index| *by_index.get(&index.0).expect("only transitions on the stride are drawn"))
            .collect();
        check(&drawn, &expected, &schema, windows);
        // The twin overwrites an earlier batch completely.
        let mut other = twin.gather(&[index[0]; 17]).unwrap();
        twin.sample_over(&mut other).unwrap();
        assert_eq!(typed(&other, &schema), drawn, "round {round}: equal seeds, equal batches");
    }
    assert_eq!(sampler.lapped(), 0, "nobody wrote meanwhile");
}

impl Item<'_> {
    fn index(&self) -> i64 {
        RowIndex::new(self.lane, self.drawn.seq).0
    }

    /// Returns whether the window starts a multiple of the stride after the first transition of
    /// the episode, or before it, or ends with the episode.
    fn is_on_stride(&self, windows: Windows) -> bool {
        let start = i64::from(self.drawn.t) - i64::from(windows.history.unwrap_or(1) - 1);
        let end = match windows.boundary {
            Boundary::Reject => self.future.last().copied().unwrap_or(Some(self.drawn)),
            Boundary::Mask | Boundary::Clamp => Some(self.drawn),
        };
        start % i64::from(windows.stride) == 0 || end.is_some_and(|end| end.is_last)
    }

    fn is_drawn(&self, boundary: Boundary) -> bool {
        let whole = |places: &[Option<Transition<'_>>]| places.iter().all(Option::is_some);
        let begins = self.past.iter().flatten().next().is_some_and(|first| first.t == 0);
        match boundary {
            Boundary::Mask => true,
            Boundary::Reject => whole(&self.past) && whole(&self.future),
            // Overwritten rows cannot be repeated.
            Boundary::Clamp => whole(&self.past) || begins,
        }
    }

    /// Returns the first observation of the window.
    fn oldest(&self, column: usize) -> &[u8] {
        &self.past.iter().flatten().next().unwrap().cells[column]
    }

    /// Returns the observation after the window's last transition.
    fn newest(&self, column: usize) -> &[u8] {
        &self.future.iter().flatten().last().unwrap_or(&self.drawn).next[column]
    }
}

/// Returns all transitions of the model with their windows.
fn items(lanes: &[Lane], windows: Windows) -> Vec<Item<'_>> {
    let mut items = Vec::new();
    for (number, lane) in (0..).zip(lanes) {
        for episode in lane.transitions() {
            for (i, drawn) in episode.iter().enumerate() {
                let mut past: Vec<_> = episode[..=i].iter().rev().copied().map(Some).collect();
                past.resize(windows.history.unwrap_or(1) as usize, None);
                past.reverse();
                let mut future: Vec<_> = episode[i + 1..].iter().copied().map(Some).collect();
                future.resize(windows.future as usize, None);
                let (steps, _) = windows.n_step.unwrap_or((1, 0.0));
                let returns = episode[i..].iter().take(steps as usize).copied().collect();
                items.push(Item { lane: number, drawn: *drawn, past, future, returns });
            }
        }
    }
    items
}

/// Checks that every index that names no transition is refused with the reason, at any position.
fn non_transitions(
    play: &Play,
    sampler: &mut Sampler,
    (transitions, good): (&[i64], &[i64]),
    seed: u64,
) {
    // The kind of fault that each reason stands for. Faults of two kinds have two reasons.
    let mut kinds = BTreeMap::new();
    let mut refuse = |lane: u32, seq: u64, lapped: Option<u64>, kind: &'static str| {
        let index = RowIndex::new(lane, seq).0;
        // Puts a valid index before it, if there is one.
        let good = good.get(usize::try_from(seed % 7).unwrap()).copied();
        let asked: Vec<i64> = good.into_iter().chain([index]).collect();
        let position = asked.len() - 1;
        let refused = sampler.gather(&asked).map(|_| ()).unwrap_err();
        if let Some(oldest) = lapped {
            let expected = SampleError::Lapped { position, index, lane, seq, oldest };
            assert_eq!(refused.to_string(), expected.to_string());
            return;
        }
        let SampleError::BadIndex { reason, .. } = refused else { panic!("{refused}") };
        let expected = SampleError::BadIndex { position, index, lane, seq, reason };
        assert_eq!(refused.to_string(), expected.to_string());
        assert_eq!(*kinds.entry(reason).or_insert(kind), kind, "{reason}");
    };
    for (number, lane) in (0..).zip(&play.lanes) {
        let rows = lane.rows();
        let oldest = rows.first().map_or(0, |row| row.seq);
        for row in rows {
            let kind = match row {
                Row { flags, .. } if flags & FINAL != 0 => "final",
                Row { seq, .. } if seq + 1 == lane.head() => "newest",
                _ => "broken off",
            };
            if transitions.binary_search(&RowIndex::new(number, row.seq).0).is_err() {
                refuse(number, row.seq, None, kind);
            }
        }
        for gone in [oldest.checked_sub(1), (oldest > 1).then_some(0)].into_iter().flatten() {
            refuse(number, gone, Some(oldest), "");
        }
        refuse(number, lane.head(), None, "unpublished");
        refuse(number, lane.head() + Bytes(seed).next() % 100_000, None, "unpublished");
    }
    refuse(u32::try_from(play.lanes.len()).unwrap(), 0, None, "no lane");
    let negative = sampler.gather(&[-1]).unwrap_err();
    assert!(matches!(negative, SampleError::BadIndex { index: -1, .. }), "{negative}");
    masked(play, sampler, good);
}

/// Gathers transitions among invalid indices: the invalid items are zeros, the others are not
/// affected.
fn masked(play: &Play, sampler: &mut Sampler, good: &[i64]) {
    let lanes = u32::try_from(play.lanes.len()).unwrap();
    let newest = (0..).zip(&play.lanes).map(|(number, lane)| RowIndex::new(number, lane.head()).0);
    let bad: Vec<i64> = newest.chain([-1, RowIndex::new(lanes, 0).0, i64::MAX]).collect();
    let pairs = bad.iter().cycle().zip(good).flat_map(|(bad, good)| [*bad, *good, *good]);
    let index: Vec<i64> = pairs.chain(bad.iter().copied()).collect();
    let (batch, found) = sampler.gather_present(&index).unwrap();
    let expected: Vec<bool> = index.iter().map(|index| good.contains(index)).collect();
    assert_eq!((&found, RowIndex::numbers(&batch.index())), (&expected, &index[..]));
    let alone = (!good.is_empty()).then(|| sampler.gather(good).unwrap());
    for view in batch.plan().views() {
        let bytes_of = |batch: &backcast_core::Batch| {
            let (laid_out, blocks) = batch.clone().into_blocks();
            let bytes = laid_out.arenas()[view.arena].bytes() / laid_out.batch();
            (bytes, blocks[view.arena].bytes().to_vec())
        };
        let (width, all) = bytes_of(&batch);
        let kept = alone.as_ref().map_or(Vec::new(), |alone| bytes_of(alone).1);
        for ((here, found), index) in all.chunks(width).zip(&found).zip(&index) {
            if *found {
                let at = good.iter().position(|good| good == index).unwrap();
                assert_eq!(here, &kept[at * width..(at + 1) * width], "{}", view.key);
            } else if view.key != "index" {
                assert!(here.iter().all(|byte| *byte == 0), "{} of {index}", view.key);
            }
        }
    }
}

/// Compares a batch with the model's windows: keys, shapes, types and every byte.
#[expect(clippy::too_many_lines, reason = "a table of all keys that a batch may have")]
fn check(drawn: &Drawn, items: &[&Item<'_>], schema: &Schema, windows: Windows) {
    let mut seen = 0;
    let past_axis = windows.history.map(|history| history as usize);
    let future_axis = (windows.future > 0).then_some(windows.future as usize);
    let mut column =
        |key: &str,
         dtype: DType,
         axis: Option<usize>,
         shape: &[u32],
         places: &dyn for<'i> Fn(&'i Item<'_>) -> Vec<Place<'i>>| {
            seen += 1;
            let found =
                drawn.get(key).unwrap_or_else(|| panic!("no `{key}` among {:?}", drawn.keys()));
            let rows = shape.iter().map(|axis| *axis as usize);
            let expected: Vec<usize> = [items.len()].into_iter().chain(axis).chain(rows).collect();
            assert_eq!((found.dtype, &found.shape), (dtype, &expected), "{key}");
            let width = shape.iter().map(|axis| *axis as usize).product::<usize>() * dtype.size();
            let mut cells = found.bytes.chunks(width);
            for item in items {
                for (k, place) in places(item).into_iter().enumerate() {
                    let cell = cells.next().expect("as many places as the shape says");
                    let zero = cell.iter().all(|byte| *byte == 0);
                    let right = match place {
                        Place::Cell(expected) => cell == expected,
                        Place::Masked => zero,
                        Place::MaskedBeside(neighbour) => zero || cell == neighbour,
                    };
                    let (lane, seq) = (item.lane, item.drawn.seq);
                    assert!(right, "{key}[{k}] of row {seq} of lane {lane}: {cell:?}, {windows:?}");
                }
            }
            assert_eq!(cells.next(), None);
        };
    let shares = !windows.copy && (windows.history.is_some() || windows.future > 0);
    for (c, user) in schema.columns().iter().enumerate() {
        let (name, dtype, shape) = (user.name(), user.dtype(), user.shape());
        let obs = user.role() == Role::Obs;
        let clamps = obs && windows.boundary == Boundary::Clamp;
        let beside = |cell: Option<&'_ Vec<u8>>| shares && obs && cell.is_some();
        column(name, dtype, past_axis, shape, &|item| {
            let cells = item.past.iter().map(|t| t.as_ref().map(|t| &t.cells[c]));
            cells.map(|cell| clamped(place(cell), clamps, item.oldest(c))).collect()
        });
        if obs {
            column(&format!("next_{name}"), dtype, past_axis, shape, &|item| {
                let after = item.past.iter().skip(1).map(|t| t.as_ref().map(|t| &t.cells[c]));
                let after = after.chain([None]);
                let next = item.past.iter().map(|t| t.as_ref().map(|t| &t.next[c]));
                next.zip(after)
                    .map(|(cell, after)| shared(cell, after, beside(after)))
                    .map(|place| clamped(place, clamps, item.oldest(c)))
                    .collect()
            });
        }
        if future_axis.is_none() {
            continue;
        }
        column(&format!("future/{name}"), dtype, future_axis, shape, &|item| {
            let before = [Some(item.drawn)].into_iter().chain(item.future.iter().copied());
            let before = before.map(|t| t.map(|t| &t.next[c]));
            let cells = item.future.iter().map(|t| t.as_ref().map(|t| &t.cells[c]));
            cells
                .zip(before)
                .map(|(cell, before)| shared(cell, before, beside(before)))
                .map(|place| clamped(place, clamps, item.newest(c)))
                .collect()
        });
        if obs {
            column(&format!("future/next_{name}"), dtype, future_axis, shape, &|item| {
                let cells = item.future.iter().map(|t| t.as_ref().map(|t| &t.next[c]));
                cells.map(|cell| clamped(place(cell), clamps, item.newest(c))).collect()
            });
        }
    }
    let bit = |there: Option<bool>| match there {
        Some(true) => Place::Cell(&[1]),
        Some(false) => Place::Cell(&[0]),
        None => Place::Masked,
    };
    let flags: [(&str, Flag); 2] =
        [("terminated", |t| t.terminated), ("truncated", |t| t.truncated)];
    for (key, flag) in flags {
        column(key, DType::Bool, past_axis, &[], &|item| {
            item.past.iter().map(|t| bit(t.as_ref().map(flag))).collect()
        });
        if future_axis.is_some() {
            column(&format!("future/{key}"), DType::Bool, future_axis, &[], &|item| {
                item.future.iter().map(|t| bit(t.as_ref().map(flag))).collect()
            });
        }
    }
    if past_axis.is_some() {
        column("mask", DType::Bool, past_axis, &[], &|item| {
            item.past.iter().map(|t| bit(Some(t.is_some()))).collect()
        });
    }
    if future_axis.is_some() {
        column("future_mask", DType::Bool, future_axis, &[], &|item| {
            item.future.iter().map(|t| bit(Some(t.is_some()))).collect()
        });
    }
    if let Some((_, gamma)) = windows.n_step {
        seen += check_returns(drawn, items, schema, gamma);
    }
    let number = |key: &str, value: &dyn Fn(&Item<'_>) -> i64| {
        let found = &drawn[key];
        assert_eq!((found.dtype, &*found.shape), (DType::I64, &[items.len()][..]), "{key}");
        let bytes: Vec<u8> = items.iter().flat_map(|item| value(item).to_ne_bytes()).collect();
        assert_eq!(found.bytes, bytes, "{key}");
    };
    number("index", &|item| RowIndex::new(item.lane, item.drawn.seq).0);
    number("age", &|item| item.drawn.age);
    assert_eq!(drawn.len(), seen + 2, "no key beyond those: {:?}", drawn.keys());
}

/// Compares the columns of an n-step return with sums over the model's transitions. Returns the
/// number of columns.
fn check_returns(drawn: &Drawn, items: &[&Item<'_>], schema: &Schema, gamma: f64) -> usize {
    let mut seen = 0;
    let reward = schema.columns().iter().position(|c| c.name() == "reward").unwrap();
    let dtype = schema.columns()[reward].dtype();
    let mut real = |key: &str, value: &dyn Fn(&Item<'_>) -> f64| {
        seen += 1;
        let found = &drawn[key];
        assert_eq!((found.dtype, &*found.shape), (dtype, &[items.len()][..]), "{key}");
        for (item, cell) in items.iter().zip(found.bytes.chunks(dtype.size())) {
            let (expected, got) = (number_of(&number_bytes(dtype, value(item))), number_of(cell));
            assert!(
                expected.total_cmp(&got).is_eq() || (expected.is_nan() && got.is_nan()),
                "{key} of row {}: {got}, not {expected}",
                item.drawn.seq
            );
        }
    };
    real("n_reward", &|item| {
        let rewards = item.returns.iter().map(|t| number_of(&t.cells[reward]));
        rewards.fold((0.0, 1.0), |(sum, weight), r| (sum + weight * r, weight * gamma)).0
    });
    real("n_discount", &|item| {
        let ended = item.returns.last().unwrap().terminated;
        let discount = item.returns.iter().fold(1.0, |discount, _| discount * gamma);
        if ended { 0.0 } else { discount }
    });
    for (c, user) in schema.columns().iter().enumerate() {
        if user.role() == Role::Obs {
            seen += 1;
            let found = &drawn[&format!("n_next_{}", user.name())];
            let rows = user.shape().iter().map(|axis| *axis as usize);
            let shape: Vec<usize> = [items.len()].into_iter().chain(rows).collect();
            assert_eq!((found.dtype, &found.shape), (user.dtype(), &shape));
            let after = items.iter().flat_map(|item| &item.returns.last().unwrap().next[c]);
            assert!(found.bytes.iter().eq(after), "n_next_{}", user.name());
        }
    }
    seen
}

/// Converts the bytes of a reward to a number.
fn number_of(bytes: &[u8]) -> f64 {
    match bytes.len() {
        4 => f32::from_ne_bytes(bytes.try_into().unwrap()).into(),
        _ => f64::from_ne_bytes(bytes.try_into().unwrap()),
    }
}

/// Rounds a number to a reward's type, and returns its bytes.
fn number_bytes(dtype: DType, value: f64) -> Vec<u8> {
    #[expect(clippy::cast_possible_truncation, reason = "rounding is what is asked for")]
    match dtype {
        DType::F32 => (value as f32).to_ne_bytes().to_vec(),
        _ => value.to_ne_bytes().to_vec(),
    }
}

/// Returns the content of a masked place if ends are repeated.
fn clamped<'a>(place: Place<'a>, clamps: bool, end: &'a [u8]) -> Place<'a> {
    match place {
        Place::Masked | Place::MaskedBeside(_) if clamps => Place::Cell(end),
        place => place,
    }
}

fn place(cell: Option<&Vec<u8>>) -> Place<'_> {
    cell.map_or(Place::Masked, |cell| Place::Cell(cell))
}

/// Returns the expected content of a place, which may show its neighbour's memory while it is
/// masked.
fn shared<'a>(cell: Option<&'a Vec<u8>>, neighbour: Option<&'a Vec<u8>>, may: bool) -> Place<'a> {
    match (cell, neighbour) {
        (None, Some(neighbour)) if may => Place::MaskedBeside(neighbour),
        _ => place(cell),
    }
}
