//! The end that connects.

use crate::{
    case::{self, Client},
    cases, greeting,
    log::Log,
    row::End,
};
use std::{
    env, io,
    net::SocketAddr,
    os::fd::AsFd,
    process::{self, Command},
    sync::mpsc,
    thread,
    time::Duration,
};

/// Goes through one case, or, as `all`, through each of them in a process of its own and in order;
/// then all rows of the server have been printed too.
///
/// # Errors
///
/// A case of that name does not exist, a process could not be started or died, or the server does
/// not answer at the end. An error within a case is part of its row.
pub fn client(server: SocketAddr, name: &str) -> io::Result<()> {
    if name != "all" {
        return one(server, name);
    }
    let program = env::current_exe()?;
    for name in crate::cases() {
        let status = Command::new(&program).args(["client", &server.to_string(), name]).status()?;
        if !status.success() {
            return Err(io::Error::other(format!("the client of case `{name}` died ({status})")));
        }
    }
    case::ask(server, greeting::FINISH)
}

fn one(server: SocketAddr, name: &str) -> io::Result<()> {
    let case = cases::find(name).ok_or_else(|| io::Error::other(format!("there is no case `{name}`")))?;
    let log = Log::new(case.name, End::Client);
    let _watched = watch(&log);
    if let Err(error) = (case.client)(&Client { server, log: log.clone() }) {
        log.tried("the case", Err::<(), _>(error));
    }
    log.print();
    Ok(())
}

/// Goes on with a connection that another process passes by standard input, which is a Unix socket.
///
/// # Errors
///
/// No connection comes.
pub fn adopt(name: &str) -> io::Result<()> {
    let log = Log::new(name, End::Client);
    let _watched = watch(&log);
    if let Err(error) = cases::sharing::adopt(&log, io::stdin().as_fd()) {
        log.tried("the case", Err::<(), _>(error));
    }
    log.print();
    Ok(())
}

/// Prints what there is, and ends the process, if the case has no end before the guard is dropped.
fn watch(log: &Log) -> mpsc::Sender<()> {
    let (ended, end) = mpsc::channel();
    let log = log.clone();
    thread::spawn(move || {
        if end.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
            log.saw("the case", "no end");
            log.print();
            process::exit(0);
        }
    });
    ended
}

/// The time of a case, above every wait within one.
const PATIENCE: Duration = Duration::from_secs(25);
