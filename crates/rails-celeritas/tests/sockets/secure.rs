//! Connections with a secret or TLS.

use crate::{PATIENCE, anywhere, cut, options, pair_of, pattern};
use rails_celeritas::{CeleritasListener, CeleritasOptions, Connection, OpenConnectionError, TurnedAway};
use rails_proto::{
    handshake::{HandshakeError, HandshakeMessage, Hello, Limit, Mode, PREFIX_LEN, Purpose, Refusal, StreamId},
    parameters::TransportParameters,
    secret::Secret,
    security::{Identity, Security, TlsClient, TlsServer},
};
use rails_task::{Helpers, TaskQueues};
use rails_topo::{Bandwidth, Topology};
use std::{net::Ipv4Addr, thread, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpSocket,
    time::timeout,
};

fn secret(text: &[u8]) -> Secret {
    Secret::pre_shared(text).unwrap()
}

fn psk() -> CeleritasOptions {
    options().security(secret(b"0123456789abcdef"))
}

/// Both ends of TLS: a certificate that signs itself, and a client that trusts it.
fn tls() -> (CeleritasOptions, CeleritasOptions) {
    let made = rcgen::generate_simple_self_signed(vec!["storage".to_owned()]).unwrap();
    let certificate = made.cert.pem();
    let identity = Identity::from_pem(certificate.as_bytes(), made.signing_key.serialize_pem().as_bytes()).unwrap();
    let client = TlsClient::trusting(certificate.as_bytes(), "storage").unwrap();
    let server = TlsServer::new(identity).unwrap();
    (options().security(Security::tls_client(client)), options().security(Security::tls_server(server)))
}

async fn exchange(near: Connection, far: Connection) {
    let sizes = [1, 1432, 70_000, 3_000_000];
    let sent: Vec<_> =
        sizes.iter().zip(0..).map(|(size, seed)| near.try_send(cut(&pattern(*size, seed), 5000)).unwrap()).collect();
    drop(far.try_send(cut(&pattern(500_000, 9), 100_000)).unwrap());
    for (size, seed) in sizes.iter().zip(0..) {
        let message = timeout(PATIENCE, far.receive()).await.expect("it does not hang").unwrap().expect("it was sent");
        assert!(message.blocks.concat() == pattern(*size, seed), "message {seed} differs");
    }
    for sending in sent {
        assert_eq!(timeout(PATIENCE, sending).await.unwrap(), Ok(()));
    }
    let message = timeout(PATIENCE, near.receive()).await.expect("it does not hang").unwrap().expect("it was sent");
    assert!(message.blocks.concat() == pattern(500_000, 9));
    let closed = timeout(PATIENCE, async { tokio::join!(near.close(), far.close()) }).await.expect("it does not hang");
    assert_eq!(closed, (Ok(()), Ok(())));
}

#[tokio::test]
async fn messages_with_a_secret() {
    let (near, far) = pair_of(psk(), psk()).await;
    exchange(near, far).await;
    let encrypted = || options().security(Security::encrypted(secret(b"0123456789abcdef")));
    let (near, far) = pair_of(encrypted(), encrypted()).await;
    exchange(near, far).await;
}

#[tokio::test]
async fn messages_over_tls() {
    let (near, far) = tls();
    let (near, far) = pair_of(near, far).await;
    exchange(near, far).await;
}

/// A fast path, so that more bursts are due and more trains come than the driver handles at a time.
#[tokio::test]
async fn helpers_seal_and_open() {
    let topology = Topology::detect().unwrap();
    let queues = TaskQueues::new(&topology, 64);
    Helpers::set_current(Some(Helpers::new(&queues, topology.online_cpus()).unwrap()));
    let fast = || CeleritasOptions::fixed(Bandwidth::mbps(100_000)).security(secret(b"0123456789abcdef"));
    // Helpers that never come.
    let (near, far) = pair_of(fast(), fast()).await;
    exchange(near, far).await;

    let helper = {
        let queues = queues.clone();
        thread::spawn(move || {
            let runner = queues.attach().unwrap();
            while !runner.is_closed() {
                if runner.run().ran == 0 {
                    runner.sleep(None);
                }
            }
        })
    };
    let (near, far) = pair_of(fast(), fast()).await;
    let bytes = pattern(20_000_000, 3);
    let mut rounds = 0;
    // The helper gets time sooner or later.
    while near.stats().helpers.done == 0 || far.stats().helpers.done == 0 {
        let sending = near.try_send(cut(&bytes, 100_000)).unwrap();
        let message = timeout(PATIENCE, far.receive()).await.expect("it does not hang").unwrap().expect("it was sent");
        assert!(message.blocks.concat() == bytes, "the message of round {rounds} differs");
        assert_eq!(timeout(PATIENCE, sending).await.unwrap(), Ok(()));
        rounds += 1;
        assert!(rounds < 1000, "{:?} {:?}", near.stats().helpers, far.stats().helpers);
    }
    exchange(near, far).await;
    Helpers::set_current(None);
    queues.close();
    helper.join().unwrap();
}

