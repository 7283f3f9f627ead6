//! The first words of a command, and the two sides of a file transfer, each against a peer that
//! sends anything.

use rails_bench::fuzzing as commands;
use rails_transfer::{ReceiveSummary, fuzzing};
use std::{fs, path::Path, sync::Arc};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, duplex},
    runtime::Builder,
};

/// The first words of a command that calls.
pub(crate) fn conversation(data: &[u8]) {
    commands::conversation(data);
}

pub(crate) fn conversations() -> Vec<Vec<u8>> {
    commands::conversations()
}

/// Messages by themselves.
pub(crate) fn message(data: &[u8]) {
    fuzzing::message(data);
}

pub(crate) fn messages() -> Vec<Vec<u8>> {
    let (sender, receiver) = fuzzing::seeds();
    // Behind the greeting come frames: a kind, the length, the message.
    let mut messages = Vec::new();
    for said in [sender, receiver] {
        let mut rest = &said[GREETING..];
        while let [_, length @ .., _] = rest.first_chunk::<6>().unwrap_or(&[0; 6])
            && let Some((message, behind)) = rest.get(5..).and_then(|rest| {
                rest.split_at_checked(u32::from_le_bytes(*length) as usize).filter(|(message, _)| !message.is_empty())
            })
        {
            messages.push(message.to_vec());
            rest = behind;
        }
    }
    messages
}

/// A sender's messages, to a receiver that writes below a folder: no file appears outside that
/// folder, and the files counted as stored are there.
pub(crate) fn receive(data: &[u8]) {
    let outside = folder();
    let into = outside.path().join("into");
    if let Some(summary) = run(data, async |stream| rails_transfer::receive(stream, &into, Arc::new(())).await.ok()) {
        let ReceiveSummary { stored, .. } = summary;
        let there = files_below(&into);
        assert!(stored == 0 || there > 0, "{stored} files count as stored, none is there");
    }
    let beside: Vec<_> = fs::read_dir(outside.path())
        .expect("this process made the folder")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    assert!(beside.iter().all(|path| *path == into), "{beside:?}");
}

pub(crate) fn to_receiver() -> Vec<Vec<u8>> {
    vec![fuzzing::seeds().0]
}

/// A receiver's answers, to a sender with one file: the sender never reports that the file arrived
/// if the digest differs.
pub(crate) fn send(data: &[u8]) {
    let folder = folder();
    let file = folder.path().join("f");
    fs::write(&file, b"abc").expect("a file in memory can be written");
    let sources = [file];
    if let Some(summary) = run(data, async |stream| rails_transfer::send(stream, &sources, Arc::new(())).await.ok()) {
        assert!(summary.files.len() + summary.failures.len() <= 1, "{summary:?}");
        assert_eq!(summary.is_complete(), summary.failures.is_empty());
    }
}

pub(crate) fn to_sender() -> Vec<Vec<u8>> {
    vec![fuzzing::seeds().1]
}

pub(crate) const WORDS: &[&str] = &["RAILS-FT\x01", "..", "/", "d/f", ".rails-part", ".f.rails-part"];

/// The answering side of round trips, against a peer that asks for anything: it answers the bytes
/// that arrive, and keeps no more than one message.
pub(crate) fn latency(data: &[u8]) {
    let answered = run(data, async |mut stream| commands::answer(&mut stream).await);
    if let Ok(count) = answered {
        assert!(count <= data.len() as u64, "{count} answers to {} bytes", data.len());
    }
}

pub(crate) fn questions() -> Vec<Vec<u8>> {
    let header = |bytes: u32, count: u32| [bytes.to_be_bytes(), count.to_be_bytes()].concat();
    vec![
        [header(1, 3), vec![1, 2, 3], header(5, 2), vec![7; 10]].concat(),
        [header(100, u32::MAX), vec![1; 300]].concat(),
        header(commands::LONGEST, 1),
        header(0, u32::MAX),
    ]
}

/// One side against these bytes and then their end. The peer reads everything that the side sends.
fn run<T>(data: &[u8], side: impl AsyncFnOnce(tokio::io::DuplexStream) -> T) -> T {
    let runtime = Builder::new_current_thread().max_blocking_threads(4).build().expect("a runtime without drivers");
    runtime.block_on(async {
        let (ours, peer) = duplex(64 << 10);
        let (mut hear, mut say) = tokio::io::split(peer);
        let said = async {
            // A side that needs no more closes the stream.
            if say.write_all(data).await.is_ok() {
                let _ = say.shutdown().await;
            }
        };
        let heard = async {
            let mut buffer = [0; 4096];
            while matches!(hear.read(&mut buffer).await, Ok(1..)) {}
        };
        let (ended, (), ()) = tokio::join!(side(ours), said, heard);
        ended
    })
}

fn files_below(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { files_below(&entry.path()) } else { 1 }).sum()
}

fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("there is room for a folder")
}

/// Magic, version, role.
const GREETING: usize = 11;
