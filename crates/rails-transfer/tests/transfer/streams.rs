//! Several files at a time, over streams of their own.

use super::support::{Accepts, Fault, Node, Notes, Streams, Tree, block_on, bytes, harvest, in_a_process, over, plant};
use nix::sys::resource::{Resource, setrlimit};
use proptest::prelude::*;
use rails_transfer::{
    AcceptStreams, How, OpenStreams, ReceiveError, ReceiveOptions, SendError, SendOptions, Violation, WireError,
};
use std::{
    collections::BTreeSet,
    fs, io,
    path::Path,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
    thread,
    time::{Duration, Instant, UNIX_EPOCH},
};
use tempfile::tempdir;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};

/// Files of several blocks, small ones and empty ones, in two folders.
fn sample(files: u64) -> Tree {
    sample_up_to(files, 700_000)
}

/// As [`sample`], with files of up to that many bytes.
fn sample_up_to(files: u64, largest: usize) -> Tree {
    let mut tree = Tree::from([(b"a".to_vec(), Node::Folder(0o755)), (b"b".to_vec(), Node::Folder(0o555))]);
    for file in 0..files {
        let len = [0, 1, 1000, largest / 7 * 3, largest][file as usize % 5];
        let name = format!("{}/{file}", ["a", "b"][file as usize % 2]);
        tree.insert(name.into_bytes(), Node::File(0o640, bytes(file, len)));
    }
    tree
}

