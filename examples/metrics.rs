//! Serves the statistics of a running stream and its rails to Prometheus, over HTTP/1 on plain TCP.
//!
//! Run: `cargo run --release --example metrics`, and while it runs `curl http://127.0.0.1:9464/metrics`
//!
//! Expected: the address, then no output for 30 seconds, in which the page shows a stream over two
//! loopback rails: bytes, rates, round trips and stalls of each lane, CPU time and tasks of each
//! rail. At the end it prints the answer to one request. `docs/metrics.md` explains each line.

use anyhow::{Context, ensure};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode, body::Incoming, header::CONTENT_TYPE, server::conn::http1, service::service_fn,
};
use hyper_util::rt::TokioIo;
use prometheus_client::{encoding::text, registry::Registry};
use rails::{
    multirail::{
        MultiRailListener, MultiRailStream, RailMetrics, RailRequest, Rails, Secret, StreamMetrics, StreamOptions,
        plan_rails,
    },
    topo::Topology,
};
use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    println!("http://127.0.0.1:9464/metrics");
    println!("{}", run("127.0.0.1:9464".parse()?, Duration::from_secs(30)).await?);
    Ok(())
}

/// Sends for `time`, and gives the answer of `/metrics` at its end.
pub(crate) async fn run(address: SocketAddr, time: Duration) -> anyhow::Result<String> {
    let rails = Rails::build(&plan_rails(&Topology::detect()?, &RailRequest::loopback(2))?)?;
    // Two programs would get the secret at their start.
    let mut random = [0; 32];
    getrandom::fill(&mut random)?;
    let options = StreamOptions::new(Secret::pre_shared(&random)?);
    let listener = MultiRailListener::bind(&rails, ["127.0.0.1:0", "127.0.0.2:0"], &options).await?;
    let mut stream = MultiRailStream::connect(&rails, listener.local_addrs(), &options).await?;
    let mut other = listener.accept().await?;

    // One instance for the whole process watches every stream of interest.
    let metrics = StreamMetrics::new().label("process", "example");
    metrics.watch(&stream);
    let mut registry = Registry::default();
    registry.register_collector(Box::new(metrics));
    registry.register_collector(Box::new(RailMetrics::new(&rails).label("process", "example")));
    let server = TcpListener::bind(address).await?;
    let address = server.local_addr()?;
    tokio::spawn(serve(server, Arc::new(registry)));

    let reader = tokio::spawn(async move {
        while other.read_bytes().await?.is_some() {}
        other.close().await
    });
    let (end, block) = (Instant::now() + time, Bytes::from(vec![7; 256 << 10]));
    while Instant::now() < end {
        stream.write_bytes(block.clone()).await?;
    }
    let page = ask(address).await?;
    stream.close().await?;
    reader.await??;
    Ok(page)
}

async fn serve(server: TcpListener, registry: Arc<Registry>) {
    while let Ok((connection, _)) = server.accept().await {
        let registry = registry.clone();
        tokio::spawn(async move {
            let answer = service_fn(|request| {
                let answer = answer(&request, &registry);
                async { answer }
            });
            // The client may close the connection before it has the answer.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(connection), answer).await;
        });
    }
}

fn answer(request: &Request<Incoming>, registry: &Registry) -> hyper::http::Result<Response<Full<Bytes>>> {
    if request.uri().path() != "/metrics" {
        return Response::builder().status(StatusCode::NOT_FOUND).body(Full::default());
    }
    let mut text = String::new();
    text::encode(&mut text, registry).expect("writing to a string does not fail");
    Response::builder().header(CONTENT_TYPE, StreamMetrics::CONTENT_TYPE).body(Full::from(text))
}

/// Asks as Prometheus does every few seconds.
async fn ask(address: SocketAddr) -> anyhow::Result<String> {
    let mut connection = TcpStream::connect(address).await?;
    connection.write_all(b"GET /metrics HTTP/1.1\r\nHost: rails\r\nConnection: close\r\n\r\n").await?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await?;
    let (head, page) = answer.split_once("\r\n\r\n").context("no answer")?;
    ensure!(head.starts_with("HTTP/1.1 200"), "{head}");
    Ok(page.to_owned())
}
