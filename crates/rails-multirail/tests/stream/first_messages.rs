//! Messages that go along with the opening of a stream.

use crate::{
    loopback::{PATIENCE, listener, patient, rails, secret},
    security::by_tls,
};
use bytes::Bytes;
use futures_util::FutureExt;
use rails_multirail::{
    EndpointError, HandshakeError, LaneAddress, Limits, Mode, MultiRailMessages, MultiRailStream, OpenError, Pairing,
    Priority, Rails, Refusal, Scheme, Secret, Security, StreamId, StreamOptions, error::JoinError, in_order,
};
use rails_proto::{
    handshake::{
        Acceptance, Credentials, EarlyLane, HandshakeMessage, Hello, Initiator, InitiatorStep, PREFIX_LEN, Proved,
        Purpose, Responder, ResponderStep,
    },
    parameters::TransportParameters,
    stream_number::StreamNumber,
    wire::{DataHeader, FRAME_LEN, Frame, ResetReason},
};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
    time::{sleep, timeout},
};

const PARAMETERS: TransportParameters = TransportParameters::one_stream(1 << 16, 1 << 20);

fn first() -> Vec<(Bytes, Priority)> {
    [&b"who I am"[..], b"my question"].map(|text| (Bytes::from_static(text), Priority::HIGHEST)).into()
}

fn encrypted() -> Credentials {
    Credentials::Secret { mode: Mode::Encrypted, secret: secret() }
}

fn pairing(rails: &Rails, addresses: &[SocketAddr]) -> Pairing {
    let addresses: Vec<LaneAddress> = addresses.iter().map(|address| (*address).into()).collect();
    in_order(&rails.offers(Scheme::TCP), &addresses)
}

async fn open(
    rails: &Rails,
    addresses: &[SocketAddr],
    options: &StreamOptions,
) -> Result<MultiRailMessages, OpenError> {
    let (pairing, first) = (pairing(rails, addresses), first());
    let opened = MultiRailMessages::connect_paired(rails, &pairing, options, &first);
    timeout(PATIENCE, opened).await.expect("it ends")
}

/// The error of the only lane.
fn error_of<T>(opened: Result<T, OpenError>) -> String {
    match opened.map(drop) {
        Err(OpenError::AllFailed { lanes }) => lanes[0].to_string(),
        other => panic!("{other:?}"),
    }
}

async fn read(socket: &mut TcpStream) -> HandshakeMessage {
    let mut prefix = [0; PREFIX_LEN];
    socket.read_exact(&mut prefix).await.expect("it sends");
    let mut body = vec![0; HandshakeMessage::body_len(&prefix).expect("the prefix is that of a message")];
    socket.read_exact(&mut body).await.expect("the message is whole");
    HandshakeMessage::decode(&prefix, &body).expect("the message is valid")
}

async fn write(socket: &mut TcpStream, messages: &[HandshakeMessage]) {
    let bytes: Vec<u8> = messages.iter().flat_map(HandshakeMessage::encode).collect();
    socket.write_all(&bytes).await.expect("it reads");
}

/// The responder's side of a handshake, until the initiator has proved itself.
async fn respond(socket: &mut TcpStream, credentials: Credentials) -> Proved {
    let HandshakeMessage::Hello(hello) = read(socket).await else { panic!("a hello comes first") };
    let (mut responder, challenge) = Responder::start(credentials, hello, PARAMETERS, [2; 32]).unwrap();
    write(socket, &[challenge]).await;
    loop {
        let message = read(socket).await;
        match responder.handle(message).expect("it knows the secret") {
            ResponderStep::Send(messages) => write(socket, &messages).await,
            ResponderStep::Proved(proved) => return *proved,
        }
    }
}

/// The initiator's side, until the proof is to be sent. Gives the bytes of the proof, of the
/// confirmation and, in mode insecure, of a chunk "early" behind it.
async fn prove(socket: &mut TcpStream, credentials: Credentials, stream: StreamId) -> (Vec<u8>, Acceptance) {
    let mode = credentials.mode();
    let parameters = PARAMETERS;
    let hello = Hello { mode, purpose: Purpose::Open, stream, lane: 0, lanes: 1, parameters, nonce: [1; 32] };
    let (mut initiator, first) = Initiator::start(credentials, hello);
    write(socket, &[first]).await;
    let step = initiator.handle(read(socket).await).unwrap();
    let InitiatorStep::Send(messages) = step else { panic!("{step:?}") };
    let EarlyLane { joined, acceptance } = initiator.into_early().expect("the mode is no plain one");
    let messages = messages.into_iter().chain(joined.confirmation);
    let mut bytes: Vec<u8> = messages.flat_map(|message| message.encode()).collect();
    let payload = Bytes::from_static(b"early");
    bytes.extend(Frame::Data(DataHeader::of(StreamNumber::FIRST, 0, std::slice::from_ref(&payload), false)).encode());
    bytes.extend(&payload);
    (bytes, acceptance)
}

