//! Streams polled by hand: which tasks are woken, which polls are ready at once, and whether a
//! pending poll takes bytes.

use crate::{SEND_BUFFER, WINDOW, in_time, made_up, narrow_pair, pair};
use rails::multirail::MultiRailStream;
use std::{
    io::IoSlice,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    time::{sleep, timeout},
};

/// Counts how often it was woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Bell {
    fn rung(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }

    async fn wait(&self) {
        in_time(async {
            while !self.rung() {
                sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }
}

fn bell() -> (Arc<Bell>, Waker) {
    let bell = Arc::new(Bell::default());
    (bell.clone(), bell.into())
}

fn poll_read(stream: &mut MultiRailStream, waker: &Waker, room: usize) -> Poll<Vec<u8>> {
    let mut buffer = vec![0; room];
    let mut buffer = ReadBuf::new(&mut buffer);
    let polled = Pin::new(stream).poll_read(&mut Context::from_waker(waker), &mut buffer);
    polled.map(|read| read.map(|()| buffer.filled().to_vec()).expect("the stream is sound"))
}

fn poll_write(stream: &mut MultiRailStream, waker: &Waker, bytes: &[u8]) -> Poll<usize> {
    let polled = Pin::new(stream).poll_write(&mut Context::from_waker(waker), bytes);
    polled.map(|written| written.expect("the stream is sound"))
}

/// Writes until the window and the buffer are full, leaves `waker` registered, and gives the number
/// of bytes.
async fn fill(stream: &mut MultiRailStream, waker: &Waker) -> usize {
    let (block, mut written) = (vec![7; 10_000], 0);
    in_time(async {
        while written < WINDOW + SEND_BUFFER {
            match poll_write(stream, waker, &block) {
                Poll::Ready(count) => written += count,
                // A lane takes the waiting bytes in a moment.
                Poll::Pending => sleep(Duration::from_millis(1)).await,
            }
        }
    })
    .await;
    assert_eq!(written, WINDOW + SEND_BUFFER);
    assert!(poll_write(stream, waker, &block).is_pending());
    written
}

#[tokio::test]
async fn waiting_reader_and_writer_have_own_wakers() {
    let mut pair = narrow_pair().await;
    let ((reader, read_waker), (writer, write_waker)) = (bell(), bell());
    let written = fill(&mut pair.near, &write_waker).await;
    assert!(poll_read(&mut pair.near, &read_waker, 10).is_pending());
    writer.0.store(0, Ordering::SeqCst);
    reader.0.store(0, Ordering::SeqCst);
    assert!(poll_write(&mut pair.near, &write_waker, b"x").is_pending());

    pair.far.write_all(b"answer").await.unwrap();
    reader.wait().await;
    assert_eq!(poll_read(&mut pair.near, &read_waker, 10), Poll::Ready(b"answer".to_vec()));
    assert!(!writer.rung(), "there is no more room than before");

    let mut got = vec![0; written];
    in_time(pair.far.read_exact(&mut got)).await.unwrap();
    writer.wait().await;
    assert!(matches!(poll_write(&mut pair.near, &write_waker, b"more"), Poll::Ready(4)));
}

#[tokio::test]
async fn last_waker_is_woken() {
    let mut pair = pair().await;
    let ((_, first), (second, second_waker)) = (bell(), bell());
    assert!(poll_read(&mut pair.near, &first, 10).is_pending());
    assert!(poll_read(&mut pair.near, &second_waker, 10).is_pending());
    pair.far.write_all(b"x").await.unwrap();
    second.wait().await;
    assert_eq!(poll_read(&mut pair.near, &second_waker, 10), Poll::Ready(b"x".to_vec()));
}

#[tokio::test]
async fn waiting_shutdown_is_woken_by_delivery() {
    let mut pair = narrow_pair().await;
    let (bell, waker) = bell();
    let written = fill(&mut pair.near, &waker).await;
    let shut = |stream: &mut MultiRailStream| Pin::new(stream).poll_shutdown(&mut Context::from_waker(&waker));
    assert!(shut(&mut pair.near).is_pending());
    bell.0.store(0, Ordering::SeqCst);
    assert!(shut(&mut pair.near).is_pending());
    let mut got = Vec::new();
    in_time(pair.far.read_to_end(&mut got)).await.unwrap();
    assert_eq!(got.len(), written);
    in_time(async {
        while shut(&mut pair.near).is_pending() {
            bell.wait().await;
            bell.0.store(0, Ordering::SeqCst);
        }
    })
    .await;
    assert!(shut(&mut pair.near).is_ready(), "a second one is ready at once");
}

#[tokio::test]
async fn empty_reads_and_writes_never_wait() {
    let mut pair = narrow_pair().await;
    let (_, waker) = bell();
    assert_eq!(poll_read(&mut pair.near, &waker, 0), Poll::Ready(Vec::new()));
    fill(&mut pair.near, &waker).await;
    assert_eq!(poll_write(&mut pair.near, &waker, &[]), Poll::Ready(0));
    for slices in [&[][..], &[IoSlice::new(&[]), IoSlice::new(&[])]] {
        let polled = Pin::new(&mut pair.near).poll_write_vectored(&mut Context::from_waker(&waker), slices);
        assert!(matches!(polled, Poll::Ready(Ok(0))), "{polled:?}");
    }
    // The stream did not take an empty buffer for its end.
    pair.far.write_all(b"still here").await.unwrap();
    let mut got = [0; 10];
    in_time(pair.near.read_exact(&mut got)).await.unwrap();
    assert_eq!(&got, b"still here");
}

#[tokio::test]
async fn reads_and_writes_behind_the_end() {
    let mut pair = pair().await;
    pair.near.write_all(b"all").await.unwrap();
    let mut got = Vec::new();
    let (ended, read) = in_time(async { tokio::join!(pair.near.shutdown(), pair.far.read_to_end(&mut got)) }).await;
    ended.unwrap();
    assert_eq!((read.unwrap(), got.as_slice()), (3, &b"all"[..]));
    for _ in 0..3 {
        assert_eq!(pair.far.read(&mut [0; 8]).await.unwrap(), 0);
    }
    assert_eq!(pair.near.write(b"x").await.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn vectored_write_of_the_front_of_its_slices() {
    let mut pair = narrow_pair().await;
    assert!(pair.near.is_write_vectored());
    let all = made_up(300_000, 1);
    let mut written = 0;
    let reader = tokio::spawn(async move {
        let mut got = Vec::new();
        pair.far.read_to_end(&mut got).await.unwrap();
        (got, pair.far.close().await)
    });
    let mut partial = 0;
    while written < all.len() {
        let rest = &all[written..];
        // Slices of many lengths, some of them empty.
        let cuts = [0, 1, 1, 7_000, SEND_BUFFER, 90_000, rest.len()].map(|at| at.min(rest.len()));
        let slices: Vec<IoSlice<'_>> = cuts.windows(2).map(|cut| IoSlice::new(&rest[cut[0]..cut[1]])).collect();
        let count = in_time(pair.near.write_vectored(&slices)).await.unwrap();
        assert!((1..=rest.len()).contains(&count));
        partial += usize::from(count < rest.len());
        written += count;
    }
    assert!(partial > 3, "the buffer is smaller than the slices");
    in_time(pair.near.shutdown()).await.unwrap();
    let (got, closed) = in_time(async { tokio::join!(reader, pair.near.close()).0 }).await.unwrap();
    assert!(got == all);
    closed.unwrap();
}

#[tokio::test]
async fn a_read_that_is_given_up_loses_nothing() {
    let mut pair = pair().await;
    let all = made_up(3 << 20, 2);
    let expected = all.clone();
    let writer = tokio::spawn(async move {
        for piece in all.chunks(50_000) {
            pair.near.write_all(piece).await.unwrap();
            tokio::task::yield_now().await;
        }
        pair.near.close().await.unwrap();
    });
    let (mut got, mut buffer, mut given_up) = (Vec::new(), vec![0; 70_000], 0);
    loop {
        match timeout(Duration::from_micros(50), pair.far.read(&mut buffer)).await {
            Ok(Ok(0)) => break,
            Ok(read) => got.extend_from_slice(&buffer[..read.unwrap()]),
            Err(_) => given_up += 1,
        }
    }
    println!("{given_up} reads were given up");
    assert!(got == expected);
    pair.far.close().await.unwrap();
    writer.await.unwrap();
}

#[tokio::test]
async fn a_write_that_is_given_up_has_taken_nothing() {
    let mut pair = narrow_pair().await;
    let all = made_up(2 << 20, 3);
    let expected = all.clone();
    // The reader begins after a write was cancelled, because then there is no room, and reads slowly
    // from then on.
    let (full, begin) = tokio::sync::oneshot::channel::<()>();
    let reader = tokio::spawn(async move {
        let mut got = Vec::new();
        let mut buffer = vec![0; 8_000];
        begin.await.unwrap();
        loop {
            match pair.far.read(&mut buffer).await.unwrap() {
                0 => break,
                count => got.extend_from_slice(&buffer[..count]),
            }
            tokio::task::yield_now().await;
        }
        pair.far.close().await.unwrap();
        got
    });
    let (mut written, mut given_up, mut full) = (0, 0, Some(full));
    while written < all.len() {
        let end = all.len().min(written + 20_000);
        match timeout(Duration::from_micros(20), pair.near.write(&all[written..end])).await {
            Ok(count) => written += count.unwrap(),
            Err(_) => given_up += 1,
        }
        if let Some(full) = full.take_if(|_| given_up > 0) {
            full.send(()).unwrap();
        }
    }
    println!("{given_up} writes were given up");
    in_time(pair.near.close()).await.unwrap();
    assert!(reader.await.unwrap() == expected);
}
