//! The socket of irqbalance: one request a connection.

use super::{Balancer, BalancerError};
use nix::{
    errno::Errno,
    sys::{
        socket::{
            AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, getsockopt, send, setsockopt, socket,
            sockopt::{PeerCredentials, ReceiveTimeout, SendTimeout},
        },
        time::{TimeVal, TimeValLike},
    },
};
use std::{
    collections::BTreeSet,
    io::{self, Read},
    os::{fd::AsRawFd, unix::net::UnixStream},
};

/// The interrupts that irqbalance leaves alone, by its answer.
pub(super) fn banned(balancer: &Balancer) -> Result<BTreeSet<u32>, BalancerError> {
    let answer = ask(balancer, "setup")?;
    if answer.is_empty() {
        // irqbalance hangs up on other users.
        return Err(BalancerError::NotPermitted { pid: balancer.pid, source: None });
    }
    parse(&answer).ok_or_else(|| {
        let shown: String = answer.chars().take(SHOWN).collect();
        unusable(balancer, format!("its answer {shown:?} is not understood"))
    })
}

/// Bans these interrupts and no others, and reads the list back.
pub(super) fn replace(balancer: &Balancer, wanted: &BTreeSet<u32>) -> Result<(), BalancerError> {
    // Ascending, because irqbalance takes a zero for the end of the list unless it comes first.
    let numbers: Vec<String> = wanted.iter().map(u32::to_string).collect();
    let list = if numbers.is_empty() { "NONE".to_owned() } else { numbers.join(" ") };
    let request = format!("settings ban irqs {list}");
    if request.len() >= ROOM {
        let problem = format!("a request of {ROOM} bytes has no room for {} interrupts", wanted.len());
        return Err(unusable(balancer, problem));
    }
    ask(balancer, &request)?;
    let banned = banned(balancer)?;
    if banned == *wanted {
        return Ok(());
    }
    Err(unusable(balancer, format!("it was told to leave {wanted:?} alone, and leaves {banned:?}")))
}

/// The interrupts in an answer to `setup`: `SLEEP <s>`, then `IRQ <n> LOAD <ns> DIFF <n> CLASS <n>`
/// for each banned one, then `BANNED <mask of CPUs>`.
pub(super) fn parse(answer: &str) -> Option<BTreeSet<u32>> {
    let mut words = answer.split_ascii_whitespace();
    let mut banned = BTreeSet::new();
    (words.next()? == "SLEEP").then_some(())?;
    words.next()?.parse::<i64>().ok()?;
    loop {
        match words.next()? {
            "IRQ" => banned.insert(words.next()?.parse().ok()?),
            "BANNED" => return words.next().map(|_mask| banned),
            // LOAD, DIFF and CLASS.
            _ => words.next()?.parse::<i64>().is_ok().then_some(true)?,
        };
    }
}

/// Sends one request, and reads the answer to its end.
fn ask(balancer: &Balancer, request: &str) -> Result<String, BalancerError> {
    let failed = |call| move |source: io::Error| failed(balancer, call, source);
    let socket = reach(balancer)?;
    let owner = getsockopt(&socket, PeerCredentials).map_err(io::Error::from).map_err(failed("getsockopt"))?.pid();
    if owner != balancer.pid.as_raw() {
        return Err(unusable(balancer, format!("its socket belongs to process {owner}")));
    }
    // irqbalance asks the kernel for the sender's credentials (SO_PASSCRED), so none are sent along.
    let sent = send(socket.as_raw_fd(), request.as_bytes(), MsgFlags::MSG_NOSIGNAL);
    sent.map_err(io::Error::from).map_err(failed("send"))?;
    let mut answer = Vec::new();
    match socket.take(LONGEST).read_to_end(&mut answer) {
        // irqbalance may hang up with the request unread.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
        other => drop(other.map_err(failed("recv"))?),
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Connects to the first of irqbalance's addresses that answers. irqbalance does one thing at a
/// time, so each call waits for it, but not for ever.
fn reach(balancer: &Balancer) -> Result<UnixStream, BalancerError> {
    let open = || {
        let socket = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
        let time = TimeVal::milliseconds(balancer.patience.as_millis() as i64);
        setsockopt(&socket, SendTimeout, &time)?;
        setsockopt(&socket, ReceiveTimeout, &time)?;
        Ok(socket)
    };
    let mut refused = None;
    for address in addresses(balancer) {
        let socket = open().map_err(|source: Errno| failed(balancer, "socket", source.into()))?;
        match connect(socket.as_raw_fd(), &address) {
            Ok(()) => return Ok(socket.into()),
            // No process listens: `ECONNREFUSED` is a file that was left behind, or an abstract name that is free.
            Err(Errno::ENOENT | Errno::ECONNREFUSED | Errno::ENOTDIR) => {}
            Err(source) => refused = refused.or(Some(source)),
        }
    }
    match refused {
        Some(source) => Err(failed(balancer, "connect", source.into())),
        None if !is_there(balancer) => Err(BalancerError::Ended { pid: balancer.pid }),
        None => Err(unusable(balancer, "it has no socket that can be reached".to_owned())),
    }
}

/// A file, in a folder that systemd makes. Without the folder version 1.9.2 takes an abstract name
/// of zero bytes alone, which names no process; other versions name it like the file. The name has
/// the greatest length.
fn addresses(balancer: &Balancer) -> Vec<UnixAddr> {
    let name = format!("irqbalance{}.sock", balancer.pid);
    let file = UnixAddr::new(&balancer.root.join("run/irqbalance").join(&name));
    let padded = |name: &str| {
        let mut bytes = [0; ABSTRACT];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        UnixAddr::new_abstract(&bytes)
    };
    [file, padded(&name), padded("")].into_iter().flatten().collect()
}

fn is_there(balancer: &Balancer) -> bool {
    super::is_irqbalance(&balancer.root.join("proc").join(balancer.pid.to_string()))
}

fn failed(balancer: &Balancer, call: &'static str, source: io::Error) -> BalancerError {
    let pid = balancer.pid;
    match source.kind() {
        io::ErrorKind::PermissionDenied => BalancerError::NotPermitted { pid, source: Some(source) },
        io::ErrorKind::WouldBlock => {
            unusable(balancer, format!("it did not answer within {} s", balancer.patience.as_secs()))
        }
        _ if !is_there(balancer) => BalancerError::Ended { pid },
        _ => BalancerError::Call { call, pid, source },
    }
}

fn unusable(balancer: &Balancer, problem: String) -> BalancerError {
    BalancerError::Unusable { pid: balancer.pid, problem }
}

/// The bytes of a request that irqbalance reads (`buff` in `sock_handle`).
const ROOM: usize = 500;
/// The bytes of an abstract name.
const ABSTRACT: usize = 107;
/// The bytes of an answer: 16,000 banned interrupts.
const LONGEST: u64 = 1 << 20;
/// The characters of an answer that an error shows.
const SHOWN: usize = 80;
