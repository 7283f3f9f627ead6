//! Messages over two loopback rails: small ones against a codec on one plain TCP connection, large
//! ones against a stream of bytes.
//!
//! Run: `cargo bench --bench messages`. Both ends run on this machine, so a figure is that of both
//! together; the loopback interface has no lanes to add up.

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use futures_util::{SinkExt, StreamExt};
use rails::{
    multirail::{MultiRailListener, MultiRailStream, Priority, RailRequest, Rails, Secret, StreamOptions, plan_rails},
    topo::Topology,
};
use std::{net::SocketAddr, time::Instant};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::Runtime,
};
use tokio_util::codec::{FramedRead, FramedWrite, LengthDelimitedCodec};

/// A sender and a receiver of 64 bytes at a time.
fn small(criterion: &mut Criterion) {
    let runtime = runtime();
    let message = Bytes::from_static(&[7; 64]);
    let mut group = criterion.benchmark_group("messages of 64 bytes");
    group.throughput(Throughput::Elements(1));
    group.bench_function("codec over one TCP connection", |bencher| {
        bencher.iter_custom(|count| runtime.block_on(by_codec(count, message.clone())));
    });
    group.bench_function("messages over two rails", |bencher| {
        bencher.iter_custom(|count| runtime.block_on(by_messages(count, message.clone(), false)));
    });
    group.finish();
}

fn large(criterion: &mut Criterion) {
    let runtime = runtime();
    let message = Bytes::from(vec![7; 4 << 20]);
    let mut group = criterion.benchmark_group("4 MiB at a time");
    group.throughput(Throughput::Bytes(message.len() as u64)).sample_size(20);
    group.bench_function("codec over one TCP connection", |bencher| {
        bencher.iter_custom(|count| runtime.block_on(by_codec(count, message.clone())));
    });
    group.bench_function("bytes over two rails", |bencher| {
        bencher.iter_custom(|count| runtime.block_on(by_bytes(count, message.clone())));
    });
    group.bench_function("messages over two rails", |bencher| {
        bencher.iter_custom(|count| runtime.block_on(by_messages(count, message.clone(), false)));
    });
    // This differs only on a machine of several nodes.
    group.bench_function("messages over two rails, interleaved over their nodes", |bencher| {
        bencher.iter_custom(|count| runtime.block_on(by_messages(count, message.clone(), true)));
    });
    group.finish();
}

async fn by_codec(count: u64, message: Bytes) -> std::time::Duration {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let near = TcpStream::connect(listener.local_addr().expect("it is bound")).await.expect("it listens");
    let (far, _) = listener.accept().await.expect("one comes");
    near.set_nodelay(true).expect("a TCP socket");
    let codec = LengthDelimitedCodec::new;
    let start = Instant::now();
    let sending = tokio::spawn(async move {
        let mut sink = FramedWrite::new(near, codec());
        for _ in 0..count {
            sink.feed(message.clone()).await.expect("it is read");
        }
        SinkExt::<Bytes>::close(&mut sink).await.expect("it is read");
    });
    let mut stream = FramedRead::new(far, codec());
    let mut received = 0;
    while let Some(message) = stream.next().await {
        received += u64::from(!message.expect("it is whole").is_empty());
    }
    sending.await.expect("it does not fail");
    assert_eq!(received, count);
    start.elapsed()
}

async fn by_messages(count: u64, message: Bytes, interleaved: bool) -> std::time::Duration {
    let (near, far) = pair(interleaved).await;
    let (near, far) = (near.into_messages().expect("it is fresh"), far.into_messages().expect("it is fresh"));
    let start = Instant::now();
    let sending = tokio::spawn(async move {
        let (mut sender, receiver) = near.split();
        for _ in 0..count {
            sender.send(message.clone(), Priority::NORMAL).await.expect("it is received");
        }
        sender.finish().await.expect("it is received");
        (sender, receiver)
    });
    let (mut sender, mut receiver) = far.split();
    let mut received = 0;
    while let Some(message) = receiver.recv().await.expect("it is whole") {
        received += u64::from(!message.payload.is_empty());
    }
    let elapsed = start.elapsed();
    assert_eq!(received, count);
    sender.finish().await.expect("there is nothing to send");
    sending.await.expect("it does not fail");
    elapsed
}

async fn by_bytes(count: u64, message: Bytes) -> std::time::Duration {
    let (mut near, mut far) = pair(false).await;
    let total = count * message.len() as u64;
    let start = Instant::now();
    let sending = tokio::spawn(async move {
        for _ in 0..count {
            near.write_bytes(message.clone()).await.expect("it is read");
        }
        near.close().await.expect("it is read");
    });
    let mut received = 0;
    while let Some(bytes) = far.read_bytes().await.expect("it is whole") {
        received += bytes.len() as u64;
    }
    let elapsed = start.elapsed();
    assert_eq!(received, total);
    far.close().await.expect("there is nothing to send");
    sending.await.expect("it does not fail");
    elapsed
}

async fn pair(interleaved: bool) -> (MultiRailStream, MultiRailStream) {
    let topology = Topology::detect().expect("this machine can be read");
    let plan = plan_rails(&topology, &RailRequest::loopback(2)).expect("loopback rails can be planned");
    let rails = Rails::build(&plan).expect("they need no privilege");
    let secret = Secret::pre_shared(b"sixteen bytes ok").expect("it is long enough");
    let options = StreamOptions::new(secret).interleaved_messages(interleaved);
    let options = options.window(64 << 20);
    let addresses: Vec<SocketAddr> =
        rails.iter().map(|rail| SocketAddr::new(rail.planned().address.expect("it has one"), 0)).collect();
    let listener = MultiRailListener::bind(&rails, &addresses, &options).await.expect("free ports");
    let near = MultiRailStream::connect(&rails, listener.local_addrs(), &options).await.expect("it listens");
    (near, listener.accept().await.expect("one comes"))
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

criterion_group!(benches, small, large);
criterion_main!(benches);
