//! The users whose processes hold claims.

use crate::kernel_files::status_field;
use nix::unistd::getresuid;
use std::{
    fs::{self, File},
    io::{self, Read},
};

/// Whether this process is root's: its real, effective and saved user is the machine's root. The
/// root of a user namespace (user_namespaces(7)) is another user outside of it.
pub(super) fn is_root() -> bool {
    let is_root = getresuid().is_ok_and(|ids| [ids.real, ids.effective, ids.saved].iter().all(|id| id.is_root()));
    // If the map cannot be read, there is most likely one user namespace.
    is_root && fs::read_to_string("/proc/self/uid_map").map_or(true, |map| is_identity(&map))
}

/// The user of a process: root if its real, effective and saved user is root, and otherwise the
/// first other of effective, real and saved. A user who executes a setuid program chooses which
/// locks it begins with.
pub(super) fn of(pid: u32) -> Option<u32> {
    among(&String::from_utf8_lossy(&beginning(pid, "status").ok()?))
}

/// The beginning of a file of `/proc/PID`.
pub(super) fn beginning(pid: u32, file: &str) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(format!("/proc/{pid}/{file}"))?.take(MAX_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

fn among(status: &str) -> Option<u32> {
    let ids: Result<Vec<u32>, _> = status_field(status, "Uid")?.split_whitespace().map(str::parse).collect();
    let &[real, effective, saved, _] = ids.ok()?.as_slice() else { return None };
    Some([effective, real, saved].into_iter().find(|id| *id != ROOT).unwrap_or(ROOT))
}

/// Whether every user has the same number inside and outside of the namespace.
fn is_identity(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

pub(super) const ROOT: u32 = 0;
/// `Uid:` is among the first lines of `status`.
const MAX_BYTES: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_in_all_three_or_somebody_else() {
        let user = |ids: &str| among(&format!("Name:\tx\nUid:\t{ids}\nGid:\t0\t0\t0\t0\n"));
        assert_eq!((user("0\t0\t0\t0"), user("7\t7\t7\t7")), (Some(0), Some(7)));
        let mixed = ["7\t0\t0\t0", "0\t7\t0\t7", "0\t0\t7\t0", "8\t7\t0\t7"];
        assert_eq!(mixed.map(user), [Some(7); 4]);
        assert_eq!((user("0\t0"), user("x\t0\t0\t0"), among("")), (None, None, None));
    }

    #[test]
    fn namespaces_of_all_users_and_of_some() {
        assert!(is_identity("         0          0 4294967295\n"));
        for some in ["", "0 1000 1\n", "0 0 1\n", "0 0 4294967294\n", "0 0 1000\n1000 1000 4294966295\n"] {
            assert!(!is_identity(some), "{some}");
        }
    }
}
