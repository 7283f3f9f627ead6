//! HTTP/1.1 over two rails, with an HTTP library that has no support for them.
//!
//! Run: `cargo run --release --example hyper_over_rails`
//!
//! Expected: four requests on one connection, one of which has 16 MiB echoed and verified by its
//! BLAKE3 digest, and the bytes of each lane in both directions. Other protocols on a `TcpStream`
//! (gRPC, WebSocket, TLS) run on a `MultiRailStream` in the same way.

use anyhow::{Context, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Either, Full};
use hyper::{Method, Request, Response, StatusCode, body::Incoming, client, server, service::service_fn};
use hyper_util::rt::TokioIo;
use rails::{
    multirail::{
        MultiRailListener, MultiRailStream, RailRequest, Rails, Secret, StreamOptions, StreamStats, plan_rails,
    },
    topo::Topology,
};
use std::{convert::Infallible, net::SocketAddr};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let done = run().await?;
    for answer in &done.answers {
        println!("{answer}");
    }
    for lane in &done.stats.lanes {
        println!("lane {}: {} bytes to the server, {} bytes back", lane.lane, lane.bytes_sent, lane.bytes_received);
    }
    Ok(())
}

/// The client's observations.
pub(crate) struct Done {
    /// One line for each request.
    pub(crate) answers: Vec<String>,
    /// The client's counters.
    pub(crate) stats: StreamStats,
}

/// A server, a client, one stream between them, and a few requests on it.
pub(crate) async fn run() -> anyhow::Result<Done> {
    let topology = Topology::detect()?;
    let rails = Rails::build(&plan_rails(&topology, &RailRequest::loopback(2))?)?;
    let mut secret = [0; 32];
    getrandom::fill(&mut secret)?;
    let options = StreamOptions::new(Secret::pre_shared(&secret)?);

    let addresses = rails.iter().map(|rail| Some(SocketAddr::new(rail.planned().address?, 0)));
    let addresses: Vec<SocketAddr> = addresses.collect::<Option<_>>().context("a rail has no address")?;
    let listener = MultiRailListener::bind(&rails, &addresses, &options).await?;
    let near = MultiRailStream::connect(&rails, listener.local_addrs(), &options).await?;
    let far = listener.accept().await?;
    let ((), done) = tokio::try_join!(serve(far), ask(near))?;
    Ok(done)
}

/// Answers requests until the client has no more. `without_shutdown` hands the stream back for
/// `close`, which waits until the peer has every byte: this program ends then, and its rails with
/// it.
async fn serve(stream: MultiRailStream) -> anyhow::Result<()> {
    let connection = server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer));
    connection.without_shutdown().await?.io.into_inner().close().await?;
    Ok(())
}

async fn answer(request: Request<Incoming>) -> Result<Response<Either<Incoming, Full<Bytes>>>, Infallible> {
    let mut response = match (request.method(), request.uri().path()) {
        (&Method::GET, "/") => Response::new(Either::Right(Full::from("hello over rails"))),
        (&Method::POST, "/echo") => Response::new(Either::Left(request.into_body())),
        _ => {
            let mut response = Response::new(Either::Right(Full::from("there is no such page")));
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        }
    };
    response.headers_mut().insert("server", hyper::header::HeaderValue::from_static("rails"));
    Ok(response)
}

async fn ask(stream: MultiRailStream) -> anyhow::Result<Done> {
    let (mut requests, connection) = client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let conversation = async {
        let large = made_up(16 << 20);
        let (mut answers, digest) = (Vec::new(), blake3::hash(&large));
        for (method, path, body) in [
            (Method::GET, "/", Bytes::new()),
            (Method::POST, "/echo", large),
            (Method::GET, "/nowhere", Bytes::new()),
            (Method::GET, "/", Bytes::new()),
        ] {
            let request = Request::builder().method(&method).uri(path).header("host", "rails").body(Full::new(body))?;
            requests.ready().await?;
            let response = requests.send_request(request).await?;
            let status = response.status();
            let body = response.into_body().collect().await?.to_bytes();
            if path == "/echo" {
                ensure!(blake3::hash(&body) == digest, "the echo differs from the bytes sent");
            }
            answers.push(format!("{method} {path}: {status}, {} bytes", body.len()));
        }
        // The connection ends when the last sender of requests is dropped.
        drop(requests);
        Ok(answers)
    };
    let ended = async { Ok(connection.without_shutdown().await?) };
    let (answers, parts) = tokio::try_join!(conversation, ended)?;
    Ok(Done { answers, stats: parts.io.into_inner().close().await? })
}

/// Bytes without a repeated pattern, so that the digest notices an exchange of two chunks.
fn made_up(length: usize) -> Bytes {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes.into()
}
