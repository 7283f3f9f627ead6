//! Streams and listeners whose rails are stopped under them: every call on them ends.

use crate::loopback;
use rails::multirail::{
    BindListenerError, Driver, Failure, ListenerClosed, MultiRailListener, MultiRailStream, OpenError, RailId, Rails,
    Secret, StreamError, StreamOptions,
};
use std::{
    future::Future,
    io,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    runtime::Handle,
    time::timeout,
};

#[tokio::test]
async fn calls_that_wait_fail_when_all_rails_stop() {
    for watched_here in [false, true] {
        let (near_rails, far_rails) = (loopback(2).1, loopback(2).1);
        let options = if watched_here { options().application_runtime(&Handle::current()) } else { options() };
        let (listener, near, far) = pair(&near_rails, &far_rails, &options).await;
        let (mut reading, mut writing) = near.into_split();
        let (mut far_reading, mut far_writing) = far.into_split();
        // The far end does not read, so the write waits for the window.
        let reads = tokio::spawn(async move { reading.read_u8().await.unwrap_err() });
        let writes = tokio::spawn(async move {
            let error = writing.write_all(&vec![7; 64 << 20]).await.unwrap_err();
            assert_stopped(&soon(writing.write_all(b"more")).await.unwrap_err());
            assert_stopped(&soon(writing.shutdown()).await.unwrap_err());
            error
        });
        let accepts = tokio::spawn(async move { (listener.accept().await.map(drop).unwrap_err(), listener) });
        // Bytes go back and forth once, so that the reader is on its way to reading inline.
        assert_eq!(soon(far_reading.read_u8()).await.unwrap(), 7);

        stop(&near_rails).await;
        assert_stopped(&soon(reads).await.unwrap());
        assert_stopped(&soon(writes).await.unwrap());
        // The far end's rails live on, until its own end.
        assert!(!accepts.is_finished());
        stop(&far_rails).await;
        let (ended, listener) = soon(accepts).await.unwrap();
        assert!(matches!(ended, ListenerClosed::RailsStopped), "{ended}");
        assert!(matches!(soon(listener.accept()).await, Err(ListenerClosed::RailsStopped)));
        soon(listener.close()).await;
        // Bytes that had arrived can still be read; then comes the failure.
        let error = soon(tokio::io::copy(&mut far_reading, &mut tokio::io::sink())).await.unwrap_err();
        assert_stopped(&error);
        assert_stopped(&soon(far_writing.write_all(b"more")).await.unwrap_err());
        assert_stopped(&soon(far_reading.reunite(far_writing).unwrap().close()).await.unwrap_err());
    }
}

#[tokio::test]
async fn a_stream_goes_on_while_one_of_its_rails_does() {
    // The rail that opened the stream, and the other one.
    for first in [0, 1] {
        let (near_rails, far_rails) = (loopback(2).1, loopback(2).1);
        let options = options().driver(Driver::PerRail);
        let (_listener, mut near, mut far) = pair(&near_rails, &far_rails, &options).await;
        let stopped = near_rails.clone();
        stopped[RailId(first)].runtime().shutdown(PATIENCE).await.unwrap();
        for _ in 0..2 {
            let (sent, received) = tokio::join!(near.write_all(&[1; 1 << 20]), async {
                let mut bytes = vec![0; 1 << 20];
                soon(far.read_exact(&mut bytes)).await.map(|_| bytes.iter().all(|byte| *byte == 1))
            });
            sent.unwrap();
            assert!(received.unwrap());
        }
        stop(&near_rails).await;
        assert_stopped(&soon(near.read_u8()).await.unwrap_err());
    }
}

#[tokio::test]
async fn a_dropped_stream_lets_its_rails_stop() {
    let (near_rails, far_rails) = (loopback(2).1, loopback(2).1);
    let (_listener, mut near, _far) = pair(&near_rails, &far_rails, &options()).await;
    near.write_all(&[7; 1 << 20]).await.unwrap();
    drop(near);
    stop(&near_rails).await;
}

#[tokio::test]
async fn stopped_rails_neither_connect_nor_listen() {
    let (_, rails) = loopback(2);
    // The kernel accepts the connections; no program answers the handshake.
    let mute = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let (address, connecting) = (mute.local_addr().unwrap(), rails.clone());
    let connects = tokio::spawn(async move {
        let options = options().connect_timeout(100 * PATIENCE);
        MultiRailStream::connect(&connecting, &[address; 2][..], &options).await.map(drop)
    });
    let _met = soon(mute.accept()).await.unwrap();
    stop(&rails).await;
    let late = soon(MultiRailStream::connect(&rails, &[address; 2][..], &options())).await.map(drop);
    for ended in [soon(connects).await.unwrap(), late] {
        let Err(OpenError::AllFailed { lanes }) = ended else { panic!("{ended:?}") };
        assert!(lanes.iter().all(|lane| lane.error.to_string() == "the rail's runtime has stopped"), "{lanes:?}");
    }
    let bound = soon(MultiRailListener::bind(&rails, &addresses(&rails), &options())).await;
    assert!(matches!(bound, Err(BindListenerError::RailStopped(RailId(0)))), "{bound:?}");
}

/// A stream with both lanes up, whose initiator has sent some bytes.
async fn pair(
    near_rails: &Rails,
    far_rails: &Rails,
    options: &StreamOptions,
) -> (MultiRailListener, MultiRailStream, MultiRailStream) {
    let listener = MultiRailListener::bind(far_rails, &addresses(far_rails), options).await.unwrap();
    let near = soon(MultiRailStream::connect(near_rails, listener.local_addrs(), options)).await.unwrap();
    let far = soon(listener.accept()).await.unwrap();
    assert_eq!(near.lanes_up(), 2);
    (listener, near, far)
}

fn addresses(rails: &Rails) -> Vec<SocketAddr> {
    rails.iter().map(|rail| SocketAddr::new(rail.planned().address.unwrap(), 0)).collect()
}

fn options() -> StreamOptions {
    let options = StreamOptions::new(Secret::pre_shared(b"sixteen bytes!!!").unwrap());
    // No other limit ends a call in the time of the test.
    options.join_grace(PATIENCE).handshake_timeout(100 * PATIENCE).outage_limit(100 * PATIENCE)
}

async fn stop(rails: &Rails) {
    assert_eq!(rails.shutdown(PATIENCE).await, Ok(()));
}

async fn soon<F: Future>(call: F) -> F::Output {
    timeout(PATIENCE, call).await.expect("the call ends")
}

fn assert_stopped(error: &io::Error) {
    let failure = error.get_ref().and_then(|error| error.downcast_ref::<StreamError>()).map(|error| &error.failure);
    assert_eq!(failure, Some(&Failure::RuntimeStopped), "{error}");
}

/// A bound against hanging.
const PATIENCE: Duration = Duration::from_secs(20);
