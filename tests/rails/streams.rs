//! Streams over detected, planned and built rails, and their counters.

use crate::loopback;
use bytes::Bytes;
use rails::{
    multirail::{MultiRailListener, MultiRailStream, Policy, RailId, Secret, StreamOptions, StreamStats},
    net::TransportDetails,
};
use std::{net::SocketAddr, time::Duration};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn bytes_by_lane_at_both_ends() {
    let (near, far) = exchange(Policy::Static).await;
    assert_eq!((near.bytes_duplicated, far.bytes_duplicated), (0, 0), "equal shares are sent once");
    assert!(near.lanes.iter().all(|lane| lane.bytes_sent > 0), "{near:?}");
    assert_lanes_agree(&near, &far);
}

/// An idle lane may send again the bytes that another lane holds up; the counters count every byte
/// that arrives twice. The test does not assert the share of each lane: the lane of a rail without
/// CPU time carries no bytes, as intended.
#[tokio::test]
async fn duplicates_of_an_idle_lane() {
    let (near, far) = exchange(Policy::Adaptive).await;
    assert_lanes_agree(&near, &far);
}

/// A large message one way and a small one back.
async fn exchange(policy: Policy) -> (StreamStats, StreamStats) {
    let (_, rails) = loopback(2);
    let options = StreamOptions::new(Secret::pre_shared(b"sixteen bytes!!!").unwrap()).policy(policy);
    // Other load on the machine must not change the number of lanes with which a stream begins.
    let options = options.join_grace(PATIENCE).handshake_timeout(PATIENCE);
    let addresses: Vec<SocketAddr> =
        rails.iter().map(|rail| SocketAddr::new(rail.planned().address.unwrap(), 0)).collect();
    let listener = MultiRailListener::bind(&rails, &addresses, &options).await.unwrap();
    let mut near = MultiRailStream::connect(&rails, listener.local_addrs(), &options).await.unwrap();
    let mut far = listener.accept().await.unwrap();
    assert_eq!((near.id(), near.lanes_up()), (far.id(), 2));

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
    let (total, answer) = (TOTAL as u64, "thank you".len() as u64);
    assert_eq!((near.bytes_written, near.bytes_read), (total, answer));
    assert_eq!((far.bytes_written, far.bytes_read), (answer, total));
    (near, far)
}

/// Each lane ran on the rail of its address, and one end's sent is the other's received.
fn assert_lanes_agree(near: &StreamStats, far: &StreamStats) {
    assert_eq!((near.lanes.len(), far.lanes.len()), (2, 2));
    for end in [near, far] {
        let received: u64 = end.lanes.iter().map(|lane| lane.bytes_received).sum();
        assert_eq!(received, end.bytes_read + end.bytes_duplicated, "{end:?}");
    }
    for lane in &near.lanes {
        let other = far.lanes.iter().find(|other| other.lane == lane.lane).expect("the lane has two ends");
        assert_eq!((lane.rail, other.rail), (RailId(lane.lane.into()), RailId(lane.lane.into())));
        assert_eq!((lane.local, lane.remote), (other.remote, other.local));
        assert_eq!((lane.bytes_sent, lane.chunks_sent), (other.bytes_received, other.chunks_received));
        assert_eq!((lane.bytes_received, lane.chunks_received), (other.bytes_sent, other.chunks_sent));
        assert!(lane.lost.is_none() && other.lost.is_none(), "{lane:?} {other:?}");
        let details = lane.transport.as_ref().and_then(|transport| transport.details.as_ref());
        assert!(matches!(details, Some(TransportDetails::Tcp(_))), "the kernel says how the connection did");
    }
}

/// Bytes without a repeated pattern.
pub(crate) fn bytes(length: usize) -> Bytes {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes.into()
}

pub(crate) const TOTAL: usize = 24 << 20;

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
