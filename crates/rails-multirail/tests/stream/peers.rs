//! A listener that knows several peers by their secrets, and changes its security while it listens.

use crate::{
    loopback::{PATIENCE, listener, patient, rails},
    peer,
    security::{answers, by_tls, refused},
    util::{Relay, echoed, moved, pattern},
};
use rails_multirail::{
    HandshakeError, Mode, MultiRailStream, PeerSecrets, Refusal, Secret, Security, SetSecurityError, StreamId,
    StreamOptions,
};
use rails_proto::{
    handshake::{Credentials, HandshakeMessage, Hello, Initiator, InitiatorStep, PREFIX_LEN, Purpose},
    parameters::TransportParameters,
};
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};

const MODES: [Mode; 2] = [Mode::PreSharedKey, Mode::Encrypted];
const PARAMETERS: TransportParameters = TransportParameters::one_stream(1 << 16, 1 << 20);

fn secret_of(name: &str) -> Secret {
    Secret::pre_shared(format!("the secret of {name}").as_bytes()).unwrap()
}

/// The credentials of the peer of that name.
fn credentials(mode: Mode, name: &str) -> Credentials {
    Credentials::Secret { mode, secret: secret_of(name) }
}

/// The security of the peer of that name.
fn one(mode: Mode, name: &str) -> Security {
    match mode {
        Mode::Encrypted => Security::encrypted(secret_of(name)),
        _ => Security::psk(secret_of(name)),
    }
}

/// The security of a listener that knows the peers of these names.
fn several(mode: Mode, names: &[&str]) -> Security {
    let secrets = PeerSecrets::new(names.iter().map(|name| (*name, secret_of(name)))).unwrap();
    match mode {
        Mode::Encrypted => Security::encrypted_of(secrets),
        _ => Security::psk_of(secrets),
    }
}

#[tokio::test]
async fn each_peer_is_known_by_its_secret() {
    let rails = rails(2);
    for mode in MODES {
        let (listener, addresses) = listener(&rails, &patient(several(mode, &["alpha", "beta"]))).await;
        for name in ["alpha", "beta", "alpha"] {
            let near = MultiRailStream::connect(&rails, &addresses, &patient(one(mode, name))).await.unwrap();
            let far = listener.accept().await.unwrap();
            assert_eq!((near.peer_name(), far.peer_name()), (None, Some(name)), "only the listener has names");
            assert_eq!((far.peer_certificates().len(), far.peer_key_pin()), (0, None));
            assert_eq!(near.lanes_up(), 2, "the other lane joins by the same secret");
            echoed(near, far, &pattern(1 << 20)).await;
        }
        let stranger = patient(one(mode, "gamma"));
        assert_eq!(refused(MultiRailStream::connect(&rails, &addresses, &stranger).await), Refusal::Secret);

        let near = MultiRailStream::connect(&rails, &addresses, &patient(one(mode, "beta"))).await.unwrap();
        let messages = listener.accept().await.unwrap().into_messages().unwrap();
        assert_eq!((messages.stream().id(), messages.stream().peer_name()), (near.id(), Some("beta")));
        let (sender, receiver) = messages.split();
        assert_eq!((sender.stream().peer_name(), receiver.stream().peer_name()), (Some("beta"), Some("beta")));
    }
    let (listener, addresses) = listener(&rails, &patient(secret_of("all"))).await;
    let _near = MultiRailStream::connect(&rails, &addresses, &patient(secret_of("all"))).await.unwrap();
    assert_eq!(listener.accept().await.unwrap().peer_name(), None, "one secret is that of every peer");
}

