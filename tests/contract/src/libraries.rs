//! Codecs.

use crate::{in_time, made_up, narrow_pair, pair};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use tokio_util::codec::{Framed, LengthDelimitedCodec};

/// Frames of all lengths, both ways at once, over a stream that holds less than one of them.
#[tokio::test]
async fn frames_of_a_codec_keep_their_boundaries() {
    for pair in [pair().await, narrow_pair().await] {
        let lengths = || (0..60).map(|number| number * number * 61);
        let exchange = |stream, ours, theirs| async move {
            let (mut sink, mut frames) = Framed::new(stream, LengthDelimitedCodec::new()).split();
            let say = async {
                for length in lengths() {
                    sink.send(Bytes::from(made_up(length, ours))).await.unwrap();
                }
                sink.close().await.unwrap();
            };
            let hear = async {
                for length in lengths() {
                    let frame = frames.next().await.expect("more is to come").unwrap();
                    assert!(frame == made_up(length, theirs), "the frame of {length} bytes");
                }
                assert!(frames.next().await.is_none());
            };
            tokio::join!(say, hear);
        };
        in_time(async { tokio::join!(exchange(pair.near, 1, 2), exchange(pair.far, 2, 1)) }).await;
    }
}
