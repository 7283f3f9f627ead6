//! Two runs over plain TCP have no difference: whatever differs over another path is the path's.

use rails_sockets::{End, Row, compare, rows};
use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
};

#[test]
fn two_runs_over_plain_tcp_are_equal() {
    let (one, two) = (Run::start(), Run::start());
    let (one, two) = (one.finish(), two.finish());
    assert_eq!(compare(&one, &two), []);
    for (case, end, call, outcome) in KNOWN {
        let row = one.iter().find(|row| row.case == case && row.end == end).expect("each case has a row");
        let found: Vec<_> = row.steps.iter().filter(|step| step.call == call).map(|step| &step.outcome).collect();
        assert_eq!(found, [outcome], "{case}, {end}: {row:?}");
    }
    for case in rails_sockets::cases() {
        for end in [End::Client, End::Server] {
            let served = !matches!(case, "connect-refused-nonblocking") || end == End::Client;
            let row = one.iter().find(|row| row.case == case && row.end == end);
            assert_eq!(row.is_some(), served, "{case}, {end}");
            assert!(row.is_none_or(|row| row.steps.iter().all(|step| step.call != "the case")), "{row:?}");
        }
    }
}

/// Outcomes that the manuals promise: a run in which all failed would be equal to another such one.
const KNOWN: [(&str, End, &str, &str); 8] = [
    ("blocking", End::Client, "read to the end", "ok"),
    ("connect-refused", End::Client, "connect", "ECONNREFUSED"),
    ("connect-again", End::Client, "connect again", "EISCONN"),
    ("shutdown-then-write", End::Client, "write", "EPIPE"),
    ("reset-by-client", End::Server, "read", "ECONNRESET"),
    ("reset-of-a-writer", End::Client, "write", "ECONNRESET"),
    ("receive-timeout", End::Client, "read", "EAGAIN"),
    ("back-pressure-on-server", End::Server, "write with SO_SNDTIMEO", "EAGAIN"),
];

/// Both ends at work over loopback.
struct Run {
    server: Child,
    client: Child,
}

impl Run {
    fn start() -> Self {
        let program = || Command::new(env!("CARGO_BIN_EXE_rails-sockets"));
        let mut server = program();
        let server = server.args(["server", "127.0.0.1:0"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut server = server.spawn().expect("the program was built for this test");
        let mut line = String::new();
        BufReader::new(server.stderr.as_mut().expect("it is piped")).read_line(&mut line).expect("it says where it is");
        let address = line.trim().strip_prefix("listening on ").expect("it says where it is");
        let client = program().args(["client", address, "all"]).stdout(Stdio::piped()).spawn();
        Self { server, client: client.expect("the program was built for this test") }
    }

    fn finish(mut self) -> Vec<Row> {
        let mut printed = String::new();
        let mut output = self.client.stdout.take().expect("it is piped");
        output.read_to_string(&mut printed).expect("rows are text");
        assert!(self.client.wait().expect("it is a child").success());
        self.server.kill().expect("it serves until it is killed");
        self.server.wait().expect("it is a child");
        let mut output = self.server.stdout.take().expect("it is piped");
        output.read_to_string(&mut printed).expect("rows are text");
        rows(&printed).expect("every line is a row")
    }
}
