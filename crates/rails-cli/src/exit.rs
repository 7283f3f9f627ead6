//! The end of the program: its exit code, and its error message.

use crate::print;
use nix::{
    errno::Errno,
    libc,
    sys::resource::{Resource, getrlimit, setrlimit},
};
use rails_multirail::{
    OpenError, ReadError, SessionError, StreamError, WriteError,
    error::{BindListenerError, FailedLane, JoinError},
};
use rails_net::{BindEndError, ConnectError, ListenError, Repeated};
use std::{error::Error, fmt, io, process::ExitCode, sync::Arc, time::Instant};

/// The result of a command that ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// The command succeeded: 0.
    Done,
    /// Something failed, and was reported: 1.
    Failed,
    /// The command left something out, named it, and did the rest: 3.
    LeftOut,
    /// A signal ended the command.
    Signal(Signal),
    /// A program that the command ran ended with this code.
    Command(u8),
    /// A signal of this number ended a program that the command ran. The same signal ends this
    /// process, when the exit code is asked for.
    CommandSignal(i32),
}

/// A signal that ends a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT, Ctrl-C.
    Interrupt,
    /// SIGTERM, of service managers.
    Terminate,
    /// SIGHUP, of a terminal that was closed.
    HangUp,
    /// SIGXCPU, of a limit on CPU time (RLIMIT_CPU).
    CpuTime,
}