#[tokio::test]
async fn no_peer_joins_the_stream_of_another() {
    let rails = rails(1);
    for mode in MODES {
        let (listener, addresses) = listener(&rails, &patient(several(mode, &["alpha", "beta"]))).await;
        let mut near = MultiRailStream::connect(&rails, &addresses, &patient(one(mode, "alpha"))).await.unwrap();
        let mut far = listener.accept().await.unwrap();
        for (name, stream) in
            [("beta", near.id()), ("gamma", near.id()), ("alpha", StreamId([9; 16])), ("beta", StreamId([9; 16]))]
        {
            let answers = answers(addresses[0], stream, credentials(mode, name)).await;
            let refused = HandshakeMessage::Refused(Refusal::UnknownStream);
            assert!(matches!(&answers[..], [HandshakeMessage::Challenge(_), last] if *last == refused), "{answers:?}");
        }
        assert_eq!(far.lanes_up(), 1);
        near.write_all(b"undisturbed").await.unwrap();
        let mut got = [0; 11];
        far.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"undisturbed");
        let mut socket = TcpStream::connect(addresses[0]).await.unwrap();
        peer::prove(&mut socket, near.id(), 1, credentials(mode, "alpha"), PARAMETERS).await;
        assert_eq!(far.lanes_up(), 2, "the peer itself may");
    }
}

/// A lane on a bare socket that was asked for its proof.
struct Challenged {
    socket: TcpStream,
    initiator: Initiator,
    proof: Vec<HandshakeMessage>,
}

impl Challenged {
    async fn new(address: SocketAddr, stream: StreamId, purpose: Purpose, credentials: Credentials) -> Self {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let mode = credentials.mode();
        let hello = Hello { mode, purpose, stream, lane: 0, lanes: 2, parameters: PARAMETERS, nonce: [1; 32] };
        let (mut initiator, first) = Initiator::start(credentials, hello);
        socket.write_all(&first.encode()).await.unwrap();
        let challenge = answer(&mut socket).await;
        let Ok(InitiatorStep::Send(proof)) = initiator.handle(challenge) else { panic!("a proof follows") };
        Self { socket, initiator, proof }
    }

    /// Sends the proof. An accepted lane that opens a stream confirms it.
    async fn prove(mut self) -> Result<TcpStream, HandshakeError> {
        for message in &self.proof {
            self.socket.write_all(&message.encode()).await.unwrap();
        }
        let answer = answer(&mut self.socket).await;
        let InitiatorStep::Joined(joined) = self.initiator.handle(answer)? else { panic!("it is the last answer") };
        if let Some(confirmation) = joined.confirmation {
            self.socket.write_all(&confirmation.encode()).await.unwrap();
        }
        Ok(self.socket)
    }
}

async fn answer(socket: &mut TcpStream) -> HandshakeMessage {
    let mut prefix = [0; PREFIX_LEN];
    timeout(PATIENCE, socket.read_exact(&mut prefix)).await.expect("the listener answers").unwrap();
    let mut body = vec![0; HandshakeMessage::body_len(&prefix).unwrap()];
    timeout(PATIENCE, socket.read_exact(&mut body)).await.expect("the message is whole").unwrap();
    HandshakeMessage::decode(&prefix, &body).unwrap()
}

/// An attacker on the path, who is a peer too, knows the name of another's stream before the stream
/// is open: he delays its hello, opens and ends a stream of that name, and has a lane ready that
/// was asked for the proof of his own secret.
#[tokio::test]
async fn a_lane_joins_no_later_stream_of_that_name() {
    let rails = rails(1);
    for mode in MODES {
        let (listener, addresses) = listener(&rails, &patient(several(mode, &["alpha", "beta"]))).await;
        let (address, stream) = (addresses[0], StreamId([7; 16]));
        let by = |purpose, name| Challenged::new(address, stream, purpose, credentials(mode, name));
        let opened = by(Purpose::Open, "beta").await.prove().await.unwrap();
        let own = listener.accept().await.unwrap();
        assert_eq!(own.peer_name(), Some("beta"));
        let late = by(Purpose::Join, "beta").await;
        own.abort();
        drop(opened);
        let open_again = async {
            loop {
                match by(Purpose::Open, "alpha").await.prove().await {
                    Ok(socket) => return socket,
                    Err(HandshakeError::Refused(Refusal::StreamExists)) => sleep(Duration::from_millis(5)).await,
                    Err(error) => panic!("{error}"),
                }
            }
        };
        let _lane = timeout(PATIENCE, open_again).await.expect("the name is free when the stream has ended");
        let far = listener.accept().await.unwrap();
        assert_eq!((far.id(), far.peer_name()), (stream, Some("alpha")));
        assert_eq!(late.prove().await.unwrap_err(), HandshakeError::Refused(Refusal::UnknownStream));
        assert_eq!(far.lanes_up(), 1);
    }
}

