use super::*;
use tokio::{
    io::{DuplexStream, duplex},
    join,
    net::{TcpListener, TcpStream},
    time::Instant,
};

/// A request for 10.0.0.1:80.
const CONNECT: &[u8] = b"\x05\x01\0\x05\x01\0\x01\x0a\0\0\x01\0\x50";

fn ten() -> SocketAddr {
    "10.0.0.1:80".parse().unwrap()
}

/// A server's end whose client has said this, and the client's end.
async fn after(said: &[u8]) -> (DuplexStream, DuplexStream) {
    let (server, mut client) = duplex(4096);
    client.write_all(said).await.unwrap();
    (server, client)
}

async fn heard(mut client: DuplexStream) -> Vec<u8> {
    let mut heard = Vec::new();
    client.read_to_end(&mut heard).await.unwrap();
    heard
}

#[tokio::test]
async fn bytes_behind_the_request_stay_in_the_socket() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    client.write_all(&[CONNECT, b"hello"].concat()).await.unwrap();
    let request = accept(listener.accept().await.unwrap().0).await.unwrap();
    assert_eq!(*request.destination(), Destination::Address(ten()));
    let mut stream = request.granted("10.0.0.2:258".parse().unwrap()).await.unwrap();
    let mut first = [0; 5];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"hello");
    stream.write_all(b"answer").await.unwrap();
    drop(stream);
    let mut heard = Vec::new();
    client.read_to_end(&mut heard).await.unwrap();
    assert_eq!(heard, b"\x05\0\x05\0\0\x01\x0a\0\0\x02\x01\x02answer");
}

#[tokio::test]
async fn a_refused_client_hears_why_whatever_it_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    client.write_all(&[CONNECT, &[7; 5000]].concat()).await.unwrap();
    let request = accept(listener.accept().await.unwrap().0).await.unwrap();
    let hears = async {
        let mut heard = Vec::new();
        client.read_to_end(&mut heard).await.unwrap();
        drop(client);
        heard
    };
    let refused = io::Error::from(ErrorKind::ConnectionRefused);
    let (refused, heard) = join!(request.refused(Reply::from(&refused)), hears);
    refused.unwrap();
    assert_eq!(heard, b"\x05\0\x05\x05\0\x01\0\0\0\0\0\0");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_not_served_is_answered_and_closed() {
    for (said, answer) in [
        (&b"\x05\x01\x02"[..], &b"\x05\xff"[..]),
        (b"\x05\x01\0\x05\x03\0\x01\x0a\0\0\x01\0\x50", b"\x05\0\x05\x07\0\x01\0\0\0\0\0\0"),
        (b"\x05\x01\0\x05\x01\0\x09", b"\x05\0\x05\x08\0\x01\0\0\0\0\0\0"),
        (b"GET / HTTP/1.1\r\n", b""),
    ] {
        let (server, client) = after(said).await;
        let (end, heard) = join!(accept(server), heard(client));
        end.unwrap_err();
        assert_eq!(heard, answer);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_says_too_little_is_left() {
    for length in 0..CONNECT.len() {
        let begun = Instant::now();
        let (server, mut client) = after(&CONNECT[..length]).await;
        assert!(matches!(accept(server).await, Err(SocksError::TimedOut { .. })), "{length}");
        assert_eq!(begun.elapsed(), ACCEPT_WITHIN);
        client.write_all(b"more").await.unwrap_err();
        let (server, client) = after(&CONNECT[..length]).await;
        drop(client);
        assert!(matches!(accept(server).await, Err(SocksError::Io(_))), "{length}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_client_that_stays_is_left() {
    let (server, mut client) = after(CONNECT).await;
    let (begun, request) = (Instant::now(), accept(server).await.unwrap());
    request.refused(Reply::NotAllowed).await.unwrap();
    assert_eq!(begun.elapsed(), CLOSE_WITHIN);
    client.write_all(b"more").await.unwrap_err();
}

#[tokio::test]
async fn names_are_looked_up_here() {
    let addresses = Destination::Name("localhost".to_owned(), 7).addresses().await.unwrap();
    assert!(addresses.iter().all(|address| address.ip().is_loopback() && address.port() == 7), "{addresses:?}");
    let error = Destination::Name("no-such-host.invalid".to_owned(), 7).addresses().await.unwrap_err();
    assert_eq!(Reply::from(&error), Reply::HostUnreachable);
    assert_eq!(Destination::Address(ten()).addresses().await.unwrap(), [ten()]);
}
