//! The holders of claims.

use super::{
    Resources,
    record_lock::Owner,
    user::{self, ROOT},
};
use serde::Serialize;
use std::{fmt, process};

/// A process, and all resources that it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Holder {
    /// The holder's process; `None` if it is not visible here, as in another container
    /// (pid_namespaces(7)).
    pub pid: Option<u32>,
    /// The holder's command line, shortened, with every control character replaced; `None` if
    /// unknown.
    pub command: Option<String>,
    /// The holder's user; `None` if unknown. A process counts as root's only if its real, effective
    /// and saved users are root: a setuid program counts as its caller's.
    pub user: Option<u32>,
    /// Whether the locks are those of an open file (`F_OFD_SETLK`), whose process is unknown. Such
    /// locks are no claims: claims are locks of processes.
    pub is_open_file: bool,
    /// The resources that the holder has.
    pub holds: Resources,
}

impl Holder {
    /// The owner of locks, as `/proc` shows it.
    pub(super) fn of(owner: Owner, holds: Resources) -> Self {
        Self {
            pid: owner.pid(),
            command: owner.pid().and_then(command),
            user: owner.user(),
            is_open_file: owner == Owner::OpenFile,
            holds,
        }
    }

    /// Whether the holder is the calling process.
    pub fn is_this_process(&self) -> bool {
        self.pid == Some(process::id())
    }

    /// Whether a claim of the calling process overrides those of the holder: root's claims override
    /// those of other users, and locks that are no claims. A holder whose user is unknown may be
    /// root, in a container or outside of one.
    pub fn is_overridden_by_this_process(&self) -> bool {
        user::is_root() && (self.is_open_file || self.user.is_some_and(|user| user != ROOT))
    }
}

/// As in "is held by process 77 (`iperf3 -s`, user 1000), which holds CPUs 2-3".
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.pid {
            _ if self.is_this_process() => write!(f, "this process")?,
            None if self.is_open_file => write!(f, "an unknown process, by locks that are no claims")?,
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
        .filter_map(|file| user::beginning(pid, file).ok())
        .map(|text| shown(&text))
        .find(|text| !text.is_empty())
}

/// Shows a command line, which its process chooses: the text must not control a terminal, or turn
/// other text around.
fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text).replace('\0', " ");
    let turns = |c| matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut shown: String =
        text.trim().chars().take(MAX_SHOWN).map(|c| if c.is_control() || turns(c) { '\u{fffd}' } else { c }).collect();
    if text.trim().chars().nth(MAX_SHOWN).is_some() {
        shown.push_str("...");
    }
    shown
}

/// The characters of a command line that are shown at most.
const MAX_SHOWN: usize = 200;

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
            is_open_file: false,
            holds: holds.clone(),
        };
        let ours = Holder::of(Owner::Process(process::id()), holds.clone());
        assert_eq!(ours.to_string(), "this process, which holds CPU 3");
        assert_eq!(ours.user, Some(nix::unistd::geteuid().as_raw()));
        assert!(ours.command.is_some());
        // No process has this number: Linux ends at 2^22.
        let shown = holder(Some(1 << 30), Some("sleep 5"), Some(7)).to_string();
        assert_eq!(shown, "process 1073741824 (`sleep 5`, user 7), which holds CPU 3");
        assert_eq!(
            Holder::of(Owner::Process(1 << 30), holds.clone()).to_string(),
            "process 1073741824, which holds CPU 3"
        );
        let unseen = holder(None, None, None).to_string();
        assert_eq!(unseen, "a process that cannot be seen from here, which holds CPU 3");
        let open_file = Holder::of(Owner::OpenFile, holds).to_string();
        assert_eq!(open_file, "an unknown process, by locks that are no claims, which holds CPU 3");
    }
}
