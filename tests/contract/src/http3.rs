//! hyperium's h3, which knows nothing of rails, on both ends of a session.

use crate::{Sessions, in_time, made_up, narrow_sessions, sessions};
use bytes::{Buf, Bytes};
use h3::{
    client::{self, SendRequest},
    error::{Code, ConnectionError, StreamError},
    server::{self, RequestResolver},
};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use rails::multirail::{
    MultiRailSession, Rails,
    h3::{BidiStream, Connection, OpenStreams},
};
use std::{future::poll_fn, time::Duration};
use tokio::{
    sync::oneshot,
    task::{JoinHandle, JoinSet},
    time::sleep,
};

type Server = server::Connection<Connection, Bytes>;
type Asked = client::RequestStream<BidiStream<Bytes>, Bytes>;
type Answering = server::RequestStream<BidiStream<Bytes>, Bytes>;

/// A client of h3, which a task drives, and its session.
struct Client {
    requests: SendRequest<OpenStreams, Bytes>,
    /// Sends GOAWAY.
    shut_down: oneshot::Sender<()>,
    driver: JoinHandle<ConnectionError>,
    session: MultiRailSession,
    far: MultiRailSession,
    _rails: Rails,
}

/// A client and a server over the two ends of a session.
async fn over(sessions: Sessions) -> (Client, Server) {
    let Sessions { near, far, rails } = sessions;
    let (client, server) = in_time(async {
        tokio::join!(client::new(Connection::new(near.clone())), Server::new(Connection::new(far.clone())))
    })
    .await;
    let (mut connection, requests) = client.unwrap();
    let (shut_down, is_shut_down) = oneshot::channel();
    let driver = tokio::spawn(async move {
        tokio::select! {
            error = poll_fn(|context| connection.poll_close(context)) => return error,
            Ok(()) = is_shut_down => {}
        }
        connection.shutdown(0).await.unwrap();
        poll_fn(|context| connection.poll_close(context)).await
    });
    (Client { requests, shut_down, driver, session: near, far, _rails: rails }, server.unwrap())
}

impl Client {
    async fn ask(&self, method: Method, path: &str) -> Asked {
        in_time(ask(self.requests.clone(), method, path)).await.unwrap()
    }

    /// Drops the client, which ends the connection.
    async fn end(self, serving: JoinHandle<ConnectionError>) {
        drop(self.requests);
        let ends = [in_time(self.driver).await.unwrap(), in_time(serving).await.unwrap()];
        assert!(ends.iter().all(ConnectionError::is_h3_no_error), "{ends:?}");
    }
}

async fn ask(mut requests: SendRequest<OpenStreams, Bytes>, method: Method, path: &str) -> Result<Asked, StreamError> {
    let request = Request::builder().method(method).uri(format!("https://rails{path}")).header("from", "the client");
    requests.send_request(request.body(()).unwrap()).await
}

/// Answers every request in a task of its own, until the connection ends.
fn serve(mut server: Server) -> JoinHandle<ConnectionError> {
    tokio::spawn(async move {
        loop {
            match server.accept().await {
                Ok(Some(request)) => drop(tokio::spawn(answer(request))),
                Ok(None) => panic!("no client of these sends GOAWAY"),
                Err(error) => return error,
            }
        }
    })
}

/// `/echo` gives the body and the trailers back as they come, `/N` gives N bytes.
async fn answer(request: RequestResolver<Connection, Bytes>) {
    let (request, stream) = request.resolve_request().await.unwrap();
    assert_eq!(request.headers()["from"], "the client");
    let (mut sender, mut receiver) = stream.split();
    sender.send_response(Response::builder().header("from", "the server").body(()).unwrap()).await.unwrap();
    match request.uri().path() {
        "/echo" => {
            assert_eq!(request.method(), Method::POST);
            while let Some(mut data) = receiver.recv_data().await.unwrap() {
                sender.send_data(data.copy_to_bytes(data.remaining())).await.unwrap();
            }
            if let Some(trailers) = receiver.recv_trailers().await.unwrap() {
                sender.send_trailers(trailers).await.unwrap();
            }
        }
        length => {
            assert_eq!(request.method(), Method::GET);
            sender
                .send_data(made_up(length[1..].parse().expect("the test asks for a number"), 1).into())
                .await
                .unwrap();
        }
    }
    sender.finish().await.unwrap();
}

/// The next request, and its stream.
async fn next(server: &mut Server) -> (Request<()>, Answering) {
    let request = in_time(server.accept()).await.unwrap().expect("no client of these sends GOAWAY");
    in_time(request.resolve_request()).await.unwrap()
}

