//! An axum service on rails: each rail serves the connections whose packets arrive on its CPU.
//!
//! Run: `cargo run --release --example serve_on_rails`, or `... -- eth0,eth1` for rails on these
//! NICs; and while it runs `curl http://127.0.0.1:3000/`, or `taskset -c 1 curl http://127.0.0.1:3000/`
//!
//! Expected: the addresses, and from `curl` the rail and the CPU that served it. On loopback the
//! packets of a connection arrive on the CPU of the client.

use axum::{Router, routing::get};
use rails::{
    multirail::{Rail, RailRequest, Rails, Service, plan_rails},
    topo::Topology,
};
use std::io;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let wish = std::env::args().nth(1).unwrap_or("loopback".to_owned());
    let mut service = run(&wish, "127.0.0.1:3000").await?;
    println!("http://{}/", service.local_addr());
    match service.ended().await {
        Some((rail, end)) => anyhow::bail!("the service on rail {rail} has ended: {end:?}"),
        None => Ok(()),
    }
}

/// Starts the service on the rails that `wish` asks for.
pub(crate) async fn run(wish: &str, address: &str) -> anyhow::Result<Service<io::Result<()>>> {
    let plan = plan_rails(&Topology::detect()?, &wish.parse::<RailRequest>()?)?;
    let rails = Rails::build(&plan)?;
    Ok(rails.serve(address, |rail, listener| axum::serve(listener, router(rail)).into_future()).await?)
}

fn router(rail: &Rail) -> Router {
    let text = format!("rail {} on CPU {}\n", rail.id(), rail.planned().cpu);
    Router::new().route("/", get(async || text))
}
