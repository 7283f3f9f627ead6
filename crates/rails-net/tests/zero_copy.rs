//! Sending without copies, over the loopback interface, where the kernel copies after all and
//! reports it.

use bytes::Bytes;
use rails_net::{Lane, TcpLane, TcpTransport, Transport, ZeroCopy, ZeroCopyStats};
use rails_topo::DataSize;
use std::{
    future::poll_fn,
    io::{self, IoSliceMut},
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};
use tokio::{
    io::AsyncReadExt,
    net::TcpStream,
    time::{sleep, timeout},
};

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const CONTROL: &[u8] = b"control";

fn zero_copy() -> TcpTransport {
    TcpTransport::new().zero_copy(ZeroCopy::new())
}

/// A lane that sends without copies, and a peer with a small receive buffer.
async fn pair(sending: TcpTransport) -> (TcpLane, TcpLane) {
    let receiving = TcpTransport::new().receive_buffer(DataSize::bytes(64 << 10));
    let listener = receiving.listen(LOOPBACK).expect("every machine has a loopback interface");
    let near = sending.connect(listener.local_addr()).await.expect("the listener accepts");
    (near, listener.accept().await.expect("a peer has connected"))
}

/// Memory that sets a flag when it is dropped.
struct Watched(Vec<u8>, Arc<AtomicBool>);

impl AsRef<[u8]> for Watched {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // A kernel that still reads this memory sends other bytes from now on.
        self.0.fill(0xdd);
        self.1.store(true, SeqCst);
    }
}

fn watched(length: usize) -> (Bytes, Arc<AtomicBool>) {
    let gone = Arc::new(AtomicBool::new(false));
    let bytes = (0..length).map(|index| (index / 1000) as u8).collect();
    (Bytes::from_owner(Watched(bytes, gone.clone())), gone)
}

/// Waits until the lane is ready, and submits once.
async fn submit(lane: &dyn Lane, payload: &Bytes) -> usize {
    loop {
        poll_fn(|context| lane.poll_submit_ready(context)).await.expect("the lane is up");
        match lane.try_submit(CONTROL, std::slice::from_ref(payload)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            taken => return taken.expect("the lane is up"),
        }
    }
}

async fn receive(lane: &dyn Lane, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        poll_fn(|context| lane.poll_receive_ready(context)).await.expect("the lane is up");
        match lane.try_receive(&mut [IoSliceMut::new(&mut bytes[filled..])]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
    }
    bytes.truncate(filled);
    bytes
}

fn stats(lane: &dyn Lane) -> ZeroCopyStats {
    lane.stats().expect("readable").zero_copy.expect("the lane sends without copies")
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(Duration::from_secs(30), waiting).await.unwrap_or_else(|_| panic!("{what}"));
}

/// Memory that asks its lane for statistics when it is dropped.
struct Asking(Vec<u8>, Weak<TcpLane>, Arc<AtomicBool>);

impl AsRef<[u8]> for Asking {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if let Some(lane) = self.1.upgrade() {
            stats(&*lane);
            self.2.store(true, SeqCst);
        }
    }
}

#[tokio::test]
async fn memory_that_uses_its_lane_as_it_is_dropped() {
    let (near, far) = pair(zero_copy()).await;
    let (near, has_asked) = (Arc::new(near), Arc::new(AtomicBool::new(false)));
    let payload = Bytes::from_owner(Asking(vec![7; 1 << 20], Arc::downgrade(&near), has_asked.clone()));
    let taken = submit(&*near, &payload).await;
    drop(payload);
    receive(&far, taken).await;
    // A lane that dropped the memory under its lock would wait for itself, on a thread of its own here.
    let asked = has_asked.clone();
    thread::spawn(move || {
        while !asked.load(SeqCst) {
            stats(&*near);
            thread::sleep(Duration::from_millis(2));
        }
    });
    until("the memory is dropped", || has_asked.load(SeqCst)).await;
}

