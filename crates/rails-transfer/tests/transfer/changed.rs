//! Files that have changed: only the blocks travel that the receiver does not have.

use super::support::{Fault, Node, Notes, Streams, Tree, bytes, harvest, over, plant, transfer, transfer_with};
use proptest::{prelude::*, sample::Index};
use rails_transfer::{Compare, How, SendOptions};
use std::{
    fs,
    os::unix::fs::{FileExt, MetadataExt, symlink},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};
use tempfile::{TempDir, tempdir};

const BLOCK: usize = 256 << 10;
/// So many bytes have the digests of one answer.
const WINDOW: usize = 128 * BLOCK;

/// Two folders with a file each, of different times.
fn two_ends(ours: &[u8], theirs: &[u8]) -> (TempDir, TempDir, [PathBuf; 1]) {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    fs::write(from.path().join("f"), ours).unwrap();
    fs::write(into.path().join("f"), theirs).unwrap();
    fs::File::open(into.path().join("f")).unwrap().set_modified(UNIX_EPOCH).unwrap();
    let source = [from.path().join("f")];
    (from, into, source)
}

fn assert_arrived(into: &Path, file: &[u8]) {
    let arrived = harvest(into);
    assert_eq!(arrived.keys().collect::<Vec<_>>(), [&b"f"[..]]);
    assert!(arrived[&b"f"[..]] == Node::File(0o644, file.to_vec()));
}

#[test]
fn only_changed_blocks_travel() {
    let old = bytes(1, 2 * WINDOW + 3 * BLOCK + 5);
    let mut changed = old.clone();
    changed[WINDOW + 7] ^= 1;
    let more = [&old[..], &bytes(2, 1 << 20)].concat();
    let shorter = old[..old.len() - BLOCK].to_vec();
    for (what, new, max) in
        [("a byte", changed, BLOCK), ("more at the end", more, (1 << 20) + BLOCK), ("less at the end", shorter, BLOCK)]
    {
        for streams in [0, 2] {
            let (_from, into, source) = two_ends(&new, &old);
            let streams = Streams { opened: streams, ..Streams::default() };
            let (sent, received) = over(&streams, &source, into.path(), Arc::new(()));
            let (sent, received) = (sent.unwrap(), received.unwrap());
            assert!(sent.bytes_sent <= max as u64, "{what}: {} bytes", sent.bytes_sent);
            assert_eq!(sent.bytes_sent + sent.bytes_reused, new.len() as u64, "{what}");
            assert_eq!((received.bytes_received, received.bytes_reused), (sent.bytes_sent, sent.bytes_reused));
            assert_eq!(sent.files[0].digest, Some(blake3::hash(&new).into()));
            assert_arrived(into.path(), &new);
        }
    }
}

#[test]
fn equal_files_stay_unwritten() {
    for len in [0, 1, BLOCK, BLOCK + 1, WINDOW, WINDOW + 1] {
        let file = bytes(3, len);
        let (_from, into, source) = two_ends(&file, &file);
        let inode = || fs::metadata(into.path().join("f")).unwrap().ino();
        let before = inode();
        let (sent, _) = transfer_with(SendOptions::new().compare(Compare::Digests), &source, into.path());
        let sent = sent.unwrap();
        assert_eq!((sent.files[0].how, sent.bytes_sent, sent.bytes_reused), (How::AlreadyThere, 0, 0), "{len}");
        assert_eq!(sent.files[0].digest, Some(blake3::hash(&file).into()));
        assert_eq!(inode(), before);
        assert_arrived(into.path(), &file);
    }
}

/// A change of a file.
#[derive(Debug, Clone)]
enum Edit {
    Flip(Index),
    Overwrite(Index, usize, u64),
    Insert(Index, usize),
    Resize(usize),
}

