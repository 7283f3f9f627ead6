//! Connections as streams of bytes, and as lanes.

use crate::{PATIENCE, anywhere, options, pair, pattern};
use bytes::Bytes;
use rails_celeritas::{CeleritasOptions, CeleritasStream, CeleritasTransport, proto::sender::MESSAGE_COST};
use rails_net::{ConnectError, Lane, LocalEnd, Transport, TransportDetails};
use rails_topo::Bandwidth;
use std::{
    future::{Future, poll_fn},
    io,
    io::IoSliceMut,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    runtime::Handle,
    time::timeout,
};

async fn streams() -> (CeleritasStream, CeleritasStream) {
    let (near, far) = pair().await;
    (near.into_stream(), far.into_stream())
}

#[tokio::test]
async fn bytes_come_as_they_were_written() {
    let (mut near, mut far) = streams().await;
    let (there, back) = (pattern(9_000_001, 1), pattern(700_003, 2));
    let (sent, wanted) = (there.clone(), back.clone());
    let other = tokio::spawn(async move {
        let mut got = Vec::new();
        far.read_to_end(&mut got).await.expect("it is open");
        assert!(got == there, "other bytes arrived");
        // The other direction goes on after the end of this one.
        far.write_all(&back).await.expect("it is open");
        far.shutdown().await.expect("the peer is there");
    });
    near.write_all(&sent[..5_000_000]).await.expect("it is open");
    near.write_bytes(Bytes::copy_from_slice(&sent[5_000_000..])).await.expect("it is open");
    timeout(PATIENCE, near.shutdown()).await.expect("it does not hang").expect("all has arrived");
    assert_eq!(near.write(b"more").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    let mut got = Vec::new();
    timeout(PATIENCE, near.read_to_end(&mut got)).await.expect("it does not hang").expect("it is open");
    assert!(got == wanted, "other bytes came back");
    other.await.expect("it ran");
}

#[tokio::test]
async fn flush_waits_for_no_peer() {
    let (mut near, far) = streams().await;
    near.write_all(&pattern(100_000, 3)).await.unwrap();
    // Nothing has had the time to leave.
    let flushed = pin!(near.flush()).poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(flushed, Poll::Ready(Ok(()))) && far.stats().receiver.bytes == 0, "{flushed:?}");
    timeout(PATIENCE, near.delivered()).await.expect("it does not hang").unwrap();
    assert_eq!(far.stats().receiver.bytes, 100_000);
}

/// Also once the connection has ended as both ends wished.
#[tokio::test]
async fn refused_bytes_fail_every_later_flush() {
    let (near, far) = pair().await;
    let mut near = near.into_stream();
    let closing = tokio::spawn(far.close());
    near.write_all(b"nobody takes it").await.unwrap();
    let refused = timeout(PATIENCE, near.shutdown()).await.expect("it does not hang").unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionReset);
    timeout(PATIENCE, closing).await.expect("both ends close").unwrap().unwrap();
    let ended = async {
        while Handle::current().metrics().num_alive_tasks() > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, ended).await.expect("both drivers come to their end");
    for refused in [near.delivered().await, near.shutdown().await, near.write_all(b"more").await] {
        assert_eq!(refused.map_err(|error| error.kind()), Err(io::ErrorKind::ConnectionReset));
    }
}

#[tokio::test]
async fn reads_that_are_always_ready_yield() {
    let (mut near, mut far) = streams().await;
    near.write_all(&pattern(4_096, 5)).await.unwrap();
    timeout(PATIENCE, near.delivered()).await.expect("it does not hang").unwrap();
    let mut ready = 0;
    poll_fn(|context| {
        while ready < 4_096 && pin!(far.read_u8()).poll(context).is_ready() {
            ready += 1;
        }
        Poll::Ready(())
    })
    .await;
    assert!((1..4_096).contains(&ready), "{ready} reads without a pause");
}

