//! tungstenite: a close is answered by a close, and then the server ends the stream.

use crate::kinds::{Stream, over_all};
use futures_util::{SinkExt, StreamExt};
use tokio_tungstenite::{
    WebSocketStream, accept_async, client_async,
    tungstenite::{
        Message,
        protocol::{CloseFrame, frame::coding::CloseCode},
    },
};

async fn open(near: Stream, far: Stream) -> (WebSocketStream<Stream>, WebSocketStream<Stream>) {
    let (client, server) = tokio::join!(client_async("ws://rails/", near), accept_async(far));
    (client.unwrap().0, server.unwrap())
}

/// Answers until the peer closes, which tungstenite answers by itself.
async fn serve(mut socket: WebSocketStream<Stream>) {
    while let Some(message) = socket.next().await {
        match message.unwrap() {
            Message::Close(frame) => assert_eq!(frame.map(|frame| frame.code), Some(CloseCode::Normal)),
            message => socket.send(message).await.unwrap(),
        }
    }
}

fn farewell() -> Option<CloseFrame> {
    Some(CloseFrame { code: CloseCode::Normal, reason: "done".into() })
}

/// The answer to the close comes, and then the end.
async fn expect_the_answer(mut socket: WebSocketStream<Stream>) {
    assert_eq!(socket.next().await.unwrap().unwrap(), Message::Close(farewell()));
    assert!(socket.next().await.is_none());
}

#[tokio::test]
async fn a_client_that_closes_is_answered() {
    over_all(30, async |near, far| {
        let (mut client, server) = open(near, far).await;
        let talk = async {
            for length in [0, 1, 70_000] {
                let text = Message::text("x".repeat(length));
                client.send(text.clone()).await.unwrap();
                assert_eq!(client.next().await.unwrap().unwrap(), text);
            }
            client.close(farewell()).await.unwrap();
            expect_the_answer(client).await;
        };
        tokio::join!(talk, serve(server));
    })
    .await;
}

#[tokio::test]
async fn a_server_that_closes_is_answered() {
    over_all(30, async |near, far| {
        let (client, mut server) = open(near, far).await;
        let talk = async {
            server.send(Message::text("that was all")).await.unwrap();
            server.close(farewell()).await.unwrap();
            expect_the_answer(server).await;
        };
        let listen = async {
            let mut client = client;
            assert_eq!(client.next().await.unwrap().unwrap(), Message::text("that was all"));
            assert_eq!(client.next().await.unwrap().unwrap(), Message::Close(farewell()));
            assert!(client.next().await.is_none());
        };
        tokio::join!(talk, listen);
    })
    .await;
}
