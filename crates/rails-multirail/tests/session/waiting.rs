//! Who is woken, and what tasks that wait cost.

use crate::util::{Ends, asked, echo, ends, ends_by, in_time, options, until};
use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Wake, Waker},
};

/// Counts its wakes.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_streams_wake_nobody() {
    let many = || options().max_concurrent_bi_streams(500);
    let Ends { near, far, _listener, _rails } = ends_by(&many(), &many()).await;
    echo(&far);
    let mut idle = Vec::new();
    for _ in 0..300 {
        let (mut send, mut receive) = in_time(near.open_bi()).await.unwrap();
        in_time(send.write_all(b"1")).await.unwrap();
        assert_eq!(in_time(receive.read_chunk(1)).await.unwrap().unwrap(), &b"1"[..]);
        idle.push((send, receive));
    }
    let count = Arc::new(Count::default());
    let waker = Waker::from(count.clone());
    let mut context = Context::from_waker(&waker);
    let mut waiting: Vec<_> = idle.iter_mut().map(|(_, receive)| Box::pin(receive.read_chunk(1))).collect();
    assert!(waiting.iter_mut().all(|read| read.as_mut().poll(&mut context).is_pending()));
    for question in 0..200u32 {
        let question = question.to_be_bytes();
        assert_eq!(in_time(asked(&near, &question)).await, question);
    }
    assert_eq!(count.0.load(SeqCst), 0, "only the streams with arrivals are woken");
    drop(waiting);
    let (send, receive) = &mut idle[7];
    let mut read = pin!(receive.read_chunk(9));
    assert!(read.as_mut().poll(&mut context).is_pending());
    in_time(send.write_all(b"again")).await.unwrap();
    until(|| count.0.load(SeqCst) == 1).await;
    assert_eq!(in_time(read).await.unwrap().unwrap(), &b"again"[..]);
}

/// Several tasks accept; those that give up lose no stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_tasks_accept() {
    let Ends { near, far, _listener, _rails } = ends().await;
    let accepting: Vec<_> = (0..10)
        .map(|_| {
            let far = far.clone();
            tokio::spawn(async move {
                let (_send, receive) = far.accept_bi().await.unwrap();
                receive.id().0
            })
        })
        .collect();
    // A call that is not polled any more keeps no stream from the others.
    let mut unpolled = Box::pin(far.accept_bi());
    let waker = Waker::noop();
    let _ = unpolled.as_mut().poll(&mut Context::from_waker(waker));
    accepting[..3].iter().for_each(tokio::task::JoinHandle::abort);
    until(|| accepting[..3].iter().all(tokio::task::JoinHandle::is_finished)).await;
    let mut opened = Vec::new();
    for _ in 0..7 {
        let (mut send, receive) = in_time(near.open_bi()).await.unwrap();
        in_time(send.write_all(b"hello")).await.unwrap();
        opened.push((send, receive));
    }
    let mut accepted = Vec::new();
    for task in accepting.into_iter().skip(3) {
        accepted.push(in_time(task).await.unwrap());
    }
    accepted.sort_unstable();
    assert_eq!(accepted, opened.iter().map(|(send, _)| send.id().0).collect::<Vec<_>>());
    drop(unpolled);
}

/// Two tasks of one stream, a reader and a writer, wait at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reader_and_writer_of_one_stream() {
    let Ends { near, far, _listener, _rails } = ends().await;
    let (mut send, mut receive) = in_time(near.open_bi()).await.unwrap();
    let writing = tokio::spawn(async move { send.write_all(&vec![7; 10 << 20]).await });
    let reading = tokio::spawn(async move { receive.read_to_end(100).await });
    let (mut reply, mut question) = in_time(far.accept_bi()).await.unwrap();
    let read = in_time(question.read_to_end(usize::MAX)).await.unwrap();
    assert_eq!(read.len(), 10 << 20);
    in_time(writing).await.unwrap().unwrap();
    in_time(reply.write_all(b"thanks")).await.unwrap();
    drop(reply);
    assert_eq!(in_time(reading).await.unwrap().unwrap(), b"thanks");
}