/// Posts a body with a trailer, and gives the echo of both. Both directions go on at once, as the
/// body may be longer than the windows.
async fn echo(stream: Asked, body: Bytes) -> (Vec<u8>, Option<HeaderMap>) {
    let (mut sender, mut receiver) = stream.split();
    let send = async {
        sender.send_data(body.clone()).await.unwrap();
        let trailers = HeaderMap::from_iter([("length".parse().unwrap(), body.len().into())]);
        sender.send_trailers(trailers).await.unwrap();
        sender.finish().await.unwrap();
    };
    let receive = async {
        let response = receiver.recv_response().await.unwrap();
        assert_eq!((response.status(), &response.headers()["from"]), (StatusCode::OK, &"the server".parse().unwrap()));
        let mut back = Vec::new();
        while let Some(mut data) = receiver.recv_data().await.unwrap() {
            back.extend_from_slice(&data.copy_to_bytes(data.remaining()));
        }
        (back, receiver.recv_trailers().await.unwrap())
    };
    tokio::join!(send, receive).1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_and_trailers_go_both_ways() {
    for sessions in [sessions().await, narrow_sessions().await] {
        let (client, server) = over(sessions).await;
        let serving = serve(server);
        for length in [0, 1, 100_000, 6 << 20] {
            let mut stream = client.ask(Method::GET, &format!("/{length}")).await;
            in_time(stream.finish()).await.unwrap();
            in_time(stream.recv_response()).await.unwrap();
            let mut body = Vec::new();
            while let Some(mut data) = in_time(stream.recv_data()).await.unwrap() {
                body.extend_from_slice(&data.copy_to_bytes(data.remaining()));
            }
            assert!(body == made_up(length, 1), "{length} bytes");
            assert_eq!(in_time(stream.recv_trailers()).await.unwrap(), None);

            let sent = made_up(length, 2);
            let (back, trailers) = in_time(echo(client.ask(Method::POST, "/echo").await, sent.clone().into())).await;
            assert!(back == sent, "{length} bytes back");
            assert_eq!(trailers.expect("they were sent")["length"], length.to_string());
        }
        client.end(serving).await;
    }
}

/// Three hundred requests of a client that may have a hundred open at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_requests_at_a_time() {
    let (client, server) = over(sessions().await).await;
    let serving = serve(server);
    let mut asking = JoinSet::new();
    for number in 0..300usize {
        let requests = client.requests.clone();
        asking.spawn(async move {
            let sent = made_up(number * 331, number as u8);
            let stream = ask(requests, Method::POST, "/echo").await.unwrap();
            assert!(echo(stream, sent.clone().into()).await.0 == sent, "request {number}");
        });
    }
    in_time(asking.join_all()).await;
    client.end(serving).await;
}

