//! Gives the connections that could be diverted.

use super::{
    counters::{Counters, Passed},
    judge::{self, Target},
    task,
    watch::{Pending, Received, Watch},
};
use nix::poll::PollTimeout;
use std::{
    fmt, io,
    net::{SocketAddr, TcpStream},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

/// Tells of the connections that a program, and all that it starts, are about to make.
///
/// Those that could not be diverted go on in the kernel at once, and are [counted](Counters). Each
/// other one is an [`Attempt`], which waits for its caller's decision; they wait for none of each
/// other. **Somebody must ask for attempts as long as the program runs**: until then, its calls of
/// `connect(2)` wait.
///
/// The descriptor becomes readable when there may be an attempt, or the end; [`Attempts`] waits for
/// it in a runtime.
///
/// [`Attempts`]: super::Attempts
///
/// Once it and all its attempts are dropped, and when this process dies, the keeper lets all
/// further connections go on in the kernel.
pub struct Notifier(Arc<Watch>);

/// A connection that a program is about to make: its thread waits in `connect(2)`. Dropped, it is
/// made as if nobody had looked.
pub struct Attempt {
    pending: Pending,
    socket: OwnedFd,
    target: Target,
}

impl Notifier {
    pub(super) fn new(watch: Arc<Watch>) -> Self {
        Self(watch)
    }

    /// Waits for the next attempt; `None` once no task has the filter any more.
    ///
    /// # Errors
    /// As `poll(2)` and `ioctl(2)`, which fail only where memory or descriptors do; the connection
    /// concerned goes on in the kernel, and further ones can be asked for.
    pub fn next(&self) -> io::Result<Option<Attempt>> {
        self.find(PollTimeout::NONE)
    }

    /// Gives an attempt if there is one; `None` once no task has the filter any more.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is none at the moment, and as [`next`](Self::next).
    pub fn try_next(&self) -> io::Result<Option<Attempt>> {
        self.find(PollTimeout::ZERO)
    }

    /// The numbers of connections until now; they stay readable after the notifier's end.
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.0.counters)
    }

    fn find(&self, timeout: PollTimeout) -> io::Result<Option<Attempt>> {
        loop {
            match self.0.receive(timeout)? {
                Received::Pending(pending) => {
                    if let Some(attempt) = examine(pending) {
                        return Ok(Some(attempt));
                    }
                }
                Received::Nothing => return Err(io::ErrorKind::WouldBlock.into()),
                Received::End => return Ok(None),
            }
        }
    }
}

impl Attempt {
    /// The destination that the program wants to connect to; of IPv4, if it was mapped into IPv6.
    pub fn destination(&self) -> SocketAddr {
        self.target.destination
    }

    /// The thread that waits, as this process's PID namespace numbers it.
    pub fn tid(&self) -> u32 {
        self.pending.notification().tid
    }

    /// Lets the kernel make the connection to its destination.
    pub fn go_plain(self) {}

    /// Connects the program's socket to this process over the loopback device, tells the program
    /// that it is connected, and returns the other end, which blocks. It takes tens of
    /// microseconds, and waits for no other host.
    ///
    /// The other end has `SO_LINGER` on with a time of 0. So the kernel resets the connection when
    /// that end is closed, also when this process dies, and the program does not mistake a part of
    /// the stream for all of it. A caller that has carried the connection to its end turns the
    /// option off.
    ///
    /// A socket that blocks gets success; one that does not gets `EINPROGRESS`, is writable at
    /// once, and has no error. The program sees that its peer's address, and its own, are of
    /// the loopback device.
    ///
    /// # Errors
    /// If the socket cannot be connected so, for instance since no port or no descriptor is left:
    /// the kernel makes the connection to its destination. [`io::ErrorKind::NotFound`] if the
    /// program no longer waits.
    pub fn divert(mut self) -> io::Result<TcpStream> {
        let socket = self.socket.as_fd();
        let prepared = nonblocking(socket).and_then(|nonblocking| {
            // The kernel answers the second call of a socket that does not block as it should.
            let remembered = self.pending.is_interruptible() && !nonblocking;
            let cookie = remembered.then(|| task::cookie(socket)).transpose()?;
            self.pending.note_divert(cookie)?;
            Ok(nonblocking)
        });
        if !self.pending.is_waiting() {
            self.pending.forget();
            return Err(io::Error::new(io::ErrorKind::NotFound, "the program no longer waits for its connection"));
        }
        let watch = Arc::clone(self.pending.watch());
        let connected = prepared.and_then(|prepared| Ok((prepared, watch.loopback.connect(socket, self.target.side)?)));
        // Until this copy is dropped, the program could not close its socket.
        drop(self.socket);
        match connected {
            Ok((nonblocking, stream)) => {
                self.pending.diverted(nonblocking);
                Ok(stream)
            }
            Err(error) => {
                self.pending.fail();
                Err(error)
            }
        }
    }
}

impl AsFd for Notifier {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notifier").field("counters", &self.0.counters).finish_non_exhaustive()
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Attempt");
        debug.field("tid", &self.tid()).field("destination", &self.destination()).finish_non_exhaustive()
    }
}

