//! The process that lets connections go on in the kernel when nobody else does.
//!
//! A task whose call was received waits until it is answered, and if nobody holds the listener any
//! more, the kernel fails this and all later calls with `ENOSYS`. So each program that is started
//! by [`spawn`](super::spawn()) has a *keeper*: a process that holds the listener as well, and
//! sleeps until the notifier is gone. Then it answers the calls that were received, by the
//! journal that the two processes share, and all later ones, until the last task with the filter
//! ends. A socket that was connected to the dead process, whose program was not told yet, is cut
//! and connected to its destination; where `ptrace_scope` is 1, the keeper may not do so, and the
//! program gets `EISCONN` for this one socket.
//!
//! If the keeper is killed as well, its program can make no connections any more.

use super::{
    journal::{self, Journal, Record},
    loopback, task,
};
use crate::sys::{
    pidfd::{self, Whole},
    rights,
    seccomp::{Listener, Ready, is_gone},
};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        prctl,
        signal::SigSet,
        socket::{getsockopt, sockopt},
    },
    unistd::setsid,
};
use std::{
    env,
    fs::File,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    process::{Child, Command, Stdio},
    time::Duration,
};

/// Keeps a program's connections alive after the death of the process that watched them; returns
/// once the last task with the filter has ended.
///
/// The program that is given to [`spawn`](super::spawn()) as keeper calls it, before it starts
/// threads. Standard input is the way to the process that watches. Signals are blocked, and the
/// session is a new one, so that what ends the watching process does not end the keeper.
///
/// # Errors
/// If standard input is not such a way, and as `poll(2)` and `ioctl(2)`.
pub fn run() -> io::Result<()> {
    SigSet::all().thread_block()?;
    // The process may lead a group already; then it is not the foreground's.
    let _ = setsid();
    let _ = prctl::set_name(c"rails-keeper");
    env::set_current_dir("/")?;
    let link = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let [listener, journal] = rights::receive(link.as_fd())?;
    let (listener, journal) = (Listener::from_descriptor(listener), File::from(journal));
    let watcher = watcher(&link);
    (&link).write_all(&[0])?;
    match wait(&listener, &link, watcher.as_ref())? {
        Waited::ProgramEnded => Ok(()),
        Waited::WatcherGone => take_over(&listener, &journal),
    }
}

/// A keeper, as the process that watches has it.
#[derive(Debug)]
pub(super) struct Keeper {
    process: Child,
    /// The end of this stream tells the keeper that the notifier is gone.
    link: Option<UnixStream>,
}

enum Waited {
    ProgramEnded,
    WatcherGone,
}

impl Keeper {
    /// Starts a keeper, and waits until it keeps.
    pub(super) fn start(mut command: Command, listener: &Listener, journal: &Journal) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn()?;
        // The command holds the other end, too.
        drop(command);
        let mut keeper = Self { process, link: Some(ours) };
        if let Err(error) = keeper.introduce(listener, journal) {
            let _ = keeper.process.kill();
            let _ = keeper.process.wait();
            return Err(error);
        }
        Ok(keeper)
    }

    /// Leaves the program to the keeper. If the program has ended, so does the keeper.
    pub(super) fn leave(&mut self, program_ended: bool) {
        self.link = None;
        // Otherwise the keeper outlives the notifier, and its status is for the system to take.
        let _ = if program_ended { self.process.wait().map(Some) } else { self.process.try_wait() };
    }

    fn introduce(&mut self, listener: &Listener, journal: &Journal) -> io::Result<()> {
        let mut link = self.link.as_ref().expect("it has just been made");
        rights::send(link, [listener.as_fd(), journal.as_fd()])?;
        link.set_read_timeout(Some(MAX_START))?;
        link.read_exact(&mut [0])
    }
}

/// The process that watches, which waits for this one's first word. Its children may hold a copy of
/// the link.
fn watcher(link: &UnixStream) -> Option<OwnedFd> {
    let pid = getsockopt(link, sockopt::PeerCredentials).ok()?.pid();
    // The number is 0 for a process of another PID namespace.
    let pid = u32::try_from(pid).ok().filter(|pid| *pid > 0)?;
    pidfd::open(pid, Whole::Process).ok()
}

