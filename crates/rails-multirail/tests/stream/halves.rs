//! The two directions of a stream in different tasks.

use crate::{
    loopback::{PATIENCE, rails},
    util::{failure, options, pair, pattern},
};
use rails_multirail::Failure;
use std::io::ErrorKind;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

const LENGTH: usize = 20 << 20;

#[tokio::test]
async fn echo_by_owned_halves() {
    let rails = rails(2);
    let (near, mut far) = pair(&rails, &options()).await;
    let echo = tokio::spawn(async move {
        let (mut read, mut write) = far.split();
        let echoed = tokio::io::copy(&mut read, &mut write).await.unwrap();
        write.shutdown().await.unwrap();
        far.close().await.unwrap();
        echoed
    });
    let (mut read, mut write) = near.into_split();
    assert_eq!(read.stream().id(), write.stream().id());
    let sent = pattern(LENGTH);
    let expected = sent.clone();
    // The end of this task drops the half, which ends the stream's direction.
    let writing = tokio::spawn(async move { write.write_all(&sent).await });
    let mut got = Vec::new();
    timeout(PATIENCE, read.read_to_end(&mut got)).await.expect("it ends").unwrap();
    assert!(got == expected);
    writing.await.unwrap().unwrap();
    assert_eq!(read.stream().stats().bytes_written, LENGTH as u64);
    assert_eq!(timeout(PATIENCE, echo).await.expect("it ends").unwrap(), LENGTH as u64);
}

#[tokio::test]
async fn reunited_halves_lose_no_byte() {
    let rails = rails(2);
    let (near, mut far) = pair(&rails, &options()).await;
    let sent = pattern(100_000);
    far.write_all(&sent).await.unwrap();
    let (mut read, write) = near.into_split();
    // This takes a part of a chunk, and the half keeps the rest.
    let mut got = vec![0; 10];
    read.read_exact(&mut got).await.unwrap();
    let mut near = write.reunite(read).expect("the halves are of one stream");
    far.shutdown().await.unwrap();
    timeout(PATIENCE, near.read_to_end(&mut got)).await.expect("it ends").unwrap();
    assert!(got == sent);
    near.write_all(b"the other direction is open").await.unwrap();
    near.shutdown().await.unwrap();
    let mut answer = String::new();
    far.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "the other direction is open");
}

#[tokio::test]
async fn halves_of_different_streams_stay_apart() {
    let rails = rails(1);
    let ((one, mut far), (other, _far)) = (pair(&rails, &options()).await, pair(&rails, &options()).await);
    let ((read, write), (other_read, other_write)) = (one.into_split(), other.into_split());
    let error = read.reunite(other_write).unwrap_err();
    assert_eq!(error.1.stream().id(), other_read.stream().id());
    let mut one = error.0.reunite(write).expect("both halves still work");
    one.write_all(b"on").await.unwrap();
    let mut got = [0; 2];
    far.read_exact(&mut got).await.unwrap();
}

#[tokio::test]
async fn forgotten_write_half_leaves_its_direction_open() {
    let rails = rails(1);
    let (near, mut far) = pair(&rails, &options()).await;
    let (mut read, write) = near.into_split();
    write.forget();
    far.write_all(b"still here").await.unwrap();
    let mut got = [0; 10];
    read.read_exact(&mut got).await.unwrap();
    let mut byte = [0];
    let mut reading = Box::pin(far.read(&mut byte));
    timeout(std::time::Duration::from_millis(20), &mut reading).await.expect_err("nothing has ended");
    drop(read);
    assert_eq!(timeout(PATIENCE, reading).await.expect("the stream is over").unwrap(), 0);
}

/// Bytes that a reader has taken from the stream, and not from its half, count as unread.
#[tokio::test]
async fn unread_bytes_of_a_dropped_half_are_told() {
    let rails = rails(1);
    let (near, mut far) = pair(&rails, &options()).await;
    far.write_all(&[7; 1000]).await.unwrap();
    let (mut read, write) = near.into_split();
    assert_eq!(read.read_u8().await.unwrap(), 7);
    drop((read, write));
    let error = timeout(PATIENCE, far.close()).await.expect("it ends").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    assert!(matches!(failure(&error), Failure::Stopped { unread: 999 }), "{error}");
}

#[tokio::test]
async fn lines_of_both_kinds_of_half() {
    let (mut near, mut far) = pair(&rails(2), &options()).await;
    far.write_all(b"first\nsecond\nthird").await.unwrap();
    far.shutdown().await.unwrap();
    let mut line = String::new();
    let (mut reader, _writer) = near.split();
    reader.read_line(&mut line).await.unwrap();
    assert_eq!(line, "first\n");
    let (reader, _writer) = near.into_split();
    let mut rest = reader.lines();
    assert_eq!(rest.next_line().await.unwrap().as_deref(), Some("second"));
    assert_eq!(rest.next_line().await.unwrap().as_deref(), Some("third"));
    assert_eq!(rest.next_line().await.unwrap(), None);
}
