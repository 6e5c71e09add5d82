//! Compares the output of `--json` with docs/schemas, command by command and key by key.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::thread;

use crate::shelf::{Holder, Shelf, commands, schema};
use backcast_budget::{BoundedChild, Lines, WATCHDOG, until};
use backcast_core::{
    DType, InitialPriority, LearnedOptions, Params, ParamsArray, ParamsOptions, PriorityOptions,
    RateLimiter, Ring, RingOptions, SamplerOptions, Selector, StepColumns, TableOptions,
    WriterOptions,
};
use backcast_persist::Store;
use jsonschema::Validator;
use serde_json::{Value, json};

/// Commands without JSON output, which refuse the option.
const WITHOUT: [&str; 3] = ["demo", "ui", "completions"];
/// Commands whose subcommands have results of their own.
const ABOVE: [&str; 2] = ["panel", "sim"];

fn promised(command: &str) -> Value {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../docs/schemas"].iter().collect();
    let path = path.join(format!("{command}.json"));
    let text = fs::read_to_string(&path).unwrap_or_else(|_| panic!("no {}", path.display()));
    serde_json::from_str(&text).unwrap()
}

/// Checks that every line fits the schema, and would not with a key more or less.
#[track_caller]
fn holds(command: &str, lines: &[Value]) {
    assert!(!lines.is_empty(), "{command} printed nothing");
    let schema = promised(command);
    let validator: Validator = jsonschema::validator_for(&schema).expect("a schema");
    for line in lines {
        let errors: Vec<String> = validator
            .iter_errors(line)
            .map(|e| format!("{} at {}", e, e.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{command}: {errors:?}\n{line:#}");
        let object = line.as_object().expect("an object");
        for key in object.keys() {
            let mut less = object.clone();
            less.remove(key);
            assert!(!validator.is_valid(&less.into()), "{command}: `{key}` is not required");
        }
        let mut more = object.clone();
        more.insert("surprise".to_owned(), Value::Null);
        assert!(!validator.is_valid(&more.into()), "{command}: other keys are allowed");
    }
}

#[test]
fn every_command_has_a_schema_or_refuses_json() {
    let shelf = Shelf::new();
    for command in commands(&shelf) {
        if ABOVE.contains(&command.as_str()) {
            continue;
        }
        if WITHOUT.contains(&command.as_str()) {
            shelf.run(&["--json", &command]).expect(2);
            continue;
        }
        let schema = promised(&command);
        assert_eq!(schema["title"], format!("backcast --json {command}"));
        assert!(jsonschema::meta::is_valid(&schema), "{command}");
    }
}

#[test]
fn messages_are_as_promised() {
    let shelf = Shelf::new();
    let tiny = "create tiny --column x:u1 --capacity 8 --lanes 4";
    for (line, level) in
        [("gc", "note"), (tiny, "warning"), ("stat zebra", "error"), ("lss", "error")]
    {
        let args: Vec<&str> = ["--json"].into_iter().chain(line.split(' ')).collect();
        let said = shelf.run(&args).err;
        let said: Vec<Value> =
            said.lines().map(|line| serde_json::from_str(line).expect("a JSON line")).collect();
        holds("message", &said);
        assert_eq!(said[0]["level"], level, "{line}");
        assert_eq!(said[0]["exit_status"].is_null(), level != "error", "{line}");
    }
}

/// Priorities, and draws from tables of claims, as a process without a sampler sees them.
#[test]
fn tables_are_counted_from_outside_as_promised() {
    let shelf = Shelf::new();
    let options = RingOptions::with_capacity(100).base(shelf.base());
    let ring = Ring::create("pong", &schema(), options).unwrap();
    let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
    for _ in 0..41 {
        let (obs, action) = ([0.5_f32; 6], [1_i32]);
        let columns = StepColumns::of(ring.schema()).with("obs", &obs).unwrap();
        let columns = columns.with("action", &action).unwrap();
        writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
    }
    let by_priority = PriorityOptions::alpha(1.0).eps(0.0).initial(InitialPriority::Held);
    ring.priorities(&by_priority).unwrap().update(&[3, 7], &[4.0, 4.0]).unwrap();
    let queue = Selector::Table(TableOptions::consume("queue").max_times_sampled(2));
    let mut sampler = ring.sampler(SamplerOptions::seeded(1).selector(queue)).unwrap();
    sampler.sample(40).unwrap();
    sampler.sample(5).unwrap();
    drop(sampler);
    let learned = LearnedOptions::new("online").column("value", DType::F32);
    let learned = ring.learned(&learned.column("visits", DType::U16)).unwrap();
    learned.update("value", &[3, 7, 9], &[1.0_f32, 2.0, 3.0]).unwrap();
    let said = shelf.json(&["stat", "pong"]);
    holds("stat", &said);
    // 38 rows of priority 1 and 2 of priority 4: the square of the sum 46, divided by the sum of
    // squares 70.
    let priorities = json!({"rows": 40, "effective_rows": 46.0 * 46.0 / 70.0, "histogram": [
        {"from": 1.0, "rows": 38}, {"from": 2.0, "rows": 0}, {"from": 4.0, "rows": 2},
    ]});
    let times = json!([{"times": 1, "rows": 35}, {"times": 2, "rows": 5}]);
    assert_eq!(said[0]["tables"][0]["priorities"], priorities, "{said:?}");
    let settings = ["initial", "stride"].map(|key| said[0]["tables"][0][key].clone());
    assert_eq!(settings, [json!("held"), json!(1)], "{said:?}");
    assert_eq!(said[0]["claims"][0]["times_sampled"], times, "{said:?}");
    let text = shelf.run(&["stat", "pong"]).expect(0).out;
    for words in ["INITIAL", "held", "EFFECTIVE", "30.2", "TIMES SAMPLED", "1: 35, 2: 5"] {
        assert!(text.contains(words), "no {words}: {text}");
    }
    let mut values = said[0]["learned"][0].clone();
    assert_eq!(values.as_object_mut().unwrap().remove("name"), Some("online".into()), "{said:?}");
    assert_eq!((&values["updated_values"], &values["stale_values"]), (&3.into(), &0.into()));
    let columns = json!([{"name": "value", "dtype": "f4"}, {"name": "visits", "dtype": "u2"}]);
    assert_eq!(values["columns"], columns);
    let top = shelf.json(&["top", "--once", "--interval", "0.05"]);
    holds("top", &top);
    let tables = json!([
        {"name": "priority", "priorities": priorities, "times_sampled": null, "learned": null},
        {"name": "queue", "priorities": null, "times_sampled": times, "learned": null},
        {"name": "online", "priorities": null, "times_sampled": null, "learned": values},
    ]);
    assert_eq!(top[0]["rings"][0]["tables"], tables, "{top:?}");
    let text = shelf.run(&["top", "--once", "--interval", "0.05"]).expect(0).out;
    assert!(text.contains("table priority of pong: 40 rows with a priority, 30.2"), "{text}");
    assert!(text.contains("table queue of pong: transitions by times sampled 1: 35"), "{text}");
    assert!(text.contains("table online of pong: 3 values set, 0 dropped, "), "{text}");
    assert!(text.contains(", columns value f4, visits u2\n"), "{text}");
    // A table with a damaged header is left out, and the rest is shown.
    let path = ring.path().unwrap().join("table-queue.dat");
    let file = fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(&[0xff; 8], 60).unwrap();
    let said = shelf.json(&["stat", "pong"]);
    holds("stat", &said);
    assert_eq!(said[0]["claims"], json!([]), "{said:?}");
    assert_eq!(said[0]["tables"][0]["priorities"], priorities, "{said:?}");
}

#[test]
fn rate_limiters_and_those_they_hold_back_are_as_promised() {
    let shelf = Shelf::new();
    let limits = RateLimiter::ratio(8.0, 10, 40.0);
    for (name, limits) in
        [("ratio", limits), ("queue", RateLimiter::queue(1)), ("size", RateLimiter::min_size(3))]
    {
        let options = RingOptions::with_capacity(100).limiter(limits).persistent(true);
        Ring::create(name, &schema(), options.base(shelf.base())).unwrap();
    }
    let ring = Ring::attach_in(&shelf.base(), "queue").unwrap();
    let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
    // Ends the wait if the test fails.
    writer.set_timeout(Some(WATCHDOG));
    let mut sampler = ring.sampler(SamplerOptions::seeded(1)).unwrap();
    let waiting = || ring.stats().limiter.unwrap().waiters.len();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..3 {
                let (obs, action) = ([0.5_f32; 6], [1_i32]);
                let columns = StepColumns::of(ring.schema()).with("obs", &obs).unwrap();
                let columns = columns.with("action", &action).unwrap();
                writer.append(&columns.step(&[false], &[false]).unwrap()).unwrap();
            }
        });
        until("an append waits", || waiting() > 0);
        let said = shelf.json(&["stat", "queue"]);
        holds("stat", &said);
        let limiter = &said[0]["limiter"];
        assert_eq!(limiter["writers"]["waiting"], 1, "{limiter}");
        assert_eq!(limiter["waiters"][0]["needed"], 1, "{limiter}");
        assert_eq!(limiter["waiters"][0]["pid"], std::process::id(), "{limiter}");
        let text = shelf.run(&["stat", "queue"]).expect(0).out;
        for words in ["error band 0 to 1", "may insert 0, draw 1", "writer of lane 0"] {
            assert!(text.contains(words), "{text}");
        }
        let top = shelf.json(&["top", "--once", "--interval", "0.05"]);
        holds("top", &top);
        let row = top[0]["rings"].as_array().unwrap().iter().find(|row| row["name"] == "queue");
        assert_eq!(row.unwrap()["limited_writers"], 1, "{top:?}");
        let text = shelf.run(&["top", "--once", "--interval", "0.05"]).expect(0).out;
        assert!(text.contains("append"), "{text}");
        sampler.sample(1).unwrap();
    });
    holds("limiter", &shelf.json(&["limiter", "ratio"]));
    holds("clear", &shelf.json(&["clear", "queue"]));
    let off = shelf.json(&["limiter", "ratio", "--queue", "5", "--off"]);
    holds("limiter", &off);
    assert_eq!((&off[0]["action"], &off[0]["enabled"]), (&json!("changed"), &json!(false)));
    let back = "limiter ratio --samples-per-insert 8 --min-size 10 --error-buffer 40 --on";
    holds("limiter", &shelf.json(&back.split(' ').collect::<Vec<_>>()));
    let ratio = Ring::attach_in(&shelf.base(), "ratio").unwrap();
    assert_eq!(ratio.limiter().unwrap().limits().unwrap(), limits);
    for name in ["ratio", "size"] {
        let said = shelf.json(&["stat", name]);
        holds("stat", &said);
        assert_eq!(said[0]["limiter"]["max_diff"].is_null(), name == "size", "{said:?}");
    }
}