impl Edit {
    fn apply(&self, file: &mut Vec<u8>) {
        let len = file.len();
        match *self {
            Edit::Flip(at) if len > 0 => file[at.index(len)] ^= 0x40,
            Edit::Overwrite(at, by, seed) if len > 0 => {
                let at = at.index(len);
                let by = bytes(seed, by.min(len - at));
                file[at..][..by.len()].copy_from_slice(&by);
            }
            Edit::Insert(at, by) => drop(file.splice(at.index(len + 1)..at.index(len + 1), vec![7; by])),
            Edit::Resize(to) => file.resize(to, 9),
            _ => {}
        }
    }
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let edit = prop_oneof![
        3 => any::<Index>().prop_map(Edit::Flip),
        2 => (any::<Index>(), 1..2 * BLOCK, any::<u64>()).prop_map(|(at, by, seed)| Edit::Overwrite(at, by, seed)),
        1 => (any::<Index>(), 1..1000_usize).prop_map(|(at, by)| Edit::Insert(at, by)),
        1 => (0..9 * BLOCK).prop_map(Edit::Resize),
    ];
    proptest::collection::vec(edit, 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_change_arrives(
        len in prop_oneof![0..3_usize, 0..8 * BLOCK, Just(4 * BLOCK)],
        edits in edits(),
        part in proptest::option::of(any::<Index>()),
        opened in 0..3_usize,
    ) {
        let old = bytes(5, len);
        let mut new = old.clone();
        edits.iter().for_each(|edit| edit.apply(&mut new));
        let (_from, into, source) = two_ends(&new, &old);
        let part = part.map(|part| &new[..part.index(new.len() + 1)]);
        if let Some(part) = part {
            fs::write(into.path().join(".f.rails-part"), part).unwrap();
        }
        let streams = Streams { opened, ..Streams::default() };
        let (sent, received) = over(&streams, &source, into.path(), Arc::new(()));
        let sent = sent.unwrap();
        prop_assert!(sent.is_complete() && received.unwrap().is_complete(), "{:?}", sent.failures);
        assert_arrived(into.path(), &new);
        let resumed = part.map_or(0, <[u8]>::len);
        let lacking = new.chunks(BLOCK).zip(old.chunks(BLOCK).map(Some).chain(std::iter::repeat(None)));
        let lacking: usize = lacking.filter(|(new, old)| Some(*new) != *old).map(|(new, _)| new.len()).sum();
        // Files of two sizes below a block are not compared, and a part may be of a file that is there. It may
        // end within a block, of which the rest is sent.
        let is_compared = old.len() == new.len() || old.len().min(new.len()) >= BLOCK;
        let max = if is_compared { lacking + resumed.next_multiple_of(BLOCK) - resumed } else { new.len() };
        prop_assert!(sent.bytes_sent <= (new.len() - resumed).min(max) as u64, "{} bytes", sent.bytes_sent);
    }
}

#[test]
fn holes_stay_holes_in_a_changed_file() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    let size = 40 << 20;
    let sparse = |folder: &Path, changed: u8| {
        let file = fs::File::create(folder.join("f")).unwrap();
        file.set_len(size).unwrap();
        // As many bytes as there are in the hole before the first change.
        file.write_all_at(&bytes(1, 4 << 20), 20 << 20).unwrap();
        for at in [2, 36] {
            file.write_all_at(&[changed; 10], at << 20).unwrap();
        }
        file.set_modified(UNIX_EPOCH + Duration::from_secs(changed.into())).unwrap();
        file.sync_all().unwrap();
    };
    sparse(from.path(), 1);
    sparse(into.path(), 2);
    let (sent, _) = transfer(&[from.path().join("f")], into.path(), 1 << 16);
    let sent = sent.unwrap();
    assert!(sent.is_complete() && (1..=8192).contains(&sent.bytes_sent), "{} bytes", sent.bytes_sent);
    let there = into.path().join("f");
    let blocks = |folder: &TempDir| fs::metadata(folder.path().join("f")).unwrap().blocks();
    assert!(blocks(&into) < blocks(&from) + 100, "the file system has holes");
    assert!(fs::read(from.path().join("f")).unwrap() == fs::read(there).unwrap());
}

#[test]
fn holes_within_a_changed_block_arrive() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    let sparse = |folder: &Path, at: u64| {
        let file = fs::File::create(folder.join("f")).unwrap();
        file.set_len(4 * BLOCK as u64).unwrap();
        file.write_all_at(&bytes(1, 4096), BLOCK as u64 + at).unwrap();
        file.write_all_at(&bytes(2, 4096), 2 * BLOCK as u64 - at).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(at)).unwrap();
    };
    sparse(from.path(), 64 << 10);
    sparse(into.path(), 32 << 10);
    let (sent, _) = transfer(&[from.path().join("f")], into.path(), 1 << 16);
    let sent = sent.unwrap();
    assert!(sent.is_complete(), "{:?}", sent.failures);
    assert!(fs::read(from.path().join("f")).unwrap() == fs::read(into.path().join("f")).unwrap());
}

#[test]
fn a_cut_leaves_the_old_file_and_a_part() {
    let old = bytes(1, 20 * BLOCK);
    let mut new = old.clone();
    for block in [3, 11, 17] {
        new[block * BLOCK] ^= 1;
    }
    for after in [100, BLOCK / 2, 3 * BLOCK / 2, 5 * BLOCK / 2] {
        let (_from, into, source) = two_ends(&new, &old);
        let cut = Streams { fault: Some(Fault::Kill { after }), ..Streams::default() };
        assert!(over(&cut, &source, into.path(), Arc::new(())).0.is_err());
        assert!(fs::read(into.path().join("f")).unwrap() == old, "{after}");
        if let Ok(part) = fs::read(into.path().join(".f.rails-part")) {
            assert!(new.starts_with(&part), "{after}: the part is the new file's beginning");
        }
        let (sent, _) = over(&Streams::default(), &source, into.path(), Arc::new(()));
        assert!(sent.unwrap().bytes_sent <= 3 * BLOCK as u64);
        assert_arrived(into.path(), &new);
    }
}