/// Makes an attempt of a connection that could be diverted, and answers any other one.
fn examine(pending: Pending) -> Option<Attempt> {
    let target = match target(&pending) {
        Ok(target) => target,
        Err(reason) => {
            pending.pass(reason);
            return None;
        }
    };
    let (socket, judged) = match socket(&pending, &target) {
        Ok(found) => found,
        Err(reason) => {
            pending.pass(reason);
            return None;
        }
    };
    if !pending.is_waiting() {
        pending.forget();
        return None;
    }
    match judged {
        Ok(()) => Some(Attempt { pending, socket, target }),
        Err(Passed::InUse) if is_connected_since_its_interruption(&pending, socket.as_fd()) => {
            pending.end_again();
            None
        }
        Err(reason) => {
            drop(socket);
            pending.pass(reason);
            None
        }
    }
}

fn target(pending: &Pending) -> Result<Target, Passed> {
    let notification = pending.notification();
    let address = task::address(notification.tid, notification.address, notification.length)?;
    let target = judge::target(&address)?;
    if pending.watch().loopback.has(target.side) { Ok(target) } else { Err(Passed::NoLoopback) }
}

/// The program's socket, and whether it may be diverted.
fn socket(pending: &Pending, target: &Target) -> Result<(OwnedFd, Result<(), Passed>), Passed> {
    let notification = pending.notification();
    let socket = task::descriptor(notification.tid, notification.fd)?;
    let network = pending.watch().loopback.network();
    // Where the kernel does not describe it, it is no socket.
    let facts = task::facts(socket.as_fd(), notification.tid, network).map_err(|_| Passed::NotTcp)?;
    let judged = judge::socket(&facts, target.side);
    Ok((socket, judged))
}

fn is_connected_since_its_interruption(pending: &Pending, socket: BorrowedFd<'_>) -> bool {
    pending.is_interruptible() && task::cookie(socket).is_ok_and(|cookie| pending.was_interrupted(cookie))
}

fn nonblocking(socket: BorrowedFd<'_>) -> io::Result<bool> {
    socket2::SockRef::from(&socket).nonblocking()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        notify::{keeper, spawn},
        sys::seccomp::Waiting,
    };
    use nix::{
        sys::signal::{Signal, kill},
        unistd::Pid,
    };
    use std::{
        env, fs,
        io::{Read, Write},
        process::{Child, Command, Stdio},
    };

    const ROLE: &str = "RAILS_DIVERT_TEST_ROLE";
    /// An address of the documentation (RFC 5737).
    const NOWHERE: &str = "192.0.2.1:4242";

    /// This test program as a keeper, or as a program that connects.
    #[test]
    fn role() {
        match env::var(ROLE).as_deref() {
            Ok("keeper") => keeper::run().expect("it keeps"),
            Ok(_) => {
                let mut said = String::new();
                TcpStream::connect(NOWHERE).expect("connected").read_to_string(&mut said).expect("connected");
                assert_eq!(said, "gate");
            }
            Err(_) => {}
        }
    }

    /// Starts a program whose waits are ended by any signal, as on a kernel before 5.19.
    fn start() -> (Child, Notifier) {
        let this = |role: &str| {
            let mut command = Command::new(env::current_exe().expect("it is running"));
            command.args(["--exact", "notify::notifier::tests::role", "--nocapture", "--test-threads=1"]);
            command.env(ROLE, role).stdout(Stdio::null());
            command
        };
        spawn::start(this("program"), this("keeper"), &[Waiting::Interruptible]).expect("it starts")
    }

    /// Stops all threads of a program, and lets them go on.
    fn interrupt(child: &Child) {
        let pid = Pid::from_raw(child.id() as i32);
        kill(pid, Signal::SIGSTOP).expect("it runs");
        let stopped = |task: &fs::DirEntry| {
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            status.contains("State:\tT")
        };
        let tasks = || fs::read_dir(format!("/proc/{pid}/task")).expect("it is a child").flatten();
        while !tasks().all(|task| stopped(&task)) {
            std::thread::yield_now();
        }
        kill(pid, Signal::SIGCONT).expect("it is stopped");
    }

    /// Says all that the program expects, and ends the connection.
    fn say_all(mut stream: TcpStream) {
        stream.write_all(b"gate").expect("it is connected");
        socket2::SockRef::from(&stream).set_linger(None).expect("an option");
    }

    #[test]
    fn an_interrupted_call_is_told_once_more() {
        let (mut child, notifier) = start();
        let first = notifier.next().expect("it is told").expect("it connects");
        interrupt(&child);
        let second = notifier.next().expect("it is told").expect("it connects again");
        assert_eq!(first.divert().expect_err("nobody waits for it").kind(), io::ErrorKind::NotFound);
        say_all(second.divert().expect("it waits"));
        assert!(notifier.next().expect("it is told").is_none());
        assert!(child.wait().expect("it is a child").success());
        assert_eq!((notifier.counters().gone(), notifier.counters().diverted()), (1, 1));
    }

    #[test]
    fn call_interrupted_after_it_connected() {
        let (mut child, notifier) = start();
        let Attempt { mut pending, socket, target } = notifier.next().expect("it is told").expect("it connects");
        let cookie = task::cookie(socket.as_fd()).expect("the kernel numbers sockets");
        pending.note_divert(Some(cookie)).expect("memory");
        let stream = pending.watch().loopback.connect(socket.as_fd(), target.side).expect("a connection");
        drop(socket);
        interrupt(&child);
        pending.diverted(false);
        say_all(stream);
        assert!(notifier.next().expect("it is told").is_none(), "the second call is answered");
        assert!(child.wait().expect("it is a child").success());
    }
}
