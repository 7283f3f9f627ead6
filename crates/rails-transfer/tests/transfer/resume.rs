//! A cut transfer goes on where it was.

use super::support::{Node, Tree, bytes, harvest, plant, transfer, transfer_cut};
use rails_transfer::{How, ReceiveError, SendError, WireError};
use std::{fs, path::Path};
use tempfile::tempdir;

/// Bytes per block: the price of a cut, beside the framing.
const BLOCK: u64 = 256 * 1024;

fn is_part(name: &[u8]) -> bool {
    name.ends_with(b".rails-part")
}

fn len(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

#[test]
fn cut_anywhere_costs_at_most_a_block() {
    let from = tempdir().unwrap();
    let size = 1_300_000;
    let file = bytes(7, size);
    fs::write(from.path().join("big"), &file).unwrap();
    let sources = [from.path().join("big")];
    let mut cut = 0;
    let mut resumed = 0;
    loop {
        let into = tempdir().unwrap();
        let ((sent, received), passed) = transfer_cut(&sources, into.path(), cut);
        if sent.is_ok() {
            assert!(received.is_ok());
            break;
        }
        let part = len(&into.path().join(".big.rails-part"));
        if into.path().join("big").exists() {
            // Everything but the farewell went through.
            assert_eq!(fs::read(into.path().join("big")).unwrap(), file);
        } else {
            // At most the block that was under way is lost, and the frames around it.
            assert!(part + BLOCK + 200 >= passed as u64, "cut {cut}: {part} of {passed} bytes kept");
        }

        let (sent, received) = transfer(&sources, into.path(), 1 << 16);
        let (sent, received) = (sent.unwrap(), received.unwrap());
        assert!(sent.is_complete() && received.is_complete());
        match sent.files[0].how {
            How::Sent { resumed_at } => {
                assert_eq!((resumed_at, sent.bytes_sent), (part, size as u64 - part), "cut {cut}");
                resumed += u64::from(resumed_at > 0);
            }
            How::AlreadyThere => assert_eq!(sent.bytes_sent, 0),
            how => panic!("no dry run: {how:?}"),
        }
        let whole = Tree::from([(b"big".to_vec(), Node::File(0o644, file.clone()))]);
        assert_eq!(harvest(into.path()), whole, "cut {cut}");
        cut += 41_017;
    }
    assert!(resumed > 10, "only {resumed} of the runs were resumed");
}

#[test]
fn tree_cut_over_and_over_comes_out_whole() {
    let from = tempdir().unwrap();
    let mut tree = Tree::from([(b"d".to_vec(), Node::Folder(0o555))]);
    for file in 0..9 {
        tree.insert(format!("d/{file}").into_bytes(), Node::File(0o444, bytes(file, 100 * file as usize)));
    }
    plant(from.path(), &tree);
    for step in [83, 131, 997] {
        let into = tempdir().unwrap();
        let mut cut = step;
        // Each run is let a little further than the one before it.
        while transfer_cut(&[from.path().join("d")], into.path(), cut).0.0.is_err() {
            for (name, node) in harvest(into.path()) {
                if !is_part(&name)
                    && let Node::File(_, bytes) = node
                {
                    assert_eq!(Some(&bytes), file_bytes(&tree, &name), "cut {cut}");
                }
            }
            cut += step;
        }
        assert_eq!(harvest(into.path()), tree);
    }
}

fn file_bytes<'a>(tree: &'a Tree, name: &[u8]) -> Option<&'a Vec<u8>> {
    match tree.get(name) {
        Some(Node::File(_, bytes)) => Some(bytes),
        _ => None,
    }
}

#[test]
fn a_cut_is_named_at_both_sides() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    fs::write(from.path().join("f"), bytes(1, 100_000)).unwrap();
    let ((sent, received), _) = transfer_cut(&[from.path().join("f")], into.path(), 50_000);
    assert!(matches!(sent, Err(SendError::Wire(WireError::Cut | WireError::Io { .. }))), "{sent:?}");
    assert!(matches!(received, Err(ReceiveError::Wire(WireError::Cut))), "{received:?}");
    // No whole block arrived, and an empty part is not worth keeping.
    assert_eq!(harvest(into.path()), Tree::new());
}

#[test]
fn a_part_of_another_file_is_not_built_upon() {
    let from = tempdir().unwrap();
    let file = bytes(1, 10_000);
    fs::write(from.path().join("f"), &file).unwrap();
    for part in [bytes(2, 5_000), bytes(2, 10_000), bytes(1, 10_001), Vec::new()] {
        let into = tempdir().unwrap();
        fs::write(into.path().join(".f.rails-part"), part).unwrap();
        let (sent, _) = transfer(&[from.path().join("f")], into.path(), 4096);
        assert_eq!(sent.unwrap().files[0].how, How::Sent { resumed_at: 0 });
        assert_eq!(harvest(into.path()), Tree::from([(b"f".to_vec(), Node::File(0o644, file.clone()))]));
    }
}

#[test]
fn complete_part_is_finished_without_a_byte() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    let file = bytes(1, 10_000);
    fs::write(from.path().join("f"), &file).unwrap();
    fs::write(into.path().join(".f.rails-part"), &file).unwrap();
    // An older file of the same size under the final name does not get in the way.
    fs::write(into.path().join("f"), bytes(3, 10_000)).unwrap();
    let (sent, _) = transfer(&[from.path().join("f")], into.path(), 4096);
    let sent = sent.unwrap();
    assert_eq!((sent.files[0].how, sent.bytes_sent), (How::Sent { resumed_at: 10_000 }, 0));
    assert_eq!(harvest(into.path()), Tree::from([(b"f".to_vec(), Node::File(0o644, file))]));
}

#[test]
fn part_of_another_receiver_fails_its_file_alone() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    let sources = [from.path().join("a"), from.path().join("b")];
    sources.iter().for_each(|source| fs::write(source, "x").unwrap());
    let part = fs::File::create(into.path().join(".a.rails-part")).unwrap();
    part.try_lock().unwrap();
    let (sent, received) = transfer(&sources, into.path(), 4096);
    let (sent, received) = (sent.unwrap(), received.unwrap());
    assert_eq!((sent.failures.len(), received.failed, received.stored), (1, 1, 1));
    assert!(sent.failures[0].reason.as_str().contains("another transfer"), "{:?}", sent.failures);
    assert_eq!(sent.failures, received.failures);
    assert!(into.path().join("b").exists() && !into.path().join("a").exists());
}
