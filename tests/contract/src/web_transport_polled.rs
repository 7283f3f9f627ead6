//! The traits of web-transport-trait whose calls are polled.

use crate::{Sessions, in_time, sessions};
use bytes::{Buf, Bytes, BytesMut};
use rails::multirail::PolledSession;
use std::{
    future::poll_fn,
    task::{Context, Poll},
};
use web_transport_trait::{
    Error, Stats,
    poll::{RecvStream, SendStream, Session},
};

/// Waits until a write without an end has no room.
async fn fill<S: SendStream>(send: &mut S) -> usize {
    let mut written = 0;
    loop {
        let next = poll_fn(|context| Poll::Ready(send.poll_write(context, &[7; 10_000]))).await;
        match next {
            Poll::Ready(count) => written += count.unwrap(),
            Poll::Pending => return written,
        }
        tokio::task::yield_now().await;
    }
}

/// Goes through every method of the traits.
async fn conform<S: Session>(mut near: S, mut far: S) {
    // A call that waits wakes the task that polled it.
    let accepting = poll_fn(|context| far.poll_accept_bi(context));
    let opening = async {
        let (mut send, receive) = poll_fn(|context| near.poll_open_bi(context)).await.unwrap();
        tokio::task::yield_now().await;
        send.set_priority(-1);
        let mut question = Bytes::from_static(b"question");
        while question.has_remaining() {
            poll_fn(|context| send.poll_write_buf(context, &mut question)).await.unwrap();
        }
        send.finish().unwrap();
        poll_fn(|context| send.poll_closed(context)).await.unwrap();
        receive
    };
    let (accepted, mut answer) = in_time(async { tokio::join!(accepting, opening) }).await;
    let (mut reply, mut question) = accepted.unwrap();
    let mut got = [0; 3];
    let read = poll_fn(|context| question.poll_read(context, &mut got));
    assert_eq!((in_time(read).await.unwrap(), &got), (Some(3), b"que"));
    let read = poll_fn(|context| question.poll_read(context, &mut []));
    assert_eq!(in_time(read).await.unwrap(), Some(0), "this asks for nothing");
    let mut rest = BytesMut::new();
    let read = poll_fn(|context| question.poll_read_buf(context, &mut rest));
    assert_eq!((in_time(read).await.unwrap(), &rest[..]), (Some(5), &b"stion"[..]));
    assert_eq!(in_time(poll_fn(|context| question.poll_read_chunk(context, 9))).await.unwrap(), None);
    in_time(poll_fn(|context| question.poll_closed(context))).await.unwrap();

    let written = fill(&mut reply).await;
    assert!(written > 0);
    let chunk = in_time(poll_fn(|context| answer.poll_read_chunk(context, 100))).await.unwrap().unwrap();
    assert!(!chunk.is_empty() && chunk.iter().all(|byte| *byte == 7));
    answer.stop(5);
    in_time(poll_fn(|context| answer.poll_closed(context))).await.unwrap();
    assert_eq!(in_time(poll_fn(|context| reply.poll_closed(context))).await.unwrap_err().stream_error(), Some(5));

    let mut send = in_time(poll_fn(|context| near.poll_open_uni(context))).await.unwrap();
    fill(&mut send).await;
    let mut receive = in_time(poll_fn(|context| far.poll_accept_uni(context))).await.unwrap();
    send.reset(6);
    in_time(poll_fn(|context| send.poll_closed(context))).await.unwrap();
    let error = in_time(poll_fn(|context| receive.poll_closed(context))).await.unwrap_err();
    assert_eq!(error.stream_error(), Some(6));

    let largest = vec![9; near.max_datagram_size()];
    in_time(poll_fn(|context| near.poll_send_datagram(context, &largest))).await.unwrap();
    assert_eq!(in_time(poll_fn(|context| far.poll_recv_datagram(context))).await.unwrap(), largest);
    assert_eq!(far.protocol(), None);
    assert!(far.stats().bytes_received().unwrap() > 0);

    let told = Some((8, "over".to_owned()));
    let is_pending = |context: &mut Context<'_>| Poll::Ready(near.poll_closed(context).is_pending());
    assert!(poll_fn(is_pending).await, "it is open");
    far.close(8, "over");
    assert_eq!(in_time(poll_fn(|context| near.poll_closed(context))).await.session_error(), told);
    assert_eq!(in_time(poll_fn(|context| near.poll_accept_uni(context))).await.err().unwrap().session_error(), told);
    assert_eq!(in_time(poll_fn(|context| far.poll_closed(context))).await.session_error(), told);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_polled_session_conforms() {
    let Sessions { near, far, rails: _rails } = sessions().await;
    conform(PolledSession::new(near), PolledSession::new(far)).await;
}

/// Each clone waits for itself, and a call that was given up takes nothing along.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clones_of_a_polled_session_wait_for_themselves() {
    let Sessions { near, far, rails: _rails } = sessions().await;
    let mut first = PolledSession::new(far);
    let mut given_up = first.clone();
    let is_pending = poll_fn(|context| Poll::Ready(given_up.poll_accept_uni(context).is_pending())).await;
    assert!(is_pending);
    let waiting = tokio::spawn(async move {
        let mut stream = poll_fn(|context| first.poll_accept_uni(context)).await.unwrap();
        (stream.read_to_end(9).await.unwrap(), first)
    });
    let mut send = in_time(near.open_uni()).await.unwrap();
    in_time(send.write_all(b"one")).await.unwrap();
    drop(send);
    let (got, mut first) = in_time(waiting).await.unwrap();
    assert_eq!(got, b"one");
    let mut send = in_time(near.open_uni()).await.unwrap();
    in_time(send.write_all(b"two")).await.unwrap();
    drop(send);
    let mut stream = in_time(poll_fn(|context| first.poll_accept_uni(context))).await.unwrap();
    assert_eq!(in_time(stream.read_to_end(9)).await.unwrap(), b"two");
    assert_eq!(format!("{first:?}").split(' ').next(), Some("PolledSession"));
}