#[tokio::test]
async fn payload_kept_until_the_kernel_is_done() {
    let (near, far) = pair(zero_copy()).await;
    assert!(near.settings().expect("readable").zero_copy);
    assert!(!far.settings().expect("readable").zero_copy);
    let (payload, gone) = watched(1 << 20);
    let expected = payload.clone();
    let taken = submit(&near, &payload).await;
    drop(payload);
    let first = stats(&near);
    assert_eq!((first.sends, first.bytes), (1, taken as u64));
    let got = receive(&far, taken).await;
    assert_eq!(&got[..CONTROL.len()], CONTROL);
    assert!(got[CONTROL.len()..] == expected[..taken - CONTROL.len()], "other bytes arrived");
    until("the kernel sends no notice", || stats(&near).completed == 1).await;
    assert_eq!(stats(&near).outstanding_bytes, 0);
    assert!(!gone.load(SeqCst), "the caller still holds the memory");
    drop(expected);
    assert!(gone.load(SeqCst), "the lane keeps memory that the kernel is done with");
}

#[tokio::test]
async fn payload_kept_after_its_lane_is_dropped() {
    let (near, far) = pair(zero_copy().not_sent_lowat(None)).await;
    let (payload, gone) = watched(1 << 20);
    let taken = submit(&near, &payload).await;
    let expected = payload.to_vec();
    drop(payload);
    assert!(taken > 300 << 10, "the receiver cannot hold that much: {taken}");
    drop(near);
    sleep(Duration::from_millis(100)).await;
    assert!(!gone.load(SeqCst), "the lane freed memory that the kernel still sends");
    // All bytes arrive unchanged, and then the end.
    let got = receive(&far, 16 << 20).await;
    assert_eq!(got.len(), taken);
    assert!(got[CONTROL.len()..] == expected[..taken - CONTROL.len()], "other bytes arrived");
    until("the lane keeps memory that the kernel is done with", || gone.load(SeqCst)).await;
}

/// Memory that sets a flag and panics when it is dropped.
struct Panicking(Vec<u8>, Arc<AtomicBool>);

impl AsRef<[u8]> for Panicking {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Panicking {
    fn drop(&mut self) {
        self.1.store(true, SeqCst);
        panic!("the owner of sent bytes panics, as it should");
    }
}

#[tokio::test]
async fn an_owner_that_panics_frees_no_other_payload() {
    let (near, far) = pair(zero_copy().not_sent_lowat(None)).await;
    let has_panicked = Arc::new(AtomicBool::new(false));
    let first = Bytes::from_owner(Panicking(vec![7; 64 << 10], has_panicked.clone()));
    let taken = submit(&near, &first).await;
    drop(first);
    let (second, gone) = watched(1 << 20);
    let taken_then = submit(&near, &second).await;
    let expected = second.to_vec();
    drop(second);
    drop(near);
    assert_eq!(receive(&far, taken).await.len(), taken);
    until("the first payload is dropped", || has_panicked.load(SeqCst)).await;
    sleep(Duration::from_millis(100)).await;
    assert!(!gone.load(SeqCst), "memory was freed that the kernel still sends");
    let got = receive(&far, taken_then).await;
    assert!(got[CONTROL.len()..] == expected[..taken_then - CONTROL.len()], "other bytes arrived");
    until("nobody waits for the kernel any more", || gone.load(SeqCst)).await;
}

/// The end of a lane is too late for a thread to begin: the system may give none then.
#[tokio::test]
async fn a_thread_is_ready_before_a_lane_sends() {
    let (_near, _far) = pair(zero_copy()).await;
    let names = || {
        let threads = std::fs::read_dir("/proc/self/task").expect("procfs is mounted").flatten();
        threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok())
    };
    until("no thread waits for the kernel", || names().any(|name| name.trim() == "rails-zerocopy")).await;
}

#[tokio::test]
async fn little_is_copied_as_ever() {
    let (near, far) = pair(zero_copy()).await;
    let (payload, gone) = watched(1000);
    let taken = submit(&near, &payload).await;
    drop(payload);
    assert!(gone.load(SeqCst));
    assert_eq!(receive(&far, taken).await.len(), CONTROL.len() + 1000);
    assert_eq!(stats(&near), ZeroCopyStats::default());
    assert_eq!(Lane::stats(&far).expect("readable").zero_copy, None, "the accepting lane has no zero copy");
}

#[tokio::test]
async fn zero_copy_stop_on_loopback() {
    let (near, far) = pair(zero_copy()).await;
    let (payload, _) = watched(40_000);
    let mut asked = 0;
    while !stats(&near).stopped {
        let taken = submit(&near, &payload).await;
        assert_eq!(receive(&far, taken).await.len(), taken);
        asked += 1;
        assert!(asked < 10_000, "{:?}", stats(&near));
    }
    let stopped = stats(&near);
    assert!(stopped.copied >= 16, "{stopped:?}");
    let taken = submit(&near, &payload).await;
    receive(&far, taken).await;
    assert_eq!(stats(&near).sends, stopped.sends);
}

