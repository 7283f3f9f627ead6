//! HTTP/3 over two rails, by hyperium's h3: each request is a stream of one session.
//!
//! Run: `cargo run --release --example h3_over_rails`
//!
//! Expected: four requests at the same time on one session, one of which has 16 MiB echoed and
//! verified by its BLAKE3 digest, with its stream's number, and the bytes of each lane in both
//! directions. `Connection` takes the place of h3-quinn's; the rest is h3 as it runs on QUIC.

use anyhow::{Context, ensure};
use bytes::{Buf, Bytes};
use h3::{client, server};
use hyper::{Method, Request, Response, StatusCode};
use rails::{
    multirail::{
        MultiRailListener, MultiRailSession, RailRequest, Rails, Secret, StreamOptions, StreamStats,
        h3::{Connection, OpenStreams},
        plan_rails,
    },
    topo::Topology,
};
use std::{future::poll_fn, net::SocketAddr};

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

/// A server, a client, one session between them, and a few requests on it.
pub(crate) async fn run() -> anyhow::Result<Done> {
    let topology = Topology::detect()?;
    let rails = Rails::build(&plan_rails(&topology, &RailRequest::loopback(2))?)?;
    let mut secret = [0; 32];
    getrandom::fill(&mut secret)?;
    let options = StreamOptions::new(Secret::pre_shared(&secret)?);

    let addresses = rails.iter().map(|rail| Some(SocketAddr::new(rail.planned().address?, 0)));
    let addresses: Vec<SocketAddr> = addresses.collect::<Option<_>>().context("a rail has no address")?;
    let listener = MultiRailListener::bind(&rails, &addresses, &options).await?;
    let near = MultiRailSession::connect(&rails, listener.local_addrs(), &options).await?;
    let far = listener.accept_session().await?;
    let ((), done) = tokio::try_join!(serve(far), ask(near))?;
    Ok(done)
}

/// Answers requests, each in a task of its own, until the client has no more.
async fn serve(session: MultiRailSession) -> anyhow::Result<()> {
    let mut connection = server::Connection::<_, Bytes>::new(Connection::new(session)).await?;
    loop {
        match connection.accept().await {
            Ok(Some(request)) => drop(tokio::spawn(answer(request))),
            Ok(None) => return Ok(()),
            Err(error) if error.is_h3_no_error() => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

async fn answer(request: server::RequestResolver<Connection, Bytes>) -> anyhow::Result<()> {
    let (request, stream) = request.resolve_request().await?;
    let (mut sender, mut receiver) = stream.split();
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/") => {
            sender.send_response(Response::new(())).await?;
            sender.send_data(Bytes::from_static(b"hello over rails")).await?;
        }
        (&Method::POST, "/echo") => {
            sender.send_response(Response::new(())).await?;
            while let Some(mut data) = receiver.recv_data().await? {
                sender.send_data(data.copy_to_bytes(data.remaining())).await?;
            }
        }
        _ => sender.send_response(Response::builder().status(StatusCode::NOT_FOUND).body(())?).await?,
    }
    Ok(sender.finish().await?)
}

async fn ask(session: MultiRailSession) -> anyhow::Result<Done> {
    let (mut connection, requests) = client::new(Connection::new(session.clone())).await?;
    let conversation = async {
        let large = made_up(16 << 20);
        let answers = tokio::try_join!(
            one(requests.clone(), Method::GET, "/", Bytes::new()),
            one(requests.clone(), Method::POST, "/echo", large),
            one(requests.clone(), Method::GET, "/nowhere", Bytes::new()),
            one(requests.clone(), Method::GET, "/", Bytes::new()),
        )?;
        // The connection ends when the last sender of requests is dropped.
        drop(requests);
        anyhow::Ok(Vec::from(<[String; 4]>::from(answers)))
    };
    // It moves only while it is polled.
    let ended = async {
        let end = poll_fn(|context| connection.poll_close(context)).await;
        if end.is_h3_no_error() { Ok(()) } else { Err(end.into()) }
    };
    let (answers, ()) = tokio::try_join!(conversation, ended)?;
    Ok(Done { answers, stats: session.stats() })
}

/// One request, whose body goes out while the answer comes in.
async fn one(
    mut requests: client::SendRequest<OpenStreams, Bytes>,
    method: Method,
    path: &str,
    body: Bytes,
) -> anyhow::Result<String> {
    let request = Request::builder().method(&method).uri(format!("https://rails{path}")).body(())?;
    let stream = requests.send_request(request).await?;
    let number = stream.id().into_inner();
    let (mut sender, mut receiver) = stream.split();
    let send = async {
        sender.send_data(body.clone()).await?;
        anyhow::Ok(sender.finish().await?)
    };
    let receive = async {
        let status = receiver.recv_response().await?.status();
        let (mut hasher, mut length) = (blake3::Hasher::new(), 0);
        while let Some(mut data) = receiver.recv_data().await? {
            let bytes = data.copy_to_bytes(data.remaining());
            hasher.update(&bytes);
            length += bytes.len();
        }
        anyhow::Ok((status, length, hasher.finalize()))
    };
    let ((), (status, length, digest)) = tokio::try_join!(send, receive)?;
    if path == "/echo" {
        ensure!(digest == blake3::hash(&body), "the echo differs from the bytes sent");
    }
    Ok(format!("stream {number}, {method} {path}: {status}, {length} bytes"))
}

/// Bytes without a repeated pattern, so that the digest notices an exchange of two chunks.
fn made_up(length: usize) -> Bytes {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes.into()
}
