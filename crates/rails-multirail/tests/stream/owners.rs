//! Written bytes whose owner does something when it is dropped.

use crate::{
    loopback::{PATIENCE, rails},
    util::{options, pair},
};
use bytes::Bytes;
use rails_multirail::{EventKind, OwnedReadHalf, OwnedWriteHalf, Priority, RailId};
use std::{
    future::poll_fn,
    sync::{Arc, Mutex},
    task::{Context, Waker},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::{mpsc, oneshot},
    time::timeout,
};

/// Memory that calls a function when it is dropped.
struct Owner<F: Fn()>(Vec<u8>, F);

impl<F: Fn()> AsRef<[u8]> for Owner<F> {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl<F: Fn()> Drop for Owner<F> {
    fn drop(&mut self) {
        self.1();
    }
}

fn owned(length: usize, dropped: impl Fn() + Send + 'static) -> Bytes {
    Bytes::from_owner(Owner(vec![7; length], dropped))
}

/// Uses both halves as far as another thread does not at the moment.
fn use_stream(read: &Mutex<OwnedReadHalf>, write: &Mutex<OwnedWriteHalf>) {
    let mut context = Context::from_waker(Waker::noop());
    if let Ok(mut read) = read.try_lock() {
        let _ = (read.stream().stats(), read.stream().events(), read.stream().lanes_up());
        let _ = read.poll_read_bytes(&mut context);
    }
    if let Ok(mut write) = write.try_lock() {
        let _ = write.poll_write_bytes(&mut context, &mut Bytes::from_static(b"!"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owner_whose_drop_uses_the_stream() {
    let rails = rails(2);
    let (near, far) = pair(&rails, &options()).await;
    let (read, write) = near.into_split();
    let (read, write) = (Arc::new(Mutex::new(read)), Arc::new(Mutex::new(write)));
    let (dropped, mut drops) = mpsc::unbounded_channel();
    let (mut far, _back) = far.into_split();
    tokio::spawn(async move { while far.read_bytes().await.is_ok_and(|bytes| bytes.is_some()) {} });
    // Long ones are kept until they are acknowledged, short ones are copied.
    for length in [1, 100, 5_000, 64 << 10, 300 << 10].repeat(4) {
        let (dropped, read, own) = (dropped.clone(), read.clone(), write.clone());
        let mut bytes = owned(length, move || {
            use_stream(&read, &own);
            let _ = dropped.send(());
        });
        while !bytes.is_empty() {
            let writing = poll_fn(|context| write.lock().unwrap().poll_write_bytes(context, &mut bytes));
            timeout(PATIENCE, writing).await.expect("there is room").expect("the stream holds");
        }
        drop(bytes);
        timeout(PATIENCE, drops.recv()).await.expect("the bytes are dropped");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owner_of_a_message_uses_the_stream() {
    let rails = rails(1);
    let (near, far) = pair(&rails, &options()).await;
    let (near, far) = (near.into_messages().unwrap(), far.into_messages().unwrap());
    let ((sender, _receiver), (_sender, mut far)) = (near.split(), far.split());
    tokio::spawn(async move { while far.recv().await.is_ok_and(|message| message.is_some()) {} });
    let sender = Arc::new(Mutex::new(sender));
    let (dropped, mut drops) = mpsc::unbounded_channel();
    for length in [0, 10, 5_000, 64 << 10, 300 << 10].repeat(4) {
        let (dropped, own) = (dropped.clone(), sender.clone());
        let message = owned(length, move || {
            if let Ok(mut sender) = own.try_lock() {
                let _ = (sender.stats(), sender.try_send(Bytes::from_static(b"!"), Priority::NORMAL));
            }
            let _ = dropped.send(());
        });
        let mut message = Some(message);
        let sending = poll_fn(|context| sender.lock().unwrap().poll_send(context, &mut message, Priority::NORMAL));
        timeout(PATIENCE, sending).await.expect("there is room").expect("the stream holds");
        timeout(PATIENCE, drops.recv()).await.expect("the message is dropped");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owner_that_panics_ends_no_lane() {
    let rails = rails(1);
    let (mut near, mut far) = pair(&rails, &options()).await;
    for length in [100, 5_000, 300 << 10] {
        let (dropped, mut drops) = mpsc::unbounded_channel();
        let bytes = owned(length, move || {
            let _ = dropped.send(());
            panic!("the owner of {length} bytes panics, as it should");
        });
        near.write_bytes(bytes).await.expect("the stream holds");
        far.read_exact(&mut vec![0; length]).await.expect("the stream holds");
        timeout(PATIENCE, drops.recv()).await.expect("the bytes are dropped");
    }
    near.write_bytes(Bytes::from_static(b"on")).await.expect("the stream holds");
    far.read_exact(&mut [0; 2]).await.expect("the stream holds");
    assert!(!near.events().iter().any(|event| matches!(event.kind, EventKind::Ended { .. })));
}

/// A destructor that waits for the task that its own stream wakes.
#[tokio::test]
async fn owner_that_waits_for_the_writer() {
    let rails = rails(1);
    let (mut near, mut far) = pair(&rails, &options()).await;
    let (written, waits) = std::sync::mpsc::channel();
    let (dropped, mut drops) = mpsc::unbounded_channel();
    let bytes = owned(64 << 10, move || {
        let _ = dropped.send(waits.recv_timeout(PATIENCE).is_ok());
    });
    // The lane takes the last bytes together with the end, and so the peer acknowledges both at once.
    let (free, blocked) = std::sync::mpsc::channel::<()>();
    let (began, begun) = oneshot::channel();
    drop(rails[RailId(0)].runtime().spawn(async move {
        let _ = began.send(());
        let _ = blocked.recv_timeout(PATIENCE);
    }));
    begun.await.expect("the rail runs");
    let shut = async {
        near.write_bytes(bytes).await.expect("the stream holds");
        near.shutdown().await.expect("the stream holds");
        let _ = written.send(());
    };
    let mut got = vec![0; 64 << 10];
    let read = async {
        drop(free);
        far.read_exact(&mut got).await.expect("the stream holds");
    };
    tokio::join!(biased; shut, read);
    assert_eq!(drops.recv().await, Some(true), "the writer was woken before the bytes were dropped");
}
