//! Encrypted streams on real sockets, with an attacker on the path.

use crate::{
    loopback::{PATIENCE, listener, rails, secret},
    util::{Relay, echoed, moved, pattern, relayed_pair},
};
use rails_multirail::{
    BindListenerError, EndpointError, HandshakeError, Identity, Limit, Limits, Mode, MultiRailListener,
    MultiRailStream, OpenError, PeerSecrets, Rails, Refusal, Security, StreamId, StreamOptions, TlsClient, TlsServer,
    error::JoinError,
};
use rails_proto::{
    handshake::{Credentials, HandshakeMessage, Hello, Initiator, InitiatorStep, PREFIX_LEN, Purpose},
    parameters::TransportParameters,
};
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// Options with a long join grace, so that every lane is up with its stream even on a busy machine,
/// and without an outage limit, so that the stream fails with its last lane.
fn options(security: Security) -> StreamOptions {
    StreamOptions::new(security).join_grace(Duration::from_secs(20)).outage_limit(Duration::ZERO)
}

fn encrypted() -> StreamOptions {
    options(Security::encrypted(secret()))
}

/// A self-signed certificate and its key, as PEM.
fn certificate() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["rails.example".to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

/// Options for a client and for the server that it trusts.
pub(crate) fn by_tls() -> (StreamOptions, StreamOptions) {
    let (certificate, key) = certificate();
    let identity = Identity::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
    let client = TlsClient::pinned(identity.pin().unwrap()).unwrap();
    let server = TlsServer::new(identity).unwrap();
    (options(Security::tls_client(client)), options(Security::tls_server(server)))
}

/// A stream's two ends under TLS, with a relay before each lane.
async fn tls_pair(rails: &Rails) -> (MultiRailStream, MultiRailStream, Vec<Relay>) {
    let (client, server) = by_tls();
    let (listener, addresses) = listener(rails, &server).await;
    let mut relays = Vec::new();
    for address in addresses {
        relays.push(Relay::start(address).await);
    }
    let remotes: Vec<SocketAddr> = relays.iter().map(|relay| relay.address).collect();
    let near = MultiRailStream::connect(rails, &remotes, &client).await.expect("the server is trusted");
    (near, listener.accept().await.expect("a stream was opened"), relays)
}

/// The client knows the server's certificate; the server knows the client's, if the client has
/// presented one.
#[tokio::test]
async fn certificates_of_tls_peers() {
    let rails = rails(2);
    let (near, far, _relays) = tls_pair(&rails).await;
    assert_eq!((near.peer_certificates().len(), far.peer_certificates().len()), (1, 0));
    let (near, far, _relays) = relayed_pair(&rails, &encrypted()).await;
    assert_eq!((near.peer_certificates().len(), far.peer_certificates().len()), (0, 0));

    let made = rcgen::generate_simple_self_signed(["rails.example".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let identity = || Identity::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
    let client = TlsClient::pinned(identity().pin().unwrap()).unwrap().identity(identity()).unwrap();
    let server = TlsServer::for_clients_of(identity(), certificate.as_bytes()).unwrap();
    let (listener, addresses) = listener(&rails, &options(Security::tls_server(server))).await;
    let client = options(Security::tls_client(client));
    let near = MultiRailStream::connect(&rails, &addresses, &client).await.expect("each trusts the other");
    let far = listener.accept().await.expect("a stream was opened");
    for end in [near, far] {
        assert_eq!(end.peer_certificates(), [&made.cert.der()[..]]);
        assert_eq!(end.peer_key_pin(), identity().pin());
    }
}

#[tokio::test]
async fn addresses_of_a_streams_two_ends() {
    let rails = rails(2);
    let (listener, addresses) = listener(&rails, &encrypted()).await;
    let near = MultiRailStream::connect(&rails, &addresses, &encrypted()).await.unwrap();
    let far = listener.accept().await.unwrap();
    assert!(addresses.contains(&near.peer_addr().unwrap()) && addresses.contains(&far.local_addr().unwrap()));
    let lanes = near.stats().lanes;
    let known: Vec<_> = lanes.iter().map(|lane| (lane.local, lane.remote)).collect();
    let ends = (near.local_addr().unwrap(), near.peer_addr().unwrap());
    assert!(known.contains(&ends), "{known:?}");
    assert_eq!(ends, (far.peer_addr().unwrap(), far.local_addr().unwrap()));
}

#[tokio::test]
async fn sealed_streams_show_no_byte_on_the_wire() {
    let rails = rails(2);
    for tls in [false, true] {
        let (near, far, relays) = if tls { tls_pair(&rails).await } else { relayed_pair(&rails, &encrypted()).await };
        assert_eq!(far.lanes_up().max(near.lanes_up()), 2, "the other lane joined without a handshake of TLS");
        relays.iter().for_each(|relay| relay.listen_in());
        echoed(near, far, &pattern(3 << 20)).await;
        let seen: Vec<u8> = relays.iter().flat_map(|relay| relay.heard()).collect();
        let sent = pattern(3 << 20);
        assert!(seen.len() > 3 << 20);
        // Chunks begin at many offsets; any sixteen bytes of the stream would show plain text.
        let known: std::collections::HashSet<&[u8]> = sent.chunks_exact(16).step_by(1000).collect();
        assert!(!seen.windows(16).any(|window| known.contains(window)));
    }
}

#[tokio::test]
async fn sealed_frame_changed_on_the_way() {
    let rails = rails(2);
    for tls in [false, true] {
        let (near, far, relays) = if tls { tls_pair(&rails).await } else { relayed_pair(&rails, &encrypted()).await };
        relays[1].flip_a_bit();
        let [_, received] = moved(near, far, pattern(20 << 20)).await;
        let lost: Vec<&String> = received.lanes.iter().filter_map(|lane| lane.lost.as_ref()).collect();
        assert!(lost.len() == 1 && lost[0].contains("does not open"), "{lost:?}");
    }
}

/// Acknowledgements and headers are sealed too: the other direction of a transfer has only these.
#[tokio::test]
async fn sealed_acknowledgement_changed_on_the_way() {
    let rails = rails(2);
    let (near, far, relays) = relayed_pair(&rails, &encrypted()).await;
    relays[0].flip_an_answer();
    let [sent, _] = moved(near, far, pattern(20 << 20)).await;
    let lost: Vec<&String> = sent.lanes.iter().filter_map(|lane| lane.lost.as_ref()).collect();
    assert!(lost.len() == 1 && lost[0].contains("does not open"), "{lost:?}");
}

/// The relay exchanges the lanes of two streams after they have joined.
#[tokio::test]
async fn lane_of_one_stream_spliced_into_another() {
    let rails = rails(1);
    let (mut one, mut far_one, relays_of_one) = relayed_pair(&rails, &encrypted()).await;
    let (two, mut far_two, relays_of_two) = relayed_pair(&rails, &encrypted()).await;
    relays_of_one[0].divert_to(&relays_of_two[0]);
    one.write_all(b"for the far end of one").await.unwrap();
    let read = timeout(PATIENCE, far_two.read_u8()).await.expect("the read does not hang");
    let error = read.unwrap_err();
    assert!(error.to_string().contains("does not open"), "{error}");
    relays_of_one[0].cut();
    drop((one, two));
    assert!(timeout(PATIENCE, far_one.read_u8()).await.expect("the read does not hang").is_err());
}

/// The messages with which a listener answers a join by wrong credentials.
pub(crate) async fn answers(address: SocketAddr, stream: StreamId, credentials: Credentials) -> Vec<HandshakeMessage> {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let hello = Hello {
        mode: credentials.mode(),
        purpose: Purpose::Join,
        stream,
        lane: 1,
        lanes: 2,
        parameters: TransportParameters::one_stream(1 << 16, 1 << 20),
        nonce: [1; 32],
    };
    let (mut initiator, first) = Initiator::start(credentials, hello);
    socket.write_all(&first.encode()).await.unwrap();
    let mut answers = Vec::new();
    loop {
        let mut prefix = [0; PREFIX_LEN];
        if socket.read_exact(&mut prefix).await.is_err() {
            return answers;
        }
        let mut body = vec![0; HandshakeMessage::body_len(&prefix).unwrap()];
        socket.read_exact(&mut body).await.unwrap();
        let message = HandshakeMessage::decode(&prefix, &body).unwrap();
        answers.push(message.clone());
        if let Ok(InitiatorStep::Send(messages)) = initiator.handle(message) {
            for message in messages {
                socket.write_all(&message.encode()).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn join_of_a_foreign_and_of_an_unknown_stream() {
    let rails = rails(1);
    let (client, server) = by_tls();
    let (listener, addresses) = listener(&rails, &server).await;
    let mut near = MultiRailStream::connect(&rails, &addresses, &client).await.unwrap();
    let mut far = listener.accept().await.unwrap();
    for stream in [near.id(), StreamId([9; 16])] {
        let stranger = Credentials::Secret { mode: Mode::Tls, secret: secret() };
        let answers = answers(addresses[0], stream, stranger).await;
        let refused = HandshakeMessage::Refused(Refusal::UnknownStream);
        assert!(matches!(&answers[..], [HandshakeMessage::Challenge(_), last] if *last == refused), "{answers:?}");
    }
    assert_eq!(far.lanes_up(), 1);
    near.write_all(b"undisturbed").await.unwrap();
    let mut got = [0; 11];
    far.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"undisturbed");
}

/// A clean end of the connection, from the peer or the relay, is not the stream's end.
#[tokio::test]
async fn sealed_stream_cut_off_between_two_frames() {
    let rails = rails(1);
    for tls in [false, true] {
        let (mut near, mut far, relays) =
            if tls { tls_pair(&rails).await } else { relayed_pair(&rails, &encrypted()).await };
        near.write_all(b"half of it").await.unwrap();
        let mut got = [0; 10];
        far.read_exact(&mut got).await.unwrap();
        relays[0].cut();
        let error = timeout(PATIENCE, far.read_u8()).await.expect("the read does not hang").unwrap_err();
        assert!(error.to_string().contains("closed it before the stream was done"), "{error}");
        drop(near);
    }
}

#[tokio::test]
async fn untrusted_server() {
    let rails = rails(1);
    let ((stranger, _), (_, server)) = (by_tls(), by_tls());
    let (_listener, addresses) = listener(&rails, &server).await;
    let Err(OpenError::AllFailed { lanes }) = MultiRailStream::connect(&rails, &addresses, &stranger).await else {
        panic!("an untrusted server has a stream");
    };
    assert!(matches!(lanes[0].error, JoinError::Handshake(HandshakeError::Tls(_))), "{lanes:?}");
    assert!(
        lanes[0].to_string().contains("the TLS handshake failed: this end refuses the peer's certificate: "),
        "{}",
        lanes[0]
    );
}

#[tokio::test]
async fn each_side_of_security_is_for_its_own_end() {
    let rails = rails(1);
    let (client, server) = by_tls();
    let address = "127.0.0.1:0";
    assert!(matches!(
        MultiRailListener::bind(&rails, &address, &client).await,
        Err(BindListenerError::Endpoint(EndpointError::ClientSecurity))
    ));
    let (_listener, addresses) = listener(&rails, &server).await;
    let of_peers = PeerSecrets::new([("alpha", secret())]).unwrap();
    for server in [server, options(Security::psk_of(of_peers.clone())), options(Security::encrypted_of(of_peers))] {
        assert!(matches!(
            MultiRailStream::connect(&rails, &addresses, &server).await,
            Err(OpenError::Endpoint(EndpointError::ServerSecurity))
        ));
    }
}

pub(crate) fn refused(opened: Result<MultiRailStream, OpenError>) -> Refusal {
    match opened {
        Err(OpenError::AllFailed { lanes }) => match &lanes[0].error {
            JoinError::Handshake(HandshakeError::Refused(refusal)) => *refusal,
            other => panic!("{other}"),
        },
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn streams_and_memory_of_one_peer() {
    let rails = rails(1);
    for (limits, limit) in [
        (Limits::default().streams_per_peer(2), Limit::PeerStreams),
        (Limits::default().memory_per_peer(240 << 20), Limit::PeerMemory),
        (Limits::default().memory(240 << 20), Limit::Memory),
    ] {
        let (listener, addresses) = listener(&rails, &encrypted().limits(limits).linger(Duration::ZERO)).await;
        let ours = encrypted();
        let connect = || MultiRailStream::connect(&rails, &addresses, &ours);
        let (first, _second) = (connect().await.unwrap(), connect().await.unwrap());
        let (far, _other) = (listener.accept().await.unwrap(), listener.accept().await.unwrap());
        assert_eq!(refused(connect().await), Refusal::Full(limit));
        drop((first, far));
        let again = async {
            while connect().await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(Duration::from_secs(10), again).await.expect("the handshake's place is free again");
    }
}

#[tokio::test]
async fn a_mute_peer_is_told_that_it_makes_room() {
    let rails = rails(1);
    let limits = Limits::default().handshakes_per_peer(3);
    let (_listener, addresses) = listener(&rails, &encrypted().limits(limits)).await;
    let mut mute = TcpStream::connect(addresses[0]).await.unwrap();
    let mut later = Vec::new();
    for _ in 0..3 {
        later.push(TcpStream::connect(addresses[0]).await.unwrap());
    }
    let mut answer = Vec::new();
    timeout(PATIENCE, mute.read_to_end(&mut answer)).await.expect("the listener answers at once").unwrap();
    assert_eq!(answer, HandshakeMessage::Refused(Refusal::Busy(Limit::PeerHandshakes)).encode());
    MultiRailStream::connect(&rails, &addresses, &encrypted()).await.expect("another one makes room");
}

/// Slow single bytes keep no handshake alive. The hello arrives in time, the first flight of TLS
/// does not.
#[tokio::test]
async fn dripping_handshake_in_every_mode() {
    let rails = rails(1);
    let (client, server) = by_tls();
    let patience = Duration::from_millis(500);
    let (_listener, addresses) = listener(&rails, &server.handshake_timeout(patience)).await;
    let relay = Relay::start(addresses[0]).await;
    relay.drip();
    let begin = std::time::Instant::now();
    let remotes = [relay.address];
    // The listener's timeout has ended the handshake.
    let client = client.handshake_timeout(PATIENCE);
    let connect = MultiRailStream::connect(&rails, &remotes, &client);
    let opened = timeout(PATIENCE, connect).await.expect("the listener closes the connection");
    assert!(opened.is_err());
    assert!(begin.elapsed() >= patience);
}
