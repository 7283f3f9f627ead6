//! The parts of this program that run as processes of their own.

use crate::ground::{Answered, CGROUP, NETWORK, PART, heard, net};
use rails_divert::redirect::{Redirect, RedirectError};
use std::{
    env,
    io::stdin,
    net::{SocketAddr, TcpStream},
    thread,
};

/// Not a test but a process of one, where the environment names a part.
#[test]
fn part() {
    match env::var(PART).as_deref() {
        Ok("carrier") => carrier(),
        Ok("crowd") => crowd(),
        Ok("one after the other") => one_after_the_other(),
        Ok("marking carrier") => marking_carrier(),
        Ok("redirector") => redirector(),
        other => assert!(other.is_err(), "no part {other:?}"),
    }
}

/// Redirects the cgroup of the ground until its standard input ends.
fn carrier() {
    let _redirect = Answered::new(install().unwrap(), "through");
    println!("{READY}");
    while stdin().lines().next().is_some() {}
}

/// Redirects the cgroup of the ground until it is killed, but not the socket that is its standard
/// input.
fn marking_carrier() {
    let redirect = Answered::new(install().unwrap(), "through");
    redirect.pass_on(stdin()).unwrap();
    println!("{READY}");
    loop {
        thread::park();
    }
}

/// Tries to redirect the cgroup of the ground.
fn redirector() {
    let error = install().unwrap_err();
    println!("{READY}{error}");
}

fn install() -> Result<Redirect, RedirectError> {
    Redirect::install(env::var(CGROUP).unwrap(), &[net("10.99.0.0/16")], &[])
}

/// Holds many connections at a time, to as many destinations, and compares each answer.
fn crowd() {
    let connections: Vec<(SocketAddr, TcpStream)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|first| {
                let destinations = (first..CROWD).step_by(THREADS).map(destination);
                scope.spawn(|| destinations.map(|to| (to, TcpStream::connect(to).unwrap())).collect::<Vec<_>>())
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(connections.len(), CROWD);
    for (destination, connection) in connections {
        assert_eq!(connection.peer_addr().unwrap(), destination);
        assert_eq!(heard(connection), format!("through {destination}"));
    }
}

/// A destination for each number, of both families.
fn destination(number: usize) -> SocketAddr {
    let (host, port) = (number / 2 % 250, 1000 + number);
    let address = if number.is_multiple_of(2) { format!("192.0.2.{host}") } else { format!("[2001:db8::{host:x}]") };
    format!("{address}:{port}").parse().unwrap()
}

/// Makes connections to a destination that is always in the networks.
fn one_after_the_other() {
    for _ in 0..CROWD {
        let connection = TcpStream::connect((NETWORK, 80)).expect("it is in the networks at any time");
        assert_eq!(heard(connection), format!("through {NETWORK}:80"));
    }
}

/// A line that begins so is one of a part's, and not of the test harness.
pub(crate) const READY: &str = "part: ";
/// The connections of a crowd.
pub(crate) const CROWD: usize = 1000;
const THREADS: usize = 8;
