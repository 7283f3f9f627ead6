//! axum's and tonic's own servers, over a listener and its streams.

use crate::{in_time, options};
use axum::{Router, extract::ConnectInfo, routing::get};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::{Request, client::conn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rails::{
    multirail::{MultiRailListener, MultiRailStream, RailRequest, Rails, StreamInfo, plan_rails},
    topo::Topology,
};
use std::{
    convert::Infallible,
    task::{Context, Poll},
};
use tokio::sync::oneshot;
use tonic::{body::Body, server::NamedService, transport::Server};

async fn listening() -> (Rails, MultiRailListener) {
    let topology = Topology::detect().expect("this machine can be read");
    let plan = plan_rails(&topology, &RailRequest::loopback(2)).expect("loopback rails can be planned");
    let rails = Rails::build(&plan).expect("loopback rails need no privilege");
    let listener = MultiRailListener::bind(&rails, ["127.0.0.1:0", "127.0.0.2:0"], &options()).await;
    (rails, listener.expect("loopback can be bound"))
}

#[tokio::test]
async fn axum_serves_a_listener() {
    let (rails, listener) = listening().await;
    let addresses = listener.local_addrs().to_vec();
    let app = Router::new().route(
        "/",
        get(async |ConnectInfo(info): ConnectInfo<StreamInfo>| format!("{} {}", info.stream, info.peer_addr)),
    );
    let (stop, stopped) = oneshot::channel::<()>();
    let service = app.into_make_service_with_connect_info::<StreamInfo>();
    let serving = axum::serve(listener, service);
    assert_eq!(serving.local_addr().unwrap(), addresses[0].socket);
    let serving = serving.with_graceful_shutdown(async { drop(stopped.await) });
    let serving = tokio::spawn(async move { serving.await });
    for _ in 0..3 {
        let stream = MultiRailStream::connect(&rails, &addresses, &options()).await.unwrap();
        let expected = format!("{} {}", stream.id(), stream.local_addr().unwrap());
        let (mut requests, connection) = conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let request = Request::get("/").header("host", "rails").body(Empty::<Bytes>::new()).unwrap();
        let answer = in_time(requests.send_request(request)).await.unwrap();
        let body = in_time(answer.into_body().collect()).await.unwrap().to_bytes();
        assert_eq!(body, expected);
        drop(requests);
        in_time(connection).await.unwrap().unwrap();
    }
    stop.send(()).unwrap();
    in_time(serving).await.unwrap().unwrap();
}

/// Answers with the stream's name, which tonic hands to each request.
#[derive(Clone)]
struct Named;

impl NamedService for Named {
    const NAME: &'static str = "rails.Named";
}

impl tower::Service<Request<Body>> for Named {
    type Response = hyper::Response<Body>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let info = request.extensions().get::<StreamInfo>().expect("each request has it");
        std::future::ready(Ok(hyper::Response::new(Body::new(info.stream.to_string()))))
    }
}

#[tokio::test]
async fn tonic_serves_incoming_streams() {
    let (rails, listener) = listening().await;
    let addresses = listener.local_addrs().to_vec();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = Server::builder().add_service(Named);
    let serving = serving.serve_with_incoming_shutdown(listener.into_incoming(), async { drop(stopped.await) });
    let serving = tokio::spawn(serving);
    for _ in 0..3 {
        let stream = MultiRailStream::connect(&rails, &addresses, &options()).await.unwrap();
        let id = stream.id().to_string();
        let (mut requests, connection) =
            conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let request = Request::post("http://rails/rails.Named/Any").body(Empty::<Bytes>::new()).unwrap();
        let answer = in_time(requests.send_request(request)).await.unwrap();
        assert_eq!(in_time(answer.into_body().collect()).await.unwrap().to_bytes(), id);
        drop(requests);
        let _ = in_time(connection).await.unwrap();
    }
    stop.send(()).unwrap();
    in_time(serving).await.unwrap().unwrap();
}
