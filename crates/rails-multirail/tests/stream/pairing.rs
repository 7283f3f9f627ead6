//! Asking the peer for its lanes, and streams over the pairs.

use crate::{
    loopback::{PATIENCE, listener, patient, rails, secret},
    security::by_tls,
    util::options,
};
use rails_multirail::{
    HandshakeError, MultiRailListener, MultiRailStream, OpenError, PlanLanesError, RailId, Relation, Secret, Security,
    StreamOptions, error::JoinError,
};
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{TcpListener, TcpStream},
    time::timeout,
};

#[tokio::test]
async fn one_address_is_enough_to_use_all_lanes() {
    let rails = rails(3);
    let secret = || Secret::pre_shared(b"0123456789abcdef").unwrap();
    let alike = [Security::insecure(), Security::psk(secret()), Security::encrypted(secret())];
    let alike = alike.map(|security| (patient(security.clone()), patient(security)));
    for (options, theirs) in alike.into_iter().chain([by_tls()]) {
        let (listener, addresses) = listener(&rails, &theirs).await;
        let pairing = MultiRailStream::plan_lanes(&rails, addresses[1], &options).await.unwrap();
        let lanes: Vec<_> = pairing.lanes().map(|(rail, remote)| (rail, remote.socket)).collect();
        assert_eq!(
            lanes,
            [(RailId(0), addresses[0]), (RailId(1), addresses[1]), (RailId(2), addresses[2])],
            "{pairing}"
        );
        assert!(pairing.pairs.iter().all(|pair| pair.relation == Relation::Loopback));
        assert!(MultiRailStream::probe(&rails, &pairing, &options).await.unwrap().is_empty());

        let mut near = MultiRailStream::connect_paired(&rails, &pairing, &options).await.unwrap();
        assert_eq!((near.lanes_up(), near.failed_lanes().len()), (3, 0));
        let mut far = listener.accept().await.unwrap();
        near.write_all(b"paired").await.unwrap();
        near.shutdown().await.unwrap();
        let mut got = Vec::new();
        far.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, b"paired");
    }
}

#[tokio::test]
async fn paired_lane_that_is_gone() {
    let rails = rails(2);
    let (_listener, addresses) = listener(&rails, &options()).await;
    let mut pairing = MultiRailStream::plan_lanes(&rails, addresses[0], &options()).await.unwrap();
    // A port whose listener is closed.
    let gone = std::net::TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap();
    pairing.pairs[1].theirs.address = gone.into();
    let failed = MultiRailStream::probe(&rails, &pairing, &options()).await.unwrap();
    assert_eq!(failed.iter().map(|lane| lane.remote.socket).collect::<Vec<_>>(), [gone]);
    let near = MultiRailStream::connect_paired(&rails, &pairing, &options()).await.unwrap();
    assert_eq!((near.lanes_up(), near.failed_lanes()[0].remote.socket), (1, gone));
}

#[tokio::test]
async fn offers_of_a_wildcard_listener() {
    let rails = rails(2);
    let listener = MultiRailListener::bind(&rails, "0.0.0.0:0", &options()).await.unwrap();
    let port = listener.local_addrs()[0].port();
    let pairing = MultiRailStream::plan_lanes(&rails, ("127.0.0.2", port), &options()).await.unwrap();
    let remotes: Vec<String> = pairing.lanes().map(|(_, remote)| remote.to_string()).collect();
    assert_eq!(remotes, [format!("127.0.0.1:{port}"), format!("127.0.0.2:{port}")], "{pairing}");
    // The listener offers an address of no rail if the peer called it.
    let pairing = MultiRailStream::plan_lanes(&rails, ("127.0.0.9", port), &options()).await.unwrap();
    let called: SocketAddr = ([127, 0, 0, 9], port).into();
    let offered: Vec<SocketAddr> = pairing.pairs.iter().map(|pair| pair.theirs.address.socket).collect();
    assert_eq!(offered.len(), 2, "{pairing}");
    assert!(!pairing.notes.iter().any(|note| note.contains("translated")), "{called}: {pairing}");
}

