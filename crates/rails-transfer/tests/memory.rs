//! A peer decides neither how much memory a receiver takes, nor a sender.

use rails_transfer::{AcceptStreams, OpenStreams, ReceiveOptions, SendOptions};
use std::{fs, io, path::Path, sync::Arc};
use tempfile::tempdir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    sync::mpsc,
};

/// Streams, and files that are each many times as large as what a stream may take.
const STREAMS: usize = 16;
const FILE: usize = 8 << 20;

/// One test, because it reads the resident set of the whole process.
#[test]
fn memory_is_bounded_by_the_number_of_streams() {
    let folder = tempdir().unwrap();
    let outbox = folder.path().join("outbox");
    fs::create_dir(&outbox).unwrap();
    for file in 0..STREAMS {
        let mut file = fs::File::create(outbox.join(format!("{file:02}"))).unwrap();
        io::copy(&mut io::Read::take(io::repeat(7), FILE as u64), &mut file).unwrap();
    }
    // A receiver that reads a part of each file, and then no more.
    let taken = peak_of(|| send_to_a_slow_receiver(&outbox));
    assert!(taken < STREAMS * (1 << 20) + (8 << 20), "the sender took {} KiB", taken >> 10);

    // A sender whose blocks are as long as may be, and each lacks its last byte.
    let taken = peak_of(|| receive_from_a_greedy_sender(&folder.path().join("inbox")));
    assert!(taken < STREAMS * (3 << 19) + (8 << 20), "the receiver took {} KiB", taken >> 10);
}

fn send_to_a_slow_receiver(outbox: &Path) {
    let (near, mut far) = duplex(1 << 16);
    let (opens, mut opened) = pipes();
    let receiver = async {
        far.write_all(b"RAILS-FT\x06\x00R\x10\0").await.unwrap();
        let mut greeting = [0; 13];
        far.read_exact(&mut greeting).await.unwrap();
        assert_eq!(greeting[11], 16);
        // The totals, the folder, and the files.
        for _ in 0..STREAMS + 2 {
            let [_, length @ ..]: [u8; 5] = array(&mut far).await;
            let mut message = vec![0; u32::from_le_bytes(length) as usize];
            far.read_exact(&mut message).await.unwrap();
            match message[..] {
                [3, id, ..] => far.write_all(&[0, 4, 0, 0, 0, 1, id, 0, 0]).await.unwrap(),
                [2, id, ..] => far.write_all(&[0, 3, 0, 0, 0, 2, id, 2]).await.unwrap(),
                _ => {}
            }
        }
        let mut streams = Vec::new();
        while streams.len() < STREAMS {
            let mut stream = opened.0.recv().await.unwrap();
            stream.read_exact(&mut vec![0; 2 << 20]).await.unwrap();
            streams.push(stream);
        }
    };
    let sender = async {
        let sources = [outbox.to_owned()];
        SendOptions::new().streams(STREAMS).send_over(near, opens, &sources, Arc::new(())).await
    };
    block_on(async {
        tokio::select! {
            sent = sender => panic!("{sent:?}"),
            () = receiver => {}
        }
    });
}

fn receive_from_a_greedy_sender(inbox: &Path) {
    let (mut near, far) = duplex(1 << 16);
    let (mut opens, accepts) = pipes();
    let sender = async {
        near.write_all(b"RAILS-FT\x06\x00S\x10\0").await.unwrap();
        near.write_all(&[0, 4, 0, 0, 0, 0, 0, 0, 0]).await.unwrap();
        let _: [u8; 13] = array(&mut near).await;
        let mut streams = Vec::new();
        for id in 0..STREAMS as u8 {
            // A file of 8 MiB.
            near.write_all(&[0, 10, 0, 0, 0, 3, id, 1, b'a' + id, 0x80, 0x80, 0x80, 0x04, 0, 0]).await.unwrap();
            let _: [u8; 9] = array(&mut near).await;
            let mut stream = opens.open().await.unwrap();
            stream.write_all(&[0, 4, 0, 0, 0, 5, id, 0, 0]).await.unwrap();
            streams.push(stream);
        }
        let longest = [&[1, 0, 0, 0x10, 0][..], &vec![7; 1 << 20]].concat();
        for stream in &mut streams {
            stream.write_all(&longest).await.unwrap();
        }
        for stream in &mut streams {
            stream.write_all(&longest[..longest.len() - 1]).await.unwrap();
        }
    };
    let receiver = ReceiveOptions::new().streams(STREAMS).receive_over(far, accepts, inbox, Arc::new(()));
    block_on(async {
        tokio::select! {
            received = receiver => panic!("{received:?}"),
            () = sender => {}
        }
    });
}

struct Opens(mpsc::UnboundedSender<DuplexStream>);

struct Accepts(mpsc::UnboundedReceiver<DuplexStream>);

fn pipes() -> (Opens, Accepts) {
    let (opens, accepts) = mpsc::unbounded_channel();
    (Opens(opens), Accepts(accepts))
}

impl OpenStreams for Opens {
    type Stream = DuplexStream;

    async fn open(&mut self) -> io::Result<DuplexStream> {
        let (near, far) = duplex(1 << 16);
        self.0.send(far).map_err(io::Error::other)?;
        Ok(near)
    }
}

impl AcceptStreams for Accepts {
    type Stream = DuplexStream;

    async fn accept(&mut self) -> io::Result<DuplexStream> {
        self.0.recv().await.ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

async fn array<const N: usize>(stream: &mut DuplexStream) -> [u8; N] {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await.unwrap();
    bytes
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// By how many bytes the resident set grows at most.
fn peak_of(run: impl FnOnce()) -> usize {
    // Sets the peak to the present size (proc_pid_clear_refs(5)).
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = peak();
    run();
    peak() - before
}

/// The largest resident set so far, in bytes.
fn peak() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}
