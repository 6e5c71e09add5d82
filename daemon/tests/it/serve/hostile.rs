//! Clients that send invalid, partial, oversized or no requests, or disconnect, do not affect other
//! clients.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use super::running::{Running, until};
use crate::shelf::{Shelf, set_by_the_parent};
use backcast_budget::{BoundedCommand, WATCHDOG, skipped};

const PING: &[u8] = b"{\"protocol\": 1, \"ask\": \"ping\"}\n";

/// Set in a process that runs as another user: the socket to try.
const TRY_SOCKET: &str = "BACKCAST_TEST_TRY_SOCKET";

fn answer(stream: &UnixStream) -> Value {
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or(Value::Null)
}

#[test]
fn rubbish_is_answered_with_a_refusal_and_the_next_request_is_heard() {
    let shelf = Shelf::new();
    let daemon = Running::spawn(&shelf, &[]);
    let mut stream = daemon.connect();
    for rubbish in [&b"\n"[..], b"\xff\x00\xfe\n", b"GET / HTTP/1.1\r\n", b"{}\n", b"[[[[[[[[[\n"] {
        stream.write_all(rubbish).unwrap();
        assert_eq!(answer(&stream)["error"]["code"], "bad_request");
    }
    stream.write_all(PING).unwrap();
    assert_eq!(answer(&stream)["ok"]["pid"], daemon.pid());
}

#[test]
fn random_bytes_never_end_it() {
    let shelf = Shelf::new();
    let daemon = Running::spawn(&shelf, &[]);
    let mut state: u64 = 0x9E37_79B9_7F4A_7C15;
    for _ in 0..300 {
        let mut bytes = Vec::new();
        for _ in 0..64 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend(state.to_ne_bytes());
        }
        // About half of the requests are valid but for one byte, to reach further checks.
        if state & 1 == 0 {
            bytes =
                b"{\"protocol\":1,\"ask\":\"create\",\"name\":\"x\",\"columns\":[],\"lanes\":1}\n"
                    .to_vec();
            let at = (state >> 8) as usize % bytes.len();
            bytes[at] = state.to_be_bytes()[3];
        }
        let mut stream = daemon.connect();
        let _ = stream.write_all(&bytes);
    }
    assert_eq!(daemon.client().ping().unwrap().pid, daemon.pid());
    assert!(daemon.client().list().unwrap().is_empty());
    assert_eq!(daemon.end(Signal::TERM).status, Some(0));
}

#[test]
fn a_line_of_ten_megabytes_is_refused_and_cut_off() {
    let shelf = Shelf::new();
    let daemon = Running::spawn(&shelf, &[]);
    let stream = daemon.connect();
    let writer = stream.try_clone().unwrap();
    let sent = std::thread::spawn(move || (&writer).write_all(&vec![b'x'; 10 << 20]));
    assert_eq!(answer(&stream)["error"]["code"], "too_long");
    sent.join().unwrap().expect_err("cut off long before its end");
    assert!(daemon.client().ping().is_ok());
}

#[test]
fn half_a_line_and_a_vanished_client_cost_nothing() {
    let shelf = Shelf::new();
    let daemon = Running::spawn(&shelf, &[]);
    for _ in 0..200 {
        let mut stream = daemon.connect();
        stream.write_all(&PING[..10]).unwrap();
        drop(stream);
        // This client disconnects before the answer.
        let mut stream = daemon.connect();
        stream.write_all(PING).unwrap();
    }
    assert!(daemon.client().ping().is_ok());
    let open = || std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).map(Iterator::count);
    if let Ok(first) = open() {
        until("their descriptors are closed", || open().unwrap() <= first.min(20));
    }
}

#[test]
fn a_client_that_reads_no_answers_delays_no_other() {
    let shelf = Shelf::stocked();
    let daemon = Running::spawn(&shelf, &[]);
    let stuck = daemon.connect();
    stuck.set_nonblocking(true).unwrap();
    // Sends until the requests, and the daemon's answers to them, fill both queues.
    let line = b"{\"protocol\": 1, \"ask\": \"list\"}\n";
    while (&stuck).write_all(line).is_ok() {}
    for _ in 0..50 {
        assert!(daemon.client().ping().is_ok());
    }
}

#[test]
fn silent_connections_make_room_for_those_who_ask() {
    let shelf = Shelf::new();
    let daemon = Running::spawn(&shelf, &[]);
    let silent: Vec<UnixStream> = (0..500).map(|_| daemon.connect()).collect();
    for _ in 0..20 {
        assert!(daemon.client().ping().is_ok());
    }
    drop(silent);
    assert!(daemon.client().ping().is_ok());
}

/// A role: the other user of the test below.
#[test]
#[ignore = "a role: other tests start it as a process of its own"]
fn a_stranger_who_asks() {
    let socket = set_by_the_parent(TRY_SOCKET);
    let mut stream = UnixStream::connect(socket).expect("the test opened the way");
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    let _ = stream.write_all(PING);
    let mut heard = Vec::new();
    let _ = stream.read_to_end(&mut heard);
    assert!(heard.is_empty(), "{}", String::from_utf8_lossy(&heard));
    println!("heard nothing");
}

#[test]
fn another_user_is_not_heard_even_if_the_socket_lets_him_in() {
    use std::os::unix::fs::PermissionsExt;
    if !rustix::process::geteuid().is_root() {
        let test = "another_user_is_not_heard_even_if_the_socket_lets_him_in";
        return skipped(test, "needs root, to be another user");
    }
    let (shelf, open) = (Shelf::new(), Shelf::new());
    let anybody = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(open.path(), anybody.clone()).unwrap();
    let socket = open.path().join("s");
    let daemon = Running::spawn(&shelf, &["--socket", socket.to_str().unwrap()]);
    std::fs::set_permissions(&socket, anybody).unwrap();
    // A copy that the other user may run. Another process makes it: a file that this process, or a
    // child of another test, has open for writing cannot be run.
    let copy = open.path().join("stranger");
    let copied =
        Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&copy).status_bounded();
    assert!(copied.unwrap().success());
    let stranger = Command::new(&copy)
        .args(["--exact", "serve::hostile::a_stranger_who_asks", "--ignored", "--nocapture"])
        .env(TRY_SOCKET, &socket)
        .current_dir(open.path())
        .uid(65_534)
        .gid(65_534)
        .output_bounded()
        .unwrap();
    let text = String::from_utf8_lossy(&stranger.stdout).into_owned();
    assert!(stranger.status.success() && text.contains("heard nothing"), "{text}");
    assert!(daemon.client().ping().is_ok());
    let ended = daemon.end(Signal::TERM);
    assert!(ended.err.contains("refused another user"), "{}", ended.err);
}
