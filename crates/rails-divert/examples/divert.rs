//! Runs a program, and carries each of its TCP connections through this process.
//!
//! `cargo run -p rails-divert --example divert -- curl http://example.org/`

use rails_divert::notify::{self, Attempt};
use socket2::SockRef;
use std::{
    env, io,
    net::{Shutdown, SocketAddr, TcpStream},
    process::{Command, ExitCode},
    thread,
    time::Duration,
};

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut arguments = env::args_os().skip(1);
    let program = arguments.next().ok_or("which program?")?;
    // This program is its own keeper.
    if program == KEEPER {
        notify::keeper::run()?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut command = Command::new(program);
    command.args(arguments);
    let mut keeper = Command::new("/proc/self/exe");
    keeper.arg(KEEPER);

    let (mut child, notifier) = notify::spawn(command, keeper)?;
    let counters = notifier.counters();
    thread::spawn(move || {
        while let Ok(Some(attempt)) = notifier.next() {
            thread::spawn(move || carry(attempt));
        }
    });
    let status = child.wait()?;
    eprintln!("{} connections were diverted, {} were not", counters.diverted(), counters.plain());
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

/// Connects to the destination first: if that fails, the kernel tells the program why.
fn carry(attempt: Attempt) {
    let destination: SocketAddr = attempt.destination();
    match TcpStream::connect_timeout(&destination, Duration::from_secs(5)) {
        Err(error) => {
            eprintln!("{destination}: {error}");
            attempt.go_plain();
        }
        Ok(service) => match attempt.divert().and_then(|program| copy_both_ways(&program, &service)) {
            Ok(()) => eprintln!("{destination}: carried"),
            Err(error) => eprintln!("{destination}: {error}"),
        },
    }
}

fn copy_both_ways(program: &TcpStream, service: &TcpStream) -> io::Result<()> {
    thread::scope(|scope| {
        let back = scope.spawn(|| copy(service, program));
        copy(program, service)?;
        back.join().expect("it does not panic")
    })?;
    // Both directions have ended, so closing the socket needs no reset.
    SockRef::from(program).set_linger(None)
}

fn copy(mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
    io::copy(&mut from, &mut to)?;
    to.shutdown(Shutdown::Write)
}

const KEEPER: &str = "--keeper";
