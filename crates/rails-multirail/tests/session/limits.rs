//! The limits of streams that are open at a time.

use crate::util::{Ends, ends_by, in_time, options, until};
use std::time::Duration;
use tokio::{task::JoinSet, time::timeout};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_waits_until_a_stream_is_closed() {
    let theirs = options().max_concurrent_bi_streams(2).max_concurrent_uni_streams(1);
    let Ends { near, far, _listener, _rails } = ends_by(&options(), &theirs).await;
    let (mut first, mut answer) = in_time(near.open_bi()).await.unwrap();
    let _second = in_time(near.open_bi()).await.unwrap();
    timeout(Duration::from_millis(50), near.open_bi()).await.expect_err("two are open");
    // The other kind and the other end have limits of their own.
    let only = in_time(near.open_uni()).await.unwrap();
    timeout(Duration::from_millis(50), near.open_uni()).await.expect_err("one is open");
    let _theirs = in_time(far.open_bi()).await.unwrap();
    let waiting = tokio::spawn({
        let near = near.clone();
        async move { near.open_bi().await.map(|(send, _)| send.id()) }
    });
    in_time(first.write_all(b"1")).await.unwrap();
    first.finish().unwrap();
    let (mut reply, mut question) = in_time(far.accept_bi()).await.unwrap();
    assert_eq!(in_time(question.read_to_end(1)).await.unwrap(), b"1");
    reply.finish().unwrap();
    assert_eq!(in_time(answer.read_to_end(0)).await.unwrap(), b"");
    assert!(!waiting.is_finished());
    drop((reply, question));
    assert_eq!(in_time(waiting).await.unwrap().unwrap().index(), 2);
    drop(only);
    drop(in_time(far.accept_uni()).await.unwrap());
    in_time(near.open_uni()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_change() {
    let theirs = options().max_concurrent_bi_streams(0).max_concurrent_uni_streams(0);
    let Ends { near, far, _listener, _rails } = ends_by(&options(), &theirs).await;
    timeout(Duration::from_millis(50), near.open_bi()).await.expect_err("no stream may be opened");
    let mut waiting = JoinSet::new();
    for _ in 0..4 {
        let near = near.clone();
        waiting.spawn(async move { near.open_bi().await.unwrap() });
    }
    far.set_max_concurrent_bi_streams(3);
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(in_time(waiting.join_next()).await.unwrap().unwrap());
    }
    timeout(Duration::from_millis(50), waiting.join_next()).await.expect_err("the fourth waits");
    far.set_max_concurrent_bi_streams(4);
    in_time(waiting.join_next()).await.unwrap().unwrap();
    far.set_max_concurrent_uni_streams(1);
    in_time(near.open_uni()).await.unwrap();
}

/// The peer opens as many streams as it likes, one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_streams_count_no_more() {
    let theirs = options().max_concurrent_uni_streams(3);
    let Ends { near, far, _listener, _rails } = ends_by(&options(), &theirs).await;
    let reading = tokio::spawn(async move {
        let mut sum = 0;
        while let Ok(mut receive) = far.accept_uni().await {
            sum += receive.read_to_end(1 << 10).await.unwrap().len();
        }
        sum
    });
    for _ in 0..500 {
        let mut send = in_time(near.open_uni()).await.unwrap();
        in_time(send.write_all(b"seven..")).await.unwrap();
    }
    drop(near);
    assert_eq!(in_time(reading).await.unwrap(), 3_500);
}

/// Handles that this end drops free its memory of a stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_gives_up_leaves_its_stream_to_others() {
    let theirs = options().max_concurrent_bi_streams(1);
    let Ends { near, far, _listener, _rails } = ends_by(&options(), &theirs).await;
    let kept = in_time(near.open_bi()).await.unwrap();
    let waiting: Vec<_> = (0..5)
        .map(|_| {
            let near = near.clone();
            tokio::spawn(async move { near.open_bi().await.unwrap() })
        })
        .collect();
    waiting[..4].iter().for_each(tokio::task::JoinHandle::abort);
    until(|| waiting[..4].iter().all(tokio::task::JoinHandle::is_finished)).await;
    drop(kept);
    drop(in_time(far.accept_bi()).await.unwrap());
    in_time(waiting.into_iter().next_back().unwrap()).await.unwrap();
}

/// An end that waits no more for an answer drops its handles. The peer, which has answered nothing,
/// learns of it, and the stream counts no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_were_given_up_leave_room() {
    let theirs = options().max_concurrent_bi_streams(2);
    let Ends { near, far, _listener, _rails } = ends_by(&options(), &theirs).await;
    tokio::spawn(async move {
        while let Ok((mut send, mut receive)) = far.accept_bi().await {
            tokio::spawn(async move {
                let _ = receive.read_to_end(1 << 10).await;
                assert_eq!(send.stopped().await.expect("the session holds"), Some(0));
            });
        }
    });
    for _ in 0..10 {
        let (mut send, mut receive) = in_time(near.open_bi()).await.expect("there is room");
        in_time(send.write_all(b"wait for news")).await.expect("it is read");
        send.finish().expect("it was not finished");
        timeout(Duration::from_millis(5), receive.read(&mut [0; 16])).await.expect_err("there is no news");
    }
}
