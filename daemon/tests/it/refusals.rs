//! Errors of the command line: exit statuses and texts.

use std::fs;

use crate::shelf::{PRICES, Shelf, schema};
use backcast_core::{Exist, Ring};
use backcast_market::{PanelData, PanelOptions};
use serde_json::Value;

struct Case {
    id: &'static str,
    args: &'static str,
    status: i32,
    /// Texts that stderr must contain.
    says: &'static [&'static str],
}

const fn case(
    id: &'static str,
    args: &'static str,
    status: i32,
    says: &'static [&'static str],
) -> Case {
    Case { id, args, status, says }
}

const CASES: &[Case] = &[
    case("no command", "", 2, &["Usage: backcast"]),
    case("a typo in a command", "lss", 2, &["'lss'", "'ls'"]),
    case("a command that there is not", "shrink", 2, &["'shrink'"]),
    case("an unknown option", "ls --colour", 2, &["--colour"]),
    case("a name too many", "stat pong prices", 2, &["prices"]),
    case(
        "a directory that does not exist",
        "ls --dir /no/such/place",
        2,
        &["/no/such/place", "--dir", "BACKCAST_DIR"],
    ),
    case("stat without a name", "stat", 2, &["NAME"]),
    case("stat of nothing", "stat zebra", 3, &["zebra", "backcast ls"]),
    case("stat of a typo", "stat pnog", 3, &["pnog", "`pong`"]),
    case("stat of a ring as a panel", "stat pong --kind panel", 3, &["panel `pong`"]),
    case("stat of two things at once", "stat twin", 2, &["twin", "--kind ring", "--kind panel"]),
    case("a third kind", "stat pong --kind snapshot", 2, &["snapshot", "ring", "panel"]),
    case("rm without a name", "rm", 2, &["NAME"]),
    case("rm of nothing", "rm zebra", 3, &["zebra", "backcast ls"]),
    case("rm of a typo", "rm price", 3, &["`prices`"]),
    case("rm of two things at once", "rm twin --force", 2, &["--kind"]),
    case("rm of a path", "rm ../pong.ring", 3, &["../pong.ring"]),
    case("create without columns", "create a --capacity 10", 2, &["--column"]),
    case("create without a capacity", "create a --column x:f4", 2, &["--capacity"]),
    case("a name with a slash", "create a/b --column x:f4 --capacity 10", 2, &["a/b"]),
    case("a name that hides", "create .a --column x:f4 --capacity 10", 2, &[".a"]),
    case("a unit of another world", "create a --column x:f4 --capacity 8parsec", 2, &["8parsec"]),
    case("a unit without a number", "create a --column x:f4 --capacity GiB", 2, &["GiB"]),
    case("no capacity at all", "create a --column x:f4 --capacity 0", 2, &["0"]),
    case("a negative capacity", "create a --column x:f4 --capacity=-5", 2, &["-5"]),
    case("no lanes", "create a --column x:f4 --capacity 10 --lanes 0", 2, &["'0'", "1 to 4096"]),
    case(
        "too many lanes",
        "create a --column x:f4 --capacity 10 --lanes 99999",
        2,
        &["99999", "4096"],
    ),
    case(
        "lanes in words",
        "create a --column x:f4 --capacity 10 --lanes many",
        2,
        &["many", "4096"],
    ),
    case(
        "a persist mode that is none",
        "create a --column x:f4 --capacity 10 --persist always",
        2,
        &["always", "periodic", "continuous", "block"],
    ),
    case("another persist mode for all", "serve --persist-mode on", 2, &["on", "continuous"]),
    case("a time of another world", "serve --persist-every 1w", 2, &["1w", "10min"]),
    case("a flush without a pause", "serve --persist-flush 0s", 2, &["0s", "10ms"]),
    case("no snapshots at all", "serve --persist-newest 0", 2, &["0", "1000"]),
    case("a size in words", "serve --persist-keep-bytes lots", 2, &["lots", "8GiB"]),
    case(
        "another exist",
        "create a --column x:f4 --capacity 10 --exist overwrite",
        2,
        &["overwrite", "error", "attach", "replace"],
    ),
    case(
        "an exist nearly right",
        "create a --column x:f4 --capacity 10 --exist atach",
        2,
        &["'atach'", "attach?"],
    ),
    case(
        "a persist mode nearly right",
        "create a --column x:f4 --capacity 10 --persist continous",
        2,
        &["continuous?"],
    ),
    case("a command of other programs", "delete pong", 2, &["'delete'", "'rm'"]),
    case("another one", "restore pong@a", 2, &["'restore'", "'load'"]),
    case(
        "a column without a dtype",
        "create a --column x --capacity 10",
        2,
        &["`x`", "NAME:DTYPE"],
    ),
    case("a dtype nobody has", "create a --column x:i5 --capacity 10", 2, &["`i5`", "i4"]),
    case(
        "a shape with stars",
        "create a --column x:f4:84*84 --capacity 10",
        2,
        &["84*84", "84x84"],
    ),
    case("an empty axis", "create a --column x:f4:0 --capacity 10", 2, &["shape `0`"]),
    case("a third role", "create a --column x:f4::info --capacity 10", 2, &["`info`", "obs"]),
    case("a column twice", "create a --column x:f4 --column x:f4 --capacity 10", 2, &["x"]),
    case("a reserved column", "create a --column seq:f4 --capacity 10", 2, &["seq"]),
    case(
        "columns and a file",
        "create a --column x:f4 --schema s.json --capacity 10",
        2,
        &["--schema"],
    ),
    case(
        "a schema file that is not there",
        "create a --schema no.json --capacity 10",
        2,
        &["no.json"],
    ),
    case(
        "a name that is taken",
        "create pong --column x:f4 --capacity 10",
        1,
        &["pong", "--exist attach", "--exist replace", "backcast rm pong"],
    ),
    case(
        "attaching to another schema",
        "create pong --column x:f4 --capacity 10 --exist attach",
        1,
        &["pong", "--exist replace"],
    ),
    case(
        "another lane policy",
        "create a --column x:f4 --capacity 10 --lane-policy wait",
        2,
        &["'wait'", "--lane-policy", "block", "drop_new", "fail", "overwrite"],
    ),
    case(
        "a negative lease time-out",
        "create a --column x:f4 --capacity 10 --lease-timeout -1",
        2,
        &["--lease-timeout", "-1", "3600"],
    ),
    case(
        "a lease time-out of two hours",
        "create a --column x:f4 --capacity 10 --lease-timeout 7200",
        2,
        &["--lease-timeout", "7200", "3600"],
    ),
    case(
        "a lease time-out of a policy that fails",
        "create a --column x:f4 --capacity 10 --lane-policy fail --lease-timeout 1",
        2,
        &["--lease-timeout", "--lane-policy fail"],
    ),
    case(
        "no reader slots",
        "create a --column x:f4 --capacity 10 --reader-slots 0",
        2,
        &["'0'", "--reader-slots", "1 to 1024"],
    ),
    case(
        "more rows than a lane counts",
        "create a --column x:f4 --capacity 1000000TiB",
        2,
        &["1099511627776", "`capacity`"],
    ),
    case(
        "more memory than there is",
        "create a --column x:f4 --capacity 16TiB",
        1,
        &["16 TiB", "--capacity", "--dir"],
    ),
    case("panel without a command", "panel", 2, &["Usage: backcast panel", "stat"]),
    case("panel stat of nothing", "panel stat", 2, &["FILE|NAME"]),
    case("panel stat of nobody", "panel stat zebra", 3, &["panel `zebra`", "backcast ls"]),
    case("panel stat of a typo", "panel stat pirces", 3, &["`prices`"]),
    case("panel stat of a ring", "panel stat pong", 3, &["panel `pong`"]),
    case("panel stat of no file", "panel stat no/such.csv", 3, &["no/such.csv"]),
    case("panel stat of a parquet file to come", "panel stat x.parquet", 3, &["x.parquet"]),
    case(
        "a shared panel with renames",
        "panel stat prices --columns Date=date",
        2,
        &["`prices`", "--columns"],
    ),
    case("a shared panel with macros", "panel stat prices --macro VIX", 2, &["--macro"]),
    case("half a rename", "panel stat a.csv --columns Date", 2, &["--columns", "=", "Date"]),
    case(
        "a third policy",
        "panel stat a.csv --nan drop",
        2,
        &["'drop'", "--nan", "refuse", "mask"],
    ),
    case("top of nothing", "top zebra", 3, &["ring `zebra`", "backcast ls"]),
    case("top of a typo", "top pong pnog", 3, &["`pong`"]),
    case("top of a panel", "top prices", 3, &["ring `prices`"]),
    case("no interval at all", "top --interval 0", 2, &["'0'", "--interval", "0.05 to 3600"]),
    case("an interval with a unit", "top --interval 2s", 2, &["'2s'", "0.5"]),
    case("an interval that is no number", "top --interval nan", 2, &["nan", "0.05 to 3600"]),
    case("an interval of a day", "top --interval 86400", 2, &["86400", "3600"]),
    case("a negative interval", "top --interval -1", 2, &["-1", "3600"]),
    case("an option nearly right", "ls --jsn", 2, &["--jsn", "--json"]),
    case("an option of another command", "ls --force", 2, &["--force"]),
    case("an option that only load has", "import x.npz --as pong", 2, &["'--as'", "--help"]),
    case("a command in capitals", "LS", 2, &["'LS'"]),
    case("a typo below panel", "panel sta", 2, &["'sta'", "'stat'"]),
    case("an option without its value", "stat pong --kind", 2, &["--kind", "ring", "panel"]),
    case("an option twice", "top --interval 1 --interval 2", 2, &["--interval"]),
    case("a name of two words", "create a b --column x:f4 --capacity 1", 2, &["'b'"]),
    case("a size with a decimal comma", "create a --column x:f4 --capacity 1,5GiB", 2, &["1,5GiB"]),
    case("a size below nothing", "create a --column x:f4 --capacity 0.1B", 2, &["0.1B"]),
    case("a file as the directory", "ls --dir /etc/passwd", 2, &["/etc/passwd", "--dir"]),
    case("gc of a name", "gc pong", 2, &["pong"]),
    case("save by a daemon that is not there", "save pong --daemon", 1, &["backcast serve"]),
    case("save by a daemon into another store", "save pong --daemon --store x", 2, &["--store"]),
    case("limiter of a ring without", "limiter pong", 1, &["rate limiter"]),
    case("limiter of no ring", "limiter pnog", 3, &["pnog", "`pong`"]),
    case("clear of no ring", "clear pnog", 3, &["pnog", "`pong`"]),
    case("an episode without its lane", "clear pong --episode 3", 2, &["--lane"]),
    case("clear of no lane", "clear pong --lane 9999", 2, &["9999"]),
    case("limiter on and off", "limiter pong --on --off", 2, &["--on", "--off"]),
    case("ceiling of a word", "limiter pong --ceiling off", 2, &["--ceiling", "or none"]),
    case("ratio without a band", "limiter pong --samples-per-insert 8", 2, &["--error-buffer"]),
    case("resize to nothing", "resize pong", 2, &["--capacity"]),
    case("resize in a wrong unit", "resize pong --capacity 5parsecs", 2, &["5parsecs"]),
    case("resize to less", "resize pong --capacity 10", 2, &["pong", "grow"]),
    case("resize of no ring", "resize pnog --capacity 9_000", 3, &["pnog", "`pong`"]),
    case("resize of a panel", "resize prices --capacity 9_000", 3, &["prices"]),
    case("resize beyond the memory", "resize pong --capacity 9TiB", 1, &["TiB"]),
    case(
        "resize with a wrong time-out",
        "resize pong --capacity 9_000 --timeout -1",
        2,
        &["'-1'", "--timeout", "4294967295"],
    ),
    case(
        "save with a wait that is no number",
        "save pong --wait nan",
        2,
        &["'nan'", "--wait", "4294967295"],
    ),
    case("save with a negative wait", "save pong --wait -1", 2, &["'-1'", "--wait"]),
    case(
        "metrics at an address in words",
        "serve --metrics localhost:9464",
        2,
        &["`localhost:9464`", "0 to 65535", "127.0.0.1:9464", "[::1]:9464"],
    ),
    case("metrics at a port too high", "serve --metrics 127.0.0.1:99999", 2, &["0 to 65535"]),
    case("a near name of a panel to remove", "rm pricess --kind panel", 3, &["`prices`"]),
    case("completions of no shell", "completions", 2, &["SHELL"]),
    case("completions of another shell", "completions tcsh", 2, &["tcsh", "bash", "zsh", "fish"]),
    case("a script as JSON", "--json completions bash", 2, &["completions", "--json"]),
    case("a page as JSON", "--json man", 2, &["man", "--into", "--json"]),
    case("pages into nowhere", "man --into /no/such", 2, &["/no/such"]),
    case("a word too many for the doctor", "doctor pong", 2, &["pong"]),
    case("a doctor of no place", "doctor --dir /no/such", 2, &["/no/such", "BACKCAST_DIR"]),
    case("a bench of no time", "bench --seconds 0", 2, &["--seconds", "0.01 to 600"]),
    case("a bench in words", "bench --seconds long", 2, &["long", "0.01 to 600"]),
    case("a bench of small rows", "bench --row-bytes 8", 2, &["8", "16 to 1048576"]),
    case("a bench of many lanes", "bench --lanes 65", 2, &["65", "1 to 64"]),
    case("a bench of no place", "bench --dir /no/such", 2, &["/no/such", "BACKCAST_DIR"]),
    case("a writer of no ring", "bench --writer pongg", 3, &["pongg"]),
    case("the demo as JSON", "--json demo", 2, &["out/demo.json"]),
    case("the page as JSON", "--json ui", 2, &["leave --json out"]),
    case("a page at no place", "ui --dir /no/such", 2, &["/no/such", "BACKCAST_DIR"]),
    case("a page nowhere", "ui --listen nowhere", 2, &["'nowhere'", "ADDRESS:PORT", "[::1]:9465"]),
    case("a page by name", "ui --listen example.org:80", 2, &["with an IP address"]),
    case("a page at a port too high", "ui --listen 127.0.0.1:70000", 2, &["0 to 65535"]),
    case("a short token", "ui --token short", 2, &["5 characters", "at least 16"]),
    case("a token in UTF-8", "ui --token a-token-of-the-tést", 2, &["printable ASCII"]),
    case("a page for all", "ui --no-token --listen 0.0.0.0:0", 2, &["lets everyone read"]),
    case("a token and none", "ui --no-token --allow-host a", 2, &["--no-token", "--allow-host"]),
    case("a page that never reads", "ui --interval 0", 2, &["0.05 to 3600"]),
    case("an option of no page", "ui --colour", 2, &["'--colour'"]),
];