#[tokio::test]
async fn no_more_is_outstanding_than_was_allowed() {
    let limit = 100_000;
    let most = ZeroCopy::new().max_outstanding(DataSize::bytes(limit));
    let (near, far) = pair(TcpTransport::new().zero_copy(most).not_sent_lowat(None)).await;
    let (payload, _) = watched(40_000);
    let mut taken = 0;
    // Submits until the socket takes no more.
    while let Ok(count) = near.try_submit(CONTROL, std::slice::from_ref(&payload)) {
        taken += count;
        assert!(stats(&near).outstanding_bytes <= limit);
    }
    assert!(stats(&near).refused > 0, "{:?}", stats(&near));
    assert_eq!(receive(&far, taken).await.len(), taken, "bytes beyond the limit were sent with a copy");
}

#[tokio::test]
async fn wait_for_room_beside_many_notices() {
    let (near, far) = pair(zero_copy()).await;
    let (payload, _) = watched(1 << 20);
    let polls = Arc::new(AtomicUsize::new(0));
    let mut total = 0;
    for _ in 0..10 {
        // Sends until there is no room. No more room comes, because the peer does not read.
        loop {
            while let Ok(count) = near.try_submit(CONTROL, std::slice::from_ref(&payload)) {
                total += count;
            }
            let room = poll_fn(|context| {
                polls.fetch_add(1, SeqCst);
                near.poll_room(context)
            });
            if timeout(Duration::from_millis(50), room).await.is_err() {
                break;
            }
        }
        let read = receive(&far, total).await.len();
        assert_eq!(read, total);
        total = 0;
        timeout(Duration::from_secs(30), poll_fn(|context| near.poll_room(context)))
            .await
            .expect("reading makes room")
            .expect("the lane is up");
    }
    assert!(stats(&near).completed > 0, "{:?}", stats(&near));
    let polls = polls.load(SeqCst);
    assert!(polls < 2000, "{polls} wakes without room");
}

#[test]
fn incoming_lane_opens_on_another_runtime() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (accepting, driving) = (runtime(), runtime());
    let (incoming, far) = accepting.block_on(async {
        let mut acceptor = Transport::listen(&zero_copy(), LOOPBACK).expect("every machine has a loopback interface");
        let far = TcpTransport::new().connect(acceptor.local_addr()).await.expect("the listener accepts");
        let incoming = poll_fn(|context| acceptor.poll_accept(context)).await.expect("a peer has connected");
        assert_eq!((incoming.local_addr(), incoming.peer_addr()), (far.peer_addr(), far.local_addr()));
        (incoming, far.into_stream().into_std().expect("the runtime releases the socket"))
    });
    drop(accepting);
    driving.block_on(async {
        let near = incoming.open().expect("the lane is up");
        let mut far = TcpStream::from_std(far).expect("the runtime takes the socket");
        let (payload, gone) = watched(1 << 20);
        let expected = payload.to_vec();
        let taken = submit(&*near, &payload).await;
        drop(payload);
        let mut received = vec![0; taken];
        far.read_exact(&mut received).await.expect("every byte arrives");
        assert!(received[CONTROL.len()..] == expected[..taken - CONTROL.len()], "other bytes arrived");
        until("the kernel sends no notice", || stats(&*near).completed == 1).await;
        assert!(gone.load(SeqCst));
    });
}

#[tokio::test]
async fn the_end_of_the_other_side_ends_the_wait_for_room() {
    let (near, far) = pair(zero_copy()).await;
    let (payload, gone) = watched(1 << 20);
    while near.try_submit(CONTROL, std::slice::from_ref(&payload)).is_ok() {}
    drop(far);
    // The kernel resets a connection that is closed with unread bytes.
    let failed = async {
        loop {
            match near.try_submit(CONTROL, std::slice::from_ref(&payload)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let _ = poll_fn(|context| near.poll_submit_ready(context)).await;
                }
                Ok(_) => {}
                Err(error) => return error,
            }
        }
    };
    let error = timeout(Duration::from_secs(30), failed).await.expect("the sender gets the error");
    assert!(matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe), "{error}");
    drop((near, payload));
    until("the lane keeps memory of bytes that the kernel threw away", || gone.load(SeqCst)).await;
}