impl Signal {
    /// A shell's exit code for a program that the signal ended: 128 and its number.
    pub fn code(self) -> u8 {
        match self {
            Self::HangUp => 129,
            Self::Interrupt => 130,
            Self::Terminate => 143,
            Self::CpuTime => 152,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(ending: Exit) -> Self {
        match ending {
            Exit::Done => Self::SUCCESS,
            Exit::Failed => Self::FAILURE,
            Exit::LeftOut => Self::from(LEFT_OUT),
            Exit::Signal(signal) => Self::from(signal.code()),
            Exit::Command(code) => Self::from(code),
            Exit::CommandSignal(number) => {
                // The core file is the program's, and not this process's.
                let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
                let _ = rails_bind::process::end_by_signal(number);
                // A signal that ends no process, or that a sandbox does not let be raised.
                Self::from(u8::try_from(128 + number).unwrap_or(u8::MAX))
            }
        }
    }
}

/// Prints the failure, its cause and a remedy to stderr. Returns the exit code: 2 if the command
/// line is wrong, 1 otherwise.
pub fn explain(error: &anyhow::Error) -> ExitCode {
    print::note(format_args!("error: {error:#}"));
    let helped = error.downcast_ref::<Helped>();
    if lacks_descriptors(error) {
        // Other remedies are for files that cannot be opened with descriptors either.
        let (limit, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or_default();
        print::note(format_args!("help: raise the limit on open files: `ulimit -n` is {limit}"));
    } else if let Some(helped) = helped {
        print::note(format_args!("help: {}", helped.help));
    } else {
        if suggests_large_packets_lost(error) {
            print::note("help: try `--mss 1200` at both ends, or `sysctl net.ipv4.tcp_mtu_probing=1`");
        }
        if let Some(help) = error.chain().find_map(help_for_refusal) {
            print::note(format_args!("help: {help}"));
        }
    }
    ExitCode::from(if helped.is_some_and(|helped| helped.usage) { USAGE } else { 1 })
}

/// Whether the process reached its limit on open files.
fn lacks_descriptors(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| match cause.downcast_ref::<Helped>() {
        Some(helped) => lacks_descriptors(&helped.error),
        None => is_emfile(cause),
    })
}

fn is_emfile(cause: &(dyn Error + 'static)) -> bool {
    let Some(error) = cause.downcast_ref::<io::Error>() else { return cause.downcast_ref() == Some(&Errno::EMFILE) };
    // An `io::Error` passes its inner error over in a chain.
    error.raw_os_error() == Some(libc::EMFILE) || error.get_ref().is_some_and(|inner| is_emfile(inner))
}

/// [`explain`]s an error of a command that goes on, once a minute per text at most: others decide
/// how often it comes.
pub fn explain_seldom(error: &anyhow::Error) {
    match EXPLAINED.due(Instant::now(), &format!("{error:#}")) {
        Some(_) => drop(explain(error)),
        None => tracing::debug!(error = format!("{error:#}"), "an error that was explained before"),
    }
}

/// Whether a stream failed because its path probably drops large packets.
fn suggests_large_packets_lost(error: &anyhow::Error) -> bool {
    error.chain().filter_map(stream_error).any(|stream| stream.failure.suggests_large_packets_lost())
}

/// The failure of a stream or a session behind a cause.
fn stream_error<'a>(cause: &'a (dyn Error + 'static)) -> Option<&'a StreamError> {
    if let Some(error) = cause.downcast_ref::<io::Error>() {
        // An `io::Error` passes its inner error over in a chain.
        return stream_error(error.get_ref()?);
    }
    let session = match (cause.downcast_ref(), cause.downcast_ref()) {
        (Some(WriteError::SessionLost(session)), _) | (_, Some(ReadError::SessionLost(session))) => Some(session),
        _ => cause.downcast_ref(),
    };
    match session {
        Some(SessionError::Failed(stream)) => Some(stream),
        _ => cause.downcast_ref(),
    }
}

/// A remedy for a connection or a listener that this machine refused to make.
fn help_for_refusal(cause: &(dyn Error + 'static)) -> Option<&'static str> {
    match cause.downcast_ref() {
        Some(BindListenerError::Listen(ListenError::LocalEnd(BindEndError::Address { address, source })))
            if address.port() == 0 && source.raw_os_error() == Some(libc::EADDRINUSE) =>
        {
            Some(PORTS_TAKEN)
        }
        _ => unmade(cause).and_then(help_for_connection),
    }
}

/// The connection error of the first lane that has one.
fn unmade<'a>(cause: &'a (dyn Error + 'static)) -> Option<&'a ConnectError> {
    let lane = |lane: &'a Arc<FailedLane>| match &lane.error {
        JoinError::Connect(error) => Some(error),
        _ => None,
    };
    match cause.downcast_ref() {
        Some(OpenError::AllFailed { lanes }) => lanes.iter().find_map(lane),
        _ => cause.downcast_ref(),
    }
}

/// A remedy for a connection that this machine refused to make.
pub fn help_for_connection(error: &ConnectError) -> Option<&'static str> {
    let (ConnectError::Call { source, .. } | ConnectError::LocalEnd(BindEndError::Address { source, .. })) = error
    else {
        return None;
    };
    match (error, source.raw_os_error()?) {
        (_, libc::ENETUNREACH) => Some(
            "`ip route get ADDR` prints the route that the kernel chooses; this machine's own addresses take `ip link set \
             lo up`",
        ),
        (ConnectError::Call { .. }, libc::EADDRNOTAVAIL) | (_, libc::EADDRINUSE) => Some(PORTS_TAKEN),
        _ => None,
    }
}

/// An error with a remedy for the user. The text is that of the error.
#[derive(Debug)]
pub struct Helped {
    error: anyhow::Error,
    help: String,
    usage: bool,
}

impl Helped {
    /// An error of the command line.
    pub fn usage(error: impl fmt::Display, help: impl Into<String>) -> anyhow::Error {
        Self { error: anyhow::anyhow!("{error}"), help: help.into(), usage: true }.into()
    }
}

/// Adds a remedy to an error.
pub trait Help {
    /// The error with this remedy, which does not change its text.
    fn help(self, help: impl Into<String>) -> anyhow::Error;
}

impl Help for anyhow::Error {
    fn help(self, help: impl Into<String>) -> anyhow::Error {
        Helped { error: self, help: help.into(), usage: false }.into()
    }
}

impl fmt::Display for Helped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for Helped {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

/// A remedy where the kernel finds no free port.
pub const PORTS_TAKEN: &str = "every local port may be taken: `ss -tan` lists them, and `sysctl \
                                      net.ipv4.ip_local_port_range` has their range";

/// The errors that were explained.
static EXPLAINED: Repeated = Repeated::new();

/// The exit code of a command that left something out.
const LEFT_OUT: u8 = 3;
/// The exit code of a wrong command line, as clap's.
const USAGE: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};
    use rails_multirail::RailId;
    use rails_net::LocalEnd;
    use std::net::SocketAddr;

    #[test]
    fn help_for_connections_this_machine_refuses() {
        let refused = |errno| {
            let source = io::Error::from_raw_os_error(errno);
            let remote = ([127, 0, 0, 1], 1).into();
            ConnectError::Call { call: "connect", remote, local: LocalEnd::Any, source }
        };
        for (errno, remedy) in
            [(libc::ENETUNREACH, "`ip link set lo up`"), (libc::EADDRNOTAVAIL, "net.ipv4.ip_local_port_range")]
        {
            let remote = SocketAddr::from(([127, 0, 0, 1], 1)).into();
            let lane = FailedLane { rail: RailId(0), remote, error: refused(errno).into() };
            let stream = anyhow!(OpenError::AllFailed { lanes: vec![Arc::new(lane)] }).context("--to");
            for error in [stream, anyhow!(refused(errno))] {
                let help = error.chain().find_map(unmade).and_then(help_for_connection);
                assert!(help.is_some_and(|help| help.contains(remedy)), "{error:#}: {help:?}");
            }
        }
        assert_eq!(help_for_connection(&refused(libc::EIO)), None);
    }

    #[test]
    fn lack_of_descriptors_anywhere_in_an_error() {
        let lack = || io::Error::from_raw_os_error(libc::EMFILE);
        for error in [
            anyhow!(lack()),
            anyhow!(Errno::EMFILE).context("the failure"),
            anyhow!(io::Error::other(lack())),
            anyhow!(lack()).help("do this"),
            anyhow!(lack()).help("do this").context("--flag").help("do that"),
        ] {
            assert!(lacks_descriptors(&error), "{error:#}");
        }
        let others = io::Error::from_raw_os_error(libc::ENFILE);
        assert!(!lacks_descriptors(&anyhow!(others).context("the failure").help("do this")));
    }

    #[test]
    fn help_below_further_context() {
        let cause = anyhow!("the cause").context("the failure").help("do this");
        let error = Err::<(), _>(cause).context("--flag").unwrap_err();
        assert_eq!(format!("{error:#}"), "--flag: the failure: the cause");
        assert_eq!(error.downcast_ref::<Helped>().unwrap().help, "do this");
    }
}