#[test]
fn every_refusal_has_its_status_and_says_what_to_do() {
    let shelf = Shelf::stocked();
    let before = shelf.states();
    assert_eq!(before.len(), 4, "{before:?}");
    for Case { id, args, status, says } in CASES {
        let args: Vec<&str> = args.split_whitespace().collect();
        let ran = shelf.run(&args);
        let streams = format!("{id}\nstdout:\n{}\nstderr:\n{}", ran.out, ran.err);
        assert_eq!(ran.status, *status, "{streams}");
        assert!(ran.out.is_empty(), "stdout belongs to results: {streams}");
        assert!(!ran.err.is_empty(), "{streams}");
        assert!(!ran.err.contains("panicked") && !ran.err.contains('\u{1b}'), "{streams}");
        for text in *says {
            assert!(ran.err.contains(text), "`{text}` is missing: {streams}");
        }
    }
    assert_eq!(shelf.states(), before, "a refusal changes nothing");
}

#[test]
fn every_refusal_is_an_object_where_json_was_asked_for() {
    let shelf = Shelf::stocked();
    for Case { id, args, status, says } in CASES {
        let asked = args.starts_with("--json");
        let json = (!asked).then_some("--json");
        let args: Vec<&str> = json.into_iter().chain(args.split_whitespace()).collect();
        let ran = shelf.run(&args);
        let streams = format!("{id}\nstdout:\n{}\nstderr:\n{}", ran.out, ran.err);
        assert_eq!(ran.status, *status, "{streams}");
        let lines: Result<Vec<Value>, _> = ran.err.lines().map(serde_json::from_str).collect();
        let lines = lines.unwrap_or_else(|error| panic!("{error}: {streams}"));
        let error = lines.last().expect("a refusal says something");
        assert_eq!((&error["level"], &error["exit_status"]), (&"error".into(), &(*status).into()));
        let message = error["message"].as_str().expect("text");
        assert!(!message.starts_with("error") && !message.ends_with('\n'), "{streams}");
        for text in *says {
            assert!(message.contains(text), "`{text}` is missing: {streams}");
        }
    }
}

