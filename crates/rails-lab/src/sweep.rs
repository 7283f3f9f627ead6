//! Removes the leftovers of labs whose owners died.

use crate::{
    LabError,
    name::NamespaceName,
    namespace::NAMESPACES,
    system::{file_error, output},
    tool::Tools,
};
use nix::{
    errno::Errno,
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{fs, io, path::Path, process::Command};

/// Deletes the namespaces whose owner is dead, with the programs in them, and returns their names.
pub(crate) fn sweep(tools: &Tools) -> Result<Vec<String>, LabError> {
    let mut removed = Vec::new();
    for name in list()?.into_iter().filter(|name| !is_alive(name.pid)) {
        let name = name.to_string();
        // The keeper of the owner does so too, and finds no programs once the name is deleted.
        kill_programs(tools, &name);
        match tools.ip(["netns", "del", &name]) {
            Ok(()) => removed.push(name),
            // Another process, or the owner's keeper, has deleted it at the same time.
            Err(_) if !Path::new(NAMESPACES).join(&name).exists() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(removed)
}

/// Kills the programs in a namespace. A program that starts another just before it is killed takes
/// a further round.
fn kill_programs(tools: &Tools, namespace: &str) {
    for _ in 0..5 {
        let programs = output(Command::new(&tools.ip).args(["netns", "pids", namespace])).unwrap_or_default();
        let programs = String::from_utf8_lossy(&programs);
        let mut programs = programs.split_whitespace().filter_map(|pid| pid.parse().ok()).peekable();
        if programs.peek().is_none() {
            return;
        }
        for program in programs {
            // The call fails if the program has just ended.
            let _ = kill(Pid::from_raw(program), Signal::SIGKILL);
        }
    }
}

/// The namespaces of all labs on this machine.
fn list() -> Result<Vec<NamespaceName>, LabError> {
    let fail = file_error("readdir", NAMESPACES);
    let entries = match fs::read_dir(NAMESPACES) {
        Ok(entries) => entries,
        // `ip netns add` makes the folder when it is first used.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(fail(error).into()),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(&fail)?.file_name();
        names.extend(name.to_str().and_then(|name| name.parse::<NamespaceName>().ok()));
    }
    Ok(names)
}

/// Whether a process of this id exists; one of another user's counts. A reused id makes a stale lab
/// look alive, which errs on the harmless side.
fn is_alive(pid: u32) -> bool {
    i32::try_from(pid).is_ok_and(|pid| kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::id;

    #[test]
    fn the_living_are_told_from_the_dead() {
        assert!(is_alive(id()));
        assert!(is_alive(1));
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert!(!is_alive(child.id()));
        assert!(!is_alive(u32::MAX));
    }
}
