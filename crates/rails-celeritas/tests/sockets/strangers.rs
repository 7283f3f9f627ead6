//! Peers that are no peers: they say nothing, or something else.

use crate::{PATIENCE, anywhere, cut, options, pattern};
use rails_celeritas::{CeleritasListener, CeleritasOptions};
use rails_net::LocalEnd;
use rails_proto::secret::Secret;
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::{sleep, timeout},
};

const MUTE: u32 = 1000;
/// More than a listener keeps.
const STAYING: usize = 300;

/// Opens a connection and sends a message over it.
async fn exchange(options: &CeleritasOptions, listener: &CeleritasListener) {
    let opened = async { tokio::join!(listener.accept(), options.connect(listener.local_addr())) };
    let (accepted, connected) = timeout(PATIENCE, opened).await.expect("strangers hold no peer up");
    let (near, far) = (connected.unwrap(), accepted.unwrap());
    drop(near.try_send(cut(&pattern(1_000, 1), 8192)).unwrap());
    assert!(far.receive().await.unwrap().unwrap().blocks.concat() == pattern(1_000, 1));
}

async fn mute(from: IpAddr, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    // The kernel does not keep the ports of a closed connection.
    socket.set_zero_linger().unwrap();
    socket.bind((from, 0).into()).unwrap();
    timeout(PATIENCE, socket.connect(to)).await.expect("the listener accepts mute peers too").unwrap()
}

#[tokio::test]
async fn mute_peers_keep_no_peer_out() {
    let one = |_| Ipv4Addr::LOCALHOST;
    let many = |number| Ipv4Addr::from_bits(0x7f10_0000 + number);
    let psk = options().security(Secret::pre_shared(b"0123456789abcdef").unwrap());
    for (from, options) in [(one as fn(u32) -> Ipv4Addr, options()), (many, options()), (many, psk)] {
        let listener = options.listen(anywhere()).unwrap();
        let mut kept = Vec::new();
        for number in 0..MUTE {
            let peer = mute(from(number).into(), listener.local_addr()).await;
            kept.push(peer);
            if kept.len() > STAYING {
                kept.pop();
            }
            if number % 250 == 249 {
                exchange(&options, &listener).await;
            }
        }
        assert!(listener.turned_away().displaced > 0, "{:?}", listener.turned_away());
    }
}

/// More peers greet before the first accept than may wait.
#[tokio::test]
async fn peers_wait_for_a_late_accept() {
    let listener = options().listen(anywhere()).unwrap();
    let address = listener.local_addr();
    let peers: Vec<_> = (1..=100)
        .map(|last| {
            let options = options().local(LocalEnd::Address(Ipv4Addr::new(127, 0, 17, last).into()));
            tokio::spawn(async move { options.connect(address).await })
        })
        .collect();
    let waiting = async {
        while peers.iter().filter(|peer| peer.is_finished()).count() < 65 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, waiting).await.expect("the first ones are greeted");
    for _ in 0..100 {
        timeout(PATIENCE, listener.accept()).await.expect("each of them has waited").unwrap();
    }
    for peer in peers {
        peer.await.unwrap().expect("it is served");
    }
}

#[tokio::test]
async fn a_scan_of_ports_is_no_error_of_the_listener() {
    let (options, listener) = (options(), options().listen(anywhere()).unwrap());
    let address = listener.local_addr();
    let call = async |bytes: &[u8]| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the listener closes it");
        answer
    };
    assert_eq!(call(b"GET / HTTP/1.1\r\nHost: me\r\n\r\n").await, b"");
    let answer = call(b"celerity\xff\xff\x10\x10aaaaaaaa\x05\xdc\0\0").await;
    assert!(answer.starts_with(b"celerity"), "a peer of another version learns of this one");
    assert_eq!(call(b"").await, b"");
    exchange(&options, &listener).await;
    let all = async {
        while (listener.turned_away().foreign, listener.turned_away().gone) != (2, 1) {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, all).await.expect("they are counted");
}