/// The advice in an error works when it is typed.
#[test]
fn no_unknown_option_is_advised_to_be_a_name() {
    let shelf = Shelf::stocked();
    for args in ["import x.npz --as pong", "stat --as=pong", "load pong -as x", "rm pong --forse"] {
        let ran = shelf.run(&args.split_whitespace().collect::<Vec<_>>()).expect(2);
        assert!(!ran.err.contains("as a value"), "{args}: {}", ran.err);
    }
    let similar = shelf.run(&["rm", "pong", "--forse"]).expect(2);
    assert!(similar.err.contains("'--force'"), "{}", similar.err);
    // A name may begin with a dash.
    let named = shelf.run(&["stat", "-a"]).expect(2);
    assert!(named.err.contains("'-- -a'"), "{}", named.err);
    shelf.run(&["stat", "--", "-a"]).expect(3);
}

/// No user can create files in /sys, not even root.
#[cfg(target_os = "linux")]
#[test]
fn a_place_that_may_not_be_written_is_refused_by_name() {
    let shelf = Shelf::new();
    let create = "create a --column x:f4 --capacity 10 --dir /sys";
    let ran = shelf.run(&create.split_whitespace().collect::<Vec<_>>()).expect(1);
    assert!(ran.err.contains("/sys/backcast-"), "{}", ran.err);
}

