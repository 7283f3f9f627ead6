//! Opening a stream while some of its addresses do not answer, or answer wrongly.

use crate::{
    loopback::{PATIENCE, listener, patient, rails, secret},
    security::by_tls,
};
use futures_util::future::join_all;
use rails_multirail::{
    LaneAddress, Limits, MultiRailListener, MultiRailStream, OpenError, Rails, Scheme, Secret, Security, StreamOptions,
    error::JoinError, in_order_by_name,
};
use rails_proto::handshake::{HandshakeMessage, PREFIX_LEN};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};

/// The longest time to connect if one address is honest: much less than a handshake may take. The
/// last lane of a race begins 1 s after the first.
const SOON: Duration = Duration::from_secs(3);

/// The fault at an address beside the honest ones.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Trouble {
    /// The address accepts, and does not answer.
    Mute,
    /// The address answers the first connection with another protocol, and forwards later ones to
    /// the listener.
    GarbageFirst,
    /// The address forwards this number of messages of the handshake to and from the listener, and
    /// then none.
    StallsAfter(usize),
}

/// Starts a faulty relay before `to`, and gives its address. It lasts as long as the test's
/// runtime.
async fn trouble(trouble: Trouble, to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind((to.ip(), 0)).await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        let mut kept = Vec::new();
        for number in 0.. {
            let (mut near, _) = listener.accept().await.expect("it listens");
            match trouble {
                Trouble::Mute => kept.push(near),
                Trouble::GarbageFirst if number == 0 => {
                    let _ = near.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
                }
                Trouble::GarbageFirst => drop(tokio::spawn(async move {
                    let mut far = TcpStream::connect(to).await.expect("the listener is there");
                    tokio::io::copy_bidirectional(&mut near, &mut far).await
                })),
                Trouble::StallsAfter(most) => {
                    let far = TcpStream::connect(to).await.expect("the listener is there");
                    let ((near_read, near_write), (far_read, far_write)) = (near.into_split(), far.into_split());
                    let passed = Arc::new(AtomicUsize::new(0));
                    tokio::spawn(pass(near_read, far_write, passed.clone(), most));
                    tokio::spawn(pass(far_read, near_write, passed, most));
                }
            }
        }
    });
    address
}

/// Forwards messages until `most` have passed in both directions together, and then none.
async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    passed: Arc<AtomicUsize>,
    most: usize,
) -> std::io::Result<()> {
    loop {
        let mut prefix = [0; PREFIX_LEN];
        from.read_exact(&mut prefix).await?;
        let mut body = vec![0; HandshakeMessage::body_len(&prefix).expect("a message of the handshake")];
        from.read_exact(&mut body).await?;
        if passed.fetch_add(1, Ordering::SeqCst) >= most {
            // The relay discards further bytes and keeps the connection open.
            tokio::io::copy(&mut from, &mut tokio::io::sink()).await?;
            sleep(Duration::from_secs(60)).await;
        }
        to.write_all(&[&prefix[..], &body].concat()).await?;
    }
}

/// The options of both ends for each kind of security, with the number of messages of its
/// handshake.
fn kinds() -> [(StreamOptions, StreamOptions, usize); 3] {
    let (client, server) = by_tls();
    let psk = || StreamOptions::new(Security::psk(secret()));
    let insecure = || StreamOptions::new(Security::insecure());
    let quick = |options: StreamOptions| options.join_grace(Duration::from_millis(100));
    // By TLS: a hello and a challenge, one flight there, one back, and another there, then as without.
    [(quick(psk()), psk(), 5), (quick(insecure()), insecure(), 5), (quick(client), server, 8)]
}

/// Connects to `lanes` addresses, of which only the last is honest, and checks that both ends have
/// the same single stream.
async fn connects(rails: &Rails, lanes: usize, kind: Trouble, ours: &StreamOptions, theirs: &StreamOptions) {
    let (listener, honest) = listener(rails, theirs).await;
    let mut remotes = Vec::new();
    for honest in &honest[..lanes - 1] {
        remotes.push(trouble(kind, *honest).await);
    }
    remotes.push(honest[lanes - 1]);
    let said = format!("{lanes} lanes, {kind:?}, {:?}", ours.security());
    let begun = Instant::now();
    let near = timeout(SOON, MultiRailStream::connect(rails, &remotes, ours)).await;
    let mut near =
        near.unwrap_or_else(|_| panic!("{said}: it takes too long")).unwrap_or_else(|error| panic!("{said}: {error}"));
    let mut far =
        timeout(PATIENCE, listener.accept()).await.unwrap_or_else(|_| panic!("{said}: nobody accepts")).unwrap();
    assert_eq!(near.id(), far.id(), "{said}, after {:?}", begun.elapsed());
    near.write_all(b"there").await.unwrap();
    let mut got = [0; 5];
    timeout(PATIENCE, far.read_exact(&mut got)).await.unwrap_or_else(|_| panic!("{said}: nothing arrives")).unwrap();
    far.write_all(b"again").await.unwrap();
    timeout(PATIENCE, near.read_exact(&mut got))
        .await
        .unwrap_or_else(|_| panic!("{said}: nothing comes back"))
        .unwrap();
    assert_eq!(&got, b"again");
    nothing_more(&listener, &said).await;
}

