//! tarpc, whose client ends by dropping the stream.

use crate::{
    kinds::{Stream, over_all},
    made_up,
};
use futures_util::StreamExt;
use serde::{Serialize, de::DeserializeOwned};
use tarpc::{
    client::Config,
    context::{self, Context},
    serde_transport::{self, Transport},
    server::{BaseChannel, Channel},
    tokio_serde::formats::Json,
};
use tokio_util::codec::LengthDelimitedCodec;

#[tarpc::service]
trait Digest {
    async fn digest(bytes: Vec<u8>) -> String;
}

#[derive(Clone)]
struct Server;

impl Digest for Server {
    async fn digest(self, _: Context, bytes: Vec<u8>) -> String {
        blake3::hash(&bytes).to_string()
    }
}

fn transport<Item, SinkItem>(stream: Stream) -> Transport<Stream, Item, SinkItem, Json<Item, SinkItem>>
where
    Item: DeserializeOwned,
    SinkItem: Serialize,
{
    serde_transport::new(LengthDelimitedCodec::builder().new_framed(stream), Json::default())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_answered_until_the_client_is_dropped() {
    over_all(5, async |near, far| {
        let serving = tokio::spawn(async move {
            let answers = BaseChannel::with_defaults(transport(far)).execute(Server.serve());
            answers.for_each_concurrent(None, |answer| answer).await;
        });
        let client = DigestClient::new(Config::default(), transport(near)).spawn();
        let calls = (0..40).map(|number| {
            let client = client.clone();
            async move {
                let bytes = made_up(number * 500, number as u8);
                let digest = blake3::hash(&bytes).to_string();
                assert_eq!(client.digest(context::current(), bytes).await.unwrap(), digest);
            }
        });
        futures_util::future::join_all(calls).await;
        drop(client);
        serving.await.unwrap();
    })
    .await;
}
