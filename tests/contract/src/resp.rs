//! The client of redis, and a server of its protocol (RESP): the last command is answered, and then
//! the server ends the stream.

use crate::kinds::{Stream, over_all};
use redis::{AsyncCommands, RedisConnectionInfo, aio::MultiplexedConnection};
use std::collections::HashMap;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};

/// The next command, as a client sends it: an array of strings; `None` at the end.
async fn command(stream: &mut BufStream<Stream>) -> Option<Vec<Vec<u8>>> {
    let count = length(stream, '*').await?;
    let mut parts = Vec::new();
    for _ in 0..count {
        let mut part = vec![0; length(stream, '$').await? + 2];
        stream.read_exact(&mut part).await.unwrap();
        part.truncate(part.len() - 2);
        parts.push(part);
    }
    Some(parts)
}

async fn length(stream: &mut BufStream<Stream>, kind: char) -> Option<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).await.unwrap();
    let number = line.strip_prefix(kind)?.trim_end();
    Some(number.parse().expect("a client sends lengths"))
}

/// Serves one client until it quits or goes.
async fn serve(far: Stream) {
    let mut stream = BufStream::new(far);
    let mut values: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
    while let Some(parts) = command(&mut stream).await {
        let name = parts[0].to_ascii_uppercase();
        match (name.as_slice(), &parts[1..]) {
            (b"GET", [key]) => match values.get(key) {
                Some(value) => {
                    stream.write_all(format!("${}\r\n", value.len()).as_bytes()).await.unwrap();
                    stream.write_all(value).await.unwrap();
                    stream.write_all(b"\r\n").await.unwrap();
                }
                None => stream.write_all(b"$-1\r\n").await.unwrap(),
            },
            (b"SET", [key, value]) => {
                values.insert(key.clone(), value.clone());
                stream.write_all(b"+OK\r\n").await.unwrap();
            }
            _ => stream.write_all(b"+OK\r\n").await.unwrap(),
        }
        stream.flush().await.unwrap();
        if name == b"QUIT" {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_command_is_answered_before_the_end() {
    over_all(20, async |near, far| {
        let serving = tokio::spawn(serve(far));
        let wishes = RedisConnectionInfo::default();
        let opened = MultiplexedConnection::new_with_config(&wishes, near, Default::default());
        let (mut client, driver) = opened.await.unwrap();
        let driving = tokio::spawn(driver);
        for length in [0, 1, 300_000] {
            client.set::<_, _, ()>(length, vec![7u8; length]).await.unwrap();
            assert_eq!(client.get::<_, Vec<u8>>(length).await.unwrap(), vec![7; length]);
        }
        assert_eq!(client.get::<_, Option<Vec<u8>>>("nothing").await.unwrap(), None);
        let farewell: String = redis::cmd("QUIT").query_async(&mut client).await.unwrap();
        assert_eq!(farewell, "OK");
        serving.await.unwrap();
        drop(client);
        driving.await.unwrap();
    })
    .await;
}