/// The listener hands out no stream that the initiator does not have.
async fn nothing_more(listener: &MultiRailListener, said: &str) {
    let orphan = timeout(Duration::from_millis(300), listener.accept()).await;
    assert!(orphan.is_err(), "{said}: a stream that the client does not have: {orphan:?}");
}

#[tokio::test]
async fn mute_addresses_hold_no_connect_up() {
    let rails = &rails(8);
    // All kinds run at once, because each mostly waits.
    join_all(kinds().map(async |(ours, theirs, _)| {
        for lanes in [2, 4, 8] {
            connects(rails, lanes, Trouble::Mute, &ours, &theirs).await;
        }
    }))
    .await;
}

#[tokio::test]
async fn address_that_answers_garbage_first() {
    let rails = rails(4);
    for (ours, theirs, _) in &kinds() {
        let (listener, honest) = listener(&rails, theirs).await;
        let mut remotes = Vec::new();
        for honest in honest {
            remotes.push(trouble(Trouble::GarbageFirst, honest).await);
        }
        let near = timeout(SOON, MultiRailStream::connect(&rails, &remotes, ours)).await.expect("soon").unwrap();
        assert_eq!(near.id(), listener.accept().await.unwrap().id());
    }
}

#[tokio::test]
async fn a_handshake_that_stalls_anywhere_holds_nothing_up() {
    let rails = &rails(8);
    join_all(kinds().map(async |(ours, theirs, messages)| {
        for passed in 0..messages {
            connects(rails, 2, Trouble::StallsAfter(passed), &ours, &theirs).await;
        }
        connects(rails, 8, Trouble::StallsAfter(messages - 1), &ours, &theirs).await;
        connects(rails, 8, Trouble::StallsAfter(messages - 2), &ours, &theirs).await;
    }))
    .await;
}

#[tokio::test]
async fn no_orphan_where_the_only_address_stalls() {
    let rails = rails(1);
    for (ours, theirs, messages) in kinds() {
        let brief = Duration::from_millis(500);
        let (ours, theirs) = (ours.handshake_timeout(brief), theirs.handshake_timeout(brief));
        let (listener, honest) = listener(&rails, &theirs).await;
        // The relay drops the listener's acceptance: the client has no stream.
        let remote = trouble(Trouble::StallsAfter(messages - 2), honest[0]).await;
        let failed = MultiRailStream::connect(&rails, &[remote], &ours).await;
        assert!(matches!(failed, Err(OpenError::AllFailed { .. })), "{failed:?}");
        nothing_more(&listener, "the acceptance was lost").await;
    }
}

#[tokio::test]
async fn mute_addresses_alone_fail_after_one_handshake() {
    let rails = rails(8);
    let (_listener, honest) = listener(&rails, &StreamOptions::new(secret())).await;
    let mut remotes = Vec::new();
    for honest in honest {
        remotes.push(trouble(Trouble::Mute, honest).await);
    }
    let ours = StreamOptions::new(secret()).handshake_timeout(Duration::from_secs(1));
    let failed = timeout(SOON, MultiRailStream::connect(&rails, &remotes, &ours)).await;
    let Err(OpenError::AllFailed { lanes }) = failed.expect("not one handshake after the other") else {
        panic!("mute addresses opened a stream");
    };
    assert_eq!(lanes.iter().map(|lane| lane.remote.socket).collect::<Vec<_>>(), remotes);
    assert!(lanes.iter().all(|lane| matches!(lane.error, JoinError::Timeout)), "{lanes:?}");
}

#[tokio::test]
async fn a_mute_lane_is_reported_later_and_dialled_on() {
    let rails = rails(2);
    let options = StreamOptions::new(secret()).handshake_timeout(Duration::from_millis(300));
    let (listener, mut addresses) = listener(&rails, &options).await;
    let mute = TcpListener::bind("127.0.0.2:0").await.unwrap();
    addresses[1] = mute.local_addr().unwrap();
    let near = MultiRailStream::connect(&rails, &addresses, &options.join_grace(Duration::ZERO)).await.unwrap();
    let _far = listener.accept().await.unwrap();
    let mut dialled = Vec::new();
    for _ in 0..3 {
        dialled.push(timeout(PATIENCE, mute.accept()).await.expect("it is dialled on").unwrap());
    }
    let failed = near.failed_lanes();
    assert!(matches!(&failed[..], [lane] if lane.remote.socket == addresses[1]), "{failed:?}");
    assert!(matches!(failed[0].error, JoinError::Timeout), "{failed:?}");
}

