//! russh: a command over a channel, which ends with its status, an end of file and a close, and
//! then the connection by a message.

use crate::{
    kinds::{Stream, over_all},
    made_up,
};
use russh::{
    Channel, ChannelId, ChannelMsg, Disconnect, client,
    keys::{Algorithm, PrivateKey, PublicKeyOrCertificate},
    server::{self, Auth, ChannelOpenHandle, Msg, Session},
};
use std::sync::Arc;

/// `exec N` gives N bytes.
struct Server;

impl server::Handler for Server {
    type Error = russh::Error;

    async fn auth_none(&mut self, _: &str) -> Result<Auth, Self::Error> {
        Ok(Auth::Accept)
    }

    async fn channel_open_session(
        &mut self,
        _: Channel<Msg>,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        reply.accept().await;
        Ok(())
    }

    async fn exec_request(
        &mut self,
        channel: ChannelId,
        data: &[u8],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        let length = String::from_utf8_lossy(data).parse().expect("the test asks for a number");
        session.channel_success(channel)?;
        session.data(channel, made_up(length, 5))?;
        session.exit_status_request(channel, 7)?;
        session.eof(channel)?;
        session.close(channel)
    }
}

struct Client;

impl client::Handler for Client {
    type Error = russh::Error;

    async fn check_server_key(&mut self, _: &PublicKeyOrCertificate) -> Result<bool, Self::Error> {
        Ok(true)
    }
}

async fn serve(far: Stream) -> Result<(), russh::Error> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).expect("the system has random numbers");
    let keypair = russh::keys::ssh_key::private::Ed25519Keypair::from_seed(&seed);
    let config = server::Config { keys: vec![PrivateKey::from(keypair)], ..Default::default() };
    assert_eq!(config.keys[0].algorithm(), Algorithm::Ed25519);
    server::run_stream(Arc::new(config), far, Server).await?.await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_end_with_their_status_and_the_connection() {
    over_all(5, async |near, far| {
        let serving = tokio::spawn(serve(far));
        let mut client = client::connect_stream(Arc::default(), near, Client).await.unwrap();
        assert!(client.authenticate_none("rails").await.unwrap().success());
        for length in [0, 1, 500_000] {
            let mut channel = client.channel_open_session().await.unwrap();
            channel.exec(true, length.to_string()).await.unwrap();
            let (mut got, mut status, mut ended, mut closed) = (Vec::new(), None, false, false);
            while let Some(message) = channel.wait().await {
                match message {
                    ChannelMsg::Data { data } => got.extend_from_slice(&data),
                    ChannelMsg::ExitStatus { exit_status } => status = Some(exit_status),
                    ChannelMsg::Eof => ended = true,
                    ChannelMsg::Close => closed = true,
                    _ => {}
                }
            }
            assert!(got == made_up(length, 5), "{length} bytes");
            assert_eq!((status, ended, closed), (Some(7), true, true));
        }
        client.disconnect(Disconnect::ByApplication, "done", "").await.unwrap();
        // By this error russh says that the connection ended by such a message.
        assert!(matches!(client.await, Err(russh::Error::Disconnect)));
        serving.await.unwrap().unwrap();
    })
    .await;
}
