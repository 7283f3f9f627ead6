//! axum's router, without any change for rails, served over both kinds of stream with HTTP/1 and
//! HTTP/2.

use crate::{Pair, in_time, made_up, narrow_pair, pair};
use axum::{
    Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, Path},
    routing::{get, post},
};
use futures_util::{StreamExt, stream};
use http_body_util::BodyExt;
use hyper::{Request, Response, body::Incoming, client::conn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
    service::TowerToHyperService,
};
use rails::multirail::MultiRailStream;
use std::{convert::Infallible, error::Error, io, sync::Arc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    runtime::Builder,
    sync::{Notify, oneshot},
    task::JoinHandle,
};

/// `POST /digest` gives the BLAKE3 of the body, `POST /refuse` does not even read it; `GET
/// /bytes/N` streams N bytes, `GET /endless` does not end, and notifies when the client has gone.
fn router(gone: Arc<Notify>) -> Router {
    Router::new()
        .route("/digest", post(async |body: Body| digest(body).await))
        .route("/whole", post(async |body: Bytes| blake3::hash(&body).to_string()))
        .route("/refuse", post(async || "no, thank you"))
        .route("/bytes/{count}", get(async |Path(count): Path<usize>| Body::from_stream(pieces(made_up(count, 7)))))
        .route("/endless", get(async move || Body::from_stream(endless(gone))))
        .layer(DefaultBodyLimit::disable())
}

async fn digest(body: Body) -> String {
    let (mut hasher, mut pieces) = (blake3::Hasher::new(), body.into_data_stream());
    while let Some(piece) = pieces.next().await {
        hasher.update(&piece.expect("the body is whole"));
    }
    hasher.finalize().to_string()
}

fn pieces(bytes: Vec<u8>) -> impl futures_util::Stream<Item = Result<Bytes, Infallible>> + Send {
    let mut bytes = Bytes::from(bytes);
    stream::iter(std::iter::from_fn(move || {
        let piece = bytes.split_to(bytes.len().min(50_000));
        (!piece.is_empty()).then_some(Ok(piece))
    }))
}

fn endless(gone: Arc<Notify>) -> impl futures_util::Stream<Item = Result<Bytes, Infallible>> + Send {
    struct Tells(Arc<Notify>);
    impl Drop for Tells {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    stream::unfold(Tells(gone), async |tells| Some((Ok(Bytes::from_static(&[7; 10_000])), tells)))
}

type Served = Result<(), Box<dyn Error + Send + Sync>>;

/// Serves the version that the client speaks.
fn serve(far: MultiRailStream, gone: Arc<Notify>) -> JoinHandle<Served> {
    let service = TowerToHyperService::new(router(gone));
    let mut server = auto::Builder::new(TokioExecutor::new());
    server.http1().half_close(true);
    tokio::spawn(async move { server.serve_connection(TokioIo::new(far), service).await })
}

/// The client has gone after its last answer, with HTTP/2 perhaps before the server's last frame.
fn assert_all_served(served: &Served, version: u8) {
    if let Err(error) = served {
        assert!(version == 2 && found_the_client_gone(&**error), "HTTP/{version}: {error:?}");
    }
}

/// Whether a server's connection failed in that way. A client of HTTP/2 says that it goes, and
/// drops the stream without reading to the server's end. If the server still had a frame on its
/// way, of no request (an acknowledged setting, a window), the stream tells it that the client has
/// not read the frame.
pub(crate) fn found_the_client_gone(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause.filter(|error| !error.is::<io::Error>()) {
        cause = error.source();
    }
    let kind = cause.and_then(|error| error.downcast_ref::<io::Error>()).map(io::Error::kind);
    kind == Some(io::ErrorKind::BrokenPipe)
}

/// The client's side of either version.
enum Client {
    One(conn::http1::SendRequest<Body>),
    Two(conn::http2::SendRequest<Body>),
}

impl Client {
    async fn of(version: u8, near: MultiRailStream) -> (Self, JoinHandle<hyper::Result<()>>) {
        let io = TokioIo::new(near);
        if version == 1 {
            let (requests, connection) = conn::http1::handshake(io).await.unwrap();
            return (Self::One(requests), tokio::spawn(connection));
        }
        let (requests, connection) = conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
        (Self::Two(requests), tokio::spawn(connection))
    }

    async fn ask(&mut self, method: &str, path: &str, body: Body) -> Response<Incoming> {
        let uri = format!("http://rails{path}");
        let request = Request::builder().method(method).uri(uri).header("host", "rails").body(body).unwrap();
        let answer = match self {
            Self::One(requests) => {
                requests.ready().await.unwrap();
                requests.send_request(request).await
            }
            Self::Two(requests) => requests.send_request(request).await,
        };
        answer.unwrap()
    }
}

async fn body(response: Response<Incoming>) -> Bytes {
    assert!(response.status().is_success(), "{response:?}");
    response.into_body().collect().await.unwrap().to_bytes()
}

/// Runs a client and its server, with one version over one pair, and waits for both.
async fn conversation(version: u8, pair: Pair, talk: impl AsyncFnOnce(&mut Client)) {
    let serving = serve(pair.far, Arc::default());
    let (mut client, connection) = Client::of(version, pair.near).await;
    in_time(talk(&mut client)).await;
    drop(client);
    in_time(connection).await.unwrap().unwrap();
    assert_all_served(&in_time(serving).await.unwrap(), version);
}

#[tokio::test]
async fn bodies_of_many_windows_go_up_and_down() {
    for version in [1, 2] {
        for (pair, length) in [(pair().await, 40 << 20), (narrow_pair().await, 3 << 20)] {
            conversation(version, pair, async |client| {
                let all = made_up(length, 3);
                let digest = blake3::hash(&all).to_string();
                let sent = Body::from_stream(pieces(all.clone()));
                assert_eq!(body(client.ask("POST", "/digest", sent).await).await, digest, "in pieces");
                assert_eq!(body(client.ask("POST", "/whole", all.into()).await).await, digest, "at once");
                let got = body(client.ask("GET", &format!("/bytes/{length}"), Body::empty()).await).await;
                assert!(got == made_up(length, 7));
            })
            .await;
        }
    }
}

/// HTTP/2's windows and the stream's own: the bodies of one end wait for those of the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_streams_of_http_2_share_a_stream() {
    for pair in [pair().await, narrow_pair().await] {
        conversation(2, pair, async |client| {
            let Client::Two(requests) = client else { panic!("it is HTTP/2") };
            let asked: Vec<_> = (0..300)
                .map(|number: usize| {
                    let mut client = Client::Two(requests.clone());
                    tokio::spawn(async move {
                        let length = number * 331;
                        if number.is_multiple_of(2) {
                            let sent = made_up(length, number as u8);
                            let digest = blake3::hash(&sent).to_string();
                            let sent = Body::from_stream(pieces(sent));
                            assert_eq!(body(client.ask("POST", "/digest", sent).await).await, digest);
                        } else {
                            let path = format!("/bytes/{length}");
                            let got = body(client.ask("GET", &path, Body::empty()).await).await;
                            assert!(got == made_up(length, 7), "request {number}");
                        }
                    })
                })
                .collect();
            for asked in asked {
                asked.await.unwrap();
            }
        })
        .await;
    }
}