#[tokio::test]
async fn refused_addresses_fail_a_connect_at_once() {
    let rails = rails(2);
    let gone = |ip: [u8; 4]| std::net::TcpListener::bind(SocketAddr::from((ip, 0))).unwrap().local_addr().unwrap();
    let remotes = [gone([127, 0, 0, 1]), gone([127, 0, 0, 2])];
    let options = StreamOptions::new(secret());
    let failed = timeout(SOON, MultiRailStream::connect(&rails, &remotes, &options)).await.expect("at once");
    assert!(matches!(failed, Err(OpenError::AllFailed { lanes }) if lanes.len() == 2));
    let (_listener, addresses) = listener(&rails, &options).await;
    let wrong = StreamOptions::new(Secret::pre_shared(b"another 16 bytes").unwrap());
    let failed = timeout(SOON, MultiRailStream::connect(&rails, &addresses, &wrong)).await.expect("at once");
    assert!(matches!(failed, Err(OpenError::AllFailed { lanes }) if lanes.len() == 2));
}

#[tokio::test]
async fn names_make_a_lane_of_each_address_that_answers() {
    let (rails, options) = (rails(1), patient(secret()));
    let (_listener, addresses) = listener(&rails, &options).await;
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let pairing = |sockets: &[SocketAddr]| {
        let name = sockets.iter().map(|socket| LaneAddress::from(*socket)).collect();
        in_order_by_name(&rails.offers(Scheme::TCP), &[name])
    };
    let opened = MultiRailStream::connect_paired(&rails, &pairing(&[gone, addresses[0], addresses[0]]), &options).await;
    let stream = opened.expect("two of three answer");
    let all_up = async {
        while stream.lanes_up() < 2 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, all_up).await.expect("the second joins");
    let refused = MultiRailStream::connect_paired(&rails, &pairing(&[gone, gone]), &options).await.unwrap_err();
    assert_eq!(refused.to_string().matches(&format!("{gone} refused a connection")).count(), 2, "{refused}");
}

#[tokio::test]
async fn a_mute_address_of_a_name_holds_no_stream_up() {
    let (rails, options) = (rails(1), StreamOptions::new(secret()));
    let (_listener, addresses) = listener(&rails, &options).await;
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let name = vec![addresses[0].into(), mute.local_addr().unwrap().into()];
    let pairing = in_order_by_name(&rails.offers(Scheme::TCP), &[name]);
    let options = options.join_grace(100 * PATIENCE).handshake_timeout(100 * PATIENCE);
    let opened = timeout(PATIENCE, MultiRailStream::connect_paired(&rails, &pairing, &options)).await;
    let stream = opened.expect("one of two is enough").expect("one of two answers");
    assert_eq!((stream.lanes_up(), stream.failed_lanes().len()), (1, 0));
}

/// Opens twice as many streams at once as a listener's queue holds, and three times as many as its
/// handshakes, with two lanes each.
#[tokio::test]
async fn two_hundred_streams_at_once_come_up() {
    const STREAMS: usize = 200;
    let rails = rails(2);
    // Debug code does much work here at once, so the test has a longer deadline.
    let options = StreamOptions::new(secret()).connect_timeout(Duration::from_secs(120));
    let (listener, addresses) = listener(&rails, &options.clone().limits(Limits::default())).await;
    let accepting = tokio::spawn(async move {
        let mut accepted = Vec::new();
        while accepted.len() < STREAMS {
            accepted.push(listener.accept().await.unwrap());
        }
        (listener, accepted)
    });
    let connecting: Vec<_> = (0..STREAMS)
        .map(|_| {
            let (rails, addresses, options) = (rails.clone(), addresses.clone(), options.clone());
            tokio::spawn(async move { MultiRailStream::connect(&rails, &addresses, &options).await })
        })
        .collect();
    let mut ids = Vec::new();
    let mut streams = Vec::new();
    for connecting in connecting {
        let stream = connecting.await.unwrap().unwrap_or_else(|error| panic!("{error}"));
        ids.push(stream.id().0);
        streams.push(stream);
    }
    let (listener, accepted) = timeout(Duration::from_secs(20), accepting).await.expect("all are there").unwrap();
    let mut accepted_ids: Vec<_> = accepted.iter().map(|stream| stream.id().0).collect();
    ids.sort_unstable();
    accepted_ids.sort_unstable();
    assert!(ids == accepted_ids);
    nothing_more(&listener, "200 streams").await;
}