/// Changes a listener's security from one that the old client fits to one that the new client fits.
async fn changed(security: [Security; 2], old: StreamOptions, new: StreamOptions, name: Option<&str>) {
    let rails = rails(1);
    let [before, after] = security;
    let (listener, addresses) = listener(&rails, &patient(before).outage_limit(PATIENCE)).await;
    let relay = Relay::start_lasting(addresses[0]).await;
    let old = old.outage_limit(PATIENCE);
    let near = MultiRailStream::connect(&rails, &[relay.address], &old).await.unwrap();
    let far = listener.accept().await.unwrap();
    listener.set_security(after).unwrap();

    assert!(MultiRailStream::connect(&rails, &addresses, &old).await.is_err(), "it does not fit any more");
    assert!(MultiRailStream::plan_lanes(&rails, addresses[0], &old).await.is_err(), "nor does it tell its lanes");
    let another = MultiRailStream::connect(&rails, &addresses, &new).await.unwrap();
    let of_another = listener.accept().await.unwrap();
    assert_eq!(of_another.peer_name(), name);
    echoed(another, of_another, &pattern(1 << 20)).await;

    relay.cut();
    let is_back = async {
        while far.stats().lanes.iter().all(|lane| lane.joined < 2) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, is_back).await.expect("the lane comes back by the secret that opened its stream");
    moved(near, far, pattern(4 << 20)).await;
}

#[tokio::test]
async fn a_listener_that_changes_its_secrets_keeps_its_streams() {
    for mode in MODES {
        let (old, new) = (patient(one(mode, "alpha")), patient(one(mode, "beta")));
        let secrets = [several(mode, &["alpha"]), several(mode, &["beta", "gamma"])];
        changed(secrets, old.clone(), new.clone(), Some("beta")).await;
        changed([one(mode, "alpha"), one(mode, "beta")], old.clone(), new.clone(), None).await;
        changed([one(mode, "alpha"), several(mode, &["beta"])], old, new, Some("beta")).await;
    }
}

#[tokio::test]
async fn a_listener_that_changes_its_certificate_keeps_its_streams() {
    let ((old, before), (new, after)) = (by_tls(), by_tls());
    changed([before.security().clone(), after.security().clone()], old, new, None).await;
}

#[tokio::test]
async fn a_listener_that_is_given_another_mode_goes_on() {
    let rails = rails(1);
    let ours = patient(one(Mode::Encrypted, "alpha"));
    let (listener, addresses) = listener(&rails, &patient(several(Mode::Encrypted, &["alpha"]))).await;
    let (client, server) = by_tls();
    for security in [Security::insecure(), one(Mode::PreSharedKey, "alpha"), server.security().clone()] {
        let wrong = SetSecurityError::Mode { listener: Mode::Encrypted, new: security.mode() };
        assert_eq!(listener.set_security(security), Err(wrong));
    }
    assert_eq!(listener.set_security(client.security().clone()), Err(SetSecurityError::ClientSecurity));
    let near = MultiRailStream::connect(&rails, &addresses, &ours).await.unwrap();
    let far = listener.accept().await.unwrap();
    assert_eq!(far.peer_name(), Some("alpha"));
    echoed(near, far, b"undisturbed").await;
}