/// The error of the end that connects, and the peers that the other one has turned away.
async fn refusal(near: CeleritasOptions, far: CeleritasOptions) -> (OpenConnectionError, TurnedAway) {
    let listener = far.listen(anywhere()).unwrap();
    let address = listener.local_addr();
    let near = tokio::select! {
        near = near.connect(address) => near,
        far = listener.accept() => panic!("{far:?}"),
    };
    let turned_away = async {
        while listener.turned_away() == TurnedAway::default() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        listener.turned_away()
    };
    (near.expect_err("it is refused"), timeout(PATIENCE, turned_away).await.expect("it refuses"))
}

#[tokio::test]
async fn another_secret_is_refused() {
    let (near, far) = refusal(psk(), options().security(secret(b"another secret..."))).await;
    assert_eq!(far.untrusted, 1, "{far:?}");
    assert!(matches!(near, OpenConnectionError::Handshake { source: HandshakeError::Refused(_), .. }), "{near:?}");
}

#[tokio::test]
async fn one_end_alone_without_security() {
    let (_, far) = refusal(options(), psk()).await;
    assert_eq!(far.untrusted, 1, "{far:?}");
    let (near, far) = refusal(psk(), options()).await;
    assert_eq!(far.untrusted, 1, "{far:?}");
    assert!(matches!(near, OpenConnectionError::Unsecured { .. }), "{near:?}");
}

#[tokio::test]
async fn other_modes_and_certificates_are_refused() {
    let (near, _) = tls();
    let (near, far) = refusal(near, psk()).await;
    assert_eq!(far.untrusted, 1, "{far:?}");
    assert!(matches!(near, OpenConnectionError::Handshake { source: HandshakeError::Mode { .. }, .. }), "{near:?}");
    let ((near, _), (_, far)) = (tls(), tls());
    let (near, far) = refusal(near, far).await;
    assert!(matches!(near, OpenConnectionError::Handshake { source: HandshakeError::Tls(_), .. }), "{near:?}");
    assert_eq!(far.untrusted, 1, "{far:?}");
}

#[tokio::test]
async fn wrong_options_are_refused_at_once() {
    let none = CeleritasOptions::fixed(rails_topo::Bandwidth::mbps(0));
    assert!(matches!(none.listen(anywhere()), Err(OpenConnectionError::NoRate)));
    assert!(matches!(none.connect(anywhere()).await, Err(OpenConnectionError::NoRate)));
    let (client, server) = tls();
    assert!(matches!(client.listen(anywhere()), Err(OpenConnectionError::Role { .. })));
    assert!(matches!(server.connect(anywhere()).await, Err(OpenConnectionError::Role { .. })));
}

/// Each TLS hello of a stranger makes a TLS server sign, and no other.
#[tokio::test]
async fn a_flood_of_tls_hellos_is_told_to_try_again() {
    let (client, server) = tls();
    let listener = server.listen(anywhere()).unwrap();
    assert!(!is_busy_after(&listener, Mode::PreSharedKey, 300).await, "they cost nothing");
    assert!(is_busy_after(&listener, Mode::Tls, 2000).await, "a second has room for 125");
    let (near, far) = tokio::join!(client.connect(listener.local_addr()), listener.accept());
    near.and(far).expect("another peer is served");
}

/// Whether the listener is too busy for one of `hellos` hellos of this mode.
async fn is_busy_after(listener: &CeleritasListener, mode: Mode, hellos: usize) -> bool {
    let parameters = TransportParameters::one_stream(1, 1);
    let (purpose, stream) = (Purpose::Open, StreamId([1; 16]));
    let hello = HandshakeMessage::Hello(Hello { mode, purpose, stream, lane: 0, lanes: 1, parameters, nonce: [1; 32] });
    let refused = HandshakeMessage::Refused(Refusal::Busy(Limit::PeerTlsRate)).encode();
    for _ in 0..hellos {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::new(127, 0, 16, 1), 0).into()).unwrap();
        let mut socket = socket.connect(listener.local_addr()).await.unwrap();
        socket.write_all(&hello.encode()).await.unwrap();
        let mut answer = [0; PREFIX_LEN];
        timeout(PATIENCE, socket.read_exact(&mut answer)).await.expect("the listener answers at once").unwrap();
        if answer[..] == refused[..] {
            return true;
        }
    }
    false
}
