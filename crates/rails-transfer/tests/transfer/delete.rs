//! Entries that the sender does not have are removed, if both ends want that.

use super::support::{Node, Notes, Results, Tree, block_on, bytes, harvest, plant};
use proptest::prelude::*;
use rails_transfer::{FileList, Filter, Observer, ReceiveError, ReceiveOptions, SendError, SendOptions, SendSummary};
use std::{
    collections::BTreeSet,
    fs,
    os::unix::{
        fs::{PermissionsExt, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    sync::Arc,
};
use tempfile::tempdir;
use tokio::io::duplex;

/// Runs both ends, of which the receiver allows deletions.
fn allowed(options: SendOptions, sources: &[PathBuf], into: &Path, observer: Arc<dyn Observer>) -> Results {
    let (a, b) = duplex(256);
    let receiver = ReceiveOptions::new().allow_delete(true);
    block_on(async { tokio::join!(options.send(a, sources, observer), receiver.receive(b, into, Arc::new(()))) })
}

/// Sends one folder; gives the result, and the removed entries.
fn mirror(options: SendOptions, source: &Path, into: &Path) -> (SendSummary, BTreeSet<String>) {
    let notes = Notes::new(|_: &str| {});
    let (sent, received) = allowed(options.delete(true), &[source.to_owned()], into, notes.clone());
    let (sent, received) = (sent.unwrap(), received.unwrap());
    assert_eq!((sent.removed, sent.is_complete()), (received.removed, received.is_complete()), "{sent:?}");
    let notes = notes.notes.lock().unwrap();
    let removed = notes.iter().filter_map(|note| note.strip_prefix("would ").unwrap_or(note).strip_prefix("remove"));
    let removed = removed.filter_map(|note| note.strip_prefix("d ").or(note.strip_prefix(' ')));
    (sent, removed.map(|note| note.trim_end_matches(" 0").to_owned()).collect())
}

fn trees() -> impl Strategy<Value = Tree> {
    proptest::collection::vec(0..4_u8, 14).prop_map(|kinds| {
        let names =
            ["a", "b", "b/c", "b/c/d", "b/c/e", "b/f", "g", "g/h", "g/h/i", "g/h/i/j", "g/k", "keep", "keep/l", "m"];
        let mut tree = Tree::new();
        for (name, kind) in names.into_iter().zip(kinds) {
            let above = name.rsplit_once('/').map(|(above, _)| above.as_bytes().to_vec());
            if above.is_none_or(|above| matches!(tree.get(&above), Some(Node::Folder(_)))) {
                let node = match kind {
                    0 => continue,
                    1 => Node::Folder(0o755),
                    2 => Node::Link(b"../../outside".to_vec()),
                    _ => Node::File(0o644, bytes(1, 10)),
                };
                tree.insert(name.as_bytes().to_vec(), node);
            }
        }
        tree
    })
}

/// The names of a tree, without those that a pattern of the test leaves out.
fn names(tree: &Tree, but: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let names = tree.keys().map(|path| String::from_utf8(path.clone()).unwrap());
    names.filter(|name| !but(name)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn folders_become_those_of_the_sender(ours in trees(), theirs in trees(), protects: bool, of_root: bool) {
        let outer = tempdir().unwrap();
        let (from, into) = (outer.path().join("from/d"), outer.path().join("into/d"));
        for folder in [&from, &into, &outer.path().join("outside")] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(outer.path().join("outside/f"), "x").unwrap();
        plant(&from, &ours);
        plant(&into, &theirs);
        // Beside a folder that is sent, and in the receiving one.
        fs::write(outer.path().join("into/beside"), "x").unwrap();
        let is_left_out = |name: &str| protects && name.split('/').any(|part| part == "keep" || part == "e");
        let filter = || {
            let filter = Filter::new();
            if protects { filter.exclude("keep").unwrap().exclude("e").unwrap() } else { filter }
        };
        let (source, target) = match of_root {
            true => (from.join("."), into.clone()),
            false => (from.clone(), outer.path().join("into")),
        };
        let options = || SendOptions::new().filter(filter());
        let before = harvest(outer.path());
        let (tried, would) = mirror(options().dry_run(true), &source, &target);
        prop_assert_eq!(harvest(outer.path()), before);
        let (sent, removed) = mirror(options(), &source, &target);

        prop_assert_eq!(&would, &removed);
        prop_assert_eq!((tried.removed, tried.is_removal_off), (sent.removed, sent.is_removal_off));
        prop_assert_eq!(sent.removed, removed.len() as u64);
        prop_assert!(outer.path().join("into/beside").exists());
        prop_assert_eq!(fs::read(outer.path().join("outside/f")).unwrap(), b"x");
        prop_assert_eq!(names(&harvest(&from), |_| false), names(&ours, |_| false));
        let there = harvest(&into);
        prop_assert_eq!(sent.is_removal_off, !sent.is_complete());
        if sent.is_complete() {
            // Folders that hold what is left out stay too.
            let holds = |name: &str| there.keys().any(|path| {
                let path = String::from_utf8_lossy(path);
                path.starts_with(&format!("{name}/")) && is_left_out(&path)
            });
            let is_ours = |name: &str| ours.contains_key(name.as_bytes());
            let expected = names(&ours, is_left_out);
            prop_assert_eq!(names(&there, |name| is_left_out(name) || !is_ours(name) && holds(name)), expected);
            let left_out = |tree: &Tree| names(tree, |name| !is_left_out(name));
            prop_assert_eq!(left_out(&there), left_out(&theirs));
        } else {
            prop_assert!(names(&theirs, |_| false).is_subset(&names(&there, |_| false)));
        }
    }
}

#[test]
fn a_receiver_that_does_not_allow_it_refuses() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    fs::create_dir_all(into.path().join("d")).unwrap();
    fs::write(into.path().join("d/theirs"), "x").unwrap();
    let sources = [from.path().join("d")];
    fs::create_dir(&sources[0]).unwrap();
    fs::write(sources[0].join("ours"), "x").unwrap();
    for dry in [false, true] {
        let (a, b) = duplex(256);
        let options = SendOptions::new().delete(true).dry_run(dry);
        let receiver = ReceiveOptions::new();
        let (sent, received) = block_on(async {
            tokio::join!(options.send(a, &sources, Arc::new(())), receiver.receive(b, into.path(), Arc::new(())))
        });
        assert!(matches!(received, Err(ReceiveError::Delete)), "{received:?}");
        let Err(SendError::Refused(reason)) = sent else { panic!("{sent:?}") };
        assert!(reason.as_str().contains("`recv --allow-delete`"), "{reason}");
        assert_eq!(names(&harvest(into.path()), |_| false), ["d", "d/theirs"].map(String::from).into());
    }
}

#[test]
fn many_entries_and_deep_folders_go() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    let source = from.path().join("d");
    fs::create_dir_all(source.join("sub")).unwrap();
    fs::create_dir_all(into.path().join("d/sub")).unwrap();
    for number in 0..1500 {
        fs::write(into.path().join(format!("d/sub/{number:0200}")), "").unwrap();
    }
    for number in 0..40 {
        fs::create_dir_all(into.path().join(format!("d/x{number}/y/z"))).unwrap();
    }
    let mut deep = into.path().join("d");
    for _ in 0..200 {
        deep.push("deep");
    }
    fs::create_dir_all(&deep).unwrap();
    // A folder that its owner may not write in.
    fs::set_permissions(into.path().join("d/x1/y"), fs::Permissions::from_mode(0o555)).unwrap();
    let (sent, removed) = mirror(SendOptions::new(), &source, into.path());
    assert!(sent.is_complete(), "{:?}", sent.failures);
    assert_eq!((sent.removed, removed.len()), (1500 + 3 * 40 + 200, 1500 + 3 * 40 + 200));
    assert_eq!(names(&harvest(into.path()), |_| false), ["d", "d/sub"].map(String::from).into());
}

#[test]
fn unfinished_files_go_unless_they_are_written() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    let source = from.path().join("d");
    fs::create_dir(&source).unwrap();
    let parts = ["d/.f.rails-part", "d/gone/.f.rails-part", "d/busy/.f.rails-part"];
    for folder in ["d/gone", "d/busy"] {
        fs::create_dir_all(into.path().join(folder)).unwrap();
    }
    for part in parts {
        fs::write(into.path().join(part), "abc").unwrap();
    }
    let busy = fs::File::open(into.path().join(parts[2])).unwrap();
    busy.try_lock().unwrap();
    let (_, would) = mirror(SendOptions::new().dry_run(true), &source, into.path());
    let (sent, removed) = mirror(SendOptions::new(), &source, into.path());
    assert!(sent.is_complete(), "{:?}", sent.failures);
    // A dry run locks nothing, and so does not know of the one that is written.
    assert_eq!(would, ["d/busy", "d/gone"].map(String::from).into());
    assert_eq!(removed, ["d/gone".to_owned()].into());
    let left = ["d", "d/.f.rails-part", "d/busy", "d/busy/.f.rails-part"];
    assert_eq!(names(&harvest(into.path()), |_| false), left.map(String::from).into());
}

