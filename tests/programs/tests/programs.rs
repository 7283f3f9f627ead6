//! Other people's programs between two hosts, through each door: the right bytes arrive, and every
//! way to use a socket comes out as over plain TCP.
//!
//! Run as root: `cargo test --workspace --test programs -- --ignored programs_`

use rails_lab::Shape;
use rails_programs::{Door, Expected, Pull, Report, Room, Size, Terms, find_program, matrix, measure};
use std::{env, time::Duration};

#[test]
#[ignore = "needs root, and iperf3"]
fn programs_iperf3() {
    right_bytes("iperf3");
}

#[test]
#[ignore = "needs root, nginx and curl"]
fn programs_curl() {
    right_bytes("curl");
}

#[test]
#[ignore = "needs root, and rsync"]
fn programs_rsync_daemon() {
    right_bytes("rsync-daemon");
}

#[test]
#[ignore = "needs root, sshd and rsync"]
fn programs_rsync_over_ssh() {
    right_bytes("rsync-ssh");
}

#[test]
#[ignore = "needs root, and sshd"]
fn programs_scp() {
    right_bytes("scp");
}

#[test]
#[ignore = "needs root, and git"]
fn programs_git_clone() {
    right_bytes("git-clone");
}

#[test]
#[ignore = "needs root, and redis"]
fn programs_redis() {
    let report = right_bytes("redis-50");
    assert!(report.taken.iter().all(|one| one.sample.is_some_and(|sample| sample.requests_per_second > Some(0.0))));
}

#[test]
#[ignore = "needs root, nginx and curl"]
fn programs_a_pulled_link_that_comes_back_loses_nothing() {
    let pull = Pull { link: 0, duration: Duration::from_millis(400) };
    let report = measured("curl", &Terms { links: vec![Shape::mbit(100); 2], pull: Some(pull), ..terms() });
    for taken in report.taken.iter().filter(|taken| taken.door.is_some()) {
        assert_eq!((taken.failure.as_deref(), taken.pulled), (None, Some(true)));
    }
    // Plain TCP has the one link alone.
    let plain = report.taken.iter().find(|taken| taken.door == Some(Door::Plain)).expect("it was measured");
    assert!(plain.longest_gap_seconds > Some(0.3), "{plain:?}");
}

#[test]
#[ignore = "needs root, for network namespaces"]
fn programs_every_way_to_use_a_socket() {
    let room = Room::build(&[Shape::Unshaped; 2], CONGESTION, &env::temp_dir()).expect("root may make namespaces");
    let plain = matrix(&room, &Door::Plain.open(&room).expect("it takes nothing")).expect("the cases are gone through");
    for (door, expected) in DIFFERENCES {
        let through = matrix(&room, &door.open(&room).expect("it opens")).expect("the cases are gone through");
        let (new, idle) = Expected::judge(expected, &plain, &through);
        assert_eq!((new, idle.len()), (vec![], 0), "{door:?}: {idle:?}");
    }
}

/// The doors whose programs are used. MPTCP is measured beside them and makes no such promise.
const DOORS: [Door; 6] = [Door::Plain, Door::Pipe, Door::Forward, Door::Socks, Door::Stripe, Door::Redirect];

/// The doors through which a program goes that knows none, each with the differences from plain TCP
/// that it is known to make.
const DIFFERENCES: [(Door, &[Expected]); 4] = [
    (Door::Plain, &[]),
    (Door::Stripe, &[NAME_OF_PEER, NAME_OF_MAPPED_PEER, SEGMENTS, URGENT]),
    (Door::Redirect, &[REFUSED, REFUSED_LATER, NO_REFUSED_PEER, OWN_NAME, SEGMENTS, URGENT]),
    (Door::Forward, &[REFUSED, REFUSED_LATER, NO_REFUSED_PEER, OWN_NAME, SEGMENTS, URGENT]),
];

const NAME_OF_PEER: Expected = Expected {
    case: "names",
    subject: "getpeername",
    reason: "the socket's peer is this host; to hide it costs each call",
};
const NAME_OF_MAPPED_PEER: Expected = Expected { case: "connect-mapped", ..NAME_OF_PEER };
const OWN_NAME: Expected =
    Expected { case: "names", subject: "getsockname", reason: "the connection is one over the loopback interface" };
const SEGMENTS: Expected =
    Expected { case: "tcp-info", subject: "segment", reason: "TCP_INFO is that of the loopback interface" };
const URGENT: Expected =
    Expected { case: "urgent", subject: "poll for POLLPRI", reason: "a gate carries bytes, and no urgent mark" };
const REFUSED: Expected =
    Expected { case: "connect-refused", subject: "connect", reason: "it is connected before the service is asked" };
const REFUSED_LATER: Expected =
    Expected { case: "connect-refused-nonblocking", subject: "SO_ERROR", reason: REFUSED.reason };
const NO_REFUSED_PEER: Expected =
    Expected { case: "connect-refused", subject: "rows", reason: "the service's row follows the client's errno" };

/// Uses a program once through every door, with few bytes.
fn right_bytes(program: &str) -> Report {
    let report = measured(program, &terms());
    for taken in &report.taken {
        assert_eq!(taken.failure, None, "{taken:?}");
    }
    report
}

fn measured(program: &str, terms: &Terms) -> Report {
    let program = find_program(program).expect("it is a program's name");
    let report = measure(&[program], terms).expect("everything that it needs is here");
    assert_eq!(report.skipped, [""; 0]);
    assert!(!report.taken.is_empty());
    report
}

fn terms() -> Terms {
    Terms {
        links: vec![Shape::Unshaped; 2],
        congestion: CONGESTION.to_owned(),
        doors: DOORS.to_vec(),
        rounds: 1,
        size: Size { bytes: 8 << 20, seconds: 1.0, requests: 1000 },
        pull: None,
        folder: env::temp_dir(),
    }
}

/// In every kernel.
const CONGESTION: &str = "cubic";
