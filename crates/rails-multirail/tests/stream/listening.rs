//! Listeners that several tasks use, and errors converted to those of `std`.

use crate::{
    loopback::{PATIENCE, listener, rails},
    util::options,
};
use rails_multirail::{
    EndpointError, ListenerClosed, MultiRailListener, MultiRailStream, OpenError, Rails, ResolveError,
};
use std::{
    error::Error,
    io::{self, ErrorKind},
    net::SocketAddr,
    pin::pin,
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

#[tokio::test]
async fn several_tasks_accept() {
    let rails = rails(2);
    let (listener, addresses) = listener(&rails, &options()).await;
    let listener = Arc::new(listener);
    let accepting: Vec<_> = (0..4)
        .map(|_| {
            let listener = listener.clone();
            tokio::spawn(async move { listener.accept().await.map(|stream| stream.id()) })
        })
        .collect();
    let mut opened = Vec::new();
    for _ in 0..4 {
        opened.push(MultiRailStream::connect(&rails, &addresses, &options()).await.unwrap());
    }
    let mut ids: Vec<_> = opened.iter().map(|stream| stream.id().0).collect();
    let mut accepted = Vec::new();
    for task in accepting {
        accepted.push(timeout(PATIENCE, task).await.expect("each task gets a stream").unwrap().unwrap().0);
    }
    ids.sort_unstable();
    accepted.sort_unstable();
    assert!(ids == accepted);
}

/// A task that waits in `accept` and is not polled any more does not keep other tasks from a stream
/// or from closing.
#[tokio::test]
async fn accept_beside_an_accept_that_is_not_polled() {
    let rails = rails(1);
    let (listener, addresses) = listener(&rails, &options()).await;
    let mut idle = pin!(listener.accept());
    timeout(Duration::from_millis(10), &mut idle).await.expect_err("no stream was opened");
    let near = MultiRailStream::connect(&rails, &addresses, &options()).await.unwrap();
    let far = timeout(PATIENCE, listener.accept()).await.expect("accept does not hang").unwrap();
    assert_eq!(near.id(), far.id());
    timeout(PATIENCE, listener.close()).await.expect("it closes");
    assert!(matches!(timeout(PATIENCE, idle).await.expect("the task is woken"), Err(ListenerClosed::Closed)));
}

#[tokio::test]
async fn closed_listener_frees_its_addresses() {
    let rails = rails(2);
    let (first, addresses) = listener(&rails, &options()).await;
    let first = Arc::new(first);
    let mut near = MultiRailStream::connect(&rails, &addresses, &options()).await.unwrap();
    let mut far = first.accept().await.unwrap();
    let waiting = MultiRailStream::connect(&rails, &addresses, &options()).await.unwrap();
    let accepting = tokio::spawn({
        let first = first.clone();
        // This task gets the waiting stream, or no task does.
        async move {
            while first.accept().await.is_ok() {}
            first.accept().await
        }
    });
    timeout(PATIENCE, first.close()).await.expect("it closes");
    let ended = timeout(PATIENCE, accepting).await.expect("the task is woken").unwrap();
    assert!(matches!(ended, Err(ListenerClosed::Closed)), "{ended:?}");
    timeout(PATIENCE, first.close()).await.expect("the listener closes");

    let second = MultiRailListener::bind(&rails, &addresses, &options()).await.expect("the addresses are free");
    assert_eq!(second.local_addrs(), first.local_addrs());
    // The accepted stream goes on.
    near.write_all(b"on").await.unwrap();
    timeout(PATIENCE, far.read_exact(&mut [0; 2])).await.expect("it comes").unwrap();
    drop(waiting);
}

/// A stream whose confirmation comes while the listener is closed has no accepting end, and its
/// initiator learns of it.
#[tokio::test]
async fn stream_that_waits_when_its_listener_closes() {
    let rails = rails(1);
    let (listener, addresses) = listener(&rails, &options()).await;
    let mut near = MultiRailStream::connect(&rails, &addresses, &options()).await.unwrap();
    // The stream is in the queue, or about to be.
    tokio::time::sleep(Duration::from_millis(50)).await;
    timeout(PATIENCE, listener.close()).await.expect("it closes");
    timeout(PATIENCE, near.read_u8()).await.expect("the initiator learns of the end").unwrap_err();
}

#[tokio::test]
async fn open_errors_as_io_errors() {
    async fn kind(rails: &Rails, address: &str) -> (ErrorKind, io::Error) {
        let error = MultiRailStream::connect(rails, address, &options()).await.unwrap_err();
        let error = io::Error::from(error);
        (error.kind(), error)
    }
    let rails = rails(1);
    let free: SocketAddr = {
        let (_, addresses) = listener(&rails, &options()).await;
        addresses[0]
    };
    let (refused, error) = kind(&rails, &free.to_string()).await;
    assert_eq!(refused, ErrorKind::ConnectionRefused);
    assert!(matches!(error.get_ref().and_then(|error| error.downcast_ref()), Some(OpenError::AllFailed { .. })));
    let (text, error) = kind(&rails, "no address").await;
    assert_eq!(
        (text, error.to_string()),
        (ErrorKind::InvalidInput, "`no address` is no address: it is HOST:PORT or SCHEME://HOST:PORT".to_owned())
    );
    assert_eq!(kind(&rails, "udp://127.0.0.1:1").await.0, ErrorKind::Unsupported);
    let none: [SocketAddr; 0] = [];
    assert!(matches!(
        MultiRailStream::connect(&rails, none, &options()).await,
        Err(OpenError::Endpoint(EndpointError::NoAddresses))
    ));
}

#[tokio::test]
async fn listener_and_stream_by_host_name() {
    let rails = rails(1);
    let listener = MultiRailListener::bind(&rails, "localhost:0", &options()).await.expect("every host is localhost");
    let port = listener.local_addrs()[0].port();
    // The rail's address is 127.0.0.1. If the name resolves to IPv6, connecting fails, as with TCP.
    match MultiRailStream::connect(&rails, ("localhost", port), &options()).await {
        Ok(near) => assert_eq!(near.id(), listener.accept().await.unwrap().id()),
        Err(error) => assert!(listener.local_addrs()[0].socket.is_ipv6(), "{error}"),
    }
    let unknown = MultiRailStream::connect(&rails, "no-such-host.invalid:1", &options()).await.unwrap_err();
    assert!(matches!(unknown, OpenError::Endpoint(EndpointError::Resolve(ResolveError::Lookup { .. }))), "{unknown}");
    assert!(unknown.source().is_some());
}
