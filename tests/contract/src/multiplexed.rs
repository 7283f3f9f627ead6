//! yamux: substreams over one stream, which ends with a frame that says so.

use crate::{kinds::over_all, made_up};
use futures_util::{AsyncReadExt, AsyncWriteExt, future::poll_fn};
use tokio::sync::oneshot;
use tokio_util::compat::TokioAsyncReadCompatExt;
use yamux::{Config, Connection, Mode};

const SUBSTREAMS: usize = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_substreams_end_with_their_stream() {
    over_all(5, async |near, far| {
        let mut server = Connection::new(far.compat(), Config::default(), Mode::Server);
        let serving = tokio::spawn(async move {
            let mut answered = Vec::new();
            while let Some(inbound) = poll_fn(|context| server.poll_next_inbound(context)).await {
                let mut substream = inbound.expect("the client ends in order");
                answered.push(tokio::spawn(async move {
                    let mut got = Vec::new();
                    substream.read_to_end(&mut got).await.unwrap();
                    substream.write_all(&got).await.unwrap();
                    substream.close().await.unwrap();
                }));
            }
            for answer in answered {
                answer.await.unwrap();
            }
        });
        let mut client = Connection::new(near.compat(), Config::default(), Mode::Client);
        let mut asked = Vec::new();
        for number in 0..SUBSTREAMS {
            let mut substream = poll_fn(|context| client.poll_new_outbound(context)).await.unwrap();
            asked.push(tokio::spawn(async move {
                let all = made_up((number + 1) * 700, number as u8);
                substream.write_all(&all).await.unwrap();
                substream.close().await.unwrap();
                let mut got = Vec::new();
                substream.read_to_end(&mut got).await.unwrap();
                assert!(got == all, "substream {number}");
            }));
        }
        // A connection moves only while it is polled.
        let (done, mut all_answered) = oneshot::channel();
        let driving = tokio::spawn(async move {
            tokio::select! {
                inbound = poll_fn(|context| client.poll_next_inbound(context)) => panic!("{inbound:?}"),
                _ = &mut all_answered => {}
            }
            poll_fn(|context| client.poll_close(context)).await.expect("it is closed in order");
        });
        for one in asked {
            one.await.unwrap();
        }
        done.send(()).unwrap();
        driving.await.unwrap();
        serving.await.unwrap();
    })
    .await;
}
