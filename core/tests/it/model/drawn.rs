//! A batch as plain bytes, read by typed accessors and from the caller's memory.

use std::collections::BTreeMap;

use backcast_core::{Axis, Batch, BatchPlan, DType, SampleError, Sampler, Schema};

/// One column of a batch: its places one after the other.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

/// The columns of a batch by key.
pub(crate) type Drawn = BTreeMap<String, Column>;

/// Reads a batch through its typed accessors.
pub(crate) fn typed(batch: &Batch, schema: &Schema) -> Drawn {
    macro_rules! column {
        ($key:expr, $dtype:expr, $($variant:ident => $ty:ty),+) => {
            match $dtype {
                DType::Bool => {
                    let array = batch.column::<bool>($key).unwrap();
                    let bytes = array.iter().map(|value| u8::from(*value)).collect();
                    Column { dtype: DType::Bool, shape: array.shape().to_vec(), bytes }
                }
                $(DType::$variant => {
                    let array = batch.column::<$ty>($key).unwrap();
                    let bytes = array.iter().flat_map(|value| value.to_ne_bytes()).collect();
                    Column { dtype: DType::$variant, shape: array.shape().to_vec(), bytes }
                })+
            }
        };
    }
    let take = |key: &str| {
        column!(key, dtype(key, schema), U8 => u8, U16 => u16, U32 => u32, U64 => u64, I8 => i8,
            I16 => i16, I32 => i32, I64 => i64, F16 => half::f16, F32 => f32, F64 => f64,
            BF16 => half::bf16)
    };
    batch.keys().map(|key| (key.to_owned(), take(key))).collect()
}

/// Returns the expected element type of a key.
fn dtype(key: &str, schema: &Schema) -> DType {
    let name = key.strip_prefix("future/").unwrap_or(key);
    let name = name.strip_prefix("n_").filter(|rest| rest.starts_with("next_")).unwrap_or(name);
    let name = name.strip_prefix("next_").unwrap_or(name);
    let name = if matches!(name, "n_reward" | "n_discount") { "reward" } else { name };
    match schema.column(name) {
        Some(column) => column.dtype(),
        None if matches!(name, "index" | "age") => DType::I64,
        None => DType::Bool,
    }
}

/// Gathers into arenas of arbitrary bytes, and extracts the columns by the plan.
pub(crate) fn gathered(sampler: &mut Sampler, index: &[i64]) -> Result<Drawn, SampleError> {
    let plan = sampler.plan(index.len())?;
    check_sharing(&plan);
    let mut arenas: Vec<Vec<u8>> =
        plan.arenas().iter().map(|arena| vec![0xA5; arena.bytes()]).collect();
    let mut slices: Vec<&mut [u8]> = arenas.iter_mut().map(Vec::as_mut_slice).collect();
    sampler.gather_into(index, &plan, &mut slices)?;
    let take = |view: &backcast_core::View| {
        let arena = &plan.arenas()[view.arena];
        let (batch, rest) = arena.shape().split_first().unwrap();
        let (places, kept, rest) = match view.axis {
            Axis::Whole => (0..1, vec![], rest),
            Axis::At(place) => (place..place + 1, vec![], &rest[1..]),
            Axis::Window { start, len } => (start..start + len, vec![len], &rest[1..]),
        };
        let width = rest.iter().product::<usize>() * arena.dtype().size();
        let item = arena.bytes() / batch;
        let mut bytes = Vec::new();
        for item in arenas[view.arena].chunks(item) {
            bytes.extend_from_slice(&item[places.start * width..places.end * width]);
        }
        let shape = [*batch].into_iter().chain(kept).chain(rest.iter().copied()).collect();
        (view.key.clone(), Column { dtype: arena.dtype(), shape, bytes })
    };
    Ok(plan.views().iter().map(take).collect())
}

/// Checks that a view is `shared` exactly if another one overlaps it.
fn check_sharing(plan: &BatchPlan) {
    let places = |view: &backcast_core::View| match view.axis {
        Axis::Whole => 0..usize::MAX,
        Axis::At(place) => place..place + 1,
        Axis::Window { start, len } => start..start + len,
    };
    for (i, view) in plan.views().iter().enumerate() {
        let mine = places(view);
        let overlaps = plan.views().iter().enumerate().any(|(j, other)| {
            let theirs = places(other);
            let apart = theirs.end <= mine.start || mine.end <= theirs.start;
            i != j && view.arena == other.arena && !apart
        });
        assert_eq!(view.shared, overlaps, "`{}` of {:?}", view.key, plan.views());
    }
}
