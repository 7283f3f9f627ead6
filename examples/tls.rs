//! Two ends that authenticate each other by certificates: TLS 1.3 on the lane that opens the
//! stream, and every frame of every lane sealed.
//!
//! Run: `cargo run --release --example tls`
//!
//! Expected: the server's greeting with the pin of the client's key, and the client's line with the
//! pin of the server's key. The server refuses a client with another certificate.

use anyhow::{Context, ensure};
use rails::{
    multirail::{
        Identity, KeyPin, MultiRailListener, MultiRailStream, RailRequest, Rails, Security, StreamOptions, TlsClient,
        TlsServer, plan_rails,
    },
    topo::Topology,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    println!("{}", run().await?);
    Ok(())
}

/// A certificate and its key as PEM, as an administrator would create them.
fn certificate() -> anyhow::Result<(String, String)> {
    let made = rcgen::generate_simple_self_signed(["rails.example".to_owned()])?;
    Ok((made.cert.pem(), made.signing_key.serialize_pem()))
}

/// One greeting from a server to a client that it trusts, and none to another.
pub(crate) async fn run() -> anyhow::Result<String> {
    let rails = Rails::build(&plan_rails(&Topology::detect()?, &RailRequest::loopback(2))?)?;
    let (server_pem, server_key) = certificate()?;
    let (client_pem, client_key) = certificate()?;
    let server = Identity::from_pem(server_pem.as_bytes(), server_key.as_bytes())?;
    // The client trusts this one key; `TlsClient::trusting` takes a certificate authority and a name
    // instead.
    let pin = server.pin().context("a certificate has a key")?;
    // The server accepts clients whose certificates these authorities have signed; here the client's is
    // self-signed.
    let server = TlsServer::for_clients_of(server, client_pem.as_bytes())?;
    let server = StreamOptions::new(Security::tls_server(server));
    let listener = MultiRailListener::bind(&rails, ["127.0.0.1:0", "127.0.0.2:0"], &server).await?;

    let client = TlsClient::pinned(pin)?;
    let trusted = client.clone().identity(Identity::from_pem(client_pem.as_bytes(), client_key.as_bytes())?)?;
    let trusted = StreamOptions::new(Security::tls_client(trusted));
    let mut near = MultiRailStream::connect(&rails, listener.local_addrs(), &trusted).await?;
    let mut far = listener.accept().await?;
    let seen = far.peer_certificates().first().and_then(|certificate| KeyPin::of(certificate));
    let greeting = format!("welcome, {}", seen.context("the client has shown a certificate")?);
    far.write_all(greeting.as_bytes()).await?;
    far.shutdown().await?;
    let mut read = String::new();
    near.read_to_string(&mut read).await?;
    let server = near.peer_certificates().first().and_then(|certificate| KeyPin::of(certificate));
    ensure!(server == Some(pin), "another server");

    let stranger = StreamOptions::new(Security::tls_client(client));
    let refused = MultiRailStream::connect(&rails, listener.local_addrs(), &stranger).await;
    ensure!(refused.is_err(), "a client without a certificate was let in");
    Ok(format!("{read}\nfrom {pin}"))
}
