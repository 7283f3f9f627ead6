//! Removes the leftovers of labs whose owners died.

use crate::{LabError, keeper, name::NamespaceName, namespace::NAMESPACES, system::file_error, tool::Tools};
use nix::{errno::Errno, sys::signal::kill, unistd::Pid};
use std::{fs, io, path::Path};

/// Deletes the namespaces whose owner is dead, with the programs in them, and returns their names.
pub(crate) fn sweep(tools: &Tools) -> Result<Vec<String>, LabError> {
    let mut removed = Vec::new();
    for name in list()?.into_iter().filter(|name| !is_alive(name.pid)) {
        let name = name.to_string();
        if keeper::clean_up(&tools.ip, &name) {
            removed.push(name);
            continue;
        }
        match tools.ip(["netns", "del", &name]) {
            Ok(()) => removed.push(name),
            // Another process, or the owner's keeper, has deleted it at the same time.
            Err(_) if !Path::new(NAMESPACES).join(&name).exists() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(removed)
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
    use std::process::{Command, id};

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
