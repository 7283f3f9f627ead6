//! gRPC by tonic, with messages of plain bytes: unary calls, and streams of messages both ways.

use crate::{Pair, in_time, made_up, narrow_pair, pair, web::found_the_client_gone};
use bytes::{Buf, BufMut, Bytes};
use futures_util::{Stream, stream};
use hyper::{
    Request as HttpRequest, Uri, body::Incoming, client::conn::http2, http::uri::PathAndQuery, server,
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::{convert::Infallible, pin::Pin, sync::Arc};
use tokio::{sync::Notify, task::JoinHandle};
use tonic::{
    Request, Response, Status, Streaming,
    body::Body,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

/// A message is its bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

type Answers = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

/// `/rails.Echo/One` returns a message, `/rails.Echo/Each` each message of a stream as it arrives.
/// `/rails.Echo/Forever` repeats one message until the client has gone, and then notifies `gone`.
async fn echo(request: HttpRequest<Incoming>, gone: Arc<Notify>) -> Result<hyper::Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    let mut grpc = tonic::server::Grpc::new(Raw).apply_max_message_size_config(Some(LONGEST), Some(LONGEST));
    if path == "/rails.Echo/One" {
        let answer =
            tower::service_fn(async |request: Request<Bytes>| Ok::<_, Status>(Response::new(request.into_inner())));
        return Ok(grpc.unary(answer, request).await);
    }
    if path == "/rails.Echo/Forever" {
        let answer = tower::service_fn(move |request: Request<Bytes>| {
            let (message, told) = (request.into_inner(), Told(gone.clone()));
            let answers: Answers = Box::pin(stream::repeat_with(move || {
                let _ = &told;
                Ok(message.clone())
            }));
            std::future::ready(Ok::<_, Status>(Response::new(answers)))
        });
        return Ok(grpc.server_streaming(answer, request).await);
    }
    let answer = tower::service_fn(|request: Request<Streaming<Bytes>>| {
        let answers: Answers = Box::pin(request.into_inner());
        std::future::ready(Ok::<_, Status>(Response::new(answers)))
    });
    Ok(grpc.streaming(answer, request).await)
}

struct Told(Arc<Notify>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// A client, and both connections.
struct Call {
    requests: http2::SendRequest<Body>,
    /// The client's end, and the server's.
    ends: [JoinHandle<hyper::Result<()>>; 2],
    gone: Arc<Notify>,
}

impl Call {
    async fn over(pair: Pair) -> Self {
        let gone = Arc::new(Notify::new());
        let tell = gone.clone();
        let serve = server::conn::http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(pair.far), service_fn(move |request| echo(request, tell.clone())));
        let serve = tokio::spawn(serve);
        let (requests, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(pair.near)).await.unwrap();
        Self { requests, ends: [tokio::spawn(connection), serve], gone }
    }

    async fn one(&self, message: Bytes) -> Bytes {
        let mut client = client(self.requests.clone());
        client.ready().await.unwrap();
        let path = PathAndQuery::from_static("/rails.Echo/One");
        client.unary(Request::new(message), path, Raw).await.unwrap().into_inner()
    }

    async fn each(&self, messages: impl Stream<Item = Bytes> + Send + 'static) -> Streaming<Bytes> {
        let mut client = client(self.requests.clone());
        client.ready().await.unwrap();
        let path = PathAndQuery::from_static("/rails.Echo/Each");
        client.streaming(Request::new(messages), path, Raw).await.unwrap().into_inner()
    }

    async fn forever(&self, message: Bytes) -> Streaming<Bytes> {
        let mut client = client(self.requests.clone());
        client.ready().await.unwrap();
        let path = PathAndQuery::from_static("/rails.Echo/Forever");
        client.server_streaming(Request::new(message), path, Raw).await.unwrap().into_inner()
    }

    async fn end(self) {
        drop(self.requests);
        let [client, server] = self.ends;
        in_time(client).await.unwrap().unwrap();
        let served = in_time(server).await.unwrap();
        assert!(served.as_ref().err().is_none_or(|error| found_the_client_gone(error)), "{served:?}");
    }
}

fn client(
    requests: http2::SendRequest<Body>,
) -> tonic::client::Grpc<
    impl tonic::client::GrpcService<Body, ResponseBody = Incoming, Error = hyper::Error, Future: Send> + Send,
> {
    let send = tower::service_fn(move |request: HttpRequest<Body>| requests.clone().send_request(request));
    let client = tonic::client::Grpc::with_origin(send, Uri::from_static("http://rails"));
    client.max_decoding_message_size(LONGEST).max_encoding_message_size(LONGEST)
}

#[tokio::test]
async fn messages_longer_than_a_window_are_answered() {
    for (pair, lengths) in [(pair().await, [0, 1, 40 << 20]), (narrow_pair().await, [5, 100_000, 2 << 20])] {
        let call = Call::over(pair).await;
        for length in lengths {
            let message = Bytes::from(made_up(length, 1));
            assert!(in_time(call.one(message.clone())).await == message, "{length} bytes");
        }
        call.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_calls_stream_both_ways_at_once() {
    for pair in [pair().await, narrow_pair().await] {
        let call = Arc::new(Call::over(pair).await);
        let calls: Vec<_> = (0..50u8)
            .map(|seed| {
                let call = call.clone();
                tokio::spawn(async move {
                    let message = move |number: usize| Bytes::from(made_up(number * 397, seed));
                    let mut answers = call.each(stream::iter((0..40).map(message))).await;
                    for number in 0..40 {
                        assert!(answers.message().await.unwrap().unwrap() == message(number), "message {number}");
                    }
                    assert!(answers.message().await.unwrap().is_none());
                    assert!(call.one(message(7)).await == message(7));
                })
            })
            .collect();
        for one in calls {
            in_time(one).await.unwrap();
        }
        Arc::into_inner(call).expect("all calls are over").end().await;
    }
}

/// The server's half of a stream of messages is dropped after the client's.
#[tokio::test]
async fn call_given_up_is_given_up_at_the_peer() {
    let call = Call::over(narrow_pair().await).await;
    for seed in 0..10 {
        let message = Bytes::from(made_up(30_000, seed));
        let mut answers = call.forever(message.clone()).await;
        for _ in 0..5 {
            assert!(in_time(answers.message()).await.unwrap().unwrap() == message);
        }
        drop(answers);
        in_time(call.gone.notified()).await;
        assert!(in_time(call.one(message.clone())).await == message, "others go on");
    }
    call.end().await;
}

const LONGEST: usize = 64 << 20;
