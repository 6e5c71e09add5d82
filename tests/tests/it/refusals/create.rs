//! Rings that cannot be created, attached to, replaced or removed, and lanes that cannot be
//! claimed.

use std::fs;

use backcast_core::{
    AutoresetMode, Capacity, DType, Exist, ObjectKind, Ring, RingOptions, Schema, WriterOptions,
    remove_object,
};

use crate::refusals::stage::{Stage, options, schema};
use crate::refusals::{Refusal, Row, refusal, row};

pub(crate) const ROWS: &[Row] = &[
    row("an empty name", |s| named(s, ""), "Segment(BadName", &["empty", "1 to 100"]),
    row("a name with a slash", |s| named(s, "a/b"), "Segment(BadName", &["`a/b`", "A-Z"]),
    row("a name with a blank", |s| named(s, "a b"), "Segment(BadName", &["`a b`", "A-Z"]),
    row("a name that hides", |s| named(s, ".a"), "Segment(BadName", &["`.a`", "dot"]),
    row("a name too long", |s| named(s, &"x".repeat(101)), "Segment(BadName", &["long", "100"]),
    row("no rows", |s| holding(s, 0), "TooSmall", &["0 row", "2 rows"]),
    row(
        "more rows than a lane can count",
        |s| holding(s, 1 << 62),
        "Segment(Limit",
        &["4611686018427387904", "1099511627776", "`capacity`"],
    ),
    row(
        "fewer bytes than one row takes",
        |s| holding(s, Capacity::Bytes(100)),
        "Segment(Limit",
        &["bytes is 100", "at least the limit"],
    ),
    row(
        "more bytes than there are",
        |s| holding(s, Capacity::Bytes(20 << 40)),
        "Segment(NoSpace",
        &["asked for", "available", "lower the capacity"],
    ),
    row("no lanes", |s| made(s, |o| o.lanes(0)), "Segment(Limit", &["lanes is 0", "one lane"]),
    row("too many lanes", |s| made(s, |o| o.lanes(4097)), "Segment(Limit", &["4097", "4096"]),
    row(
        "no reader slots",
        |s| made(s, |o| o.reader_slots(0)),
        "Segment(Limit",
        &["reader slots is 0", "use 64"],
    ),
    row(
        "a capacity in words",
        |_| refusal("8 gigs".parse::<Capacity>()),
        "BadCapacity",
        &["`8 gigs`", "8GiB"],
    ),
    row(
        "a capacity with a unit spelt small",
        |_| refusal("8gb".parse::<Capacity>()),
        "BadCapacity",
        &["`8gb`", "8GB"],
    ),
    row(
        "another exist",
        |_| refusal("maybe".parse::<Exist>()),
        "BadExist",
        &["`maybe`", "\"replace\""],
    ),
    row(
        "another autoreset mode",
        |_| refusal("auto".parse::<AutoresetMode>()),
        "BadAutoresetMode",
        &["`auto`", "\"same_step\""],
    ),
    row(
        "a name that is held",
        |s| named(s, "pong"),
        "Segment(AlreadyExists",
        &["`pong`", "process holds it", "exist \"attach\"", "backcast rm pong"],
    ),
    row(
        "a name that is kept",
        |s| named(s, "kept"),
        "Segment(AlreadyExists",
        &["`kept`", "persistent", "exist \"replace\""],
    ),
    row(
        "another schema under a name",
        |s| {
            let other = Schema::builder().column("obs", DType::F64, &[2]).build().unwrap();
            let options = options(&s.base, 200).lanes(4).exist(Exist::Attach);
            refusal(Ring::create("pong", &other, options))
        },
        "Segment(Different",
        &["`pong`", "differs", "choose another name"],
    ),
    row(
        "another number of lanes under a name",
        |s| {
            let options = options(&s.base, 200).lanes(3).exist(Exist::Attach);
            refusal(Ring::create("pong", &schema(), options))
        },
        "Segment(Different",
        &["`pong`", "3", "4", "choose another name"],
    ),
    row(
        "a name that is not there",
        |s| refusal(Ring::attach_in(&s.base, "zebra")),
        "Segment(NotFound",
        &["`zebra`", "backcast ls", "BACKCAST_DIR"],
    ),
    row(
        "a name that is nearly there",
        |s| refusal(Ring::attach_in(&s.base, "pnog")),
        "Segment(NotFound",
        &["`pnog`", "did you mean `pong`?", "backcast ls"],
    ),
    row(
        "a ring that is not there to be removed",
        |s| refusal(remove_object(&s.base, ObjectKind::Ring, "kep", false)),
        "NotFound",
        &["`kep`", "did you mean `kept`?"],
    ),
    row(
        "a ring in use to be removed",
        |s| refusal(remove_object(&s.base, ObjectKind::Ring, "pong", false)),
        "InUse",
        &["`pong`", "live process", "force"],
    ),
    row("bytes that are no ring", attach_kept, "Segment(Corrupt", &["ring.ctl", "backcast rm"])
        .given(|s| fs::write(s.folder("kept").join("ring.ctl"), [b'x'; 4096]).unwrap()),
    row("a ring cut short", attach_kept, "Segment(Corrupt", &["ring.ctl", "backcast rm"])
        .given(|s| fs::write(s.folder("kept").join("ring.ctl"), b"").unwrap()),
    row("a ring without a lane", attach_kept, "Segment(", &["lane-0000.dat"])
        .given(|s| fs::remove_file(s.folder("kept").join("lane-0000.dat")).unwrap()),
    row("a ring of another layout", attach_kept, "Segment(WrongVersion", &["version 99", "anew"])
        .given(|s| {
            let file = s.folder("kept").join("ring.ctl");
            let mut bytes = fs::read(&file).unwrap();
            bytes[8..12].copy_from_slice(&99_u32.to_le_bytes());
            fs::write(file, bytes).unwrap();
        }),
    row("a writer of no lanes", |s| claimed(s, 0), "NoLanes", &["at least 1", "0"]),
    row(
        "more lanes than the ring has",
        |s| claimed(s, 5),
        "TooManyLanes",
        &["5", "4", "with 5 lanes"],
    ),
    row(
        "lanes that others hold",
        |s| claimed(s, 3),
        "LanesTaken",
        &["asked for 3", "2 of 4", "process", "stop a holder"],
    ),
];

fn attach_kept(stage: &mut Stage) -> Option<Refusal> {
    refusal(Ring::attach_in(&stage.base, "kept"))
}

fn named(stage: &Stage, name: &str) -> Option<Refusal> {
    refusal(Ring::create(name, &schema(), options(&stage.base, 10)))
}

fn holding(stage: &Stage, capacity: impl Into<Capacity>) -> Option<Refusal> {
    let options = RingOptions::with_capacity(capacity).base(stage.base.clone());
    refusal(Ring::create("new", &schema(), options))
}

fn made(stage: &Stage, change: fn(RingOptions) -> RingOptions) -> Option<Refusal> {
    refusal(Ring::create("new", &schema(), change(options(&stage.base, 10))))
}

fn claimed(stage: &Stage, lanes: u32) -> Option<Refusal> {
    refusal(stage.ring.writer(WriterOptions::lanes(lanes).autoreset(AutoresetMode::NextStep)))
}
