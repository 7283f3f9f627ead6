//! The memory and the sockets of another task.

use super::{
    counters::Passed,
    judge::{Facts, TcpFacts},
};
use crate::sys::{
    option,
    pidfd::{self, Whole},
};
use nix::{
    errno::Errno,
    sys::{
        socket::{getsockopt, sockopt},
        stat::fstat,
        uio::{RemoteIoVec, process_vm_readv},
    },
    unistd::Pid,
};
use socket2::{Domain, Protocol, SockRef, Type};
use std::{
    fs,
    io::{self, IoSliceMut},
    os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd},
    path::Path,
};

/// Reads the address that a task has given to `connect(2)`.
pub(super) fn address(tid: u32, pointer: usize, length: i32) -> Result<Vec<u8>, Passed> {
    let length = usize::try_from(length).ok().filter(|length| *length <= MAX_ADDRESS).ok_or(Passed::BadAddress)?;
    let mut bytes = vec![0; length];
    let remote = [RemoteIoVec { base: pointer, len: length }];
    match process_vm_readv(Pid::from_raw(tid as i32), &mut [IoSliceMut::new(&mut bytes)], &remote) {
        Ok(read) if read == length => Ok(bytes),
        Ok(_) | Err(Errno::EFAULT) => Err(Passed::BadAddress),
        Err(_) => Err(Passed::Untouchable),
    }
}

/// Copies descriptor `fd` of a task.
pub(super) fn descriptor(tid: u32, fd: RawFd) -> Result<OwnedFd, Passed> {
    let taken = match pidfd::open(tid, Whole::Thread) {
        Ok(thread) => pidfd::take(thread.as_fd(), fd),
        // A kernel before 6.9.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => descriptor_of_process(tid, fd),
        Err(error) => Err(error),
    };
    taken.map_err(|error| match error.raw_os_error() {
        // The kernel, too, will find no such descriptor.
        Some(libc::EBADF) => Passed::NotTcp,
        _ => Passed::Untouchable,
    })
}

/// Copies descriptor `fd` of the process to which a thread belongs, if the thread has the same.
fn descriptor_of_process(tid: u32, fd: RawFd) -> io::Result<OwnedFd> {
    let process = match pidfd::open(tid, Whole::Process) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOENT)) => {
            pidfd::open(process_of(tid)?, Whole::Process)?
        }
        other => other?,
    };
    let taken = pidfd::take(process.as_fd(), fd)?;
    // Threads may have tables of descriptors of their own (unshare(2), CLONE_FILES).
    let of_thread = fs::read_link(format!("/proc/{tid}/fd/{fd}"))?;
    let expected = format!("socket:[{}]", fstat(&taken)?.st_ino);
    if of_thread == Path::new(&expected) { Ok(taken) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// The process of a thread, by the number of its first thread.
fn process_of(tid: u32) -> io::Result<u32> {
    let status = fs::read_to_string(format!("/proc/{tid}/status"))?;
    let number = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    number.and_then(|number| number.trim().parse().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Asks the kernel about a socket that was [taken](descriptor) from the task `tid`. `network` is
/// the number of this process's network namespace, where the kernel has such numbers.
pub(super) fn facts(socket: BorrowedFd<'_>, tid: u32, network: Option<[u8; 8]>) -> io::Result<Facts> {
    let reference = SockRef::from(&socket);
    let (domain, kind, protocol) = (reference.domain()?, reference.r#type()?, reference.protocol()?);
    let is_tcp =
        matches!(domain, Domain::IPV4 | Domain::IPV6) && kind == Type::STREAM && protocol == Some(Protocol::TCP);
    let tcp = is_tcp.then(|| tcp_facts(socket, tid, domain, network)).transpose()?;
    Ok(Facts { domain, kind, protocol, tcp })
}

fn tcp_facts(socket: BorrowedFd<'_>, tid: u32, domain: Domain, network: Option<[u8; 8]>) -> io::Result<TcpFacts> {
    let reference = SockRef::from(&socket);
    let [state] = option::TCP_STATE.get(socket)?;
    let local = reference.local_addr()?.as_socket().ok_or(io::ErrorKind::InvalidData)?;
    Ok(TcpFacts {
        state,
        local: local.ip(),
        on_device: option::DEVICE.get(socket)? != [0; 4],
        only_v6: domain == Domain::IPV6 && reference.only_v6()?,
        special: getsockopt(&socket, sockopt::TcpRepair)? != 0
            || getsockopt(&socket, sockopt::TcpFastOpenConnect)?
            // A kernel that does not know TCP-AO, and a socket without it, are errors.
            || option::AUTHENTICATION.get(socket).is_ok(),
        same_network: match (option::NETWORK.get(socket), network) {
            (Ok(socket), Some(own)) => socket == own,
            // The socket's own namespace is not to be known: nearly always, it is the task's.
            _ => fs::read_link(format!("/proc/{tid}/ns/net"))? == fs::read_link("/proc/thread-self/ns/net")?,
        },
    })
}

/// A stable number of the socket, as long as it exists.
pub(super) fn cookie(socket: BorrowedFd<'_>) -> io::Result<u64> {
    SockRef::from(&socket).cookie()
}

/// `struct sockaddr_storage`: the kernel refuses what is longer.
const MAX_ADDRESS: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        net::{TcpListener, UdpSocket},
        os::fd::AsRawFd,
        process, thread,
    };

    #[test]
    fn an_address_is_read_whole_or_not_at_all() {
        let bytes = [7_u8; 16];
        let pointer = (&raw const bytes).addr();
        assert_eq!(address(process::id(), pointer, 16).as_deref(), Ok(&bytes[..]));
        assert_eq!(address(process::id(), pointer, -1), Err(Passed::BadAddress));
        assert_eq!(address(process::id(), pointer, 129), Err(Passed::BadAddress));
        assert_eq!(address(process::id(), 8, 16), Err(Passed::BadAddress));
    }

    #[test]
    fn a_descriptor_is_found_by_way_of_any_thread() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let other = thread::scope(|scope| {
            let taken = scope.spawn(|| {
                let tid = nix::unistd::gettid().as_raw() as u32;
                let by_process = descriptor_of_process(tid, listener.as_raw_fd()).expect("it is there");
                (descriptor(tid, listener.as_raw_fd()).expect("it is there"), by_process)
            });
            taken.join().expect("it ends")
        });
        for taken in [other.0, other.1] {
            assert_eq!(TcpListener::from(taken).local_addr().ok(), listener.local_addr().ok());
        }
        assert_eq!(descriptor(process::id(), 1 << 20).map(drop), Err(Passed::NotTcp));
    }

    #[test]
    fn sockets_are_described() {
        let network = option::NETWORK.get(TcpListener::bind("127.0.0.1:0").expect("loopback").as_fd()).ok();
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        for network in [network, None] {
            let found = facts(listener.as_fd(), process::id(), network).expect("a socket").tcp.expect("of TCP");
            assert_eq!((found.state, found.local.is_loopback(), found.special), (10, true, false));
            assert!(found.same_network && !found.on_device && !found.only_v6);
        }
        let udp = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        assert!(facts(udp.as_fd(), process::id(), network).expect("a socket").tcp.is_none());
        let file = fs::File::open("/proc/self/stat").expect("it is there");
        assert!(facts(file.as_fd(), process::id(), network).is_err());
    }
}
