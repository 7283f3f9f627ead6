//! Steps that many cases share.

use crate::log::Log;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout},
};
use socket2::SockRef;
use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    os::fd::AsFd,
    thread,
    time::{Duration, Instant},
};

/// The usual number of bytes in a direction; no multiple of anything.
pub(crate) const BULK: usize = (1 << 20) + 13;
/// A number of bytes that every socket's buffers hold.
pub(crate) const LITTLE: usize = 20_011;

/// Writes all of it, and records the number.
pub(crate) fn write_all(log: &Log, mut socket: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    log.did(&format!("write {}", bytes.len()), socket.write_all(bytes))?;
    log.sent(bytes);
    Ok(())
}

/// Reads as many bytes as that.
pub(crate) fn read_exactly(log: &Log, mut socket: &TcpStream, count: usize) -> io::Result<()> {
    let mut bytes = vec![0; count];
    log.did(&format!("read {count}"), socket.read_exact(&mut bytes))?;
    log.received(&bytes);
    Ok(())
}

/// Reads to the end of the stream.
pub(crate) fn read_to_end(log: &Log, mut socket: &TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let outcome = loop {
        match socket.read(&mut buffer) {
            Ok(0) => break Ok(()),
            Ok(count) => log.received(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break Err(error),
        }
    };
    log.did("read to the end", outcome)
}

/// Sends no more.
pub(crate) fn finish(log: &Log, socket: &TcpStream) -> io::Result<()> {
    log.did("shutdown(WR)", socket.shutdown(Shutdown::Write))
}

/// Closes with a reset: SO_LINGER of 0 s.
pub(crate) fn reset(log: &Log, socket: TcpStream) -> io::Result<()> {
    log.did("SO_LINGER 0", SockRef::from(&socket).set_linger(Some(Duration::ZERO)))?;
    drop(socket);
    log.saw("close", "ok");
    Ok(())
}

/// Looks at a connection that the other end has cut: the error of a read, and those of the write
/// and the read after it. A full stream is read to its error first.
pub(crate) fn look_at_the_cut(log: &Log, mut socket: &TcpStream) -> io::Result<()> {
    wait(socket, PollFlags::empty(), PATIENCE)?;
    log.saw("poll", "the other end cut the connection");
    let mut buffer = vec![0; 64 << 10];
    let first = loop {
        match socket.read(&mut buffer) {
            Ok(0) => break Ok("eof"),
            Ok(count) => log.received(&buffer[..count]),
            Err(error) => break Err(error),
        }
    };
    match first {
        Ok(end) => log.saw("read", end),
        Err(error) => log.tried("read", Err::<(), _>(error)),
    }
    log.tried("write", socket.write(b"to nobody"));
    match socket.read(&mut buffer) {
        Ok(0) => log.saw("read again", "eof"),
        answer => log.tried("read again", answer),
    }
    Ok(())
}

/// Waits until the kernel has received this many unread bytes, and says how many there are.
pub(crate) fn wait_for_unread(socket: &TcpStream, count: usize) -> io::Result<usize> {
    let start = Instant::now();
    loop {
        let unread = crate::sys::ioctl::unread(socket.as_fd())?;
        if unread >= count || start.elapsed() > PATIENCE {
            return Ok(unread);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Waits for one of these events, or for the connection's end, which no one has to ask for. An
/// error (`ETIMEDOUT`) if neither comes.
pub(crate) fn wait(socket: &TcpStream, events: PollFlags, patience: Duration) -> io::Result<PollFlags> {
    let mut polled = [PollFd::new(socket.as_fd(), events)];
    let timeout = PollTimeout::try_from(patience).expect("patience is short");
    match nix::poll::poll(&mut polled, timeout)? {
        0 => Err(Errno::ETIMEDOUT.into()),
        _ => Ok(polled[0].revents().unwrap_or(PollFlags::empty())),
    }
}

/// Writes without waiting until the path takes no more, or there is no more; returns the number of
/// bytes that it took.
pub(crate) fn fill(log: &Log, mut socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    socket.set_nonblocking(true)?;
    let mut taken = 0;
    while taken < bytes.len() {
        match socket.write(&bytes[taken..(taken + (64 << 10)).min(bytes.len())]) {
            Ok(count) => taken += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                match wait(socket, PollFlags::POLLOUT, STANDSTILL) {
                    Ok(_) => {}
                    Err(error) if error.raw_os_error() == Some(libc::ETIMEDOUT) => break,
                    Err(error) => return Err(error),
                }
            }
            Err(error) => return Err(error),
        }
    }
    socket.set_nonblocking(false)?;
    log.sent(&bytes[..taken]);
    log.measured("bytes that the path held", taken);
    log.saw("write until it would block", if taken < bytes.len() { "EAGAIN" } else { "never" });
    Ok(taken)
}

/// Bytes that no path may hold without a reader: the default limits of the kernel's two buffers are
/// 4 and 6 MiB (tcp(7)), and a gate at each host has as much again at the most.
pub(crate) const MORE_THAN_FITS: usize = 64 << 20;
/// A path that takes no byte for so long takes none before somebody reads. Nothing depends on it
/// where the machine stood still instead: the case goes on with fewer bytes in the path.
const STANDSTILL: Duration = Duration::from_millis(150);
/// A bound against hanging, below that of a case.
pub(crate) const PATIENCE: Duration = Duration::from_secs(15);
