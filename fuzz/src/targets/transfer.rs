//! The first words of a command, and the two sides of a file transfer, each against a peer that
//! sends anything.

use crate::script::Script;
use rails_bench::fuzzing as commands;
use rails_transfer::{AcceptStreams, ReceiveOptions, ReceiveSummary, fuzzing};
use std::{fs, io, os::unix::fs::MetadataExt, path::Path, sync::Arc, time::Duration};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    runtime::Builder,
    sync::{Notify, mpsc},
    time::timeout,
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
    for said in [sender, receiver, fuzzing::deletion(), fuzzing::change(OLD), fuzzing::properties()] {
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

/// A sender's messages, to a receiver that writes below a folder, and lets the sender delete there
/// and set all properties: no file appears, goes or gets another name outside that folder, and the
/// files counted as stored are there.
pub(crate) fn receive(data: &[u8]) {
    let outside = folder();
    let (into, kept) = (outside.path().join("into"), outside.path().join("kept"));
    fs::create_dir(&into).expect("a folder in memory can be made");
    for (path, text) in [(&kept, "x"), (&into.join(OLD), OLD_TEXT)] {
        fs::write(path, text).expect("a file in memory can be written");
    }
    let options = ReceiveOptions::new().allow_delete(true).allow_owners(true).allow_xattrs(true);
    if let Some(summary) = run(data, async |stream| options.receive(stream, &into, Arc::new(())).await.ok()) {
        let ReceiveSummary { stored, removed, .. } = summary;
        let old = fs::read(into.join(OLD));
        // No input has the digest of the old text.
        let is_there = files_below(&into) > usize::from(old.is_ok()) || old.is_ok_and(|old| old != OLD_TEXT.as_bytes());
        assert!(stored == 0 || removed > 0 || is_there, "{stored} files count as stored, none is there");
    }
    let beside: Vec<_> = fs::read_dir(outside.path())
        .expect("this process made the folder")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    assert!(beside.contains(&kept), "{beside:?}");
    assert_eq!(fs::metadata(&kept).map(|kept| kept.nlink()).ok(), Some(1), "a file outside has a further name");
    assert!(beside.iter().all(|path| *path == into || *path == kept), "{beside:?}");
}

pub(crate) fn to_receiver() -> Vec<Vec<u8>> {
    vec![fuzzing::seeds().0, fuzzing::deletion(), fuzzing::change(OLD), fuzzing::properties()]
}

/// A sender's messages on several streams, to a receiver that writes below a folder: after the
/// lengths of the first three, the bytes of the control stream up to the receiver's answer, those
/// of two further streams, and the rest of the control stream.
pub(crate) fn receive_over(data: &[u8]) {
    let outside = folder();
    let into = outside.path().join("into");
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime without drivers");
    let received = runtime.block_on(async {
        let (control, far) = duplex(64 << 10);
        let (opens, accepts) = mpsc::channel(2);
        let received = ReceiveOptions::new().streams(2).receive_over(far, Accepts(accepts), &into, Arc::new(()));
        tokio::join!(received, play(data, control, opens)).0
    });
    let stored = received.map_or(0, |summary| summary.stored);
    assert!(stored == 0 || files_below(&into) > 0, "{stored} files count as stored, none is there");
    let beside = fs::read_dir(outside.path()).expect("this process made the folder").flatten();
    assert!(beside.map(|entry| entry.path()).all(|path| path == into), "something is beside the folder");
}

pub(crate) fn to_receiver_over() -> Vec<Vec<u8>> {
    let [begin, file, end] = fuzzing::streams();
    let lengths = |first: usize, second: usize| {
        [begin.len(), first, second].map(|length| u16::try_from(length).expect("it is short").to_le_bytes()).concat()
    };
    let begun = |lengths: Vec<u8>| [lengths, begin.clone(), file.clone(), end.clone()].concat();
    vec![begun(lengths(file.len(), 0)), begun(lengths(0, file.len())), begun(lengths(9, file.len() - 9))]
}

/// Writes the streams, and reads everything that the receiver says.
async fn play(data: &[u8], control: DuplexStream, opens: mpsc::Sender<DuplexStream>) {
    let mut script = Script::new(data);
    let lengths: [usize; 3] = std::array::from_fn(|_| u16::from_le_bytes(script.array()).into());
    let mut rest = script.rest();
    let [begin, first, second] = lengths.map(|length| {
        let (part, behind) = rest.split_at(length.min(rest.len()));
        rest = behind;
        part
    });
    let (mut hear, mut say) = tokio::io::split(control);
    let answered = Notify::new();
    let said = async {
        let _ = say.write_all(begin).await;
        // A receiver that has nothing to answer waits as well.
        let _ = timeout(Duration::from_millis(2), answered.notified()).await;
        let write = async |bytes: &[u8]| {
            let (mut near, far) = duplex(64 << 10);
            if opens.send(far).await.is_ok() {
                let _ = near.write_all(bytes).await;
            }
            near
        };
        let streams = (write(first).await, write(second).await);
        let _ = say.write_all(rest).await;
        drop(streams);
        let _ = say.shutdown().await;
    };
    let heard = async {
        let (mut buffer, mut count) = ([0; 4096], 0);
        while let Ok(more @ 1..) = hear.read(&mut buffer).await {
            count += more;
            if count > GREETING {
                answered.notify_one();
            }
        }
    };
    tokio::join!(said, heard);
}

struct Accepts(mpsc::Receiver<DuplexStream>);

impl AcceptStreams for Accepts {
    type Stream = DuplexStream;

    async fn accept(&mut self) -> io::Result<DuplexStream> {
        self.0.recv().await.ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
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

pub(crate) const WORDS: &[&str] = &["RAILS-FT\x06", "..", "/", "d/f", ".rails-part", ".f.rails-part"];

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

/// A file that the receiver has, of which a sender may take the first three bytes.
const OLD: &str = "old";
const OLD_TEXT: &str = "012xyz";

/// Magic, version, role, number of streams, terms.
const GREETING: usize = 13;
