//! The time of `connect(2)` to a service on this machine: without a filter, passed on, left to the
//! kernel, and diverted; and that of another system call with the filter.
//!
//! Each row is the median of single calls on fresh sockets, in one thread of one program; the
//! watching process is this one, which decides at once. In a network namespace with an address of
//! its own, `ip addr add 10.99.0.1/32 dev lo`, name that address: `cargo bench -p rails-divert
//! -- 10.99.0.1`. Otherwise only diverted connections, and those to loopback, are timed.

use rails_divert::notify::{self, Attempt};
use socket2::{Domain, Socket, Type};
use std::{
    env,
    net::{IpAddr, SocketAddr, TcpListener},
    os::unix::process::parent_id,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

fn main() {
    match env::var(ROLE).as_deref() {
        Ok("keeper") => notify::keeper::run().expect("it keeps"),
        Ok("calls") => println!("{:.2}", nanoseconds(time_calls()) / 1e3),
        Ok(to) => println!("{:.1}", nanoseconds(time(to.parse().expect("an address"))) / 1e3),
        Err(_) => compare(env::args().find_map(|argument| argument.parse().ok())),
    }
}

fn compare(address: Option<IpAddr>) {
    let loopback = serve("127.0.0.1:0");
    let nowhere = "192.0.2.1:4242".parse().expect("an address");
    println!("median, microseconds");
    let row = |name: &str, value: &str| println!("{name:32} {}", value.trim());
    row("getppid", &plain("calls"));
    row("getppid, with the filter", &filtered("calls", Attempt::go_plain));
    row("to loopback", &plain(&loopback.to_string()));
    row("to loopback, passed on", &filtered(&loopback.to_string(), Attempt::go_plain));
    if let Some(address) = address {
        let service = serve(&SocketAddr::new(address, 0).to_string()).to_string();
        row("to the address", &plain(&service));
        row("to the address, left to the kernel", &filtered(&service, Attempt::go_plain));
        row("to the address, diverted", &filtered(&service, |attempt| drop(attempt.divert())));
    }
    row("to nowhere, diverted", &filtered(&SocketAddr::to_string(&nowhere), |attempt| drop(attempt.divert())));
}

fn plain(role: &str) -> String {
    let output = this(role).output().expect("it starts");
    String::from_utf8(output.stdout).expect("text")
}

fn filtered(role: &str, answer: impl Fn(Attempt)) -> String {
    let (child, notifier) = notify::spawn(this(role), this("keeper")).expect("it starts");
    while let Some(attempt) = notifier.next().expect("it is told") {
        answer(attempt);
    }
    String::from_utf8(child.wait_with_output().expect("it is a child").stdout).expect("text")
}

fn this(role: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("it is running"));
    command.env(ROLE, role).stdout(Stdio::piped());
    command
}

fn serve(at: &str) -> SocketAddr {
    let listener = TcpListener::bind(at).expect("the address is this machine's");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || listener.incoming().for_each(drop));
    address
}

fn time(to: SocketAddr) -> Duration {
    median((0..CONNECTIONS).map(|_| {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).expect("a socket");
        let begin = Instant::now();
        socket.connect(&to.into()).expect("connected");
        begin.elapsed()
    }))
}

/// The time of a system call that does nearly nothing: each sample is the mean of many.
fn time_calls() -> Duration {
    median((0..200).map(|_| {
        let begin = Instant::now();
        for _ in 0..1000 {
            std::hint::black_box(parent_id());
        }
        begin.elapsed() / 1000
    }))
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    times[times.len() / 2]
}

fn nanoseconds(time: Duration) -> f64 {
    time.as_nanos() as f64
}

/// Few enough that the ports of ended connections suffice.
const CONNECTIONS: usize = 2000;

const ROLE: &str = "RAILS_DIVERT_BENCH_ROLE";