/// Sleeps until the program ends, or the process that watches it, or this one's notifier.
fn wait(listener: &Listener, link: &UnixStream, watcher: Option<&OwnedFd>) -> io::Result<Waited> {
    // Without events of its own, the listener tells of its end alone.
    let mut waits =
        vec![PollFd::new(listener.as_fd(), PollFlags::empty()), PollFd::new(link.as_fd(), PollFlags::POLLIN)];
    waits.extend(watcher.map(|process| PollFd::new(process.as_fd(), PollFlags::POLLIN)));
    loop {
        match poll(&mut waits, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let mut happened = waits.iter().map(|wait| wait.any() == Some(true));
        if happened.next() == Some(true) {
            return Ok(Waited::ProgramEnded);
        }
        if happened.any(|happened| happened) {
            return Ok(Waited::WatcherGone);
        }
    }
}

/// Answers all that was received, and all that will come.
fn take_over(listener: &Listener, journal: &File) -> io::Result<()> {
    let records = journal::read(journal)?;
    for record in &records {
        rescue(listener, record);
    }
    // The dead process may have received one notification more, which it had no time to record. Its
    // number is above the last recorded one, by as many as tasks ended before they were received.
    // Numbers of notifications that nobody has received are not answered, but received below.
    if let Some(last) = records.iter().max_by_key(|record| record.count) {
        for distance in 1..=MAX_DISTANCE {
            let _ = listener.go_on(last.id.wrapping_add(distance));
        }
    }
    while listener.wait(PollTimeout::NONE)? != Ready::End {
        if let Some(notification) = listener.receive()? {
            listener.go_on(notification.id).or_else(|error| if is_gone(&error) { Ok(()) } else { Err(error) })?;
        }
    }
    Ok(())
}

/// Lets the call of a recorded notification go on, if its task still waits.
fn rescue(listener: &Listener, record: &Record) {
    if record.diverting && listener.is_waiting(record.id) {
        // Where the socket cannot be taken, the kernel tells the program whether it is connected.
        let _ = undo(listener, record);
    }
    let _ = listener.go_on(record.id);
}

/// Takes the connection to the dead process away, which may have been reset at its death. A socket
/// that was not connected yet stays as it is.
fn undo(listener: &Listener, record: &Record) -> io::Result<()> {
    let refused = |_| io::Error::from(io::ErrorKind::PermissionDenied);
    let socket = task::descriptor(record.tid, record.fd).map_err(refused)?;
    if listener.is_waiting(record.id) { loopback::undo(socket.as_fd()) } else { Ok(()) }
}

/// A keeper starts within milliseconds; a busy machine needs longer.
const MAX_START: Duration = Duration::from_secs(30);

/// As many tasks may have been killed in their calls between two receipts. Each number costs the
/// keeper less than a microsecond, once.
const MAX_DISTANCE: u64 = 1 << 14;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::seccomp::{self, Waiting};
    use std::{sync::mpsc::channel, thread};

    #[test]
    fn calls_that_were_received_go_on() {
        let (send, listeners) = channel();
        // Both threads have the filter, and each waits in a call.
        let calling = thread::spawn(move || {
            prctl::set_no_new_privs().expect("it is always permitted");
            send.send(seccomp::install(Waiting::Killable).expect("the kernel notifies")).expect("the test listens");
            let other = thread::spawn(seccomp::connect_nothing);
            [seccomp::connect_nothing(), other.join().expect("it ends")]
        });
        let listener = listeners.recv().expect("it tells");
        let receive = || listener.receive().expect("it waits").expect("it waits");
        let journal = Journal::new().expect("memory");
        // The first one is recorded; before the second one is, its receiver dies.
        let recorded = receive();
        journal.note(&recorded).expect("memory");
        let unrecorded = receive();
        assert_eq!(unrecorded.id, recorded.id.wrapping_add(1));
        let copy = File::from(journal.as_fd().try_clone_to_owned().expect("a descriptor"));
        take_over(&listener, &copy).expect("both threads end");
        for error in calling.join().expect("it ends") {
            assert_eq!(error.raw_os_error(), Some(libc::EBADF), "the kernel has answered");
        }
    }
}
