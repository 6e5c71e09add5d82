//! Takes the steps of programs by calls of the Rust API.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::Duration;

use backcast_core::{
    Base, Block, Ends, LearnedOptions, LearnedValues, Lease, ObsBytes, Ring, RowIndex, Sampler,
    SamplerOptions, Step, Writer, WriterOptions,
};
use backcast_persist::{LoadOptions, SaveOptions, Store};
use serde_json::{Map, Value, json};

use super::arrays::{bytes, hex, of_batch, of_flags, of_lease, of_rows};
use super::errors::Failure;
use super::options::{self, flags, indices, is_set, list, number, small, text};

/// Timeout of every call: none waits.
const NOT_AT_ALL: Duration = Duration::ZERO;

/// Objects of a program, by the names that its steps have for them.
#[derive(Default)]
pub(super) struct Actor {
    base: Option<Base>,
    store: Option<Store>,
    rings: HashMap<String, Ring>,
    writers: HashMap<String, Writer>,
    samplers: HashMap<String, Sampler>,
    leases: HashMap<String, Lease>,
    learned: HashMap<String, LearnedValues>,
}

impl Actor {
    /// Takes a step. Returns what its call returned.
    pub(super) fn take(&mut self, step: &Value) -> Result<Value, Failure> {
        match text(step, "do") {
            "begin" => {
                let place = text(step, "place");
                let (base, store) = (Base::at(place), Store::at(format!("{place}/store")));
                *self = Self { base: Some(base), store: Some(store), ..Self::default() };
                Ok(json!({}))
            }
            "create" => self.create(step),
            "open" | "load" => self.load(step),
            "writer" => self.writer(step),
            "append" | "extend" => self.append(step),
            "reserve" => self.reserve(step),
            "restart" => {
                let writer = self.writers.get_mut(text(step, "w")).expect("a writer");
                let all = vec![true; writer.lanes().len()];
                let chosen = if step["lanes"].is_null() { all } else { flags(&step["lanes"]) };
                Ok(writer.restart(&chosen).map(|()| json!({}))?)
            }
            "close_writer" => {
                let mut writer = self.writers.remove(text(step, "w")).expect("a writer");
                let (written, dropped) = (writer.rows_written(), writer.rows_dropped());
                let mut counts = json!({"rows_written": written, "rows_dropped": dropped});
                if let Err(error) = writer.finish() {
                    let Failure { class, message } = error.into();
                    counts["error"] = class.into();
                    counts["message"] = message.into();
                }
                Ok(counts)
            }
            "sampler" => self.sampler(step),
            "sample" | "block" | "news" | "gather_by" | "update" | "close_sampler" => {
                self.sample(step)
            }
            "close_lease" => {
                let lease = self.leases.remove(text(step, "l")).expect("a lease");
                Ok(json!({"rows": of_lease(&lease)}))
            }
            "set_values" | "get_values" => self.values(step),
            "state" => Ok(json!({"state": step["s"]})),
            _ => self.take_on_ring(step),
        }
    }

    fn opened(&mut self, step: &Value, ring: Ring) -> Value {
        let (capacity, lanes, slots) = (ring.lane_capacity(), ring.lanes(), ring.slots());
        self.rings.insert(text(step, "ring").to_owned(), ring);
        json!({"lane_capacity": capacity, "lanes": lanes, "slots": slots})
    }

    fn create(&mut self, step: &Value) -> Result<Value, Failure> {
        let schema = options::schema(&step["columns"]);
        let options = options::ring(step, self.base.as_ref().expect("begun"));
        let made = if is_set(step, "private") {
            Ring::heap(&schema, options)?
        } else {
            Ring::create(text(step, "ring"), &schema, options)?
        };
        Ok(self.opened(step, made))
    }

    fn load(&mut self, step: &Value) -> Result<Value, Failure> {
        let (store, base) = (self.store.as_ref().expect("begun"), self.base.clone());
        let spec = format!("{}@{}", text(step, "from"), text(step, "label"));
        let options = LoadOptions::default().base(base.expect("begun"));
        let made = if step["do"] == "open" {
            store.attach_snapshot(&spec, options)?
        } else {
            store.load(&spec, options.name(text(step, "ring")))?
        };
        Ok(self.opened(step, made))
    }

