//! Another user.

use crate::worker::{Worker, cpus, folder};
use nix::unistd::{Gid, Uid, geteuid, setgroups, setresgid, setresuid};
use rails_bind::claims::{Claims, Resource};
use rails_lab::Sandbox;
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    process::Command,
};

/// Plays in a worker that user 0 has started: all of its threads become another user's.
pub(crate) fn become_user(user: u32) {
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    setgroups(&[]).expect("root may");
    setresgid(gid, gid, gid).expect("root may");
    setresuid(uid, uid, uid).expect("root may");
}

#[test]
#[ignore = "needs root: it becomes another user"]
fn netns_root_excludes_another_user() {
    let (_folder, claims) = folder();
    let (mut roots, mut users) = (Worker::start(claims.folder()), Worker::start_as(claims.folder(), Some(USER)));
    assert_eq!(roots.tell("claim 0"), "ok CPU 0");
    let refused = users.tell("claim 0 1");
    assert!(refused.starts_with(&format!("error CPU 0 is held by process {} (`", roots.pid())), "{refused}");
    assert!(refused.ends_with("user 0), which holds CPU 0"), "{refused}");
    assert_eq!(users.tell("claim 1"), "ok CPU 1");
    for worker in [&mut roots, &mut users] {
        let told = worker.tell("list");
        assert!(told.contains("this process") && told.matches("which holds CPU").count() == 2, "{told}");
    }
}

#[test]
#[ignore = "needs root: it becomes another user"]
fn netns_users_exclude_each_other() {
    let (_folder, claims) = open_folder();
    let [mut one, mut two] = [USER, USER - 1].map(|user| Worker::start_as(claims.folder(), Some(user)));
    assert_eq!(one.tell("claim 0"), "ok CPU 0");
    for made in [claims.folder(), &claims.folder().join("cpus")] {
        assert_eq!(fs::metadata(made).expect("it is there").uid(), USER);
    }
    let refused = two.tell("claim 0 1");
    assert!(refused.starts_with(&format!("error CPU 0 is held by process {} (`", one.pid())), "{refused}");
    assert_eq!(two.tell("claim 1"), "ok CPU 1");
    one.kill();
    assert_eq!(two.tell("claim 0"), "ok CPU 0");
}

#[test]
#[ignore = "needs root: it becomes another user"]
fn netns_root_overrides_another_users_claim() {
    let (_folder, claims) = open_folder();
    let [mut users, mut others] = [USER, USER - 1].map(|user| Worker::start_as(claims.folder(), Some(user)));
    let [mut first, mut second] = [(); 2].map(|()| Worker::start(claims.folder()));
    assert_eq!(users.tell("claim 0"), "ok CPU 0");
    assert_eq!(first.tell("claim 0 1"), "ok CPUs 0-1");
    assert_eq!(fs::metadata(claims.folder()).expect("it is there").uid(), 0, "the user cannot close it");
    let refused = second.tell("claim 0");
    assert!(refused.starts_with(&format!("error CPU 0 is held by process {} (`", first.pid())), "{refused}");
    users.kill();
    for worker in [&mut second, &mut others] {
        let refused = worker.tell("claim 0");
        assert!(refused.starts_with(&format!("error CPU 0 is held by process {} (`", first.pid())), "{refused}");
    }
    assert_eq!(first.tell("release"), "ok");
    assert_eq!(others.tell("claim 0"), "ok CPU 0");
    assert_eq!(second.tell("claim 1"), "ok CPU 1");
}

