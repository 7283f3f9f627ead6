//! Dry runs: nothing changes, and the run behind them does what they have told.

use super::support::{Node, Notes, Tree, block_on, bytes, harvest, plant, transfer_with};
use proptest::prelude::*;
use rails_transfer::{Compare, How, SendOptions, SendSummary, receive};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::Path,
    sync::Arc,
};
use tempfile::tempdir;
use tokio::io::duplex;
use walkdir::WalkDir;

/// All that a change could alter, of a folder and of everything below it.
fn stamps(root: &Path) -> BTreeMap<String, [i64; 7]> {
    let stamp = |entry: walkdir::Result<walkdir::DirEntry>| {
        let entry = entry.unwrap();
        let there = fs::symlink_metadata(entry.path()).unwrap();
        let [inode, mode, size] = [there.ino(), there.mode().into(), there.size()].map(|number| number as i64);
        let times = [there.mtime(), there.mtime_nsec(), there.ctime(), there.ctime_nsec()];
        let stamp = [inode, mode, size, times[0], times[1], times[2], times[3]];
        (entry.path().display().to_string(), stamp)
    };
    WalkDir::new(root).into_iter().map(stamp).collect()
}

/// The files by what became of them, or would.
fn outcomes(summary: &SendSummary) -> BTreeMap<String, (bool, u64)> {
    let outcome = |how| match how {
        How::Sent { resumed_at } | How::WouldSend { resumed_at } => (true, resumed_at),
        How::AlreadyThere | How::WouldUpdate => (false, 0),
    };
    summary.files.iter().map(|file| (file.path.to_string(), outcome(file.how))).collect()
}