    /// Takes a step of a ring.
    fn take_on_ring(&mut self, step: &Value) -> Result<Value, Failure> {
        let ring = self.rings.get(text(step, "ring")).expect("a ring");
        let lane = small(&step["lane"]);
        let rows = || number(step, "start")..number(step, "start") + number(step, "length");
        Ok(match text(step, "do") {
            "clear" => json!({"dropped": ring.clear()?}),
            "drop_episode" => {
                let episode = step["episode"].as_u64();
                json!({"dropped": ring.drop_episode(lane, episode, is_set(step, "older"))?})
            }
            "resize" => {
                let watch = &mut |_| ControlFlow::Continue(());
                let done = ring.resize(number(step, "capacity"), Some(NOT_AT_ALL), watch)?;
                json!({"lanes_waiting": done.lanes_waiting, "lane_capacity": done.lane_capacity})
            }
            "limiter" => {
                let limiter = ring.limiter().expect("a limiter");
                match text(step, "op") {
                    "set" => limiter.set(options::limits(&step["limits"]))?,
                    "reset" => limiter.reset_counts()?,
                    "ceiling" => limiter.set_ceiling(step["inserts"].as_u64())?,
                    op => limiter.set_enabled(op == "enable")?,
                }
                json!({})
            }
            "wait" => json!({"have": match step["rows"].as_u64() {
                Some(rows) => ring.wait_for_rows(rows, Some(NOT_AT_ALL))?,
                None => ring.wait_for(number(step, "min_size"), Some(NOT_AT_ALL))?,
            }}),
            "order" => {
                let order = ring.transition_order();
                let index: Vec<_> = (0..order.len()).filter_map(|at| order.index_at(at)).collect();
                let place = |(at, index): (usize, &RowIndex)| {
                    assert_eq!(order.position_of(*index), Some(at as u64));
                    index.0
                };
                let index: Vec<i64> = index.iter().enumerate().map(place).collect();
                json!({"index": index, "positions": order.len()})
            }
            "rows" => json!({"rows": of_rows(&ring.rows(lane, rows())?)}),
            "lease" => {
                let lease = ring.lease(lane, rows())?;
                let seen = json!({"rows": of_lease(&lease)});
                self.leases.insert(text(step, "l").to_owned(), lease);
                seen
            }
            "look" => look(ring, is_set(step, "brief")),
            "snapshot" => {
                let options = SaveOptions::default().replace(is_set(step, "replace"));
                let store = self.store.as_ref().expect("begun");
                let done = store.save(ring, text(step, "label"), options)?;
                assert!(done.left_out.is_empty(), "{:?}", done.left_out);
                json!({"rows": done.rows, "rows_lapped": done.rows_lapped, "left_out": {}})
            }
            "gather" => {
                let options = options::sampler(ring, &step["options"], 0)?;
                gather(&mut ring.idle_sampler(options)?, step)?
            }
            "shares" => shares(ring, step)?,
            "from_state" => {
                let state = self.samplers[text(step, "state")].state();
                let mut twin = ring.sampler(state)?;
                json!({"batch": draw(&mut twin, step)?})
            }
            "table" => {
                let made = match step["columns"].as_array() {
                    Some(columns) => columns.iter().fold(
                        LearnedOptions::new(text(step, "name")),
                        |options, column| {
                            let dtype = text(&step["dtypes"], column.as_str().unwrap_or_default());
                            let dtype = dtype.parse().expect("a dtype");
                            options.column(column.as_str().unwrap_or_default(), dtype)
                        },
                    ),
                    None => ring.learned_options(text(step, "name"))?,
                };
                let table = ring.learned(&made)?;
                let columns = table.columns().iter();
                let columns: Map<String, Value> =
                    columns.map(|of| (of.name.clone(), of.dtype.code().into())).collect();
                self.learned.insert(text(step, "t").to_owned(), table);
                json!({"columns": columns})
            }
            "remove_table" => {
                ring.remove_table(text(step, "table"), NOT_AT_ALL, false)?;
                json!({})
            }
            step => panic!("the step {step} is unknown"),
        })
    }

    fn writer(&mut self, step: &Value) -> Result<Value, Failure> {
        let ring = self.rings.get(text(step, "ring")).expect("a ring");
        let options = WriterOptions::lanes(small(&step["lanes"])).timeout(NOT_AT_ALL);
        let options = match step["mode"].as_str() {
            Some(mode) => options.autoreset(mode.parse().expect("a mode")),
            None => options,
        };
        let made = ring.writer(options)?;
        let (numbers, reset) = (made.lanes().to_vec(), made.autoreset_mode().as_str());
        self.writers.insert(text(step, "w").to_owned(), made);
        Ok(json!({"lanes": numbers, "mode": reset}))
    }