/// Another program changes the receiver's file after the sender has its digests.
#[test]
fn a_file_that_changes_at_the_receiver_is_named() {
    let old = bytes(1, 2 * WINDOW);
    let mut new = old.clone();
    new[WINDOW / 2] ^= 1;
    type Change = fn(&Path);
    let changes: [(&str, Change); 5] = [
        ("a link now", |file| {
            fs::rename(file, file.with_file_name("other")).unwrap();
            symlink("other", file).unwrap();
        }),
        ("another of its size and time", |file| {
            let (size, modified) = (2 * WINDOW as u64, fs::metadata(file).unwrap().modified().unwrap());
            fs::rename(file, file.with_file_name("other")).unwrap();
            let other = fs::File::create(file).unwrap();
            other.set_len(size).unwrap();
            other.set_modified(modified).unwrap();
        }),
        ("emptied", |file| fs::write(file, "").unwrap()),
        ("removed", |file| fs::remove_file(file).unwrap()),
        ("written to", |file| fs::File::options().write(true).open(file).unwrap().write_all_at(b"x", 9).unwrap()),
    ];
    for (what, change) in changes {
        let (_from, into, source) = two_ends(&new, &old);
        let there = into.path().join("f");
        let notes = Notes::new(move |note: &str| {
            if note.starts_with("started") {
                change(&there);
            }
        });
        let (sent, _) = over(&Streams { opened: 1, ..Streams::default() }, &source, into.path(), notes);
        let sent = sent.unwrap();
        assert!(
            sent.failures.iter().all(|failure| failure.reason.as_str().contains("changed after")),
            "{what}: {sent:?}"
        );
        assert_eq!(sent.failures.len(), 1, "{what}");
        let (sent, _) = over(&Streams::default(), &source, into.path(), Arc::new(()));
        assert!(sent.unwrap().is_complete(), "{what}");
        if let Ok(other) = fs::read(into.path().join("other")) {
            assert!(other == old, "{what}: the file that was there is as it was");
            fs::remove_file(into.path().join("other")).unwrap();
        }
        assert_arrived(into.path(), &new);
    }
}

/// Each name that goes changes the times of the file, which the others still have.
#[test]
fn names_of_one_file_change_one_by_one() {
    let old = bytes(1, WINDOW + 8 * BLOCK);
    for opened in [0, 2] {
        let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
        fs::write(into.path().join("0"), &old).unwrap();
        for number in 0..4 {
            let mut new = old.clone();
            // The later a file is sent, the later it has the first bytes to copy.
            new.iter_mut().take(number * WINDOW / 3 + 1).step_by(BLOCK).for_each(|byte| *byte ^= 1);
            fs::write(from.path().join(number.to_string()), new).unwrap();
            if number > 0 {
                fs::hard_link(into.path().join("0"), into.path().join(number.to_string())).unwrap();
            }
        }
        fs::File::open(into.path().join("0")).unwrap().set_modified(UNIX_EPOCH).unwrap();
        let streams = Streams { opened, ..Streams::default() };
        let (sent, _) = over(&streams, &[from.path().join(".")], into.path(), Arc::new(()));
        let sent = sent.unwrap();
        assert!(sent.is_complete() && sent.bytes_reused > 0, "{:?}", sent.failures);
        assert!(harvest(into.path()) == harvest(from.path()));
    }
}

#[test]
fn dry_runs_compare_block_by_block() {
    let old = bytes(1, WINDOW + 2 * BLOCK);
    let mut new = old.clone();
    *new.last_mut().unwrap() ^= 1;
    for (ours, how) in [(&old, How::WouldUpdate), (&new, How::WouldSend { resumed_at: 0 })] {
        let (_from, into, source) = two_ends(ours, &old);
        let (sent, _) = transfer_with(SendOptions::new().dry_run(true), &source, into.path());
        assert_eq!(sent.unwrap().files[0].how, how);
        assert_arrived(into.path(), &old);
    }
}

#[test]
fn many_changed_files_over_several_streams() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    let tree = |changed: u8| -> Tree {
        let file = |seed: u64| {
            let mut file = bytes(seed, (seed as usize % 7) * BLOCK + seed as usize);
            if let Some(byte) = file.last_mut() {
                *byte ^= changed;
            }
            Node::File(0o644, file)
        };
        (0..150).map(|seed| (format!("{seed}").into_bytes(), file(seed))).collect()
    };
    plant(from.path(), &tree(1));
    plant(into.path(), &tree(0));
    let (sent, received) = over(&Streams::default(), &[from.path().join(".")], into.path(), Arc::new(()));
    let sent = sent.unwrap();
    assert!(sent.is_complete() && received.unwrap().is_complete());
    assert!(sent.bytes_sent <= 150 * BLOCK as u64 && sent.bytes_reused > 0);
    assert_eq!(harvest(into.path()), tree(1));
}