/// Checks that every file under a final name is one of the tree's.
fn assert_whole_files(into: &Path, tree: &Tree) {
    for (name, node) in harvest(into) {
        if let Node::File(_, there) = node
            && !name.ends_with(b".rails-part")
        {
            assert!(matches!(&tree[&name], Node::File(_, bytes) if *bytes == there), "{}", name.escape_ascii());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_tree_arrives_over_any_number_of_streams(
        files in 0..14_u64,
        opened in 0..6_usize,
        taken in 0..6_usize,
        (capacity, largest) in prop_oneof![Just((7, 5000)), Just((4096, 700_000)), Just((1 << 20, 700_000))],
    ) {
        let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
        let tree = sample_up_to(files, largest);
        plant(from.path(), &tree);
        let streams = Streams { opened, taken, capacity, ..Streams::default() };
        let sources = [from.path().join(".")];
        let (sent, received) = over(&streams, &sources, into.path(), Arc::new(()));
        let (sent, received) = (sent.unwrap(), received.unwrap());
        prop_assert!(sent.is_complete() && received.is_complete());
        prop_assert_eq!(harvest(into.path()), tree.clone());
        prop_assert_eq!((sent.files.len() as u64, received.stored), (files, files));
        prop_assert_eq!(sent.bytes_sent, received.bytes_received);
        prop_assert_eq!(streams.count(), opened.min(taken).min(files as usize));

        let (again, received) = over(&streams, &sources, into.path(), Arc::new(()));
        let (again, received) = (again.unwrap(), received.unwrap());
        prop_assert!(again.files.iter().all(|file| file.how == How::AlreadyThere));
        prop_assert_eq!((again.bytes_sent, received.already_there), (0, files));
        prop_assert_eq!(harvest(into.path()), tree);
    }
}

#[test]
fn files_are_under_way_at_the_same_time() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    let tree: Tree =
        (0..3_u8).map(|file| (vec![b'a' + file], Node::File(0o644, bytes(file.into(), 2 << 20)))).collect();
    plant(from.path(), &tree);
    // Each file waits until all have begun.
    let begun = Arc::new((Mutex::new(0), std::sync::Condvar::new()));
    let notes = Notes::new(move |note: &str| {
        if note.starts_with("started") {
            let (count, changed) = &*begun;
            *count.lock().unwrap() += 1;
            changed.notify_all();
            drop(changed.wait_while(count.lock().unwrap(), |count| *count < 3).unwrap());
        }
    });
    let (sent, received) = over(&Streams::default(), &[from.path().join(".")], into.path(), notes);
    assert!(sent.unwrap().is_complete() && received.unwrap().is_complete());
    assert_eq!(harvest(into.path()), tree);
}

#[test]
fn killed_at_any_byte_and_gone_on_from_there() {
    let from = tempdir().unwrap();
    let tree = sample(10);
    plant(from.path(), &tree);
    let sources = [from.path().join(".")];
    let total: u64 =
        tree.values().map(|node| if let Node::File(_, bytes) = node { bytes.len() as u64 } else { 0 }).sum();
    let (mut resumed, mut cut) = (0, 0);
    let ended = loop {
        let into = tempdir().unwrap();
        let killed = Streams { fault: Some(Fault::Kill { after: cut }), capacity: 4096, ..Streams::default() };
        let (sent, received) = over(&killed, &sources, into.path(), Arc::new(()));
        assert_eq!(sent.is_ok(), received.is_ok(), "{sent:?} {received:?}");
        assert_whole_files(into.path(), &tree);

        let (again, received) = over(&Streams::default(), &sources, into.path(), Arc::new(()));
        let (again, received) = (again.unwrap(), received.unwrap());
        assert!(again.is_complete() && received.is_complete(), "{:?}", again.failures);
        assert_eq!(harvest(into.path()), tree, "cut {cut}");
        resumed += u64::from(again.files.iter().any(|file| matches!(file.how, How::Sent { resumed_at: 1.. })));
        if sent.is_ok() {
            break cut;
        }
        cut += 130_021;
    };
    assert!(ended as u64 > total && resumed > 3, "{resumed} of the runs were resumed, up to {ended} bytes");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn corrupt_bytes_arrive_under_no_final_name(stream in 0..3_usize, at in 0..900_000_usize, bit in 0..8_u8) {
        let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
        let tree = sample(10);
        plant(from.path(), &tree);
        let sources = [from.path().join(".")];
        let corrupt = Streams { fault: Some(Fault::Flip { stream, at, bit }), opened: 3, taken: 3, ..Streams::default() };
        let (sent, received) = over(&corrupt, &sources, into.path(), Arc::new(()));
        assert_whole_files(into.path(), &tree);
        // The flip spoils a file, a message, or only a mode, a time or a reason, which the second run mends.
        if let (Ok(sent), Ok(received)) = (&sent, &received) {
            prop_assert_eq!(&sent.failures, &received.failures);
        }
        let (again, _) = over(&Streams::default(), &sources, into.path(), Arc::new(()));
        prop_assert!(again.unwrap().is_complete());
        prop_assert_eq!(harvest(into.path()), tree);
    }
}

#[test]
fn a_stream_that_ends_within_a_file_is_named() {
    let from = tempdir().unwrap();
    fs::write(from.path().join("f"), bytes(1, 3 << 20)).unwrap();
    let sources = [from.path().join("f")];
    // With this time the Start message has 17 bytes.
    fs::File::open(&sources[0]).unwrap().set_modified(UNIX_EPOCH + Duration::from_secs(1)).unwrap();
    // Within a block, and behind one.
    for after in [1_000_000, 262_149 * 3 + 17] {
        let into = tempdir().unwrap();
        let ends = Streams { fault: Some(Fault::End { stream: 0, after }), ..Streams::default() };
        let (sent, received) = over(&ends, &sources, into.path(), Arc::new(()));
        match received {
            Err(ReceiveError::Wire(
                WireError::Carrier { doing: "reading", .. } | WireError::Violation(Violation::StreamEnd { id: 0 }),
            )) => {}
            other => panic!("{other:?}"),
        }
        match sent {
            Err(SendError::Refused(reason)) => assert!(reason.as_str().contains("stream of files"), "{reason}"),
            Err(SendError::Wire(WireError::Carrier { doing: "writing", .. })) => {}
            other => panic!("{other:?}"),
        }
        let part = fs::metadata(into.path().join(".f.rails-part")).unwrap().len();
        assert_eq!(part, 3 * 262_144, "what came is kept");
    }
}

#[test]
fn streams_that_cannot_be_had_are_told_once() {
    for (can_open, told) in [(0, "fewer streams 0"), (2, "fewer streams 2")] {
        let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
        let tree = sample(10);
        plant(from.path(), &tree);
        let notes = Notes::new(|_| {});
        let streams = Streams { can_open, ..Streams::default() };
        let (sent, received) = over(&streams, &[from.path().join(".")], into.path(), notes.clone());
        assert!(sent.unwrap().is_complete() && received.unwrap().is_complete());
        assert_eq!(harvest(into.path()), tree);
        let notes = notes.notes.lock().unwrap();
        let fewer: Vec<_> = notes.iter().filter(|note| note.starts_with("fewer")).collect();
        assert!(fewer.len() == 1 && fewer[0].starts_with(told), "{fewer:?}");
    }
}

#[test]
fn threads_that_cannot_be_had_mean_fewer_streams() {
    in_a_process("streams::threads_that_cannot_be_had_mean_fewer_streams", &[], || {
        if nix::unistd::geteuid().is_root() {
            // The kernel holds every other user to the limit; this one has no other process.
            nix::unistd::setuid(nix::unistd::Uid::from_raw(65_533)).unwrap();
        }
        let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
        let tree = sample(10);
        plant(from.path(), &tree);
        let streams = Streams { opened: 8, taken: 8, ..Streams::default() };
        let (opens, accepts) = streams.ends();
        let (a, b) = duplex(1 << 16);
        let threads = || fs::read_dir("/proc/self/task").unwrap().count();
        let before = threads();
        let folder = into.path().to_owned();
        let receiver = thread::spawn(move || {
            block_on(ReceiveOptions::new().streams(8).receive_over(b, accepts, &folder, Arc::new(())))
        });
        // The receiver has its threads: its own, that of the control stream, and those of 8 streams.
        while threads() < before + 10 {
            thread::sleep(Duration::from_millis(1));
        }
        setrlimit(Resource::RLIMIT_NPROC, threads() as u64 + 3, threads() as u64 + 3).unwrap();
        let notes = Notes::new(|_| {});
        let sources = [from.path().join(".")];
        let sent = block_on(SendOptions::new().streams(8).send_over(a, opens, &sources, notes.clone()));
        assert!(sent.unwrap().is_complete() && receiver.join().unwrap().unwrap().is_complete());
        assert_eq!(harvest(into.path()), tree);
        let notes = notes.notes.lock().unwrap();
        let fewer: Vec<_> = notes.iter().filter(|note| note.starts_with("fewer")).collect();
        assert!(fewer.len() == 1 && fewer[0].contains("RLIMIT_NPROC"), "{fewer:?}");
    });
}

#[test]
fn a_file_that_fails_at_the_receiver_leaves_its_stream_to_others() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    for name in ["a", "b", "c", "d", "e", "f"] {
        fs::write(from.path().join(name), bytes(name.as_bytes()[0].into(), 2 << 20)).unwrap();
    }
    // The receiver will find parts that were not there when it looked.
    let parts = into.path().to_owned();
    let notes = Notes::new(move |note: &str| {
        for bad in ["a", "d", "f"] {
            if note.starts_with(&format!("started {bad} ")) {
                fs::write(parts.join(format!(".{bad}.rails-part")), "").unwrap();
            }
        }
    });
    let (sent, received) = over(&Streams::default(), &[from.path().join(".")], into.path(), notes);
    let (sent, received) = (sent.unwrap(), received.unwrap());
    let failed: BTreeSet<_> = sent.failures.iter().map(|failure| failure.path.clone().unwrap()).collect();
    assert_eq!(failed, ["a", "d", "f"].map(std::path::PathBuf::from).into());
    assert_eq!((received.stored, received.failed, sent.files.len()), (3, 3, 3));
}