#[tokio::test]
async fn written_bytes_outlive_their_stream() {
    let (mut near, mut far) = streams().await;
    let bytes = pattern(1_000_000, 4);
    near.write_all(&bytes).await.unwrap();
    drop(near);
    let mut got = Vec::new();
    timeout(PATIENCE, far.read_to_end(&mut got)).await.expect("it does not hang").expect("the end is a clean one");
    assert!(got == bytes);
    // The peer is gone.
    let lost = async {
        loop {
            if let Err(error) = far.write_all(&[0; 1000]).await {
                return error;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, lost).await.expect("the writer learns of it");
}

#[tokio::test]
async fn reader_learns_of_a_peer_that_stops_midway() {
    let (near, far) = pair().await;
    let mut far = far.into_stream();
    drop(near.try_send(vec![Bytes::from(pattern(30_000_000, 5))]).unwrap());
    far.read_exact(&mut [0; 0]).await.unwrap();
    drop(near);
    let mut got = Vec::new();
    let ended = timeout(PATIENCE, far.read_to_end(&mut got)).await.expect("it does not hang");
    assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
}

/// A message that is refused or given up would be missing in between.
#[tokio::test]
async fn stream_fails_where_a_message_is_missing() {
    let (near, far) = pair().await;
    let mut far = far.into_stream();
    drop(near.send_within(vec![Bytes::from_static(b"late")], Duration::ZERO).await.unwrap());
    drop(near.try_send(vec![Bytes::from_static(b"next")]).unwrap());
    let error = timeout(PATIENCE, far.read_u8()).await.expect("it does not hang").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
}

/// A read that has bytes to give already hides no error of the message behind them.
#[tokio::test]
async fn missing_message_fails_all_later_reads() {
    let (near, far) = pair().await;
    let mut far = far.into_stream();
    let first = near.try_send(vec![Bytes::from(pattern(1_000, 1))]).unwrap();
    let late = near.send_within(vec![Bytes::from_static(b"late")], Duration::ZERO).await.unwrap();
    let _outcomes = timeout(PATIENCE, async { tokio::join!(first, late) }).await.expect("they come to an end");
    // The frame that tells of the late one is on its way.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut buffer = vec![0; 4096];
    assert_eq!(timeout(PATIENCE, far.read(&mut buffer)).await.unwrap().unwrap(), 1_000);
    for _ in 0..2 {
        let failed = timeout(PATIENCE, far.read(&mut buffer)).await.expect("it does not wait for ever");
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}

/// Two ends of a lane.
pub(super) async fn lanes() -> (Arc<dyn Lane>, Arc<dyn Lane>) {
    let transport = CeleritasTransport::new(options());
    let mut acceptor = transport.listen(anywhere()).unwrap();
    let remote = acceptor.local_addr();
    let local = LocalEnd::Address("127.0.0.3".parse().unwrap());
    let accepted = poll_fn(|context| acceptor.poll_accept(context));
    let (near, far) = tokio::join!(transport.connect(&local, remote), accepted);
    let (near, far) = (near.unwrap(), far.unwrap());
    assert_eq!((near.local_addr().ip().to_string(), near.peer_addr()), ("127.0.0.3".to_owned(), remote));
    assert_eq!((far.local_addr(), far.peer_addr()), (remote, near.local_addr()));
    (near, far.open().unwrap())
}

async fn submit_all(lane: &dyn Lane, control: &[u8], payload: &[Bytes]) {
    let mut rest: Vec<u8> = [control, &payload.concat()].concat();
    poll_fn(|context| lane.poll_room(context)).await.unwrap();
    let mut taken = lane.try_submit(control, payload).unwrap();
    loop {
        rest.drain(..taken);
        if rest.is_empty() {
            return;
        }
        poll_fn(|context| lane.poll_submit_ready(context)).await.unwrap();
        taken = lane.try_submit(&[], &[Bytes::copy_from_slice(&rest)]).unwrap();
    }
}

async fn receive(lane: &dyn Lane) -> io::Result<Vec<u8>> {
    let (mut first, mut second) = ([0; 1000], vec![0; 300_000]);
    loop {
        poll_fn(|context| lane.poll_receive_ready(context)).await?;
        match lane.try_receive(&mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            received => {
                let received = received?;
                return Ok([&first[..], &second].concat()[..received].to_vec());
            }
        }
    }
}

#[tokio::test]
async fn lane_carries_bytes_and_its_end() {
    let (near, far) = lanes().await;
    let sent: Vec<Vec<u8>> = (0..40).map(|seed| pattern(seed as usize * 17_000, seed)).collect();
    let wanted: Vec<u8> = sent.iter().flat_map(|payload| [b"head", &payload[..]].concat()).collect();
    let sending = async {
        for payload in &sent {
            let halves = payload.split_at(payload.len() / 2);
            submit_all(&*near, b"head", &[halves.0, halves.1].map(Bytes::copy_from_slice)).await;
        }
        near.close_write().unwrap();
    };
    let receiving = async {
        let mut got = Vec::new();
        loop {
            match receive(&*far).await.unwrap() {
                bytes if bytes.is_empty() => return got,
                bytes => got.extend(bytes),
            }
        }
    };
    let ((), got) = timeout(PATIENCE, async { tokio::join!(sending, receiving) }).await.expect("it does not hang");
    assert!(got == wanted, "other bytes arrived");
    let stats = near.detailed_stats().unwrap();
    assert!(stats.bytes_acknowledged > Some(10_000_000) && stats.rtt.is_some(), "{stats:?}");
    let Some(TransportDetails::Other { scheme: "celeritas", figures }) = stats.details else { panic!("{stats:?}") };
    assert!(figures["segments_sent"] > 7_000, "{figures:?}");
    assert_eq!(near.try_submit(b"more", &[]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn lane_has_room_for_a_few_bytes_alone() {
    let (near, _far) = lanes().await;
    let most = near.max_unsent().unwrap().as_bytes();
    let payload = Bytes::from(vec![7; 1 << 20]);
    let mut taken = 0;
    // Nothing leaves before the driver has its turn.
    let full = loop {
        match near.try_submit(&[], std::slice::from_ref(&payload)) {
            Ok(count) => taken += count as u64,
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
    assert!((most..=most + (256 << 10)).contains(&taken), "{taken}");
    timeout(PATIENCE, poll_fn(|context| near.poll_room(context))).await.expect("it leaves").unwrap();
}

#[tokio::test]
async fn writes_of_a_byte_fill_a_lane() {
    let (near, _far) = lanes().await;
    let most = near.max_unsent().unwrap().as_bytes();
    let mut taken = 0;
    while near.try_submit(&[7], &[]).is_ok() {
        taken += 1;
        assert!(taken <= most / MESSAGE_COST, "{taken} writes wait unsent");
    }
    timeout(PATIENCE, poll_fn(|context| near.poll_room(context))).await.expect("they leave").unwrap();
}

#[tokio::test]
async fn lane_of_a_peer_that_is_gone_fails() {
    let (near, far) = lanes().await;
    drop(far);
    let ended = async {
        loop {
            if let Err(error) = near.try_submit(b"frame", &[]) {
                return error;
            }
            tokio::task::yield_now().await;
        }
    };
    let error = timeout(PATIENCE, ended).await.expect("it does not hang");
    assert!(matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe), "{error:?}");
}

#[tokio::test]
async fn refused_lane_says_so() {
    let transport = CeleritasTransport::new(options());
    let nobody = std::net::TcpListener::bind(anywhere()).unwrap().local_addr().unwrap();
    let error = transport.connect(&LocalEnd::Any, nobody).await.unwrap_err();
    assert!(matches!(error, ConnectError::Refused { .. }), "{error:?}");
    let elsewhere = LocalEnd::Address("192.0.2.1".parse().unwrap());
    let error = transport.connect(&elsewhere, nobody).await.unwrap_err();
    assert!(matches!(error, ConnectError::LocalEnd(_)), "{error:?}");
}

/// The options of a path are those of lanes to its address.
#[tokio::test]
async fn each_path_has_its_rate() {
    let listener = options().listen(anywhere()).unwrap();
    let transport = CeleritasTransport::new(options())
        .path(listener.local_addr().ip(), CeleritasOptions::fixed(Bandwidth::mbps(3)));
    let (near, _far) = tokio::join!(transport.connect(&LocalEnd::Any, listener.local_addr()), listener.accept());
    let stats = near.unwrap().detailed_stats().unwrap();
    let Some(TransportDetails::Other { figures, .. }) = stats.details else { panic!("{stats:?}") };
    assert_eq!(figures["sending_rate_bits_per_second"], 3_000_000);
}