#[test]
fn parameters_are_as_promised() {
    let shelf = Shelf::new();
    let like = vec![ParamsArray::new("w", DType::F32, &[2, 3]).unwrap()];
    let options = ParamsOptions::default().base(shelf.base());
    let mut params = Params::create("policy", like, options).unwrap();
    holds("stat", &shelf.json(&["stat", "policy"]));
    params.publish_bytes(&[&[7; 24]], Some(40)).unwrap();
    let said = shelf.json(&["stat", "policy"]);
    holds("stat", &said);
    assert_eq!(
        (&said[0]["version"], &said[0]["array_bytes"]),
        (&json!(40), &json!(24)),
        "{said:?}"
    );
    assert_eq!(said[0]["publisher_pid"], std::process::id(), "{said:?}");
    assert_eq!(said[0]["holder_pids"], json!([std::process::id()]), "{said:?}");
    let listed = shelf.json(&["ls"]);
    holds("ls", &listed);
    assert_eq!((&listed[0]["kind"], &listed[0]["version"]), (&json!("params"), &json!(40)));
    let text = shelf.run(&["stat", "policy"]).expect(0).out;
    assert!(text.contains("40"), "{text}");
    let top = shelf.json(&["top", "--once", "--interval", "0.05"]);
    holds("top", &top);
    assert_eq!((&top[0]["params"][0]["version"], &top[0]["rings"]), (&json!(40), &json!([])));
    let text = shelf.run(&["top", "--once", "--interval", "0.05"]).expect(0).out;
    assert!(text.contains("params policy: held, version 40, age"), "{text}");
    let refused = shelf.run(&["rm", "policy"]).expect(1).err;
    assert!(refused.contains("policy"), "{refused}");
    drop(params);
    assert_eq!(shelf.json(&["ls"]), [] as [Value; 0], "the last holder removes them");
}

