//! Two directions, each in hands of its own.

use crate::{in_time, made_up, pair};
use tokio::io::{
    AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, BufWriter, copy, copy_bidirectional, duplex, split,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_halves_of_both_ends_run_in_tasks_of_their_own() {
    let pair = pair().await;
    let (there, back) = (made_up(6_000_001, 1), made_up(7_000_003, 2));
    let mut tasks = Vec::new();
    let mut results = Vec::new();
    for (stream, out, expected) in [(pair.near, there.clone(), back.clone()), (pair.far, back, there)] {
        let (mut read, mut write) = split(stream);
        results.push(tokio::spawn(async move {
            let mut got = Vec::new();
            read.read_to_end(&mut got).await.unwrap();
            (got == expected, read)
        }));
        tasks.push(tokio::spawn(async move {
            write.write_all(&out).await.unwrap();
            write.shutdown().await.unwrap();
            write
        }));
    }
    for (writing, reading) in tasks.into_iter().zip(results) {
        let write = in_time(writing).await.unwrap();
        let (same, read) = in_time(reading).await.unwrap();
        assert!(same);
        drop(read.unsplit(write));
    }
}

#[tokio::test]
async fn half_closed_is_the_end_for_the_reader_while_the_other_direction_flows_on() {
    let mut pair = pair().await;
    let answer = made_up(4 << 20, 3);
    let expected = answer.clone();
    let far = tokio::spawn(async move {
        let mut question = Vec::new();
        pair.far.read_to_end(&mut question).await.unwrap();
        assert_eq!(question, b"question");
        // Only now, long after the near end has shut its side down.
        for piece in answer.chunks(100_000) {
            pair.far.write_all(piece).await.unwrap();
        }
        pair.far.close().await.unwrap();
    });
    pair.near.write_all(b"question").await.unwrap();
    in_time(pair.near.shutdown()).await.unwrap();
    let mut got = Vec::new();
    in_time(pair.near.read_to_end(&mut got)).await.unwrap();
    assert!(got == expected);
    in_time(pair.near.close()).await.unwrap();
    far.await.unwrap();
}

#[tokio::test]
async fn a_dropped_half_leaves_the_other_one_working() {
    let mut pair = pair().await;
    let (read, mut write) = split(pair.near);
    drop(read);
    write.write_all(b"on its own").await.unwrap();
    let mut got = [0; 10];
    in_time(pair.far.read_exact(&mut got)).await.unwrap();
    assert_eq!(&got, b"on its own");
    // With the second half the stream goes, and ends.
    drop(write);
    assert_eq!(in_time(pair.far.read(&mut got)).await.unwrap(), 0);
}

#[tokio::test]
async fn copy_moves_everything_and_knows_how_much() {
    let mut pair = pair().await;
    let all = made_up(9_000_007, 4);
    let expected = all.clone();
    let sent = tokio::spawn(async move {
        let count = copy(&mut all.as_slice(), &mut pair.near).await.unwrap();
        pair.near.close().await.unwrap();
        count
    });
    let mut got = Vec::new();
    let count = in_time(copy(&mut pair.far, &mut got)).await.unwrap();
    assert!(got == expected);
    in_time(pair.far.close()).await.unwrap();
    assert_eq!((count, sent.await.unwrap()), (9_000_007, 9_000_007));
}

/// A proxy from one stream to another, which passes on each end as it comes.
#[tokio::test]
async fn copy_bidirectional_joins_two_streams_to_one() {
    let (mut first, mut second) = (pair().await, pair().await);
    let proxy = tokio::spawn(async move {
        let copied = copy_bidirectional(&mut first.far, &mut second.near).await.unwrap();
        let (a, b) = tokio::join!(first.far.close(), second.near.close());
        a.and(b).unwrap();
        copied
    });
    let echo = tokio::spawn(async move {
        let mut all = Vec::new();
        second.far.read_to_end(&mut all).await.unwrap();
        second.far.write_all(&all).await.unwrap();
        second.far.close().await.unwrap();
    });
    let all = made_up(5_000_000, 5);
    first.near.write_all(&all).await.unwrap();
    in_time(first.near.shutdown()).await.unwrap();
    let mut got = Vec::new();
    in_time(first.near.read_to_end(&mut got)).await.unwrap();
    assert!(got == all);
    in_time(first.near.close()).await.unwrap();
    echo.await.unwrap();
    assert_eq!(in_time(proxy).await.unwrap(), (5_000_000, 5_000_000));
}

/// The other side is a pipe in memory, which holds 1,000 bytes.
#[tokio::test]
async fn copy_bidirectional_joins_a_stream_to_something_else() {
    let mut pair = pair().await;
    let (mut pipe, mut user) = duplex(1_000);
    let proxy = tokio::spawn(async move {
        let copied = copy_bidirectional(&mut pipe, &mut pair.near).await.unwrap();
        pair.near.close().await.unwrap();
        copied
    });
    let far = tokio::spawn(async move {
        let mut got = Vec::new();
        pair.far.read_to_end(&mut got).await.unwrap();
        pair.far.write_all(b"short").await.unwrap();
        pair.far.close().await.unwrap();
        got
    });
    let all = made_up(300_000, 6);
    user.write_all(&all).await.unwrap();
    user.shutdown().await.unwrap();
    let mut answer = String::new();
    in_time(user.read_to_string(&mut answer)).await.unwrap();
    assert_eq!(answer, "short");
    assert!(in_time(far).await.unwrap() == all);
    assert_eq!(in_time(proxy).await.unwrap(), (300_000, 5));
}

#[tokio::test]
async fn buffered_halves_talk_line_by_line() {
    let pair = pair().await;
    let serve = tokio::spawn(async move {
        let (read, write) = split(pair.far);
        let (mut lines, mut write) = (BufReader::new(read).lines(), BufWriter::new(write));
        while let Some(line) = lines.next_line().await.unwrap() {
            write.write_all(format!("{} bytes\n", line.len()).as_bytes()).await.unwrap();
            write.flush().await.unwrap();
        }
        write.shutdown().await.unwrap();
    });
    let (read, write) = split(pair.near);
    let (mut lines, mut write) = (BufReader::new(read).lines(), BufWriter::new(write));
    for length in [0, 1, 80, 5_000, 100_000] {
        write.write_all("x".repeat(length).as_bytes()).await.unwrap();
        write.write_all(b"\n").await.unwrap();
        // Nothing goes out before the flush, everything does with it.
        write.flush().await.unwrap();
        assert_eq!(in_time(lines.next_line()).await.unwrap(), Some(format!("{length} bytes")));
    }
    in_time(write.shutdown()).await.unwrap();
    assert_eq!(in_time(lines.next_line()).await.unwrap(), None);
    in_time(serve).await.unwrap();
}
