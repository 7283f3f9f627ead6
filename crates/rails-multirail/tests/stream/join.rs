//! Peers that may join, and refusals of those that may not.

use crate::{
    loopback::{PATIENCE, listener, patient, rails},
    util::{options, pattern},
};
use rails_multirail::{HandshakeError, Mode, MultiRailStream, OpenError, Secret, Security, error::JoinError};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

#[tokio::test]
async fn strangers_beside_a_stream() {
    let rails = rails(2);
    let (listener, addresses) = listener(&rails, &options()).await;
    let mut near = MultiRailStream::connect(&rails, &addresses, &options()).await.unwrap();
    let mut far = listener.accept().await.unwrap();
    near.write_all(b"before").await.unwrap();

    let wrong = patient(Secret::pre_shared(b"another 16 bytes").unwrap());
    let Err(OpenError::AllFailed { lanes }) = MultiRailStream::connect(&rails, &addresses, &wrong).await else {
        panic!("a wrong secret opened a stream");
    };
    assert_eq!(lanes.len(), 2);
    for lane in lanes {
        let refused = "the peer refused the lane: the join secret is wrong";
        assert_eq!(lane.error.to_string(), refused);
    }
    let none = patient(Security::insecure());
    let Err(OpenError::AllFailed { lanes }) = MultiRailStream::connect(&rails, &addresses, &none).await else {
        panic!("no secret opened a stream");
    };
    let differ = HandshakeError::Mode { ours: Mode::Insecure, theirs: Mode::PreSharedKey };
    assert!(matches!(&lanes[0].error, JoinError::Handshake(error) if *error == differ), "{lanes:?}");

    let mut garbage = TcpStream::connect(addresses[0]).await.unwrap();
    garbage.write_all(&pattern(4096)).await.unwrap();
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, garbage.read_to_end(&mut answer)).await.expect("it is hung up on");
    assert!(answer.is_empty(), "a stranger learns nothing");

    near.write_all(b" after").await.unwrap();
    let (near, far) = tokio::join!(near.close(), async {
        let mut got = String::new();
        far.read_to_string(&mut got).await.unwrap();
        assert_eq!(got, "before after");
        far.close().await
    });
    near.unwrap();
    far.unwrap();
}

#[tokio::test]
async fn refusal_of_an_old_version() {
    let rails = rails(2);
    let (_listener, addresses) = listener(&rails, &options()).await;
    let mut old = TcpStream::connect(addresses[0]).await.unwrap();
    old.write_all(b"RAIL\x00\x01\x01\x00").await.unwrap();
    let mut answer = Vec::new();
    timeout(PATIENCE, old.read_to_end(&mut answer)).await.expect("it is answered").unwrap();
    assert_eq!(answer, b"RAIL\x05\x05\x00\x01", "a refusal that names this end's version");
}

#[tokio::test]
async fn stream_without_a_lane_that_cannot_connect() {
    let rails = rails(2);
    let (listener, mut addresses) = listener(&rails, &options()).await;
    // A port whose listener is closed.
    addresses[1] = std::net::TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap();
    let mut near = MultiRailStream::connect(&rails, &addresses, &options()).await.unwrap();
    assert_eq!(near.failed_lanes().len(), 1);
    assert_eq!(near.failed_lanes()[0].remote.socket, addresses[1]);
    assert_eq!(near.lanes_up(), 1);
    let mut far = listener.accept().await.unwrap();
    near.write_all(b"hello").await.unwrap();
    let mut got = [0; 5];
    far.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"hello");
}

#[tokio::test]
async fn handshake_permit_of_a_mute_peer() {
    let rails = rails(2);
    let patience = options().handshake_timeout(Duration::from_millis(200));
    let (_listener, addresses) = listener(&rails, &patience).await;
    let mut silent = TcpStream::connect(addresses[0]).await.unwrap();
    let end = timeout(PATIENCE, silent.read(&mut [0; 1])).await.expect("it is hung up on");
    assert!(matches!(end, Ok(0) | Err(_)));
}