#[test]
fn a_fleet_is_as_promised() {
    let shelf = Shelf::new();
    let ring = Ring::create("reports", &schema(), shelf.options()).unwrap();
    let report = json!({
        "buffer": null, "n": 2, "running": 1, "restarts": 3, "rows_per_s": null, "updates": 5,
        "updates_per_s": 0.5, "samples_per_insert": 8.0, "policy_version": 9,
        "policy_age_versions": 1.5, "policy_age_s": 0.2, "episodes": 40, "return_mean": -7.5,
        "updated_unix_ns": 1
    });
    fs::write(ring.path().unwrap().join("fleet.json"), report.to_string()).unwrap();
    let top = shelf.json(&["top", "--once", "--interval", "0.05"]);
    holds("top", &top);
    assert_eq!(
        (&top[0]["fleets"][0]["name"], &top[0]["fleets"][0]["restarts"]),
        (&json!("reports"), &json!(3))
    );
    let text = shelf.run(&["top", "--once", "--interval", "0.05"]).expect(0).out;
    assert!(text.contains("1 of 2 running, 3 restarts, return -7.5 in 40 episodes"), "{text}");
    drop(ring);
    assert_eq!(shelf.json(&["ls"]), [] as [Value; 0], "its file goes with the ring");
}

#[test]
fn idle_objects_are_as_promised() {
    let shelf = Shelf::stocked();
    let create = "create made --column obs:u1:84x84 --column a:i4 --capacity 4_000 --lanes 3";
    holds("create", &shelf.json(&create.split_whitespace().collect::<Vec<_>>()));
    holds("ls", &shelf.json(&["ls"]));
    holds("stat", &shelf.json(&["stat", "pong"]));
    holds("stat", &shelf.json(&["stat", "prices"]));
    holds("top", &shelf.json(&["top", "--once", "--interval", "0.05"]));
    holds("panel-stat", &shelf.json(&["panel", "stat", "prices"]));
    let file = shelf.file("prices.csv", crate::shelf::PRICES);
    holds("panel-stat", &shelf.json(&["panel", "stat", &file]));
    holds("doctor", &shelf.json(&["doctor"]));
    holds("bench", &shelf.json(&["bench", "--seconds", "0.02", "--row-bytes", "64"]));
    let into = shelf.path().to_str().unwrap();
    holds("sim-facts", &shelf.json(&["sim", "facts", "--short", "--seeds", "1"]));
    holds("sim-watch", &shelf.json(&["sim", "watch", "--frames", "2", "--symbols", "2"]));
    let messages = shelf.file("messages.csv", "1,1,7,100,1000000,1\n2.5,4,7,40,1000000,1\n");
    holds("sim-replay", &shelf.json(&["sim", "replay", &messages]));
    let small = ["--ticks", "200", "--interval", "10"];
    let file = shelf.path().join("sim.parquet");
    for into in [["--ring", "sim"], ["--panel", file.to_str().unwrap()]] {
        holds("record", &shelf.json(&[&["record"], &into[..], &small[..]].concat()));
    }
    holds("man", &shelf.json(&["man", "--into", into]));
    holds("resize", &shelf.json(&["resize", "pong", "--capacity", "9_000"]));
    holds("rm", &shelf.json(&["rm", "pong"]));
    holds("rm", &shelf.json(&["rm", "prices"]));
}