#[tokio::test]
async fn strangers_are_not_told_of_lanes() {
    let rails = rails(2);
    let (_listener, addresses) = listener(&rails, &options()).await;
    for (security, said) in [
        (Security::psk(Secret::pre_shared(b"another 16 bytes").unwrap()), "the join secret is wrong"),
        (Security::insecure(), "the security of the two ends differs"),
    ] {
        let error = MultiRailStream::plan_lanes(&rails, addresses[0], &StreamOptions::new(security)).await.unwrap_err();
        let PlanLanesError::Discover { contacts } = error else { panic!("{error}") };
        let [(contact, source)] = &contacts[..] else { panic!("{contacts:?}") };
        assert_eq!(contact.socket, addresses[0]);
        assert!(source.to_string().contains(said), "{source}");
    }
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = MultiRailStream::plan_lanes(&rails, gone, &options()).await.unwrap_err();
    assert!(matches!(cause(error), JoinError::Connect(_)));
    let error = MultiRailStream::plan_lanes(&rails, [gone, gone], &options()).await.unwrap_err();
    assert_eq!(error.to_string().matches(&format!("{gone}: no connection")).count(), 2, "{error}");
    let (pairing, asked) = ([gone, addresses[0]], options());
    let pairing = MultiRailStream::plan_lanes(&rails, pairing, &asked).await.expect("one of two answers");
    assert_eq!(pairing.pairs.len(), 2);
}

#[tokio::test]
async fn discovery_answered_with_something_else() {
    let rails = rails(1);
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let contact = other.local_addr().unwrap();
    let options = options();
    let (asked, ()) = tokio::join!(MultiRailStream::plan_lanes(&rails, contact, &options), async {
        let (mut socket, _) = other.accept().await.unwrap();
        socket.read_exact(&mut [0; 88]).await.unwrap();
        socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    });
    let cause = cause(asked.unwrap_err());
    assert!(matches!(cause, JoinError::Handshake(HandshakeError::NotRails { .. })), "{cause}");
}

/// Why the only contact did not tell its lanes.
fn cause(error: PlanLanesError) -> JoinError {
    let PlanLanesError::Discover { mut contacts } = error else { panic!("{error}") };
    contacts.pop().expect("a contact was asked").1
}

/// An address that forwards one question, and only the first `most` bytes of the answer.
async fn cut_after(most: u64, to: SocketAddr) -> SocketAddr {
    let between = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = between.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut near, _) = between.accept().await.unwrap();
        let mut far = TcpStream::connect(to).await.unwrap();
        let ((mut questions, mut hear), (answers, mut ask)) = (near.split(), far.split());
        let answered = async { copy(&mut answers.take(most), &mut hear).await.map(drop) };
        tokio::select! {
            answered = answered => answered.unwrap(),
            asked = copy(&mut questions, &mut ask) => drop(asked),
        }
    });
    address
}

/// Each byte of the answer in turn is the last: in the challenge, behind it, in the acceptance, in
/// the list of lanes.
#[tokio::test]
async fn answer_of_lanes_cut_off_anywhere() {
    let rails = rails(2);
    for security in [Security::psk(secret()), Security::encrypted(secret())] {
        let options = StreamOptions::new(security);
        let (_listener, addresses) = listener(&rails, &options).await;
        let mut whole = 0;
        loop {
            let contact = cut_after(whole, addresses[0]).await;
            let planned = timeout(PATIENCE, MultiRailStream::plan_lanes(&rails, contact, &options));
            match planned.await.expect("the initiator does not wait for missing bytes") {
                Ok(_) => break,
                Err(error) => match cause(error) {
                    JoinError::Io(_) | JoinError::Connect(_) => whole += 1,
                    error => panic!("{error:?} after {whole} bytes"),
                },
            }
            assert!(whole < 1_000, "every prefix of the answer fails");
        }
        // The initiator waits for the challenge, the acceptance, and the list of two lanes with its proof.
        assert!(whole > 8 + 32 + 8 + 32 + 8 + 2 * 52 + 32, "{whole} bytes were enough");
    }
}

#[tokio::test]
async fn a_pairing_for_other_rails_is_refused() {
    let three = rails(3);
    let (_listener, addresses) = listener(&three, &options()).await;
    let pairing = MultiRailStream::plan_lanes(&three, addresses[0], &options()).await.unwrap();
    let refused = MultiRailStream::connect_paired(&rails(2), &pairing, &options()).await;
    assert!(matches!(refused, Err(OpenError::NoSuchRail(RailId(2)))));
}
