//! The CPU time of the programs of a room, by control groups: those of processes that have ended
//! count too, whoever waited for them.

use crate::part::Part;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{self, Command},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

/// The control groups of a room, one for each [`Part`]; removed when dropped, after their
/// processes.
#[derive(Debug)]
pub(crate) struct Usage {
    /// `None` where the system has no second version of control groups, or refuses new ones.
    group: Option<PathBuf>,
}

impl Usage {
    pub(crate) fn new() -> Self {
        Self { group: make().inspect_err(|why| eprintln!("CPU time is not counted: {why}")).ok() }
    }

    /// The command, in the group of its part from its first instruction on.
    pub(crate) fn counted(&self, part: Part, command: &Command) -> Command {
        let Some(group) = &self.group else {
            let mut same = Command::new(command.get_program());
            same.args(command.get_args());
            return same;
        };
        let mut counted = Command::new("/bin/sh");
        counted.args(["-c", ENTER, "sh"]).arg(group.join(part.name()).join("cgroup.procs"));
        counted.arg(command.get_program()).args(command.get_args());
        counted
    }

    /// CPU time in seconds, of the system and of the programs themselves, in the order of
    /// [`Part::ALL`].
    pub(crate) fn seconds(&self) -> Option<[f64; 3]> {
        let group = self.group.as_ref()?;
        let mut seconds = [0.0; 3];
        for (seconds, part) in seconds.iter_mut().zip(Part::ALL) {
            let text = fs::read_to_string(group.join(part.name()).join("cpu.stat")).ok()?;
            *seconds = microseconds(&text)? as f64 / 1e6;
        }
        Some(seconds)
    }
}

impl Drop for Usage {
    fn drop(&mut self) {
        let Some(group) = &self.group else { return };
        for folder in Part::ALL.map(|part| group.join(part.name())).iter().chain([group]) {
            // A killed process leaves its group when it is reaped. What stays is an empty folder of the
            // kernel's, which does no harm.
            for _ in 0..TRIES {
                if fs::remove_dir(folder).is_ok() {
                    break;
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// Makes the groups below the process's own.
fn make() -> Result<PathBuf, String> {
    let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path} cannot be read: {error}"));
    let mounts = read("/proc/self/mounts")?;
    let mount = mount(&mounts).ok_or("no cgroup2 is mounted")?;
    let own = read("/proc/self/cgroup")?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).ok_or("this process has no cgroup2")?;
    let name = format!("rails-programs-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let group = Path::new(mount).join(own).join(name);
    for part in Part::ALL {
        let folder = group.join(part.name());
        fs::create_dir_all(&folder).map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
    }
    Ok(group)
}

/// Where the second version of control groups is mounted (proc_pid_mounts(5)).
fn mount(mounts: &str) -> Option<&str> {
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    fields.filter(|fields| fields.get(2) == Some(&"cgroup2")).find_map(|fields| fields.get(1).copied())
}

/// `usage_usec` of `cpu.stat`, which is there without any controller
/// (Documentation/admin-guide/cgroup-v2.rst).
fn microseconds(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?.trim().parse().ok()
}

static NEXT: AtomicU32 = AtomicU32::new(0);
/// The shell enters the group, and becomes the program.
const ENTER: &str = "echo $$ >\"$1\" && shift && exec \"$@\"";
const TRIES: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_version_is_found_among_the_first() {
        let mounts = "cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(mount(mounts), Some("/sys/fs/cgroup/unified"));
        assert_eq!(mount("cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\n"), None);
    }

    #[test]
    fn cpu_time_is_read() {
        assert_eq!(microseconds("usage_usec 1250\nuser_usec 250\nsystem_usec 1000\n"), Some(1250));
        assert_eq!(microseconds(""), None);
    }
}