    /// Appends the steps of each call.
    fn append(&mut self, step: &Value) -> Result<Value, Failure> {
        let writer = self.writers.get_mut(text(step, "w")).expect("a writer");
        let schema = writer.schema().clone();
        let mut index: Vec<i64> = Vec::new();
        for call in list(&step["calls"]) {
            let columns = |key: &str| -> Option<Vec<Vec<u8>>> {
                Some(call[key].as_array()?.iter().map(bytes).collect())
            };
            let [all, next, last] = ["columns", "next", "final"].map(columns);
            let [all, next, last] = [&all, &next, &last].map(|of| of.as_deref().map(slices));
            let (terminated, truncated) = (flags(&call["terminated"]), flags(&call["truncated"]));
            let given = Step {
                schema: &schema,
                columns: all.as_deref().unwrap_or_default(),
                terminated: &terminated,
                truncated: &truncated,
                next_obs: next.as_deref(),
                final_obs: last.as_deref(),
            };
            let rows = if step["do"] == "extend" && step["how"] != "append" {
                writer.extend(given)?
            } else {
                writer.append(given)?
            };
            index.extend(rows.iter().map(|index| index.0));
        }
        Ok(json!({"index": index}))
    }

    /// Writes a row in place.
    fn reserve(&mut self, step: &Value) -> Result<Value, Failure> {
        let writer = self.writers.get_mut(text(step, "w")).expect("a writer");
        let (schema, call) = (writer.schema().clone(), &step["calls"][0]);
        let mut row = writer.reserve()?;
        for (at, column) in schema.columns().iter().enumerate() {
            if step["how"] != "partly" || column.name() != "reward" {
                row.write_bytes(at, &bytes(&call["columns"][at]))?;
            }
        }
        if ["abort", "raise"].contains(&text(step, "how")) {
            row.abort();
            return Ok(json!({}));
        }
        let obs = |key: &str| -> Option<Vec<Vec<u8>>> {
            Some(call[key].as_array()?.iter().map(bytes).collect())
        };
        let [next, last] = ["next", "final"].map(obs);
        let [next, last] = [&next, &last].map(|of| of.as_deref().map(slices));
        let [next_obs, final_obs] = [&next, &last]
            .map(|of| of.as_ref().map(|columns| ObsBytes { schema: &schema, columns }));
        let flag = |key: &str| flags(&call[key]).first().copied().unwrap_or_default();
        let (terminated, truncated) = (flag("terminated"), flag("truncated"));
        let index = row.commit_with(&Ends { terminated, truncated, next_obs, final_obs })?;
        Ok(json!({"index": [index.0]}))
    }

    fn sampler(&mut self, step: &Value) -> Result<Value, Failure> {
        let ring = self.rings.get(text(step, "ring")).expect("a ring");
        let options = options::sampler(ring, &step["options"], number(step, "seed"))?;
        let table = step["options"]["select"]["table"].clone();
        let mut made = ring.sampler(options)?;
        made.set_timeout(Some(NOT_AT_ALL));
        self.samplers.insert(text(step, "s").to_owned(), made);
        let tables = ring.stats().tables;
        let rows = tables.iter().find(|of| table == of.name.as_str()).map(|of| of.lane_leaves);
        Ok(json!({"lane_rows": rows}))
    }

    /// Takes a step of a sampler.
    fn sample(&mut self, step: &Value) -> Result<Value, Failure> {
        if step["do"] == "close_sampler" {
            self.samplers.remove(text(step, "s"));
            return Ok(json!({}));
        }
        let sampler = self.samplers.get_mut(text(step, "s")).expect("a sampler");
        Ok(match text(step, "do") {
            "gather_by" => gather(sampler, step)?,
            "block" => block(sampler, step)?,
            "update" => {
                let given: Vec<f64> =
                    list(&step["priority"]).iter().filter_map(Value::as_f64).collect();
                json!({"dropped": sampler.update_priorities(&indices(&step["index"]), &given)?})
            }
            _ => {
                let batch = draw(sampler, step)?;
                json!({"batches": [batch], "sampled": sampler.sampled()})
            }
        })
    }

    /// Sets or returns learned values.
    fn values(&self, step: &Value) -> Result<Value, Failure> {
        let table = self.learned.get(text(step, "t")).expect("a table");
        let index = indices(&step["index"]);
        if let Some(values) = step["values"].as_object() {
            let values: Vec<(&str, Vec<u8>)> =
                values.iter().map(|(name, of)| (name.as_str(), bytes(of))).collect();
            let values: Vec<(&str, &[u8])> =
                values.iter().map(|(name, of)| (*name, of.as_slice())).collect();
            return Ok(json!({"dropped": table.update_bytes(&index, &values)?}));
        }
        let mut found = json!({"index": ["i8", [index.len()], hex(bytemuck::cast_slice(&index))]});
        for column in table.columns() {
            let (values, are_set) = table.value_bytes(&column.name, &index)?;
            found[&column.name] = json!([column.dtype.code(), [index.len()], hex(&values)]);
            found[format!("{}_set", column.name)] = of_flags(&are_set);
        }
        Ok(json!({"values": found}))
    }
}

