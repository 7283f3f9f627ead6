//! hyper, which knows nothing of rails, on both ends.

use crate::{Pair, in_time, made_up, pair};
use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, Either, Full, StreamBody};
use hyper::{
    Request, Response,
    body::{Body, Frame, Incoming},
    client, server,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use rails::multirail::RailId;
use std::convert::Infallible;

type Chunked = StreamBody<stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>>>;
type Answer = Either<Incoming, Either<Full<Bytes>, Chunked>>;

/// `/echo` gives the body back as it comes, `/N` gives N bytes, `/chunked/N` gives them in pieces
/// of no length known beforehand.
async fn answer(request: Request<Incoming>) -> Result<Response<Answer>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = match path.rsplit_once('/') {
        Some((_, "echo")) => Either::Left(request.into_body()),
        Some(("/chunked", length)) => Either::Right(Either::Right(chunked(&body(length)))),
        Some((_, length)) => Either::Right(Either::Left(Full::from(body(length)))),
        None => Either::Right(Either::Left(Full::default())),
    };
    Ok(Response::new(body))
}

fn body(length: &str) -> Bytes {
    made_up(length.parse().expect("the test asks for a number"), 1).into()
}

/// Pieces of unequal lengths.
fn chunked(bytes: &Bytes) -> Chunked {
    let mut rest = bytes.clone();
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let length = rest.len().min(1 + pieces.len() * 37);
        pieces.push(Ok(Frame::data(rest.split_to(length))));
    }
    StreamBody::new(stream::iter(pieces))
}

fn request<B: Body>(method: &str, path: &str, body: B) -> Request<B> {
    Request::builder().method(method).uri(format!("http://rails{path}")).header("host", "rails").body(body).unwrap()
}

async fn http1(pair: Pair, ask: impl AsyncFnOnce(&mut client::conn::http1::SendRequest<Either<Full<Bytes>, Chunked>>)) {
    let serve = server::conn::http1::Builder::new().serve_connection(TokioIo::new(pair.far), service_fn(answer));
    let serve = async { serve.without_shutdown().await.unwrap().io.into_inner().close().await.unwrap() };
    let (mut requests, connection) = client::conn::http1::handshake(TokioIo::new(pair.near)).await.unwrap();
    let client = async { connection.without_shutdown().await.unwrap().io.into_inner().close().await.unwrap() };
    let conversation = async {
        ask(&mut requests).await;
        drop(requests);
    };
    in_time(async { tokio::join!(serve, client, conversation) }).await;
}

#[tokio::test]
async fn http_1_keeps_a_connection_for_many_small_requests() {
    http1(pair().await, async |requests| {
        for number in 0..500 {
            requests.ready().await.unwrap();
            let asked = request("GET", &format!("/{number}"), Either::Left(Full::default()));
            let response = requests.send_request(asked).await.unwrap();
            assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), made_up(number, 1));
        }
    })
    .await;
}

#[tokio::test]
async fn http_1_with_chunked_and_large_bodies() {
    http1(pair().await, async |requests| {
        for length in [0, 1, 1_000_000, 16 << 20] {
            let all = Bytes::from(made_up(length, 1));
            requests.ready().await.unwrap();
            let sent = request("POST", "/echo", Either::Left(Full::new(all.clone())));
            let response = requests.send_request(sent).await.unwrap();
            assert!(response.into_body().collect().await.unwrap().to_bytes() == all, "{length} bytes back");
            requests.ready().await.unwrap();
            let sent = request("POST", "/echo", Either::Right(chunked(&all)));
            let response = requests.send_request(sent).await.unwrap();
            assert!(response.into_body().collect().await.unwrap().to_bytes() == all, "{length} bytes in chunks back");
            requests.ready().await.unwrap();
            let asked = request("GET", &format!("/chunked/{length}"), Either::Left(Full::default()));
            let response = requests.send_request(asked).await.unwrap();
            assert_eq!(response.headers().get("transfer-encoding").unwrap(), "chunked");
            assert!(response.into_body().collect().await.unwrap().to_bytes() == all, "{length} bytes in chunks");
        }
    })
    .await;
}

#[tokio::test]
async fn http_2_carries_many_requests_at_a_time() {
    let pair = pair().await;
    let [server, client] = [0, 1].map(|rail| pair.rails[RailId(rail)].runtime().clone());
    let serve = server::conn::http2::Builder::new(server);
    let serve = tokio::spawn(serve.serve_connection(TokioIo::new(pair.far), service_fn(answer)));
    let handshake = client::conn::http2::handshake(client, TokioIo::new(pair.near));
    let (requests, connection) = handshake.await.unwrap();
    let client = tokio::spawn(connection);
    let mut asked = Vec::new();
    for number in 0..64 {
        let mut requests = requests.clone();
        asked.push(tokio::spawn(async move {
            let all = Bytes::from(made_up(number * 9_973, number as u8));
            let response = requests.send_request(request("POST", "/echo", Full::new(all.clone()))).await.unwrap();
            assert!(response.into_body().collect().await.unwrap().to_bytes() == all, "request {number}");
        }));
    }
    for asked in asked {
        in_time(asked).await.unwrap();
    }
    drop(requests);
    in_time(client).await.unwrap().unwrap();
    in_time(serve).await.unwrap().unwrap();
}
