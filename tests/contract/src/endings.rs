//! How streams end: an application sees the same over rails as over TCP.

use crate::{
    in_time,
    kinds::{Kind, Stream, ends, over_all},
};
use std::{
    io::{ErrorKind, Result},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

/// The observations, in words.
fn seen<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.map_or_else(|error| format!("{:?}", error.kind()), |value| format!("{value:?}"))
}

/// The observations of a scenario over rails, and over TCP.
async fn compare(scenario: impl AsyncFn(Stream, Stream) -> Vec<String>) {
    let mut all = Vec::new();
    for kind in Kind::BOTH {
        let both = ends(kind).await;
        all.push(in_time(scenario(both.near, both.far)).await);
    }
    assert_eq!(all[1], all[0], "over rails, and over TCP");
    println!("{:?}", all[0]);
}

/// Reads to the end, and says how.
async fn rest(stream: &mut Stream) -> String {
    let mut got = Vec::new();
    let ended = stream.read_to_end(&mut got).await;
    format!("{} bytes, then {}", got.len(), seen(ended.map(|_| "the end")))
}

/// Writes until that fails.
async fn refused(stream: &mut Stream) -> ErrorKind {
    loop {
        if let Err(error) = stream.write_all(b"is anyone there?").await {
            return error.kind();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn flushed_bytes_arrive_after_a_drop() {
    over_all(100, async |mut near, mut far| {
        near.write_all(b"bye").await.unwrap();
        near.flush().await.unwrap();
        drop(near);
        assert_eq!(rest(&mut far).await, "3 bytes, then \"the end\"");
    })
    .await;
}

#[tokio::test]
async fn bytes_behind_a_closed_window_arrive_after_a_drop() {
    over_all(3, async |mut near, mut far| {
        let (block, mut written) = (vec![7; 100_000], 0);
        while let Ok(count) = timeout(Duration::from_millis(300), near.write(&block)).await {
            written += count.unwrap();
        }
        drop(near);
        assert_eq!(rest(&mut far).await, format!("{written} bytes, then \"the end\""));
    })
    .await;
}

#[tokio::test]
async fn behind_its_own_end_a_stream_reads_and_no_more() {
    compare(async |mut near, mut far| {
        let mut all = vec![seen(near.write(b"all").await), seen(near.shutdown().await), seen(near.shutdown().await)];
        all.push(seen(near.flush().await));
        all.push(seen(near.write(b"x").await));
        all.push(seen(near.write(b"").await));
        all.push(rest(&mut far).await);
        all.push(seen(far.write(b"answer").await));
        all.push(seen(far.shutdown().await));
        all.push(rest(&mut near).await);
        all.push(rest(&mut near).await);
        all
    })
    .await;
}

#[tokio::test]
async fn writes_to_a_dropped_peer_fail_and_reads_end() {
    compare(async |mut near, mut far| {
        near.write_all(b"bye").await.unwrap();
        drop(near);
        let mut all = vec![rest(&mut far).await];
        all.push(format!("{:?}", refused(&mut far).await));
        all.push(seen(far.write(b"").await));
        all.push(rest(&mut far).await);
        all
    })
    .await;
}

#[tokio::test]
async fn a_peer_dropped_in_silence_is_shut_down_to() {
    compare(async |near, mut far| {
        drop(near);
        vec![rest(&mut far).await, seen(far.shutdown().await), rest(&mut far).await]
    })
    .await;
}

#[tokio::test]
async fn an_aborted_peer_is_reset() {
    compare(async |mut near, mut far| {
        near.write_all(b"half of it").await.unwrap();
        far.read_exact(&mut [0; 10]).await.unwrap();
        near.abort();
        let read = rest(&mut far).await;
        let fails = matches!(refused(&mut far).await, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset);
        vec![read, format!("writes fail: {fails}")]
    })
    .await;
}

/// TCP may lose the answer here: the kernel resets a connection that is closed with unread bytes,
/// and drops bytes that were sent and not yet received.
#[tokio::test]
async fn an_answer_survives_a_question_not_read_to_its_end() {
    for _ in 0..20 {
        let mut both = ends(Kind::Rails).await;
        both.far.write_all(&[7; 200_000]).await.unwrap();
        both.near.read_exact(&mut [0; 10]).await.unwrap();
        both.near.write_all(b"too long").await.unwrap();
        drop(both.near);
        assert_eq!(in_time(rest(&mut both.far)).await, "8 bytes, then \"the end\"");
        assert_eq!(in_time(refused(&mut both.far)).await, ErrorKind::BrokenPipe);
    }
}
