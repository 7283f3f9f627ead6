//! gRPC over two rails: tonic's server takes its connections from a listener, and tonic's client
//! dials through one.
//!
//! Run: `cargo run --release --example grpc_over_rails`
//!
//! Expected: the health of two services, asked over one connection. A service that
//! `tonic-prost-build` generates takes the place of the health service.

use hyper_util::rt::TokioIo;
use rails::{
    multirail::{MultiRailListener, MultiRailStream, RailId, RailRequest, Rails, Secret, StreamOptions, plan_rails},
    topo::Topology,
};
use tokio::sync::oneshot;
use tonic::{
    Code,
    transport::{Endpoint, Server},
};
use tonic_health::{
    ServingStatus,
    pb::{HealthCheckRequest, health_client::HealthClient},
    server::health_reporter,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    for answer in run().await? {
        println!("{answer}");
    }
    Ok(())
}

/// A server, a client, and two requests; one line for each.
pub(crate) async fn run() -> anyhow::Result<Vec<String>> {
    let topology = Topology::detect()?;
    let rails = Rails::build(&plan_rails(&topology, &RailRequest::loopback(2))?)?;
    let mut secret = [0; 32];
    getrandom::fill(&mut secret)?;
    let options = StreamOptions::new(Secret::pre_shared(&secret)?);

    let listener = MultiRailListener::bind(&rails, ["127.0.0.1:0", "127.0.0.2:0"], &options).await?;
    let addresses = listener.local_addrs().to_vec();
    let (reporter, health) = health_reporter();
    reporter.set_service_status("weather", ServingStatus::Serving).await;
    let (stop, stopped) = oneshot::channel::<()>();
    // Connections and their requests run on the rail.
    let serving = rails[RailId(0)].runtime().spawn(async {
        let stopped = async { stopped.await.unwrap_or_default() };
        Server::builder().add_service(health).serve_with_incoming_shutdown(listener.into_incoming(), stopped).await
    });

    // The URI names the host of the requests, and the connector knows the lanes.
    let endpoint = Endpoint::from_static("http://rails.example").executor(rails[RailId(1)].runtime().clone());
    let dialled = rails.clone();
    let connector = tower::service_fn(move |_| {
        let (rails, addresses, options) = (dialled.clone(), addresses.clone(), options.clone());
        async move { MultiRailStream::connect(&rails, &addresses, &options).await.map(TokioIo::new) }
    });
    let mut client = HealthClient::new(endpoint.connect_with_connector(connector).await?);
    let mut answers = Vec::new();
    for service in ["weather", "tides"] {
        answers.push(match client.check(HealthCheckRequest { service: service.to_owned() }).await {
            Ok(answer) => format!("{service}: {:?}", answer.into_inner().status()),
            Err(status) if status.code() == Code::NotFound => format!("{service}: not known"),
            Err(status) => return Err(status.into()),
        });
    }
    // The client's connection ends with it.
    drop(client);
    drop(stop);
    serving.await??;
    Ok(answers)
}