/// A peer that answers each proof with this, and hangs up at once or waits for the initiator to do
/// so.
async fn peer_that_answers(answer: Option<HandshakeMessage>, hangs_up: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                respond(&mut socket, encrypted()).await;
                write(&mut socket, answer.as_slice()).await;
                while !hangs_up && socket.read(&mut [0; 100]).await.is_ok_and(|count| count > 0) {}
            });
        }
    });
    address
}

#[tokio::test]
async fn first_messages_are_answered_in_every_mode() {
    let rails = rails(2);
    let both = |security: Security| (patient(security.clone()), patient(security));
    let modes =
        [both(Security::insecure()), both(Security::psk(secret())), both(Security::encrypted(secret())), by_tls()];
    for (client, server) in modes {
        let (listener, addresses) = listener(&rails, &server).await;
        let (near, far) = tokio::join!(open(&rails, &addresses, &client), listener.accept());
        let (mut near, mut far) = (near.unwrap(), far.unwrap().into_messages().unwrap());
        for (message, priority) in first() {
            let got = timeout(PATIENCE, far.recv()).await.expect("it comes").unwrap().unwrap();
            assert_eq!((got.payload, got.priority), (message, priority));
        }
        far.send(Bytes::from_static(b"an answer"), Priority::NORMAL).await.unwrap();
        let answer = timeout(PATIENCE, near.recv()).await.expect("it comes").unwrap().unwrap();
        assert_eq!(answer.payload, "an answer");
        assert_eq!(near.lanes_up(), 2, "the second lane joins as ever");
        let (near, far) = tokio::join!(near.close(), far.close());
        assert!(near.is_ok() && far.is_ok());
    }
}

