//! A network namespace, cgroups, programs in them, and services.

use ipnet::IpNet;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rails_divert::redirect::Redirect;
use rails_lab::{Entered, LinkLab, Shape, Side};
use std::{
    env, fs,
    io::{self, PipeWriter, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    ops::{Deref, RangeInclusive},
    os::fd::AsFd,
    path::PathBuf,
    process::{Command, Output},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};

/// A network with all ports.
pub(crate) fn net(words: &str) -> (IpNet, RangeInclusive<u16>) {
    (words.parse().unwrap(), 0..=u16::MAX)
}

/// A namespace that the current thread is in, with addresses for services, and a cgroup.
///
/// The documentation networks 192.0.2.0/24, 198.51.100.0/24 and 2001:db8::/32 lead nowhere inside:
/// whoever reaches them was diverted.
pub(crate) struct Ground {
    pub(crate) cgroup: Cgroup,
    _inside: Entered,
    pub(crate) lab: LinkLab,
}

impl Ground {
    pub(crate) fn new() -> Self {
        let lab = LinkLab::builder().link(Shape::mbit(1000)).build().expect("root makes namespaces");
        let inside = lab.enter(Side::A).expect("the namespace is there");
        let lines = "sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.lo.disable_ipv6=0
            ip address add 10.99.0.2/16 dev lo
            ip address add fd00:99::2/64 dev lo nodad";
        run(Command::new("sh").args(["-ec", lines]));
        Self { cgroup: Cgroup::new(), _inside: inside, lab }
    }

    /// A command that runs one part of this test program outside of the cgroup, of which it knows.
    pub(crate) fn part(&self, part: &str) -> Command {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(PART_ARGUMENTS).env(PART, part).env(CGROUP, &self.cgroup.folder);
        command
    }

    /// Redirects the cgroup's connections to the networks, and answers them.
    pub(crate) fn answered(&self, networks: &[(IpNet, RangeInclusive<u16>)]) -> Answered {
        Answered::new(Redirect::install(&self.cgroup.folder, networks, &[]).expect("root redirects"), "through")
    }
}

/// The address of a service that answers each connection by the word `plain`, and forgets it.
pub(crate) fn service(address: &str) -> SocketAddr {
    let listener = TcpListener::bind(address).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            say(stream, "plain".into());
        }
    });
    address
}

/// Says a line, and waits on a thread of its own for the other side's end.
fn say(mut stream: TcpStream, line: String) {
    thread::spawn(move || -> io::Result<()> {
        writeln!(stream, "{line}")?;
        stream.shutdown(Shutdown::Write)?;
        io::copy(&mut stream, &mut io::sink())?;
        Ok(())
    });
}

/// A redirect whose connections are each answered by a word and the destination, until it is
/// dropped.
pub(crate) struct Answered {
    redirect: Arc<Redirect>,
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Answered {
    pub(crate) fn new(redirect: Redirect, word: &'static str) -> Self {
        let redirect = Arc::new(redirect);
        let (stopped, stop) = io::pipe().unwrap();
        let own = redirect.clone();
        let thread = thread::spawn(move || {
            loop {
                match own.try_accept() {
                    Ok((stream, destination)) => say(stream, format!("{word} {destination}")),
                    Err(error) => {
                        assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
                        let mut either = [own.as_fd(), stopped.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
                        poll(&mut either, PollTimeout::NONE).unwrap();
                        if either[1].any() == Some(true) {
                            return;
                        }
                    }
                }
            }
        });
        Self { redirect, stop: Some(stop), thread: Some(thread) }
    }
}

impl Deref for Answered {
    type Target = Redirect;

    fn deref(&self) -> &Redirect {
        &self.redirect
    }
}

impl Drop for Answered {
    fn drop(&mut self) {
        self.stop.take();
        let answer = self.thread.take().unwrap().join();
        assert!(answer.is_ok() || thread::panicking(), "the answering thread panicked");
    }
}

/// A cgroup, removed when it is dropped; its processes must have been reaped.
pub(crate) struct Cgroup {
    pub(crate) folder: PathBuf,
}

impl Cgroup {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let mount = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2")).expect("cgroup2 is mounted");
        let name = format!("rails-divert-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Self::make(PathBuf::from(mount.split(' ').nth(1).unwrap()).join(name))
    }

    fn make(folder: PathBuf) -> Self {
        fs::create_dir(&folder).unwrap();
        Self { folder }
    }

    /// A cgroup below this one.
    pub(crate) fn below(&self, name: &str) -> Self {
        Self::make(self.folder.join(name))
    }

    /// A command that runs in the cgroup, and in the network namespace of the thread that spawns
    /// it.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-ec", "echo $$ > \"$0\"/cgroup.procs; exec \"$@\""]).arg(&self.folder).arg(program);
        command
    }

    /// The lines that a Python program prints, which runs in the cgroup.
    pub(crate) fn python(&self, program: &str) -> Vec<String> {
        lines(run(self.command("python3").args(["-c", &format!("{PRELUDE}{program}")])))
    }

    /// A command that runs one part of this test program, in the cgroup.
    pub(crate) fn part(&self, part: &str) -> Command {
        let mut command = self.command("sh");
        command.args(["-ec", "ulimit -n 4096; exec \"$0\" \"$@\""]);
        command.arg(env::current_exe().unwrap()).args(PART_ARGUMENTS).env(PART, part).env(CGROUP, &self.folder);
        command
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let removed = fs::remove_dir(&self.folder);
        assert!(removed.is_ok() || thread::panicking(), "{removed:?}");
    }
}

/// Runs a command to its end, which must be a success.
pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

pub(crate) fn lines(output: Output) -> Vec<String> {
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// All that a stream says.
pub(crate) fn heard(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.trim_end().to_owned()
}

/// An address of the documentation network 192.0.2.0/24.
pub(crate) const NETWORK: &str = "192.0.2.1";
/// The environment variable that names the part of this program to run.
pub(crate) const PART: &str = "RAILS_DIVERT_TEST_PART";
/// The environment variable that names the cgroup of the ground.
pub(crate) const CGROUP: &str = "RAILS_DIVERT_TEST_CGROUP";

const PART_ARGUMENTS: [&str; 4] = ["--exact", "parts::part", "--nocapture", "--quiet"];

/// Python's sockets, with a deadline for a broken program.
const PRELUDE: &str = "
import errno, os, select, socket, struct, sys
from socket import *
setdefaulttimeout(60)
def heard(s):
    parts = []
    while True:
        part = s.recv(4096)
        if not part: break
        parts.append(part)
    return b''.join(parts).decode().strip()
def peer(s):
    host, port = s.getpeername()[:2]
    return f'[{host}]:{port}' if ':' in host else f'{host}:{port}'
";
