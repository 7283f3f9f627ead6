//! Wakers of the application that panic.

use crate::{
    loopback::{PATIENCE, listener, rails},
    util::{options, pair},
};
use rails_multirail::MultiRailStream;
use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf},
    time::timeout,
};

struct Panicking;

impl Wake for Panicking {
    fn wake(self: Arc<Self>) {
        panic!("a waker panics");
    }
}

fn panicking() -> Waker {
    Waker::from(Arc::new(Panicking))
}

#[tokio::test]
async fn waker_of_a_reader_that_panics_ends_no_lane() {
    let rails = rails(1);
    let (mut near, mut far) = pair(&rails, &options()).await;
    for _ in 0..10 {
        let mut space = [0; 8];
        let read = pin!(&mut far).poll_read(&mut Context::from_waker(&panicking()), &mut ReadBuf::new(&mut space));
        assert!(read.is_pending());
        near.write_all(&space).await.expect("the stream holds");
        timeout(PATIENCE, far.read_exact(&mut space)).await.expect("it arrives").expect("the stream holds");
    }
    assert_eq!(far.stats().lanes[0].losses, 0);
}

#[tokio::test]
async fn waker_that_panics_leaves_no_other_accept_asleep() {
    let rails = rails(1);
    let (listener, remotes) = listener(&rails, &options()).await;
    let mut first = pin!(listener.accept());
    assert!(first.as_mut().poll(&mut Context::from_waker(&panicking())).is_pending());
    let mut second = pin!(listener.accept());
    let is_waiting = std::future::poll_fn(|context| Poll::Ready(second.as_mut().poll(context).is_pending())).await;
    assert!(is_waiting);
    let opened = MultiRailStream::connect(&rails, &remotes, &options()).await.expect("the listener goes on");
    timeout(PATIENCE, second).await.expect("it is woken").expect("the listener goes on");
    assert_eq!(opened.stats().lanes[0].joined, 1, "no lane has ended");
}
