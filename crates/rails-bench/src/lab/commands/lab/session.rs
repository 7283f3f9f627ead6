//! The time of a lab: it is made, programs run in it, it is taken down.

use super::report;
use crate::{exit::Exit, print, stop::Stop, thread::block_on};
use anyhow::{Context, Result, bail};
use nix::{
    sys::signal::{Signal, kill, killpg},
    unistd::Pid,
};
use rails_lab::{LinkLab, Side};
use std::{
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::process::ExitStatusExt,
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};
use tokio::{
    process::{Child, Command},
    time::{sleep, timeout},
};

/// The programs of a lab.
#[derive(Debug, clap::Args)]
pub(crate) struct Programs {
    /// Run this shell command in side B meanwhile; COMMAND starts once it has opened a socket
    #[arg(long, value_name = "COMMAND", requires = "command")]
    serve: Option<String>,
    /// Run this in side A, and end as it ends; without it, the lab stays until Ctrl-C, SIGTERM or
    /// SIGHUP
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Makes the lab, and takes it down when the command has ended or a signal comes. `what` describes
/// each link.
pub(crate) fn run(programs: Programs, what: Vec<String>, build: impl FnOnce() -> Result<LinkLab>) -> Result<Exit> {
    block_on(async {
        let mut stop = Stop::on_signals()?;
        let stopped = async { Exit::Signal(stop.requested().await) };
        let lab = build()?;
        report::made(&lab, &what);
        let ended = match programs.command.split_first() {
            Some((program, arguments)) => both(&lab, programs.serve.as_deref(), program, arguments, stopped).await,
            None => {
                print::note("the lab stays until Ctrl-C");
                Ok(stopped.await)
            }
        };
        report::counters(&lab);
        ended
    })
}

/// Runs the command, and its server before and meanwhile.
async fn both(
    lab: &LinkLab,
    serve: Option<&str>,
    program: &OsStr,
    arguments: &[OsString],
    stopped: impl Future<Output = Exit>,
) -> Result<Exit> {
    let mut stopped = std::pin::pin!(stopped);
    let mut server = match serve {
        Some(serve) => Some(Running::start(lab, Side::B, OsStr::new("sh"), &["-c".into(), serve.into()], true)?),
        None => None,
    };
    if let Some(server) = &mut server {
        tokio::select! {
            ready = server.has_opened_a_socket(lab) => ready?,
            ending = &mut stopped => {
                server.end().await;
                return Ok(ending);
            }
        }
    }
    let mut command = Running::start(lab, Side::A, program, arguments, false)?;
    let ending = tokio::select! {
        status = command.child.wait() => Exit::Command(code(status.context("the command's end")?)),
        ending = &mut stopped => {
            // Ctrl-C in a terminal reaches the command as well, and it may have something to say yet.
            let _ = timeout(FAREWELL, command.child.wait()).await;
            command.end().await;
            ending
        }
    };
    if let Some(server) = &mut server {
        // A server that serves once ends by itself, after it has printed its figures.
        let _ = timeout(LAST_WORDS, server.child.wait()).await;
        server.end().await;
    }
    Ok(ending)
}

/// A program in a lab. It is killed when this is dropped.
struct Running {
    child: Child,
    /// Whether the program leads a process group, so that its children are ended with it.
    is_group: bool,
}

impl Running {
    /// Starts the program. In a group of its own it neither has the terminal nor gets its Ctrl-C,
    /// and speaks on stderr.
    fn start(lab: &LinkLab, side: Side, program: &OsStr, arguments: &[OsString], is_group: bool) -> Result<Self> {
        let mut command = Command::from(lab.side(side).command(program));
        command.args(arguments).envs(environment(lab, side)).kill_on_drop(true);
        if is_group {
            command.process_group(0).stdin(Stdio::null()).stdout(io::stderr());
        }
        let child = command.spawn().with_context(|| format!("cannot start `{}`", program.display()))?;
        Ok(Self { child, is_group })
    }