#[test]
#[ignore = "needs root: it becomes another user"]
fn netns_setuid_program_is_its_users() {
    let (folder, claims) = open_folder();
    drop(claims.claim(cpus([0])).unwrap());
    let program = folder.path().join("cat");
    fs::copy("/bin/cat", &program).unwrap();
    fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).unwrap();
    let mut user = Worker::start_as(claims.folder(), Some(USER));
    assert_eq!(user.tell(&format!("execute {}", program.display())), "ok");
    // The program, `cat`, repeats its input.
    assert_eq!(user.tell("worker: there"), "there");
    let holder = claims.holder_of(&cpus([0])[0]).unwrap().unwrap();
    assert_eq!((holder.pid, holder.user), (Some(user.pid()), Some(USER)));
    assert!(holder.is_overridden_by_this_process());
    claims.claim(cpus([0])).unwrap().check().unwrap();
    assert!(claims.max_cpus_per_user(0).taken().unwrap().is_empty(), "the limit is the user's");
}

#[test]
#[ignore = "needs root: it becomes another user"]
fn netns_root_of_a_user_namespace_overrides_no_user() {
    let (_folder, claims) = open_folder();
    let mut user = Worker::start_as(claims.folder(), Some(USER));
    assert_eq!(user.tell("claim 0"), "ok CPU 0");
    let mut other = Worker::start_in_user_namespace(claims.folder());
    let refused = other.tell("claim 0");
    assert!(refused.starts_with(&format!("error CPU 0 is held by process {}", user.pid())), "{refused}");
    assert_eq!(other.tell("limit 1"), "ok");
    let refused = other.tell("claim 1 2");
    assert!(refused.starts_with("error user 0 would hold CPUs 1-2, and may hold 1"), "{refused}");
    assert_eq!(other.tell("claim 1"), "ok CPU 1");
}

#[test]
#[ignore = "needs root: it becomes another user"]
fn netns_one_user_may_hold_up_to_a_limit() {
    let (_folder, claims) = open_folder();
    let [mut one, mut two] = [(); 2].map(|()| Worker::start_as(claims.folder(), Some(USER)));
    for worker in [&mut one, &mut two] {
        assert_eq!(worker.tell("limit 2"), "ok");
    }
    assert_eq!(one.tell("claim 1"), "ok CPU 1");
    let refused = two.tell("claim 0 3");
    assert!(
        refused.starts_with(&format!("error user {USER} would hold CPUs 0-1,3, and may hold 2: `max_")),
        "{refused}"
    );
    assert!(refused.contains("/etc/rails/claims.toml"), "{refused}");
    assert_eq!(two.tell("claim 0"), "ok CPU 0");
    // Root is not bound.
    drop(claims.max_cpus_per_user(2).claim(cpus(4..9)).expect("they are free"));
}

#[test]
#[ignore = "needs root: it becomes another user"]
fn netns_claims_at_the_limit_can_move() {
    let (_folder, claims) = open_folder();
    let mut user = Worker::start_as(claims.folder(), Some(USER));
    assert_eq!(user.tell("limit 1"), "ok");
    assert_eq!(user.tell("claim 0"), "ok CPU 0");
    assert!(user.tell("claim 1").starts_with("error user "));
    assert_eq!(user.tell("move 1 0"), "ok CPU 1");
}

#[test]
#[ignore = "needs root: it becomes another user"]
fn netns_claims_beyond_the_limit_are_not_heeded() {
    let (_folder, claims) = open_folder();
    let [mut one, mut two] = [USER, USER - 1].map(|user| Worker::start_as(claims.folder(), Some(user)));
    assert_eq!(one.tell("claim 0"), "ok CPU 0");
    assert_eq!(two.tell("claim 1"), "ok CPU 1");
    // A CPU that the machine does not have counts for nothing.
    assert_eq!(one.tell("claim 8191"), "ok CPU 8191");
    let claims = claims.max_cpus_per_user(1);
    assert_eq!(claims.taken().unwrap(), cpus([0, 1]).into_iter().collect());
    assert_eq!(two.tell("release"), "ok");
    assert_eq!(one.tell("claim 1"), "ok CPU 1");
    assert!(claims.taken().unwrap().is_empty());
    assert_eq!(two.tell("claim 8190"), "ok CPU 8190");
    assert!(claims.taken_for_good().unwrap().is_empty(), "root overrides both");
    assert_eq!(claims.list().unwrap().len(), 2, "both are told");
}