fn slices(columns: &[Vec<u8>]) -> Vec<&[u8]> {
    columns.iter().map(Vec::as_slice).collect()
}

fn draw(sampler: &mut Sampler, step: &Value) -> Result<Map<String, Value>, Failure> {
    sampler.set_timeout(Some(NOT_AT_ALL));
    let size = |key: &str| step[key].as_u64().map(|size| usize::try_from(size).expect("small"));
    Ok(of_batch(&match size("batch") {
        Some(items) => sampler.sample(items)?,
        None => sampler.sample_new(size("at_most"))?,
    }))
}

fn block(sampler: &mut Sampler, step: &Value) -> Result<Value, Failure> {
    sampler.set_timeout(Some(NOT_AT_ALL));
    let found = sampler.block(small(&step["batch"]) as usize)?;
    let rejected = found.rejected();
    let Block { batch, count, mass, q, q_min, q_new, inserts, .. } = found;
    Ok(json!({
        "batch": of_batch(&batch), "q": ["f8", [q.len()], hex(bytemuck::cast_slice(&q))],
        "count": count, "mass": mass, "q_min": q_min, "q_new": q_new, "inserts": inserts,
        "rejected": rejected, "sampled": sampler.sampled(),
    }))
}

fn gather(sampler: &mut Sampler, step: &Value) -> Result<Value, Failure> {
    let index = indices(&step["index"]);
    if step["missing"] != "mask" {
        return Ok(json!({"batch": of_batch(&sampler.gather(&index)?)}));
    }
    let (batch, found) = sampler.gather_present(&index)?;
    let mut batch = of_batch(&batch);
    batch.insert("found".to_owned(), of_flags(&found));
    Ok(json!({"batch": batch}))
}

/// Draws the batches of one seed by one sampler, and by several that share them.
fn shares(ring: &Ring, step: &Value) -> Result<Value, Failure> {
    let options = options::sampler(ring, &step["options"], number(step, "seed"))?;
    let (count, world) = (number(step, "count"), small(&step["world"]));
    let draws = |options: SamplerOptions, count: u64| -> Result<Vec<_>, Failure> {
        let mut sampler = ring.sampler(options)?;
        (0..count).map(|_| draw(&mut sampler, step)).collect()
    };
    let mut shared = vec![json!(null); usize::try_from(count).expect("few") * world as usize];
    for rank in 0..world {
        let parts = draws(options.clone().rank(rank, world), count)?;
        for (at, part) in parts.into_iter().enumerate() {
            shared[at * world as usize + rank as usize] = part.into();
        }
    }
    let alone = draws(options, count * u64::from(world))?;
    Ok(json!({"alone": alone, "shared": shared}))
}

/// Returns what a ring shows of itself, with its rows and statistics unless it is to be brief.
fn look(ring: &Ring, brief: bool) -> Value {
    let spans: Vec<_> = (0..ring.lanes()).filter_map(|lane| ring.lane_span(lane)).collect();
    let ends: Vec<_> = spans.iter().map(|span| [span.start, span.end]).collect();
    let seen = json!({"len": ring.len(), "spans": ends, "grown": ring.lane_capacity()});
    if brief {
        return seen;
    }
    let rows = (0..).zip(&spans).map(|(lane, span)| {
        of_rows(&ring.rows(lane, span.clone()).expect("no writer overwrites them"))
    });
    let (rows, stats) = (rows.collect::<Vec<_>>(), ring.stats());
    let lanes = stats.lane_stats.iter().map(|lane| {
        json!({
            "lane": lane.lane, "head": lane.head, "rows": lane.rows, "held": lane.held,
            "transitions": lane.transitions, "episodes": lane.episodes,
            "first_kept": lane.first_kept, "dropped": lane.dropped,
            "cuts": lane.cuts, "suspect_resets": lane.suspect_resets,
        })
    });
    let limiter = stats.limiter.as_ref().map(|limiter| {
        let counts = limiter.counts;
        json!({"inserts": counts.inserts, "samples": counts.samples, "deletes": counts.deletes})
    });
    let names = |names: Vec<&String>| -> Vec<Value> {
        names.into_iter().map(|name| json!({"name": name})).collect()
    };
    let mut seen = seen;
    seen["rows"] = rows.into();
    seen["stats"] = json!({
        "transitions": stats.transitions,
        "lane_capacity": stats.lane_capacity,
        "lane_stats": lanes.collect::<Vec<_>>(),
        "limiter": limiter,
        "tables": names(stats.tables.iter().map(|table| &table.name).collect()),
        "claims": names(stats.claim_tables.iter().map(|of| &of.table.name).collect()),
        "learned": names(stats.learned_tables.iter().map(|table| &table.name).collect()),
    });
    seen
}
