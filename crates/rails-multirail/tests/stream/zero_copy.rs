//! Streams whose lanes send without copies.

use crate::{
    loopback::{rails, secret},
    util::{options, pair, pattern},
};
use rails_multirail::{Rails, Security, StreamOptions, StreamStats};
use rails_net::{TcpTransport, ZeroCopy, ZeroCopyStats};
use rails_topo::DataSize;
use tokio::io::AsyncWriteExt;

fn zero_copy() -> TcpTransport {
    TcpTransport::new().zero_copy(ZeroCopy::new().min_payload(DataSize::bytes(4 << 10)))
}

/// Moves bytes, and gives the zero-copy counters of the sending end.
async fn moved(rails: &Rails, options: &StreamOptions) -> StreamStats {
    let (mut near, mut far) = pair(rails, options).await;
    let bytes = pattern(8 << 20);
    let expected = bytes.clone();
    let other = tokio::spawn(async move {
        let mut got = Vec::new();
        while let Some(some) = far.read_bytes().await.unwrap() {
            got.extend_from_slice(&some);
        }
        assert!(got == expected, "other bytes arrived");
        far.close().await.unwrap();
    });
    near.write_bytes(bytes.into()).await.unwrap();
    near.shutdown().await.unwrap();
    let stats = near.close().await.unwrap();
    other.await.unwrap();
    stats
}

fn without_copies(stats: &StreamStats) -> Vec<ZeroCopyStats> {
    let of_lanes = stats.lanes.iter().map(|lane| lane.transport.as_ref().expect("known"));
    of_lanes.map(|transport| transport.zero_copy.expect("the lane sends without copies")).collect()
}

#[tokio::test]
async fn zero_copy_stream_and_its_statistics() {
    let rails = rails(2);
    let stats = moved(&rails, &options().transport(zero_copy())).await;
    let lanes = without_copies(&stats);
    assert!(lanes.iter().map(|lane| lane.sends).sum::<u64>() > 0, "{lanes:?}");
    for lane in lanes {
        assert_eq!((lane.completed, lane.outstanding_bytes), (lane.sends, 0), "the lane ended in order: {lane:?}");
    }
}

#[tokio::test]
async fn zero_copy_and_encryption() {
    let rails = rails(1);
    let options = StreamOptions::new(Security::encrypted(secret())).transport(zero_copy());
    assert_eq!(without_copies(&moved(&rails, &options).await), [ZeroCopyStats::default()]);
}