/// A few names at two levels, each of them missing, a file of one of few contents, a folder or a
/// link.
fn trees() -> impl Strategy<Value = Tree> {
    let node = (0..6_u8, 0..3_u64, prop_oneof![Just(0o644), Just(0o600)]);
    proptest::collection::vec(node, 12).prop_map(|nodes| {
        let mut tree = Tree::new();
        let names = ["a", "b", "c", "a/x", "a/y", ".b.rails-part", "b/x", "b/y", ".a.rails-part", "c/x", "l", "m"];
        for (name, (kind, seed, mode)) in names.into_iter().zip(nodes) {
            let above = name.split_once('/').map(|(above, _)| above.as_bytes().to_vec());
            let has_room = above.is_none_or(|above| matches!(tree.get(&above), Some(Node::Folder(_))));
            let is_part = name.contains("part");
            let node = match kind {
                0 | 1 if !is_part => Node::Folder(0o755),
                2 if !is_part => Node::Link(if seed == 0 { b"a".to_vec() } else { b"../out".to_vec() }),
                3 => continue,
                _ if is_part => Node::File(0o600, bytes(seed, 400)),
                _ => Node::File(mode, bytes(seed, 1000)),
            };
            if has_room {
                tree.insert(name.as_bytes().to_vec(), node);
            }
        }
        tree
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_dry_run_tells_what_a_run_does(ours in trees(), theirs in trees(), digests: bool, same_time: bool) {
        let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
        let ours: Tree = ours.into_iter().filter(|(path, _)| !path.ends_with(b"part")).collect();
        plant(from.path(), &ours);
        plant(into.path(), &theirs);
        if same_time {
            for path in ours.iter().filter(|(path, node)| theirs.get(*path) == Some(node)).map(|(path, _)| path) {
                let path = String::from_utf8(path.clone()).unwrap();
                let there = fs::symlink_metadata(from.path().join(&path)).unwrap();
                if there.is_file() {
                    let file = fs::File::open(into.path().join(&path)).unwrap();
                    file.set_modified(there.modified().unwrap()).unwrap();
                }
            }
        }
        let sources = [from.path().join(".")];
        let compare = if digests { Compare::Digests } else { Compare::Times };
        let options = || SendOptions::new().compare(compare);
        let before = (stamps(from.path()), stamps(into.path()));
        let (tried, told) = transfer_with(options().dry_run(true).remove_sources(true), &sources, into.path());
        prop_assert_eq!((stamps(from.path()), stamps(into.path())), before);
        let (tried, told) = (tried.unwrap(), told.unwrap());
        prop_assert!(told.is_dry_run && tried.bytes_sent == 0);

        let (sent, received) = transfer_with(options(), &sources, into.path());
        let (sent, received) = (sent.unwrap(), received.unwrap());
        prop_assert_eq!(outcomes(&tried), outcomes(&sent));
        let failed = |summary: &SendSummary| {
            summary.failures.iter().map(|failure| failure.path.clone()).collect::<Vec<_>>()
        };
        // Seals come behind a run's other failures, and fail where the folder did.
        prop_assert_eq!(failed(&tried), failed(&sent));
        prop_assert_eq!((told.would_store, told.already_there), (received.stored, received.already_there));
    }
}

#[test]
fn a_dry_run_makes_no_folder_and_locks_no_part() {
    let (from, outer) = (tempdir().unwrap(), tempdir().unwrap());
    let source = from.path().join("big");
    fs::write(&source, bytes(1, 100_000)).unwrap();
    let into = outer.path().join("into");
    let options = || SendOptions::new().dry_run(true);
    let (tried, told) = transfer_with(options(), std::slice::from_ref(&source), &into);
    assert_eq!(tried.unwrap().files[0].how, How::WouldSend { resumed_at: 0 });
    assert!(told.unwrap().is_complete() && harvest(outer.path()).is_empty());

    // A part that another transfer writes.
    fs::create_dir(&into).unwrap();
    let part = into.join(".big.rails-part");
    fs::write(&part, bytes(1, 1000)).unwrap();
    fs::set_permissions(&part, fs::Permissions::from_mode(0o600)).unwrap();
    let held = fs::File::open(&part).unwrap();
    held.try_lock().unwrap();
    let (tried, _) = transfer_with(options(), &[source], &into);
    assert_eq!(tried.unwrap().files[0].how, How::WouldSend { resumed_at: 1000 });
    assert_eq!(harvest(&into).len(), 1);
}

#[test]
fn changes_that_a_dry_run_tells() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    let dir = from.path().join("d");
    fs::create_dir_all(dir.join("sub")).unwrap();
    for name in ["new", "same", "moded"] {
        fs::write(dir.join(name), name).unwrap();
    }
    symlink("new", dir.join("link")).unwrap();
    // A link in the folder's place is none of the sender's folder, wherever it leads.
    fs::create_dir_all(into.path().join("elsewhere/sub")).unwrap();
    fs::write(into.path().join("elsewhere/new"), "new").unwrap();
    symlink("elsewhere", into.path().join("d")).unwrap();
    let tell = |into: &Path| {
        let (a, b) = duplex(4096);
        let notes = Notes::new(|_: &str| {});
        let options = SendOptions::new().dry_run(true);
        let sources = [dir.clone()];
        let (tried, told) =
            block_on(async { tokio::join!(options.send(a, &sources, notes.clone()), receive(b, into, Arc::new(()))) });
        assert!(tried.unwrap().is_complete() && told.unwrap().is_complete());
        let mut notes = notes.notes.lock().unwrap().split_off(1);
        notes.sort_unstable();
        notes
    };
    let all = ["make d 0", "make d/link 0", "make d/sub 0", "send d/moded 5", "send d/new 3", "send d/same 4"];
    assert_eq!(tell(into.path()), all.map(|note| format!("would {note}")));

    fs::remove_file(into.path().join("d")).unwrap();
    let (sent, _) = transfer_with(SendOptions::new(), std::slice::from_ref(&dir), into.path());
    assert!(sent.unwrap().is_complete());
    fs::set_permissions(into.path().join("d/moded"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::remove_file(into.path().join("d/new")).unwrap();
    let some = ["made d 0", "made d/link 0", "made d/sub 0", "there d/same 4", "would send d/new 3"];
    let expected: Vec<_> = some.into_iter().chain(["would update d/moded 5"]).map(String::from).collect();
    assert_eq!(tell(into.path()), expected);
}