#[tokio::test]
async fn first_messages_come_before_the_acceptance() {
    let (rails, server) = (rails(1), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let addresses = [server.local_addr().unwrap()];
    let (client, by_certificate) = by_tls();
    let insecure = || patient(Security::insecure());
    for (client, credentials) in [
        (insecure(), Credentials::Insecure),
        (patient(Security::encrypted(secret())), encrypted()),
        (client, by_certificate_of(&by_certificate)),
    ] {
        let answering = async {
            let (mut socket, _) = server.accept().await.unwrap();
            let proved = respond(&mut socket, credentials).await;
            let confirmation = read(&mut socket).await;
            proved.confirm(&confirmation).unwrap();
            // The header of the packet, the header of its data, and the two messages.
            let mut frames = [0; 2 * FRAME_LEN + 19];
            socket.read_exact(&mut frames).await.unwrap();
            write(&mut socket, &[proved.accept]).await;
            socket
        };
        let both = async { tokio::join!(open(&rails, &addresses, &client), answering) };
        let (opened, _socket) = timeout(PATIENCE, both).await.expect("it waits for no acceptance");
        opened.unwrap();
    }
}

/// The credentials of a server with these options.
fn by_certificate_of(options: &StreamOptions) -> Credentials {
    options.security().responder().expect("it is a server")
}

/// Errors name the same cause as those of an opening without first messages.
#[tokio::test]
async fn a_refusal_after_first_messages_is_told() {
    let rails = rails(1);
    let other = Secret::pre_shared(b"another 16 bytes").unwrap();
    let limited = patient(Security::encrypted(secret())).limits(Limits::default().streams_per_peer(1));
    for (client, server, streams) in [
        (patient(Security::encrypted(other)), patient(Security::encrypted(secret())), 0),
        (patient(Security::insecure()), patient(Security::encrypted(secret())), 0),
        (patient(Security::encrypted(secret())), limited, 1),
        (by_tls().0, by_tls().1, 0),
    ] {
        let (listener, addresses) = crate::loopback::listener(&rails, &server).await;
        let mut kept = Vec::new();
        for _ in 0..streams {
            let (near, far) = tokio::join!(open(&rails, &addresses, &client), listener.accept());
            kept.push((near.unwrap(), far.unwrap()));
        }
        let expected =
            error_of(timeout(PATIENCE, MultiRailStream::connect(&rails, &addresses, &client)).await.unwrap());
        let early = error_of(open(&rails, &addresses, &client).await);
        assert_eq!(early, expected);
        assert!(listener.accept().now_or_never().is_none(), "no stream came of it");
    }
}

#[tokio::test]
async fn peers_that_do_not_accept_are_found_out() {
    let rails = rails(1);
    type IsExpected = fn(&JoinError) -> bool;
    let expected: [(_, IsExpected); 5] = [
        (peer_that_answers(None, false).await, |error| matches!(error, JoinError::Timeout)),
        (peer_that_answers(None, true).await, |error| matches!(error, JoinError::Io(_))),
        (peer_that_answers(Some(HandshakeMessage::Accepted([0; 32])), false).await, |error| {
            matches!(error, JoinError::Handshake(HandshakeError::Secret))
        }),
        (peer_that_answers(Some(HandshakeMessage::Confirmed([0; 32])), false).await, |error| {
            matches!(error, JoinError::Handshake(HandshakeError::Disorder))
        }),
        (peer_that_answers(Some(HandshakeMessage::Refused(Refusal::Secret)), true).await, |error| {
            matches!(error, JoinError::Handshake(HandshakeError::Refused(Refusal::Secret)))
        }),
    ];
    let patient = patient(Security::encrypted(secret()));
    let impatient = patient.clone().handshake_timeout(Duration::from_millis(300));
    let options = [impatient].into_iter().chain(std::iter::repeat(patient));
    for ((address, is_expected), options) in expected.into_iter().zip(options) {
        match open(&rails, &[address], &options).await {
            Err(OpenError::AllFailed { lanes }) => assert!(is_expected(&lanes[0].error), "{lanes:?}"),
            other => panic!("{other:?}"),
        }
    }
}

/// A lane whose peer stays silent after the proof makes way for the next, and its peer gets a
/// reset.
#[tokio::test]
async fn a_lane_that_loses_the_race_resets_its_stream() {
    let (rails, options) = (rails(2), patient(Security::insecure()).join_grace(Duration::ZERO));
    let (listener, mut addresses) = listener(&rails, &options).await;
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    addresses[0] = mute.local_addr().unwrap();
    // The way to the listener opens once the first lane has spoken.
    let (gate, has_spoken) = (TcpListener::bind("127.0.0.2:0").await.unwrap(), Arc::new(Notify::new()));
    let behind = std::mem::replace(&mut addresses[1], gate.local_addr().unwrap());
    let opens = has_spoken.clone();
    tokio::spawn(async move {
        let (mut near, _) = gate.accept().await.unwrap();
        opens.notified().await;
        let mut far = TcpStream::connect(behind).await.unwrap();
        tokio::io::copy_bidirectional(&mut near, &mut far).await
    });
    let silent = async {
        let (mut socket, _) = mute.accept().await.unwrap();
        let proved = respond(&mut socket, Credentials::Insecure).await;
        let confirmation = read(&mut socket).await;
        proved.confirm(&confirmation).unwrap();
        has_spoken.notify_one();
        let mut frames = Vec::new();
        socket.read_to_end(&mut frames).await.unwrap();
        frames
    };
    let all = async { tokio::join!(open(&rails, &addresses, &options), listener.accept(), silent) };
    let (near, far, frames) = timeout(PATIENCE, all).await.expect("it ends");
    let reset = Frame::Reset(ResetReason::Dropped).encode();
    assert_eq!(frames.last_chunk::<FRAME_LEN>(), Some(&reset), "{frames:02x?}");
    let (_near, mut far) = (near.unwrap(), far.unwrap().into_messages().unwrap());
    for (message, _) in first() {
        assert_eq!(timeout(PATIENCE, far.recv()).await.expect("it comes").unwrap().unwrap().payload, message);
    }
}

/// A listener reads no frame before the proof, and loses none behind it, however the bytes come.
#[tokio::test]
async fn frames_behind_the_proof_in_every_segment() {
    let rails = rails(1);
    let (listener, addresses) = listener(&rails, &patient(Security::insecure())).await;
    let length = 2 * (PREFIX_LEN + 32) + FRAME_LEN + 5;
    for split in 0..=length {
        let mut socket = TcpStream::connect(addresses[0]).await.unwrap();
        socket.set_nodelay(true).unwrap();
        let (bytes, mut acceptance) = prove(&mut socket, Credentials::Insecure, StreamId([split as u8; 16])).await;
        assert_eq!(bytes.len(), length);
        socket.write_all(&bytes[..split]).await.unwrap();
        // The listener most likely reads the first part alone.
        sleep(Duration::from_millis(1)).await;
        socket.write_all(&bytes[split..]).await.unwrap();
        let mut far = timeout(PATIENCE, listener.accept()).await.expect("it accepts").unwrap();
        let mut got = [0; 5];
        timeout(PATIENCE, far.read_exact(&mut got)).await.expect("they come").unwrap();
        assert_eq!(&got, b"early", "split at {split}");
        acceptance.check(&read(&mut socket).await).unwrap();
    }
}

/// A client that does not know the secret hears so, whatever it sends behind its proof, and no
/// stream comes of it.
#[tokio::test]
async fn frames_behind_a_wrong_proof_are_thrown_away() {
    let rails = rails(1);
    let (listener, addresses) = listener(&rails, &patient(Security::encrypted(secret()))).await;
    for further in [0, 1, 10_000, 60_000] {
        let mut socket = TcpStream::connect(addresses[0]).await.unwrap();
        let other = Secret::pre_shared(b"another 16 bytes").unwrap();
        let stranger = Credentials::Secret { mode: Mode::Encrypted, secret: other };
        let (mut bytes, mut acceptance) = prove(&mut socket, stranger, StreamId([7; 16])).await;
        bytes.resize(bytes.len() + further, 9);
        socket.write_all(&bytes).await.unwrap();
        let refused = acceptance.check(&read(&mut socket).await);
        assert_eq!(refused, Err(HandshakeError::Refused(Refusal::Secret)));
        assert_eq!(socket.read(&mut [0]).await.expect("it hangs up without a reset"), 0);
        assert!(listener.accept().now_or_never().is_none());
    }
}

#[tokio::test]
async fn first_messages_that_do_not_fit() {
    let (rails, server) = (rails(1), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let (pairing, options) = (pairing(&rails, &[server.local_addr().unwrap()]), patient(Security::insecure()));
    let open = async |length: usize| {
        let first = [(Bytes::from(vec![1; length]), Priority::NORMAL)];
        MultiRailMessages::connect_paired(&rails, &pairing, &options, &first).await.unwrap_err()
    };
    let too_long = open((12 << 10) + 1).await;
    assert_eq!(too_long.to_string(), "first messages in bytes of 12289: it is at least 0 and at most 12288");
    assert!(matches!(too_long, OpenError::Endpoint(EndpointError::Option(_))), "{too_long}");
    for (window, length, expected) in [
        (2047, 1, "2047 may be on their way; messages need 64 and 2048"),
        (4096, 4096, "a message of 4096 bytes: 4096 bytes may be on their way to the peer"),
    ] {
        let challenging = async {
            let (mut socket, _) = server.accept().await.unwrap();
            let HandshakeMessage::Hello(hello) = read(&mut socket).await else { panic!("a hello comes first") };
            let parameters = TransportParameters { window, ..PARAMETERS };
            let (_, challenge) = Responder::start(Credentials::Insecure, hello, parameters, [2; 32]).unwrap();
            write(&mut socket, &[challenge]).await;
            assert_eq!(socket.read(&mut [0]).await.unwrap(), 0, "it gives up without a proof");
        };
        let both = async { tokio::join!(open(length), challenging) };
        let (error, ()) = timeout(PATIENCE, both).await.expect("it ends");
        let OpenError::AllFailed { lanes } = error else { panic!("{error}") };
        assert!(matches!(lanes[0].error, JoinError::Messages(_)), "{lanes:?}");
        let text = lanes[0].to_string();
        assert!(text.contains("the stream cannot carry its first messages") && text.contains(expected), "{text}");
    }
}

/// A caller that gives up while the peer has the first messages and has not accepted them ends its
/// connection at once.
#[tokio::test]
async fn a_caller_that_gives_up_hangs_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    for stops_rails in [false, true] {
        let rails = rails(1);
        let opening = tokio::spawn({
            let rails = rails.clone();
            async move { open(&rails, &[address], &patient(Security::encrypted(secret()))).await.map(drop) }
        });
        let (mut socket, _) = timeout(PATIENCE, listener.accept()).await.expect("it connects").unwrap();
        respond(&mut socket, encrypted()).await;
        assert!(matches!(read(&mut socket).await, HandshakeMessage::Confirmed(_)));
        if stops_rails {
            opening.abort();
            drop(opening.await);
            tokio::task::spawn_blocking(move || drop(rails)).await.expect("nothing panics");
        } else {
            opening.abort();
        }
        let mut rest = Vec::new();
        // A reset of the connection is an end as well.
        let _ = timeout(PATIENCE, socket.read_to_end(&mut rest)).await.expect("the connection ends");
        assert!(!rest.is_empty(), "the first messages");
    }
}
