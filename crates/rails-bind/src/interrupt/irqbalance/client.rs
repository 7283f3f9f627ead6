//! The socket that irqbalance listens on: one request a connection, with the sender's credentials.

use super::{Balancer, BalancerError, setup};
use nix::{
    errno::Errno,
    sys::{
        socket::{
            AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, UnixAddr, UnixCredentials, connect,
            getsockopt, sendmsg, setsockopt, socket,
            sockopt::{PeerCredentials, ReceiveTimeout, SendTimeout},
        },
        time::{TimeVal, TimeValLike},
    },
    unistd::{getegid, geteuid, getpid},
};
use std::{
    collections::BTreeSet,
    io::{self, IoSlice, Read},
    os::fd::{AsRawFd, OwnedFd},
    os::unix::net::UnixStream,
    time::Duration,
};

/// What it says is banned.
pub(super) fn banned(balancer: &Balancer) -> Result<BTreeSet<u32>, BalancerError> {
    let answer = ask(balancer, "setup")?;
    if answer.is_empty() {
        // It hangs up on whom it does not listen to.
        return Err(BalancerError::NotPermitted { pid: balancer.pid, source: None });
    }
    setup::banned(&answer)
        .ok_or_else(|| BalancerError::Malformed { pid: balancer.pid, answer: answer.chars().take(SHOWN).collect() })
}

/// Has it ban these and no others, and reads that back.
pub(super) fn replace(balancer: &Balancer, wanted: &BTreeSet<u32>) -> Result<(), BalancerError> {
    let pid = balancer.pid;
    let request = setup::request(wanted);
    if request.len() >= ROOM {
        return Err(BalancerError::TooMany { pid, count: wanted.len(), room: ROOM });
    }
    ask(balancer, &request)?;
    let banned = banned(balancer)?;
    if banned == *wanted { Ok(()) } else { Err(BalancerError::NotTaken { pid, wanted: wanted.clone(), banned }) }
}

/// Sends one request, and reads the answer to its end.
fn ask(balancer: &Balancer, request: &str) -> Result<String, BalancerError> {
    let failed = |call| move |source: io::Error| failed(balancer, call, source);
    let socket = reach(balancer)?;
    let owner = getsockopt(&socket, PeerCredentials).map_err(io::Error::from).map_err(failed("getsockopt"))?.pid();
    if owner != balancer.pid.as_raw() {
        return Err(BalancerError::Foreign { pid: balancer.pid, owner });
    }
    // The user that it asks for, which of a set-user-ID program is the effective one.
    let sender = libc::ucred { pid: getpid().as_raw(), uid: geteuid().as_raw(), gid: getegid().as_raw() };
    let credentials = UnixCredentials::from(sender);
    let sent = sendmsg::<()>(
        socket.as_raw_fd(),
        &[IoSlice::new(request.as_bytes())],
        &[ControlMessage::ScmCredentials(&credentials)],
        MsgFlags::MSG_NOSIGNAL,
        None,
    );
    sent.map_err(io::Error::from).map_err(failed("sendmsg"))?;
    let mut answer = Vec::new();
    match UnixStream::from(socket).take(LONGEST).read_to_end(&mut answer) {
        // It may hang up with the request unread.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
        other => drop(other.map_err(failed("recv"))?),
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Connects to whichever of its addresses there is.
fn reach(balancer: &Balancer) -> Result<OwnedFd, BalancerError> {
    let mut refused = None;
    for address in addresses(balancer) {
        let socket = open(balancer.patience).map_err(|source| failed(balancer, "socket", source.into()))?;
        match connect(socket.as_raw_fd(), &address) {
            Ok(()) => return Ok(socket),
            // Nobody is there: `ECONNREFUSED` is a file that was left behind, or an abstract name that is free.
            Err(Errno::ENOENT | Errno::ECONNREFUSED | Errno::ENOTDIR) => {}
            Err(source) => refused = refused.or(Some(source)),
        }
    }
    match refused {
        Some(source) => Err(failed(balancer, "connect", source.into())),
        None if !is_there(balancer) => Err(BalancerError::Ended { pid: balancer.pid }),
        None => Err(BalancerError::NoSocket { pid: balancer.pid }),
    }
}

/// A file, in a folder that systemd makes. Without the folder version 1.9.2 takes an abstract name of zero bytes alone, which
/// says of no process whose it is; others are to have named it like the file. The name is as long as can be.
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

/// It does one thing at a time, so it is waited for, but not for ever.
fn open(patience: Duration) -> nix::Result<OwnedFd> {
    let socket = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    let time = TimeVal::milliseconds(patience.as_millis() as i64);
    setsockopt(&socket, SendTimeout, &time)?;
    setsockopt(&socket, ReceiveTimeout, &time)?;
    Ok(socket)
}

fn is_there(balancer: &Balancer) -> bool {
    let directory = balancer.root.join("proc").join(balancer.pid.to_string());
    super::is_irqbalance(&directory) && super::command_line(&directory).is_some()
}

fn failed(balancer: &Balancer, call: &'static str, source: io::Error) -> BalancerError {
    let pid = balancer.pid;
    match source.kind() {
        io::ErrorKind::PermissionDenied => BalancerError::NotPermitted { pid, source: Some(source) },
        io::ErrorKind::WouldBlock => BalancerError::NoAnswer { pid, waited: balancer.patience },
        _ if !is_there(balancer) => BalancerError::Ended { pid },
        _ => BalancerError::Call { call, pid, source },
    }
}

/// What it reads of a request (`buff` in `sock_handle`).
const ROOM: usize = 500;
/// The bytes of an abstract name.
const ABSTRACT: usize = 107;
/// Of an answer: 16,000 banned interrupts.
const LONGEST: u64 = 1 << 20;
/// Of an answer that is not understood.
const SHOWN: usize = 80;