#[test]
fn files_of_other_programs_are_as_promised() {
    let shelf = Shelf::stocked();
    let path = |name: &str| shelf.path().join(name).to_str().unwrap().to_owned();
    holds("export", &shelf.json(&["export", "pong", &path("pong.parquet")]));
    holds("export", &shelf.json(&["export", "pong", &path("pong.csv")]));
    holds("import", &shelf.json(&["import", &path("pong.parquet"), "again"]));
}

#[test]
fn snapshots_are_as_promised() {
    let shelf = Shelf::stocked();
    holds("save", &shelf.json(&["save", "pong", "a"]));
    holds("ls", &shelf.json(&["ls"]));
    holds("stat", &shelf.json(&["stat", "pong@a"]));
    holds("verify", &shelf.json(&["verify", "pong"]));
    holds("load", &shelf.json(&["load", "pong@a", "--as", "b"]));
    {
        let ring = Ring::attach_in(&shelf.base(), "b").unwrap();
        Store::at(shelf.store()).save_evicted(&ring, "b", Value::Null).unwrap();
    }
    shelf.json(&["rm", "b"]);
    let listed = shelf.json(&["ls"]);
    assert!(listed.iter().any(|object| object["name"] == "b" && object["state"] == "evicted"));
    holds("ls", &listed);
    holds("rm", &shelf.json(&["rm", "pong@a"]));
    shelf.json(&["save", "pong", "a"]);
    for manifest in ["manifest-0", "manifest-1"] {
        let verified = shelf.json(&["verify", "pong"]);
        holds("verify", &verified);
        assert_eq!(
            verified[0]["damages"].as_array().map_or(0, Vec::len),
            usize::from(manifest == "manifest-1")
        );
        fs::write(shelf.store().join("pong").join(manifest), "").unwrap();
    }
    let listed = shelf.json(&["ls"]);
    assert!(
        listed.iter().any(|object| object["kind"] == "snapshot" && object["state"] == "damaged")
    );
    holds("ls", &listed);
}