    /// Waits until a client could connect to side B, or for a while.
    async fn has_opened_a_socket(&mut self, lab: &LinkLab) -> Result<()> {
        let began = Instant::now();
        while !has_sockets(lab)? {
            if let Some(status) = self.child.try_wait().context("--serve")? {
                bail!("--serve: it ended ({status}) before it had opened a socket");
            }
            if began.elapsed() > SOCKET_WAIT {
                print::note(format_args!("warning: --serve: no socket after {SOCKET_WAIT:?}; COMMAND starts anyway"));
                break;
            }
            sleep(SOCKET_POLL).await;
        }
        Ok(())
    }

    /// Asks the program to end, and kills it if it does not.
    async fn end(&mut self) {
        for request in [Signal::SIGTERM, Signal::SIGKILL] {
            // A program that has ended and was waited for has no id.
            let Some(id) = self.child.id().and_then(|id| i32::try_from(id).ok()) else { return };
            // The call fails where the program is gone, and then there is nothing to ask for.
            let _ = if self.is_group { killpg(Pid::from_raw(id), request) } else { kill(Pid::from_raw(id), request) };
            let _ = timeout(FAREWELL, self.child.wait()).await;
        }
    }
}

/// The environment of a program in a lab.
fn environment(lab: &LinkLab, side: Side) -> [(&'static str, String); 4] {
    let addresses = |side| each(lab, |link| lab.address(side, link).to_string());
    [
        ("RAILS_LAB_SIDE", side.to_string()),
        ("RAILS_LAB_LOCAL", addresses(side)),
        ("RAILS_LAB_PEER", addresses(side.other())),
        ("RAILS_LAB_INTERFACES", each(lab, |link| lab.interface(side, link).to_owned())),
    ]
}

fn each(lab: &LinkLab, of: impl Fn(usize) -> String) -> String {
    (0..lab.link_count()).map(of).collect::<Vec<_>>().join(",")
}

/// Whether side B has a listening TCP socket or any UDP one. The namespace is ours alone, so it is
/// the server's.
fn has_sockets(lab: &LinkLab) -> Result<bool> {
    let _inside = lab.enter(Side::B)?;
    let lines = |protocol: &str| {
        let text = fs::read_to_string(format!("/proc/thread-self/net/{protocol}")).unwrap_or_default();
        text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    // proc_pid_net(5): the fourth field is the state, and 0A is TCP_LISTEN.
    let listens = |line: &String| line.split_ascii_whitespace().nth(3) == Some("0A");
    Ok(["tcp", "tcp6"].iter().any(|tcp| lines(tcp).iter().any(listens))
        || ["udp", "udp6"].iter().any(|udp| !lines(udp).is_empty()))
}

/// The exit code that a shell would give: 128 and the signal for a program that one ended.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    u8::try_from(code).unwrap_or(u8::MAX)
}

pub(crate) const AFTER_HELP: &str = "\
Side A has the addresses 10.77.0.1, 10.77.1.1 and so on, side B 10.77.0.2, 10.77.1.2 and so on: one subnet for each link.

COMMAND and the command of --serve find in their environment:
  RAILS_LAB_SIDE        the side they run in: a or b
  RAILS_LAB_LOCAL       the addresses of their side, one for each link, joined by commas
  RAILS_LAB_PEER        the addresses of the other side
  RAILS_LAB_INTERFACES  the interfaces of their side
What the lab is like, what its emulated links did, and what --serve prints goes to stderr; stdout is COMMAND's.

Examples:
  rails-bench lab links --rate 400,100
  rails-bench lab emulated --rate 500 --rtt 19ms --loss 0.001 --seed 7 -- ping -c 3 10.77.0.2
  rails-bench lab emulated --rate 500 --links 2 --serve 'rails-bench serve --once --insecure --listen $RAILS_LAB_LOCAL' \\
    -- sh -c 'rails-bench stream --insecure --to $RAILS_LAB_PEER'

Exit code: that of COMMAND; 129, 130 and 143 after SIGHUP, Ctrl-C and SIGTERM; 1 or 2 where no lab could be made.";

/// How long a program has to end by itself.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long a server has to end of its own accord when its client has. One that does not is asked
/// to.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Longer than a server needs to come up, short enough for one that never opens a socket.
const SOCKET_WAIT: Duration = Duration::from_secs(5);
const SOCKET_POLL: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_code_of_a_command_ended_by_a_signal() {
        assert_eq!(code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(code(ExitStatus::from_raw(Signal::SIGKILL as i32)), 137);
    }
}
