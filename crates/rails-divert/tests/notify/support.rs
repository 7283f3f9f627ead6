//! What the tests share: the test program in other roles, and a gate that answers attempts.

use rails_divert::notify::{self, Attempt, Counters, Notifier};
use std::{
    env,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// An address of the documentation (RFC 5737), to which nothing may be sent: every connection to it
/// is diverted.
pub(crate) const NOWHERE: &str = "192.0.2.1:4242";
/// The same of IPv6 (RFC 3849).
pub(crate) const NOWHERE_V6: &str = "[2001:db8::1]:4242";

/// Names the role in which the test program runs again.
const ROLE: &str = "RAILS_DIVERT_TEST_ROLE";
/// The destination of a program's connections, and a number for it.
const TO: &str = "RAILS_DIVERT_TEST_TO";
const COUNT: &str = "RAILS_DIVERT_TEST_COUNT";

/// A test program in another role, if the environment says so.
#[test]
fn role() {
    let Ok(role) = env::var(ROLE) else { return };
    let to = env::var(TO).unwrap_or_else(|_| NOWHERE.to_owned()).parse().expect("an address");
    let count = env::var(COUNT).map_or(1, |count| count.parse().expect("a number"));
    match role.as_str() {
        "keeper" => notify::keeper::run().expect("it keeps"),
        "watcher" => crate::killed::watch(to, count),
        "answerer" => crate::killed::answer(to),
        "spawns" => crate::refused::spawns(),
        other => crate::program::run(other, to, count),
    }
}

/// This program in a role.
pub(crate) fn this(role: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("it is running"));
    command.args(["--exact", "support::role", "--nocapture", "--test-threads=1"]).env(ROLE, role).stdout(Stdio::null());
    command
}

/// This program as the program of this name, which makes `count` connections to an address.
pub(crate) fn program(name: &str, to: impl ToString, count: usize) -> Command {
    let mut command = this(name);
    command.env(TO, to.to_string()).env(COUNT, count.to_string());
    command
}

/// Starts a program with a filter.
pub(crate) fn start(command: Command) -> (Child, Notifier) {
    notify::spawn(command, this("keeper"))
        .unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)))
}

/// Diverts each attempt, and talks as a gate does, until the program and all that it started have
/// ended.
pub(crate) fn divert_all(notifier: Notifier) -> Arc<Counters> {
    serve(notifier, |attempt| {
        let destination = attempt.destination();
        // The program may have been killed.
        if let Ok(stream) = attempt.divert() {
            talk(stream, &format!("gate {destination}\n"));
        }
    })
}

/// Answers each attempt on a thread of its own, until the end.
pub(crate) fn serve(notifier: Notifier, answer: impl Fn(Attempt) + Send + Sync) -> Arc<Counters> {
    let counters = notifier.counters();
    thread::scope(|scope| {
        while let Some(attempt) = notifier.next().expect("it is told") {
            scope.spawn(|| answer(attempt));
        }
    });
    counters
}

/// Says a line, and gives all bytes back until the end. The other side may go away at any time.
pub(crate) fn talk(mut stream: TcpStream, line: &str) {
    if stream.write_all(line.as_bytes()).is_ok() {
        let mut bytes = [0; 4096];
        while let Ok(length @ 1..) = stream.read(&mut bytes) {
            if stream.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
    }
}

/// A service at an address of this machine, which says `plain`.
pub(crate) fn serve_plain(at: &str) -> SocketAddr {
    let listener = std::net::TcpListener::bind(at).expect("the address is this machine's");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || talk(stream, "plain\n"));
        }
    });
    address
}

/// Waits for a program that only a broken one makes wait for so long.
pub(crate) fn end(child: &mut Child) -> ExitStatus {
    until("the program ends", || child.try_wait().expect("it is a child"))
}

pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "in vain until {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a test once more without privileges, in a network namespace whose loopback device has the
/// addresses 10.99.0.1 and fd00::1 as well. Connections to these are no loopback by their
/// addresses, and leave no machine.
pub(crate) fn inside(name: &str, test: impl FnOnce()) {
    if env::var_os(INSIDE).is_some() {
        return test();
    }
    let script = "ip link set lo up; ip addr add 10.99.0.1/32 dev lo; ip -6 addr add fd00::1/128 dev lo nodad
        exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$@\"";
    let run = Command::new("unshare")
        .args(["--net", "sh", "-ec", script, "sh"])
        .arg(env::current_exe().expect("it is running"))
        .args(["--ignored", "--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .stdin(Stdio::null())
        .output()
        .expect("unshare is there: it is part of util-linux");
    let said = [run.stdout, run.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(run.status.success() && said.contains("1 passed"), "{said}");
}

const INSIDE: &str = "RAILS_DIVERT_TEST_INSIDE";