#[test]
fn a_daemon_says_that_it_is_ready_as_promised() {
    let shelf = Shelf::new();
    let mut command = shelf.command();
    command.args(["--json", "serve"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let line = Lines::of(child.stdout.take().unwrap()).wait_for("ready");
    child.kill().unwrap();
    child.wait_bounded().unwrap();
    holds("serve", &[serde_json::from_str(&line).expect("a JSON line")]);
}

#[test]
fn held_orphaned_and_damaged_objects_are_as_promised() {
    let shelf = Shelf::stocked();
    let ring = Ring::create("busy", &schema(), shelf.options()).unwrap();
    let mut writer = ring.writer(WriterOptions::lanes(1)).unwrap();
    let mut sampler = ring.sampler(SamplerOptions::seeded(7)).unwrap();
    let (obs, action) = ([0.5_f32; 6], [1_i32]);
    for _ in 0..8 {
        let columns = StepColumns::of(ring.schema());
        let columns = columns.with("obs", &obs).and_then(|c| c.with("action", &action));
        writer.append(&columns.unwrap().step(&[false], &[false]).unwrap()).unwrap();
    }
    sampler.sample(4).unwrap();
    let _lease = ring.lease(0, 2..6).unwrap();
    let busy = shelf.json(&["stat", "busy"]);
    assert_eq!(busy[0]["pins"].as_array().unwrap().len(), 1);
    assert_eq!(busy[0]["readers"].as_array().unwrap().len(), 2);
    holds("stat", &busy);
    Holder::spawn(&shelf).kill();
    fs::write(shelf.object("pong.ring").join("ring.ctl"), "").unwrap();
    let listed = shelf.json(&["ls"]);
    for state in ["held", "idle", "orphaned", "damaged"] {
        assert!(listed.iter().any(|object| object["state"] == state), "{state}: {listed:?}");
    }
    holds("ls", &listed);
    let top = shelf.json(&["top", "--once", "--interval", "0.05"]);
    assert_eq!(top[0]["rings"].as_array().unwrap().len(), 4);
    holds("top", &top);
    let doctor = shelf.json(&["doctor"]);
    assert!(doctor.iter().any(|check| check["status"] == "finding"));
    holds("doctor", &doctor);
    holds("gc", &shelf.json(&["gc", "--dry-run"]));
    holds("gc", &shelf.json(&["gc"]));
}

#[test]
fn a_schema_refuses_what_no_command_prints() {
    let shelf = Shelf::stocked();
    let ring = shelf.json(&["stat", "pong"]).remove(0);
    let validator = jsonschema::validator_for(&promised("stat")).unwrap();
    for (pointer, wrong) in [
        ("/rows", json!(-1)),
        ("/rows", json!(1.5)),
        ("/state", json!("sleeping")),
        ("/lane_count", json!(0)),
        ("/persistent", json!("yes")),
        ("/lanes/0/head_seq", json!("7")),
        ("/columns/0/dtype", json!("float32")),
        ("/kind", json!("panel")),
    ] {
        let mut changed = ring.clone();
        *changed.pointer_mut(pointer).unwrap() = wrong;
        assert!(!validator.is_valid(&changed), "{pointer}");
    }
}