#[tokio::test]
async fn streams_have_the_numbers_of_quic() {
    let (client, mut server) = over(sessions().await).await;
    for number in [0, 4, 8] {
        let mut asked = client.ask(Method::GET, "/").await;
        let (_, mut answering) = next(&mut server).await;
        assert_eq!([asked.id(), answering.send_id(), answering.id()].map(|id| id.into_inner()), [number; 3]);
        in_time(answering.send_response(Response::new(()))).await.unwrap();
        in_time(answering.finish()).await.unwrap();
        in_time(asked.recv_response()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_resets_a_request() {
    let (client, mut server) = over(sessions().await).await;
    let mut asked = client.ask(Method::POST, "/echo").await;
    in_time(asked.send_data(Bytes::from_static(b"half of it"))).await.unwrap();
    let (_, mut answering) = next(&mut server).await;
    let mut data = in_time(answering.recv_data()).await.unwrap().expect("half of it came");
    assert_eq!(data.copy_to_bytes(data.remaining()), &b"half of it"[..]);
    drop(data);
    asked.stop_stream(Code::H3_REQUEST_CANCELLED);
    let error = in_time(answering.recv_data()).await.err().expect("it was reset");
    assert!(matches!(error, StreamError::RemoteTerminate { code: Code::H3_REQUEST_CANCELLED, .. }), "{error:?}");
    // Only this request has ended.
    let serving = serve(server);
    assert_eq!(in_time(echo(client.ask(Method::POST, "/echo").await, Bytes::from_static(b"on"))).await.0, b"on");
    client.end(serving).await;
}

/// The server reads no more of a body, and answers all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_stops_a_body() {
    let (client, mut server) = over(narrow_sessions().await).await;
    let (mut sender, mut receiver) = client.ask(Method::POST, "/echo").await.split();
    let (_, mut answering) = next(&mut server).await;
    answering.stop_sending(Code::H3_EXCESSIVE_LOAD);
    let error = in_time(async {
        loop {
            if let Err(error) = sender.send_data(Bytes::from(made_up(10_000, 1))).await {
                return error;
            }
        }
    })
    .await;
    assert!(matches!(error, StreamError::RemoteTerminate { code: Code::H3_EXCESSIVE_LOAD, .. }), "{error:?}");
    // Another call fails in the same way, and leaves the connection as it is.
    let error = in_time(sender.send_data(Bytes::from_static(b"more"))).await.unwrap_err();
    assert!(matches!(error, StreamError::RemoteTerminate { code: Code::H3_EXCESSIVE_LOAD, .. }), "{error:?}");
    let response = Response::builder().status(StatusCode::PAYLOAD_TOO_LARGE).body(()).unwrap();
    in_time(answering.send_response(response)).await.unwrap();
    in_time(answering.finish()).await.unwrap();
    assert_eq!(in_time(receiver.recv_response()).await.unwrap().status(), StatusCode::PAYLOAD_TOO_LARGE);
    let serving = serve(server);
    assert_eq!(in_time(echo(client.ask(Method::POST, "/echo").await, Bytes::from_static(b"on"))).await.0, b"on");
    client.end(serving).await;
}

/// Both ends say GOAWAY: a request that was accepted is answered, and no other one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graceful_shutdown() {
    let (client, mut server) = over(sessions().await).await;
    let mut accepted = client.ask(Method::GET, "/").await;
    let (_, mut answering) = next(&mut server).await;
    in_time(server.shutdown(0)).await.unwrap();
    let serving = tokio::spawn(async move { (server.accept().await.map(|request| request.is_none()), server) });
    // Requests that pass the GOAWAY are rejected, perhaps before the client has sent all of them.
    in_time(async {
        loop {
            let error = match ask(client.requests.clone(), Method::GET, "/").await {
                Ok(mut stream) => stream.recv_response().await.expect_err("nobody accepts it"),
                Err(error) => error,
            };
            match error {
                StreamError::RemoteTerminate { code: Code::H3_REQUEST_REJECTED, .. } => {}
                error => break assert!(matches!(error, StreamError::RemoteClosing { .. }), "{error:?}"),
            }
        }
    })
    .await;
    client.shut_down.send(()).unwrap();
    in_time(answering.send_response(Response::new(()))).await.unwrap();
    in_time(answering.finish()).await.unwrap();
    drop(answering);
    assert_eq!(in_time(accepted.recv_response()).await.unwrap().status(), StatusCode::OK);
    let (is_over, server) = in_time(serving).await.unwrap();
    assert!(is_over.unwrap(), "the server ends when it has answered");
    drop(server);
    let ended = in_time(client.driver).await.unwrap();
    assert!(ended.is_h3_no_error(), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_closed_in_the_middle() {
    let (client, mut server) = over(narrow_sessions().await).await;
    let mut asked = client.ask(Method::GET, "/").await;
    let (_, mut answering) = next(&mut server).await;
    in_time(answering.send_response(Response::new(()))).await.unwrap();
    let sending = tokio::spawn(async move {
        loop {
            if let Err(error) = answering.send_data(Bytes::from(made_up(10_000, 1))).await {
                return error;
            }
        }
    });
    in_time(asked.recv_response()).await.unwrap();
    assert!(in_time(asked.recv_data()).await.unwrap().is_some());
    client.far.close(0x2a, b"the machine goes down");
    let error = in_time(async {
        loop {
            match asked.recv_data().await {
                Ok(data) => assert!(data.is_some(), "the body has no end"),
                Err(error) => return error,
            }
        }
    })
    .await;
    assert_eq!(error.to_string(), "Connection error: Remote error: ApplicationClose: 0x2a");
    assert_eq!(in_time(client.driver).await.unwrap().to_string(), "Remote error: ApplicationClose: 0x2a");
    assert!(ask(client.requests, Method::GET, "/").await.is_err());
    // The end that has closed the session knows that it did.
    let error = in_time(sending).await.unwrap();
    assert!(error.to_string().contains("this end closed the session with code 42: the machine goes down"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_is_removed_in_the_middle() {
    let (client, server) = over(sessions().await).await;
    let serving = serve(server);
    let mut asking = JoinSet::new();
    for seed in 0..4 {
        let requests = client.requests.clone();
        asking.spawn(async move {
            let sent = made_up(6 << 20, seed);
            let stream = ask(requests, Method::POST, "/echo").await.unwrap();
            assert!(echo(stream, sent.clone().into()).await.0 == sent, "request {seed}");
        });
    }
    in_time(async {
        while client.session.stats().bytes_read < 1 << 20 {
            sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    assert!(client.session.remove_lane(0), "it is up");
    in_time(asking.join_all()).await;
    in_time(async {
        while client.session.lanes_up() > 1 {
            sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    client.end(serving).await;
}

/// A body that is not read fills the windows and the send buffer, and then waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_waits_for_its_reader() {
    const BODY: usize = 4 << 20;
    let (client, mut server) = over(narrow_sessions().await).await;
    let mut asked = client.ask(Method::POST, "/echo").await;
    let (_, mut answering) = next(&mut server).await;
    let sending = tokio::spawn(async move {
        asked.send_data(made_up(BODY, 1).into()).await.unwrap();
        asked.finish().await.unwrap();
    });
    sleep(Duration::from_millis(200)).await;
    let written = client.session.stats().bytes_written;
    assert!(!sending.is_finished() && written < BODY as u64 / 2, "{written} bytes");
    let mut body = Vec::new();
    while let Some(mut data) = in_time(answering.recv_data()).await.unwrap() {
        body.extend_from_slice(&data.copy_to_bytes(data.remaining()));
    }
    assert!(body == made_up(BODY, 1), "other bytes came");
    in_time(sending).await.unwrap();
}
