//! Rings of random schemas, written and saved in random turns: loaded rings equal the saved ones.

use std::ops::ControlFlow;

use backcast_core::{DType, Exist, Role, Schema};
use backcast_persist::{LoadOptions, SaveOptions};
use proptest::prelude::*;

use crate::rings::{Place, append, content, heap, writer};

#[derive(Clone, Debug)]
enum Turn {
    Append(u64),
    Save,
    Replace(usize),
    Remove(usize),
    /// The writer ends; the next one begins with a gap.
    Successor,
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        4 => (1..90_u64).prop_map(Turn::Append),
        3 => Just(Turn::Save),
        1 => any::<usize>().prop_map(Turn::Replace),
        1 => any::<usize>().prop_map(Turn::Remove),
        1 => Just(Turn::Successor),
    ]
}

fn schema() -> impl Strategy<Value = Schema> {
    let column = (0..DType::ALL.len(), prop::collection::vec(1..4_u32, 0..3), any::<bool>());
    prop::collection::vec(column, 1..5).prop_map(|columns| {
        let named = columns.into_iter().enumerate();
        named
            .fold(Schema::builder(), |schema, (at, (dtype, shape, obs))| {
                let role = if obs { Role::Obs } else { Role::Step };
                schema.column_as(&format!("c{at}"), DType::ALL[dtype], &shape, role)
            })
            .build()
            .expect("a good schema")
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: backcast_budget::cases(48),
        ..ProptestConfig::default()
    })]

    /// The model is the specification: the rows at the moment of each save.
    #[test]
    fn loaded_rings_equal_the_saved_ones(
        schema in schema(),
        lanes in 1..4_u32,
        capacity in 3..80_u64,
        sizes in (100..3_000_u64, 500..9_000_u64),
        turns in prop::collection::vec(turn(), 1..25),
    ) {
        let place = Place::new();
        let (store, ring) = (place.store(), heap(&schema, lanes, capacity * u64::from(lanes)));
        let mut model = Vec::new();
        let mut pen = writer(&ring);
        for (seed, turn) in (1..).zip(turns) {
            let options = || SaveOptions::default().name("pong").sizes(sizes.0, sizes.1);
            match turn {
                Turn::Append(steps) => append(&mut pen, &schema, lanes, steps, seed),
                Turn::Save => {
                    let label = format!("s{seed}");
                    let report = store.save(&ring, &label, options()).unwrap();
                    prop_assert_eq!(report.rows_lapped, 0);
                    model.push((label, content(&ring)));
                }
                Turn::Replace(which) if !model.is_empty() => {
                    let (label, _) = model.remove(which % model.len());
                    store.save(&ring, &label, options().replace(true)).unwrap();
                    model.push((label, content(&ring)));
                }
                Turn::Remove(which) if !model.is_empty() => {
                    let (label, _) = model.remove(which % model.len());
                    store.remove(&format!("pong@{label}")).unwrap();
                }
                Turn::Replace(_) | Turn::Remove(_) => {}
                Turn::Successor => {
                    drop(pen);
                    pen = writer(&ring);
                }
            }
        }
        let listed = store.snapshots("pong").unwrap();
        let labels: Vec<_> = listed.snapshots.iter().map(|s| s.label.clone()).collect();
        prop_assert_eq!(labels, model.iter().map(|(label, _)| label.clone()).collect::<Vec<_>>());
        for (label, is) in &model {
            let options = LoadOptions::default().name("loaded").exist(Exist::Replace);
            let spec = format!("pong@{label}");
            let loaded = store.load(&spec, options.base(place.base()).huge_pages(false)).unwrap();
            prop_assert_eq!(&content(&loaded), is);
            prop_assert_eq!(loaded.schema(), &schema);
        }
        if !model.is_empty() {
            let verified = store.verify("pong", |_| ControlFlow::Continue(())).unwrap();
            prop_assert!(verified.is_whole(), "{:?}", verified.damages);
        }
    }
}