/// Claims are locks of processes; those of open files come from other programs.
#[test]
#[ignore = "needs root: it becomes another user"]
fn netns_locks_of_open_files_are_no_claims() {
    let (_folder, claims) = open_folder();
    drop(claims.claim(cpus([0])).unwrap());
    let [mut user, mut other] = [USER, USER - 1].map(|user| Worker::start_as(claims.folder(), Some(user)));
    assert_eq!(user.tell("lock-file"), "ok");
    let list = claims.list().unwrap();
    assert_eq!((list.len(), list[0].pid, list[0].is_open_file), (1, None, true));
    assert!(claims.taken().unwrap().is_empty());
    claims.claim(cpus([0])).unwrap().check().unwrap();
    let refused = other.tell("claim 0");
    assert!(refused.starts_with("error CPU 0 is held by an unknown process"), "{refused}");
}

#[test]
#[ignore = "needs root: it becomes another user"]
fn netns_foreign_things_in_the_way_do_not_stop_root() {
    for (made, is_inside) in
        [("mkdir -m 700", false), ("touch", false), ("ln -s /tmp", false), ("mkdir", true), ("ln -s x", true)]
    {
        let (_folder, claims) = open_folder();
        let path = if is_inside { claims.folder().join("cpus") } else { claims.folder().to_owned() };
        if is_inside {
            fs::create_dir(claims.folder()).unwrap();
            fs::set_permissions(claims.folder(), PermissionsExt::from_mode(0o1777)).unwrap();
        }
        let making = format!("{made} {}", path.display());
        let output = Sandbox::new().user(USER).output(Command::new("sh").args(["-c", &making]));
        assert!(output.status.success(), "{making}: {output:?}");
        let claim = claims.claim(cpus([0])).unwrap_or_else(|error| panic!("{making}: {error}"));
        claim.check().unwrap();
        let mut other = Worker::start_as(claims.folder(), Some(USER));
        assert!(other.tell("claim 0").starts_with("error CPU 0 is held by"), "{making}");
        assert_eq!(other.tell("claim 1"), "ok CPU 1", "{making}");
    }
}

#[test]
#[ignore = "needs root: it becomes another user"]
fn netns_leases_of_users_do_not_stop_root() {
    let (_folder, claims) = open_folder();
    drop(claims.claim([Resource::Interrupt(1)]).unwrap());
    let mut user = Worker::start_as(claims.folder(), Some(USER));
    assert_eq!(user.tell("lease"), "ok");
    let mut other = Worker::start_as(claims.folder(), Some(USER - 1));
    let refused = other.tell("claim 0");
    assert!(refused.contains("is not a regular file that can be opened"), "{refused}");
    claims.claim(cpus([0])).unwrap().check().unwrap();
    assert_eq!(other.tell("claim 0"), "ok CPU 0");
}

#[test]
#[ignore = "needs root: it becomes another user"]
fn netns_names_made_beforehand_do_not_stop_root() {
    let (_folder, claims) = open_folder();
    drop(claims.claim([Resource::Interrupt(1)]).unwrap());
    let pid = std::process::id();
    let making =
        format!("ln -s x cpus; mkdir -p .cpus.aside.{pid}/x; for n in $(seq 0 15); do touch .new.{pid}.$n; done");
    let mut shell = Command::new("sh");
    let output = Sandbox::new().user(USER).output(shell.args(["-c", &making]).current_dir(claims.folder()));
    assert!(output.status.success(), "{output:?}");
    claims.claim(cpus([0])).unwrap().check().unwrap();
}

/// A folder for claims where other users may make it, as in /run/lock on Debian.
fn open_folder() -> (tempfile::TempDir, Claims) {
    let (folder, claims) = folder();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o1777)).expect("it is ours");
    (folder, claims)
}

const USER: u32 = 65534;

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
