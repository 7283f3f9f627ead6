//! The process that outlives a lab's owner to clean up after it.

use crate::{LabError, system::SystemError};
use std::{
    io::Write,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

/// Kills the programs in a lab's namespaces and deletes the namespaces when the owner dies without
/// dropping the lab.
///
/// The keeper waits on a pipe whose other end only the owner holds, so the kernel itself reports
/// any end of the owner. The keeper has a process group of its own, because Ctrl-C signals the
/// whole group of the terminal's foreground.
#[derive(Debug)]
pub(crate) struct Keeper {
    child: Child,
}

impl Keeper {
    pub(crate) fn start(ip: &Path, namespaces: [&str; 2]) -> Result<Self, LabError> {
        let child = command(ip, &namespaces)
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|source| SystemError::Spawn { command: "/bin/sh -c <keeper of the lab>".into(), source })?;
        Ok(Self { child })
    }
}

impl Drop for Keeper {
    /// Ends the keeper: the owner is alive and has cleaned up.
    fn drop(&mut self) {
        if let Some(mut pipe) = self.child.stdin.take() {
            // The write fails only if the keeper has already ended.
            let _ = pipe.write_all(b"done\n");
        }
        let _ = self.child.wait();
    }
}

/// Does a dead owner's keeper's work in one namespace, at once. Returns whether this call has
/// deleted the namespace.
pub(crate) fn clean_up(ip: &Path, namespace: &str) -> bool {
    command(ip, &[namespace]).stdin(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn command(ip: &Path, namespaces: &[&str]) -> Command {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", SCRIPT, "rails-lab-keeper"])
        .arg(ip)
        .args(namespaces)
        .current_dir("/")
        // Inherited outputs would keep a shell's pipeline open after the owner's end.
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// `read` succeeds on a line and fails at the end of the pipe. A program that starts another just
/// before it is killed takes a further round.
const SCRIPT: &str = r#"
read -r _ && exit 0
ip=$1; shift
for round in 1 2 3 4 5; do
    programs=$(for namespace; do "$ip" netns pids "$namespace"; done)
    [ "$programs" ] || break
    kill -KILL $programs
done
for namespace; do
    "$ip" netns del "$namespace"
done
"#;