#[test]
fn a_file_that_changes_is_sent_again_on_another_stream() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    for name in ["a", "b", "c"] {
        fs::write(from.path().join(name), bytes(name.as_bytes()[0].into(), 8 << 20)).unwrap();
    }
    let (changed, is_due) = (from.path().join("b"), Mutex::new(true));
    let notes = Notes::new(move |note: &str| {
        if note.starts_with("moved b") && std::mem::take(&mut *is_due.lock().unwrap()) {
            fs::write(&changed, bytes(9, 7 << 20)).unwrap();
        }
    });
    let (sent, received) = over(&Streams::default(), &[from.path().join(".")], into.path(), notes);
    let (sent, received) = (sent.unwrap(), received.unwrap());
    assert!(sent.is_complete() && received.is_complete(), "{:?}", sent.failures);
    assert!(fs::read(into.path().join("b")).unwrap() == bytes(9, 7 << 20));
    assert_eq!((received.stored, received.failed), (3, 0));
}

/// A stream that takes any bytes at once, and counts them.
struct Abyss(Arc<AtomicUsize>);

impl OpenStreams for Abyss {
    type Stream = Self;

    async fn open(&mut self) -> io::Result<Self> {
        Ok(Self(self.0.clone()))
    }
}

impl AsyncWrite for Abyss {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        self.0.fetch_add(buffer.len(), Relaxed);
        Poll::Ready(Ok(buffer.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[test]
fn a_sender_that_is_dropped_stops_on_a_stream_that_takes_all() {
    let from = tempdir().unwrap();
    let source = [from.path().join("f")];
    fs::File::create(&source[0]).unwrap().set_len(1 << 40).unwrap();
    let sent = Arc::new(AtomicUsize::new(0));
    let (a, mut peer) = duplex(1 << 16);
    block_on(async {
        let sending = SendOptions::new().send_over(a, Abyss(sent.clone()), &source, Arc::new(()));
        let dropping = async {
            // The greeting, and the answer to the offer: nothing is there.
            peer.write_all(b"RAILS-FT\x06\x00R\x01\0\0\x04\0\0\0\x01\0\0\0").await.unwrap();
            while sent.load(Relaxed) == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            result = sending => panic!("{result:?}"),
            () = dropping => {}
        }
    });
    // A block that was under way goes on.
    thread::sleep(Duration::from_millis(100));
    let soon = sent.load(Relaxed);
    thread::sleep(Duration::from_millis(300));
    assert_eq!(sent.load(Relaxed), soon);
}

/// A lower limit on the time is all that tells that a rate holds.
#[test]
fn a_rate_over_all_streams() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    for number in 0..6 {
        fs::write(from.path().join(format!("{number}")), bytes(number, 100_000)).unwrap();
    }
    let sources = [from.path().join(".")];
    for opened in [0, 4] {
        let _ = fs::remove_dir_all(into.path());
        let streams = Streams { opened, ..Streams::default() };
        let (a, b) = duplex(1 << 16);
        let (opens, accepts) = streams.ends();
        let options = SendOptions::new().streams(opened).max_rate(8_000_000.try_into().unwrap());
        let begin = Instant::now();
        let (sent, received) = block_on(async {
            tokio::join!(
                options.send_over(a, opens, &sources, Arc::new(())),
                ReceiveOptions::new().receive_over(b, accepts, into.path(), Arc::new(()))
            )
        });
        // The bucket has 100 kB of the 600 at first. A busy machine only takes longer.
        assert!(begin.elapsed() >= Duration::from_millis(500), "{:?}", begin.elapsed());
        assert!(sent.unwrap().is_complete() && received.unwrap().stored == 6);
    }
}

/// Streams that fail where they end, as those of a session that the peer closes.
struct Fails<S>(S);

impl AcceptStreams for Fails<Accepts> {
    type Stream = Fails<DuplexStream>;

    async fn accept(&mut self) -> io::Result<Self::Stream> {
        self.0.accept().await.map(Fails)
    }
}

impl AsyncRead for Fails<DuplexStream> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.0).poll_read(context, buffer) {
            Poll::Ready(Ok(())) if buffer.filled().len() == before => {
                Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
            }
            polled => polled,
        }
    }
}

#[test]
fn streams_that_fail_behind_the_last_word_spoil_no_batch() {
    let (from, into) = (tempdir().unwrap(), tempdir().unwrap());
    plant(from.path(), &sample(5));
    // The sender closes its streams when it has the last word, while the receiver still ends its
    // threads.
    for _ in 0..20 {
        let ((a, b), (opens, accepts)) = (duplex(1 << 16), Streams::default().ends());
        let folder = into.path().to_owned();
        let receiver = thread::spawn(move || {
            block_on(ReceiveOptions::new().receive_over(b, Fails(accepts), &folder, Arc::new(())))
        });
        let sent = block_on(SendOptions::new().send_over(a, opens, &[from.path().join(".")], Arc::new(())));
        assert!(sent.unwrap().is_complete() && receiver.join().unwrap().unwrap().is_complete());
    }
}
