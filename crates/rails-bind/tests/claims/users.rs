//! Another user.

use crate::worker::{Worker, cpus, folder};
use nix::unistd::{Gid, Uid, geteuid, setgroups, setresgid, setresuid};
use std::{fs, os::unix::fs::MetadataExt};

/// Plays in a worker that user 0 has started: all of its threads become another user's.
pub(crate) fn become_user(user: u32) {
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    setgroups(&[]).expect("root may");
    setresgid(gid, gid, gid).expect("root may");
    setresuid(uid, uid, uid).expect("root may");
}

/// Where the tests are not run by root, both are the same user, and the test says so.
#[test]
fn two_users_exclude_each_other() {
    let other = if geteuid().is_root() {
        Some(65534)
    } else {
        eprintln!("NOT ROOT: two processes of one user stand in for two users");
        None
    };
    // Either of them makes the folder and the file.
    for first in [None, other] {
        let (_folder, claims) = folder();
        if first.is_some() {
            // The other may write to where the folder is made, as to /run/lock.
            let parent = claims.folder().parent().expect("it has one");
            let open = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
            fs::set_permissions(parent, open).expect("it is ours");
        }
        let (mut theirs, mut ours) = (Worker::start_as(claims.folder(), other), Worker::start(claims.folder()));
        let (one, two) = if first.is_some() { (&mut theirs, &mut ours) } else { (&mut ours, &mut theirs) };
        assert_eq!(one.tell("claim 0"), "ok CPU 0");
        let maker = first.unwrap_or(geteuid().as_raw());
        for made in [claims.folder(), &claims.folder().join("cpus")] {
            assert_eq!(fs::metadata(made).expect("it is there").uid(), maker);
        }
        let refused = two.tell("claim 0 1");
        assert!(refused.starts_with(&format!("error CPU 0 is held by process {} (`", one.pid())), "{refused}");
        assert!(refused.ends_with(&format!("user {maker}), which holds CPU 0")), "{refused}");
        assert_eq!(two.tell("claim 1"), "ok CPU 1");
        for worker in [&mut theirs, &mut ours] {
            let told = worker.tell("list");
            assert!(told.contains("this process") && told.matches("which holds CPU").count() == 2, "{told}");
        }
        theirs.kill();
        drop(ours);
        drop(claims.claim(cpus([0, 1])).expect("both have ended"));
    }
}

/// As on Fedora, where root alone writes to /run/lock: root's folder is open to the other user.
#[test]
fn folder_that_this_user_may_not_make() {
    if !geteuid().is_root() {
        eprintln!("NOT ROOT: there is no other user to refuse; `/proc` refuses");
        let claims = rails_bind::claims::Claims::at("/proc/rails");
        assert!(claims.claim(cpus([0])).is_err());
        return;
    }
    let (_folder, claims) = folder();
    let mut other = Worker::start_as(claims.folder(), Some(65534));
    let refused = other.tell("claim 0");
    let path = claims.folder().display();
    assert!(refused.starts_with(&format!("error cannot make {path}, the folder of the claims")), "{refused}");
    assert!(refused.contains(&format!("`install -d -m 1777 {path}`")), "{refused}");
    assert_eq!(other.tell("list"), "ok ");
    drop(claims.claim(cpus([0])).expect("root makes it"));
    assert_eq!(other.tell("claim 0"), "ok CPU 0");
}