#[test]
fn special_files_of_the_sender_stay_there() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    let source = from.path().join("d");
    fs::create_dir(&source).unwrap();
    let _socket = UnixListener::bind(source.join("socket")).unwrap();
    fs::create_dir(into.path().join("d")).unwrap();
    for name in ["socket", "other"] {
        fs::write(into.path().join("d").join(name), "x").unwrap();
    }
    let (sent, removed) = mirror(SendOptions::new(), &source, into.path());
    assert_eq!((sent.skipped.len(), removed), (1, ["d/other".to_owned()].into()));
}

#[test]
fn a_failure_keeps_all_that_is_there() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    let source = from.path().join("d");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("f"), "x").unwrap();
    fs::create_dir_all(into.path().join("d/f")).unwrap();
    fs::write(into.path().join("d/other"), "x").unwrap();
    let (sent, removed) = mirror(SendOptions::new(), &source, into.path());
    assert!(sent.is_removal_off && removed.is_empty() && sent.failures.len() == 1, "{sent:?}");
    assert!(into.path().join("d/other").exists());
}

#[test]
fn links_go_and_are_not_followed() {
    let (from, outer) = (tempdir().unwrap(), tempdir().unwrap());
    let source = from.path().join("d");
    fs::create_dir(&source).unwrap();
    let into = outer.path().join("into");
    fs::create_dir_all(into.join("d/sub")).unwrap();
    for folder in [&outer.path().join("outside"), &into.join("inside")] {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("f"), "x").unwrap();
    }
    symlink("../../outside", into.join("d/far")).unwrap();
    symlink("../inside", into.join("d/near")).unwrap();
    let (sent, removed) = mirror(SendOptions::new(), &source, &into);
    assert!(sent.is_complete(), "{:?}", sent.failures);
    assert_eq!(removed, ["d/far", "d/near", "d/sub"].map(String::from).into());
    assert!(outer.path().join("outside/f").exists() && into.join("inside/f").exists());
}

#[test]
fn options_that_a_deletion_excludes() {
    let from = tempdir().unwrap();
    let sources = [from.path().to_owned()];
    let options = || SendOptions::new().delete(true);
    let list = FileList::parse(b"f", b'\n').unwrap();
    for options in [options().files(list), options().remove_sources(true)] {
        let (a, _b) = duplex(256);
        let sent = block_on(options.send(a, &sources, Arc::new(())));
        assert!(matches!(sent, Err(SendError::Delete | SendError::FileList(_))), "{sent:?}");
    }
}
