//! The callers that a connection wakes, and the place where it drops their wakers.

use super::{PATIENCE, pair, pattern, streams::lanes};
use bytes::Bytes;
use rails_net::Lane;
use std::{
    future::{Future, poll_fn},
    io::IoSliceMut,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};
use tokio::time::timeout;

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// A message of many rounds comes, then the end.
#[tokio::test]
async fn callers_are_woken_by_their_own_news() {
    let (near, far) = pair().await;
    let counts: [Arc<Count>; 3] = Default::default();
    let wakers = counts.clone().map(Waker::from);
    let mut callers = [far.receive(), far.receive(), far.receive()].map(Box::pin);
    let mut poll = |index: usize| callers[index].as_mut().poll(&mut Context::from_waker(&wakers[index]));
    assert!((0..3).all(|index| poll(index).is_pending()));
    let woken = || counts.each_ref().map(|count| count.0.load(Relaxed));
    let sending = near.try_send(vec![Bytes::from(pattern(3_000_000, 1))]).unwrap();
    timeout(PATIENCE, sending).await.unwrap().unwrap();
    assert_eq!(woken(), [1, 0, 0]);
    assert!(matches!(poll(0), Poll::Ready(Ok(Some(_)))));
    near.finish();
    let all = async {
        while woken() != [1, 1, 1] {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, all).await.expect("they learn of the end");
    assert!((1..3).all(|index| matches!(poll(index), Poll::Ready(Ok(None)))));
}

/// A waker that counts, and panics.
#[derive(Default)]
struct Broken(Count);

impl Wake for Broken {
    fn wake(self: Arc<Self>) {
        self.0.0.fetch_add(1, Relaxed);
        panic!("its task is broken");
    }
}

/// Callers that receive, and some that send.
#[tokio::test]
async fn waker_that_panics_harms_no_other_caller() {
    let (near, far) = pair().await;
    let (broken, count) = (Arc::<Broken>::default(), Arc::<Count>::default());
    let wakers = [Waker::from(Arc::clone(&broken)), Waker::from(Arc::clone(&count))];
    let mut receiving = [far.receive(), far.receive()].map(Box::pin);
    let mut sending = [1, 2].map(|byte| Box::pin(near.try_send(vec![Bytes::from(vec![byte])]).unwrap()));
    for (index, waker) in wakers.iter().enumerate() {
        let mut context = Context::from_waker(waker);
        assert!(receiving[index].as_mut().poll(&mut context).is_pending());
        assert!(sending[index].as_mut().poll(&mut context).is_pending());
    }
    let woken = async {
        while (broken.0.0.load(Relaxed), count.0.load(Relaxed)) != (2, 2) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, woken).await.expect("each of them is woken");
    for (receiving, sending) in receiving.into_iter().zip(sending) {
        assert!(matches!(receiving.await, Ok(Some(_))));
        assert_eq!(sending.await, Ok(()));
    }
    let closed = timeout(PATIENCE, async { tokio::join!(near.close(), far.close()) }).await.expect("the drivers live");
    assert_eq!(closed, (Ok(()), Ok(())));
}

/// Bytes whose destructor notes how many callers were woken before it, and one more.
struct Late(Arc<Count>, Arc<AtomicUsize>);

impl AsRef<[u8]> for Late {
    fn as_ref(&self) -> &[u8] {
        b"late"
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        self.1.store(1 + self.0.0.load(Relaxed), Relaxed);
    }
}

/// A destructor may take long.
#[tokio::test]
async fn callers_are_woken_before_bytes_are_dropped() {
    let (near, far) = pair().await;
    let (woken, noted) = (Arc::<Count>::default(), Arc::<AtomicUsize>::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut receiving = pin!(near.receive());
    assert!(receiving.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(far);
    let _sending = near.try_send(vec![Bytes::from_owner(Late(woken, Arc::clone(&noted)))]).unwrap();
    let dropped = async {
        while noted.load(Relaxed) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, dropped).await.expect("the connection ends");
    assert_eq!(noted.load(Relaxed), 2);
}

/// A waker whose destructor takes the locks of a lane.
struct Owner(Arc<dyn Lane>);

impl Wake for Owner {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.stats().unwrap();
        self.0.try_receive(&mut [IoSliceMut::new(&mut [0])]).unwrap_err();
    }
}

#[tokio::test]
async fn waker_that_is_replaced_may_use_the_lane() {
    let (near, _far) = lanes().await;
    let payload = Bytes::from(vec![7; 1 << 18]);
    while near.try_submit(&[], std::slice::from_ref(&payload)).is_ok() {}
    let uses = [Lane::poll_receive_ready, Lane::poll_submit_ready, Lane::poll_room];
    for poll in uses {
        for _ in 0..2 {
            let waker = Waker::from(Arc::new(Owner(Arc::clone(&near))));
            assert!(poll(&*near, &mut Context::from_waker(&waker)).is_pending());
        }
        assert!(poll(&*near, &mut Context::from_waker(Waker::noop())).is_pending());
    }
}

/// The number of calls of a task that are ready at once.
const CALLS: usize = 4_096;

/// How many of the calls are ready before the task has to let others have their turn.
async fn ready_at_once(mut is_ready: impl FnMut(&mut Context<'_>) -> bool) -> usize {
    poll_fn(|context| Poll::Ready((0..CALLS).take_while(|_| is_ready(context)).count())).await
}

#[tokio::test]
async fn sends_that_are_always_ready_yield() {
    let (near, _far) = pair().await;
    let ready = ready_at_once(|context| pin!(near.send(vec![Bytes::from_static(b"1")])).poll(context).is_ready());
    let ready = ready.await;
    assert!((1..CALLS).contains(&ready), "{ready} sends without a pause");
}

#[tokio::test]
async fn lane_that_is_always_ready_yields() {
    let (near, far) = lanes().await;
    near.try_submit(b"bytes", &[]).unwrap();
    timeout(PATIENCE, poll_fn(|context| far.poll_receive_ready(context))).await.expect("they come").unwrap();
    for poll in [Lane::poll_receive_ready, Lane::poll_submit_ready, Lane::poll_room] {
        tokio::task::yield_now().await;
        let ready = ready_at_once(|context| poll(&*far, context).is_ready()).await;
        assert!((1..CALLS).contains(&ready), "{ready} calls without a pause");
    }
}

#[tokio::test]
async fn delivered_streams_yield() {
    let (near, _far) = pair().await;
    let mut near = near.into_stream();
    let ready = ready_at_once(|context| pin!(near.delivered()).poll(context).is_ready()).await;
    assert!((1..CALLS).contains(&ready), "{ready} calls without a pause");
}
