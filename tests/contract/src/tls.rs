//! rustls inside a stream: its end is a message of its own, and a stream that ends without it was
//! cut.

use crate::kinds::{Stream, over_all};
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    pki_types::{PrivateKeyDer, ServerName},
};
use std::{io::ErrorKind, sync::Arc};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

async fn open(near: Stream, far: Stream) -> (client::TlsStream<Stream>, server::TlsStream<Stream>) {
    let made = rcgen::generate_simple_self_signed(["rails".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let server =
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).unwrap();
    let connecting = TlsConnector::from(Arc::new(client)).connect(ServerName::try_from("rails").unwrap(), near);
    let (client, server) = tokio::join!(connecting, TlsAcceptor::from(Arc::new(server)).accept(far));
    (client.unwrap(), server.unwrap())
}

#[tokio::test]
async fn each_end_of_tls_is_told_of_the_other() {
    over_all(20, async |near, far| {
        let (mut client, mut server) = open(near, far).await;
        let ask = async {
            client.write_all(&[7; 200_000]).await.unwrap();
            client.shutdown().await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            assert_eq!(answer, "200000 bytes");
        };
        let answer = async {
            let mut got = Vec::new();
            server.read_to_end(&mut got).await.unwrap();
            server.write_all(format!("{} bytes", got.len()).as_bytes()).await.unwrap();
            server.shutdown().await.unwrap();
            drop(server);
        };
        tokio::join!(ask, answer);
    })
    .await;
}

#[tokio::test]
async fn tls_that_is_dropped_without_its_end_was_cut() {
    over_all(20, async |near, far| {
        let (mut client, mut server) = open(near, far).await;
        // The server's tickets are read, or TCP resets the connection over them.
        server.write_all(b"?").await.unwrap();
        client.read_exact(&mut [0]).await.unwrap();
        client.write_all(b"half of it").await.unwrap();
        client.flush().await.unwrap();
        drop(client);
        let mut got = Vec::new();
        let error = server.read_to_end(&mut got).await.unwrap_err();
        assert_eq!((got.as_slice(), error.kind()), (&b"half of it"[..], ErrorKind::UnexpectedEof));
    })
    .await;
}