#[test]
fn a_file_where_the_directory_of_objects_should_be_is_refused() {
    let shelf = Shelf::new();
    fs::write(shelf.base().path(), "in the way").unwrap();
    for args in ["ls", "create a --column x:f4 --capacity 10", "gc", "top --once"] {
        let ran = shelf.run(&args.split_whitespace().collect::<Vec<_>>()).expect(1);
        let path = shelf.base().path().display().to_string();
        assert!(ran.err.contains(&path) && ran.out.is_empty(), "{args}: {}", ran.err);
    }
    assert_eq!(fs::read_to_string(shelf.base().path()).unwrap(), "in the way");
}

/// Attaching would be refused too, so the error does not offer it.
#[test]
fn a_name_that_another_version_has_is_not_offered_to_be_joined() {
    let shelf = Shelf::stocked();
    for file in ["pong.ring/ring.ctl", "prices.panel/panel.dat"] {
        let file = shelf.object(file);
        let mut bytes = fs::read(&file).unwrap();
        // Every version has its number at this position.
        bytes[8..12].copy_from_slice(&99_u32.to_le_bytes());
        fs::write(&file, bytes).unwrap();
    }
    let create = "create pong --column x:f4 --capacity 10";
    let typed = shelf.run(&create.split(' ').collect::<Vec<_>>()).expect(1).err;
    let ring = Ring::create("pong", &schema(), shelf.options()).unwrap_err().to_string();
    let options = PanelOptions::default().macro_tickers(["VIX"]);
    let panel = PanelData::from_reader(PRICES.as_bytes(), &options).unwrap();
    let panel = panel.share("prices", &shelf.base(), Exist::Error, true).unwrap_err().to_string();
    for said in [typed, ring, panel] {
        assert!(said.contains("replace") && said.contains("backcast rm"), "{said}");
        assert!(!said.contains("attach"), "{said}");
    }
    // The error still offers to attach to a ring of the right version.
    let twin = Ring::create("twin", &schema(), shelf.options()).unwrap_err().to_string();
    assert!(twin.contains("exist \"attach\""), "{twin}");
}

#[test]
fn a_schema_file_that_is_wrong_is_refused_with_its_place() {
    let shelf = Shelf::new();
    let file = shelf.path().join("schema.json");
    for (content, says) in [
        ("", "EOF"),
        ("[1, 2]", "object"),
        ("{\"a\": 1}", "line 1"),
        ("{\"a\": [\"i4\", \"84x84\"]}", "line 1"),
        ("{\"a\": \"i5\"}", "`i5`"),
        ("{\"a\": [\"i4\", [], \"reward\"]}", "`reward`"),
        ("{\"a\": \"i4\", \"a\": \"f4\"}", "key \"a\""),
        ("{}", "column"),
    ] {
        fs::write(&file, content).unwrap();
        let path = file.to_str().unwrap();
        let ran = shelf.run(&["create", "a", "--schema", path, "--capacity", "10"]).expect(2);
        assert!(ran.err.contains(says), "{content}: {}", ran.err);
    }
    assert_eq!(shelf.states(), []);
}