/// The client shuts its side down, and still reads.
#[tokio::test]
async fn half_closed_client_is_answered() {
    let mut pair = pair().await;
    let serving = serve(pair.far, Arc::default());
    pair.near.write_all(b"GET /bytes/5000000 HTTP/1.1\r\nhost: rails\r\nconnection: close\r\n\r\n").await.unwrap();
    in_time(pair.near.shutdown()).await.unwrap();
    let mut answer = Vec::new();
    in_time(pair.near.read_to_end(&mut answer)).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n") && answer.len() > 5_000_000);
    in_time(pair.near.close()).await.unwrap();
    in_time(serving).await.unwrap().unwrap();
}

#[tokio::test]
async fn unread_body_stops_itself_alone() {
    let pair = narrow_pair().await;
    let gone = Arc::new(Notify::new());
    let serving = serve(pair.far, gone.clone());
    let (mut client, connection) = Client::of(2, pair.near).await;
    for _ in 0..20 {
        let mut endless = client.ask("GET", "/endless", Body::empty()).await.into_body();
        for _ in 0..10 {
            in_time(endless.frame()).await.unwrap().unwrap();
        }
        // This throws away the bytes that have arrived meanwhile, and tells the server.
        drop(endless);
        in_time(gone.notified()).await;
        // A body that the server does not take.
        let refused = client.ask("POST", "/refuse", Body::from_stream(pieces(made_up(1 << 20, 1)))).await;
        assert_eq!(body(refused).await, "no, thank you");
        let got = in_time(async { body(client.ask("GET", "/bytes/200000", Body::empty()).await).await }).await;
        assert!(got == made_up(200_000, 7));
    }
    drop(client);
    in_time(connection).await.unwrap().unwrap();
    assert_all_served(&in_time(serving).await.unwrap(), 2);
}

/// The client ends in the middle of an answer, with all of its tasks.
#[tokio::test]
async fn a_client_that_goes_away_ends_what_serves_it() {
    for version in [1, 2] {
        let pair = pair().await;
        let gone = Arc::new(Notify::new());
        let serving = serve(pair.far, gone.clone());
        let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (near, (tell, listening)) = (pair.near, oneshot::channel());
        runtime.spawn(async move {
            let (mut client, _connection) = Client::of(version, near).await;
            let mut endless = client.ask("GET", "/endless", Body::empty()).await.into_body();
            endless.frame().await.unwrap().unwrap();
            tell.send(()).unwrap();
            std::future::pending::<()>().await
        });
        in_time(listening).await.unwrap();
        runtime.shutdown_background();
        in_time(gone.notified()).await;
        // A server of HTTP/2 takes the end of the client's direction for the end of the connection, if it
        // hears of that first.
        let served = in_time(serving).await.unwrap();
        assert!(version == 2 || served.is_err(), "HTTP/{version}: an answer was cut off, and nobody says so");
    }
}
