//! Who holds claims.

use super::Resources;
use nix::unistd::geteuid;
use serde::Serialize;
use std::{fmt, fs::File, io::Read, process};

/// A process, and everything that it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Holder {
    /// Its process; `None` if that is not visible here, as a container's may not be (pid_namespaces(7)).
    pub pid: Option<u32>,
    /// Its command line, shortened, with every control character replaced; `None` if unknown.
    pub command: Option<String>,
    /// The user whose rights it has; `None` if unknown.
    pub user: Option<u32>,
    /// Its claims.
    pub holds: Resources,
}

impl Holder {
    /// The process of that number, as `/proc` shows it.
    pub(super) fn of(pid: Option<u32>, holds: Resources) -> Self {
        Self { pid, command: pid.and_then(command), user: pid.and_then(user), holds }
    }

    /// Whether it is the calling process.
    pub fn is_this_process(&self) -> bool {
        self.pid == Some(process::id())
    }

    /// Whether a claim of the calling process overrides those of the holder: root's override those of other users. A
    /// holder whose user is unknown may be root, in a container or outside of one.
    pub fn is_overridden_by_this_process(&self) -> bool {
        geteuid().is_root() && self.user.is_some_and(|user| user != 0)
    }
}

/// As in "is held by process 77 (`iperf3 -s`, user 1000), which holds CPUs 2-3".
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            _ if self.is_this_process() => write!(f, "this process")?,
            None => write!(f, "a process that cannot be seen from here")?,
            Some(pid) => {
                let command = self.command.as_ref().map(|command| format!("`{command}`"));
                let user = self.user.map(|user| format!("user {user}"));
                let known: Vec<String> = command.into_iter().chain(user).collect();
                write!(f, "process {pid}")?;
                if !known.is_empty() {
                    write!(f, " ({})", known.join(", "))?;
                }
            }
        }
        write!(f, ", which holds {}", self.holds)
    }
}

fn command(pid: u32) -> Option<String> {
    // A zombie and a thread of the kernel have a name only.
    ["cmdline", "comm"]
        .into_iter()
        .filter_map(|file| beginning(pid, file))
        .map(|text| shown(&text))
        .find(|text| !text.is_empty())
}

/// The effective user of a process, as `ps` shows it.
pub(super) fn user(pid: u32) -> Option<u32> {
    let status = beginning(pid, "status")?;
    let users =
        String::from_utf8_lossy(&status).lines().find_map(|line| line.strip_prefix("Uid:").map(str::to_owned))?;
    users.split_whitespace().nth(1)?.parse().ok()
}

fn beginning(pid: u32, file: &str) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    File::open(format!("/proc/{pid}/{file}")).ok()?.take(MOST_BYTES).read_to_end(&mut text).ok()?;
    Some(text)
}

/// A command line is chosen by its process, and must not be able to write to anybody's terminal, or to turn the text
/// around.
fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text).replace('\0', " ");
    let turns = |c| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut shown: String =
        text.trim().chars().take(MOST_SHOWN).map(|c| if c.is_control() || turns(c) { '\u{fffd}' } else { c }).collect();
    if text.trim().chars().nth(MOST_SHOWN).is_some() {
        shown.push_str("...");
    }
    shown
}

/// Of a file of `/proc/PID`; `Uid:` is among the first lines of `status`.
const MOST_BYTES: u64 = 4096;
/// Of a command line, in characters.
const MOST_SHOWN: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Resource;
    use rails_topo::CpuId;

    #[test]
    fn command_lines_cannot_write_to_the_terminal() {
        assert_eq!(shown(b"iperf3\0-s\0"), "iperf3 -s");
        assert_eq!(shown(b"\x1b[31mred\n\xff"), "\u{fffd}[31mred\n".replace('\n', "\u{fffd}") + "\u{fffd}");
        assert_eq!(shown("a\u{202e}b".as_bytes()), "a\u{fffd}b");
        assert_eq!((shown(&[b'a'; 200]).len(), shown(&[b'a'; 201]).len()), (200, 203));
    }

    #[test]
    fn shown_with_what_is_known() {
        let holds: Resources = [Resource::Cpu(CpuId(3))].into_iter().collect();
        let holder = |pid, command: Option<&str>, user| Holder {
            pid,
            command: command.map(str::to_owned),
            user,
            holds: holds.clone(),
        };
        let ours = Holder::of(Some(process::id()), holds.clone());
        assert_eq!(ours.to_string(), "this process, which holds CPU 3");
        assert_eq!(ours.user, Some(nix::unistd::geteuid().as_raw()));
        assert!(ours.command.is_some());
        // No process has this number: Linux ends at 2^22.
        let shown = holder(Some(1 << 30), Some("sleep 5"), Some(7)).to_string();
        assert_eq!(shown, "process 1073741824 (`sleep 5`, user 7), which holds CPU 3");
        assert_eq!(Holder::of(Some(1 << 30), holds.clone()).to_string(), "process 1073741824, which holds CPU 3");
        let unseen = holder(None, None, None).to_string();
        assert_eq!(unseen, "a process that cannot be seen from here, which holds CPU 3");
    }
}
