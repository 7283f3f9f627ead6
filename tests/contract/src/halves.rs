//! The two directions of a stream as separate halves.

use crate::{in_time, made_up, pair};
use rails::multirail::ReuniteError;
use std::{io::ErrorKind, time::Duration};
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
async fn half_close_leaves_the_other_direction_open() {
    let mut pair = pair().await;
    let answer = made_up(4 << 20, 3);
    let expected = answer.clone();
    let far = tokio::spawn(async move {
        let mut question = Vec::new();
        pair.far.read_to_end(&mut question).await.unwrap();
        assert_eq!(question, b"question");
        // This answer comes long after the near end has shut its side down.
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
    // Dropping the second half drops the stream, and ends it.
    drop(write);
    assert_eq!(in_time(pair.far.read(&mut got)).await.unwrap(), 0);
}

/// As with the halves of `TcpStream`: each runs in a task of its own, and both are reunited.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owned_halves_in_two_tasks() {
    let mut pair = pair().await;
    let (there, back) = (made_up(6_000_001, 7), made_up(7_000_003, 8));
    let (expected_there, expected_back) = (there.clone(), back.clone());
    let far = tokio::spawn(async move {
        let mut got = vec![0; there.len()];
        let (mut read, mut write) = pair.far.split();
        let (read, written) = tokio::join!(read.read_exact(&mut got), write.write_all(&back));
        read.and(written.map(|()| 0)).unwrap();
        assert!(got == there);
        pair.far
    });
    let (mut read, mut write) = pair.near.into_split();
    assert_eq!(read.stream().peer_addr().unwrap(), write.stream().peer_addr().unwrap());
    let writing = tokio::spawn(async move {
        write.write_all(&expected_there).await.unwrap();
        write
    });
    let mut got = vec![0; expected_back.len()];
    in_time(read.read_exact(&mut got)).await.unwrap();
    assert!(got == expected_back);
    let mut near = read.reunite(in_time(writing).await.unwrap()).expect("they are of one stream");
    let mut far = in_time(far).await.unwrap();
    far.write_all(b"whole").await.unwrap();
    let mut word = [0; 5];
    in_time(near.read_exact(&mut word)).await.unwrap();
    assert_eq!(&word, b"whole");
    let (near, far) = in_time(async { tokio::join!(near.close(), far.close()) }).await;
    near.and(far).unwrap();
}

#[tokio::test]
async fn dropped_owned_write_half_is_a_half_close() {
    let mut pair = pair().await;
    let (mut read, mut write) = pair.near.into_split();
    write.write_all(b"question").await.unwrap();
    drop(write);
    let mut question = Vec::new();
    in_time(pair.far.read_to_end(&mut question)).await.unwrap();
    assert_eq!(question, b"question");
    pair.far.write_all(b"answer").await.unwrap();
    in_time(pair.far.shutdown()).await.unwrap();
    let mut answer = Vec::new();
    in_time(read.read_to_end(&mut answer)).await.unwrap();
    assert_eq!(answer, b"answer");
}

#[tokio::test]
async fn forgotten_owned_write_half_ends_nothing() {
    let mut pair = pair().await;
    let (read, mut write) = pair.near.into_split();
    write.write_all(b"one").await.unwrap();
    write.forget();
    let mut got = [0; 3];
    in_time(pair.far.read_exact(&mut got)).await.unwrap();
    let end = tokio::time::timeout(Duration::from_millis(100), pair.far.read(&mut got)).await;
    assert!(end.is_err(), "the direction is open: {end:?}");
    drop(read);
    assert_eq!(in_time(pair.far.read(&mut got)).await.unwrap(), 0);
}

/// Bytes taken from the stream and not copied out belong to the stream again.
#[tokio::test]
async fn reunited_halves_lose_no_byte() {
    let mut pair = pair().await;
    let all = made_up(100_000, 9);
    pair.far.write_all(&all).await.unwrap();
    let (mut read, write) = pair.near.into_split();
    let mut got = vec![0; 100];
    in_time(read.read_exact(&mut got)).await.unwrap();
    let mut near = write.reunite(read).expect("they are of one stream");
    got.resize(all.len(), 0);
    in_time(near.read_exact(&mut got[100..])).await.unwrap();
    assert!(got == all);
}

#[tokio::test]
async fn halves_of_two_streams_do_not_reunite() {
    let (first, second) = (pair().await, pair().await);
    let (read, write) = first.near.into_split();
    let (other_read, other_write) = second.near.into_split();
    let refused = read.reunite(other_write).unwrap_err();
    assert_eq!(refused.to_string(), "the two halves are of different streams");
    let ReuniteError(read, other_write) = refused;
    read.reunite(write).expect("they are of one stream");
    other_read.reunite(other_write).expect("they are of one stream");
}

/// As with a whole stream that is dropped: the peer learns that its bytes were not read.
#[tokio::test]
async fn bytes_unread_by_a_dropped_owned_half() {
    let mut pair = pair().await;
    pair.far.write_all(&[7; 1000]).await.unwrap();
    let (mut read, write) = pair.near.into_split();
    in_time(read.read_exact(&mut [0; 10])).await.unwrap();
    drop((read, write));
    let error = in_time(pair.far.close()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
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

/// A proxy from one stream to another, which forwards the end of each direction as it arrives.
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

/// The second stream is a pipe in memory, which holds 1,000 bytes.
#[tokio::test]
async fn copy_bidirectional_with_a_pipe() {
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
        // The flush sends the buffered bytes.
        write.flush().await.unwrap();
        assert_eq!(in_time(lines.next_line()).await.unwrap(), Some(format!("{length} bytes")));
    }
    in_time(write.shutdown()).await.unwrap();
    assert_eq!(in_time(lines.next_line()).await.unwrap(), None);
    in_time(serve).await.unwrap();
}
