//! Streams over lanes of Celeritas, and over TCP beside them.

use crate::{
    loopback,
    streams::{PATIENCE, TOTAL, bytes},
};
use rails::{
    celeritas::{CeleritasOptions, CeleritasTransport},
    multirail::{LaneStats, MultiRailListener, MultiRailStream, Secret, Security, StreamOptions, StreamStats},
    net::TransportDetails,
    topo::Bandwidth,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn stream_over_celeritas_lanes() {
    let security = Security::psk(secret());
    let [near, far] = exchange(["celeritas://127.0.0.1:0", "celeritas://127.0.0.2:0"], security).await;
    assert!(near.lanes.iter().chain(&far.lanes).all(is_celeritas), "{near:?}");
}

#[tokio::test]
async fn encrypted_stream_over_celeritas_lanes() {
    let security = Security::encrypted(secret());
    exchange(["celeritas://127.0.0.1:0", "celeritas://127.0.0.2:0"], security).await;
}

#[tokio::test]
async fn stream_over_tcp_and_celeritas() {
    let security = Security::psk(secret());
    let [near, _] = exchange(["127.0.0.1:0", "celeritas://127.0.0.2:0"], security).await;
    assert_eq!(near.lanes.iter().map(is_celeritas).collect::<Vec<_>>(), [false, true]);
}

/// Moves bytes both ways over two lanes, and checks that no byte and no lane was lost.
async fn exchange(addresses: [&str; 2], security: Security) -> [StreamStats; 2] {
    let (_, rails) = loopback(2);
    let lane = CeleritasTransport::new(CeleritasOptions::fixed(Bandwidth::mbps(600)));
    let options = StreamOptions::new(security).transport(lane).join_grace(PATIENCE).handshake_timeout(PATIENCE);
    let listener = MultiRailListener::bind(&rails, addresses, &options).await.unwrap();
    let mut near = MultiRailStream::connect(&rails, listener.local_addrs(), &options).await.unwrap();
    let mut far = listener.accept().await.unwrap();
    assert_eq!(near.lanes_up(), 2);
    let sent = bytes(TOTAL);
    let digest = blake3::hash(&sent);
    let (near, far) = tokio::join!(
        async {
            near.write_bytes(sent).await.unwrap();
            near.shutdown().await.unwrap();
            let mut answer = String::new();
            near.read_to_string(&mut answer).await.unwrap();
            assert_eq!(answer, "thank you");
            near.close().await.unwrap()
        },
        async {
            let mut hasher = blake3::Hasher::new();
            while let Some(bytes) = far.read_bytes().await.unwrap() {
                hasher.update(&bytes);
            }
            assert_eq!(hasher.finalize(), digest);
            far.write_all(b"thank you").await.unwrap();
            far.close().await.unwrap()
        }
    );
    for end in [&near, &far] {
        assert!(end.lanes.iter().all(|lane| lane.lost.is_none() && lane.losses == 0), "{end:?}");
    }
    assert!(near.lanes.iter().all(|lane| lane.bytes_sent > 0), "{near:?}");
    [near, far]
}

fn is_celeritas(lane: &LaneStats) -> bool {
    let Some(transport) = &lane.transport else { return false };
    let is_celeritas = matches!(transport.details, Some(TransportDetails::Other { scheme: "celeritas", .. }));
    assert_eq!(is_celeritas, transport.congestion.as_deref() == Some("fixed"), "{lane:?}");
    is_celeritas
}

fn secret() -> Secret {
    Secret::pre_shared(b"sixteen bytes!!!").unwrap()
}
