//! Loops over calls that are always ready let the other tasks of their thread run, as those of a
//! TCP connection do.

use crate::{
    loopback::rails,
    util::{options, pair},
};
use bytes::Bytes;
use rails_multirail::Priority;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

/// Calls `step` until another task of this thread has run.
async fn lets_others_run(what: &str, mut step: impl AsyncFnMut()) {
    let has_run = Arc::new(AtomicBool::new(false));
    let other = has_run.clone();
    tokio::spawn(async move { other.store(true, Relaxed) });
    for _ in 0..STEPS {
        step().await;
        if has_run.load(Relaxed) {
            return;
        }
    }
    panic!("{STEPS} calls in a row kept the thread to themselves: {what}");
}

/// A stream that can be written to and read from without waiting.
async fn writes_and_reads<S: AsyncReadExt + AsyncWriteExt + Unpin>(mut near: S, mut far: S) {
    far.write_all(&[7; STEPS]).await.expect("the stream holds");
    far.flush().await.expect("the stream holds");
    near.read_exact(&mut [0]).await.expect("the stream holds");
    lets_others_run("reads", async || near.read_exact(&mut [0]).await.map(drop).expect("the stream holds")).await;
    lets_others_run("empty reads", async || near.read(&mut []).await.map(drop).expect("the stream holds")).await;
    lets_others_run("writes", async || near.write_all(&[7]).await.expect("the stream holds")).await;
}

#[tokio::test]
async fn tcp_reads_and_writes_yield() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let near = TcpStream::connect(listener.local_addr().unwrap()).await.expect("it listens");
    let (far, _) = listener.accept().await.expect("one comes");
    writes_and_reads(near, far).await;
}

#[tokio::test]
async fn stream_reads_and_writes_yield() {
    let rails = rails(1);
    let (near, far) = pair(&rails, &options()).await;
    writes_and_reads(near, far).await;
}

#[tokio::test]
async fn reads_and_writes_without_a_copy_yield() {
    let rails = rails(1);
    let (mut near, mut far) = pair(&rails, &options()).await;
    far.write_all(&[7; STEPS]).await.expect("the stream holds");
    far.shutdown().await.expect("everything arrives");
    lets_others_run("read_bytes_up_to", async || drop(near.read_bytes_up_to(1).await.expect("the stream holds"))).await;
    let byte = Bytes::from_static(b"7");
    lets_others_run("write_bytes", async || near.write_bytes(byte.clone()).await.expect("the stream holds")).await;
}

#[tokio::test]
async fn sends_and_receptions_of_messages_yield() {
    let rails = rails(1);
    let (near, far) = pair(&rails, &options()).await;
    let (mut near, mut far) = (near.into_messages().unwrap(), far.into_messages().unwrap());
    let byte = Bytes::from_static(b"7");
    for _ in 0..STEPS {
        far.send(byte.clone(), Priority::NORMAL).await.expect("the stream holds");
    }
    far.finish().await.expect("everything arrives");
    lets_others_run("recv", async || drop(near.recv().await.expect("the stream holds"))).await;
    lets_others_run("send", async || near.send(byte.clone(), Priority::NORMAL).await.expect("the stream holds")).await;
}

/// A timeout around a loop of sends comes.
#[tokio::test]
async fn loop_of_sends_heeds_a_timeout() {
    let rails = rails(1);
    let (near, far) = pair(&rails, &options()).await;
    let (mut near, mut far) = (near.into_messages().unwrap(), far.into_messages().unwrap());
    tokio::spawn(async move { while far.recv().await.is_ok_and(|message| message.is_some()) {} });
    let mut sends = 0_u64;
    let endless = async {
        loop {
            near.send(Bytes::from_static(b"7"), Priority::NORMAL).await.expect("the stream holds");
            sends += 1;
            assert!(sends < 1_000_000, "the timeout never gets a turn");
        }
    };
    let ended: Result<(), _> = timeout(Duration::ZERO, endless).await;
    ended.expect_err("the loop has no end of its own");
}

/// Several times tokio's budget of 128 calls.
const STEPS: usize = 2000;
