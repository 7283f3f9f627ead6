//! Sessions with honest and with hostile peers, over loopback rails.

mod hostile;
mod random;
mod resets;

use super::{Asking, Limits, Session, SessionError, Side};
use crate::wire::Instance;
use rails_multirail::{
    MultiRailListener, MultiRailMessages, MultiRailStream, RailRequest, Rails, Security, StreamOptions, plan_rails,
};
use rails_topo::Topology;
use std::sync::{Arc, OnceLock};
use tokio::{sync::mpsc, task::JoinHandle};

/// A session that runs, the connections that its peer asks for, and its end.
struct Running {
    session: Arc<Session>,
    limits: Arc<Limits>,
    asked: mpsc::UnboundedReceiver<Asking>,
    ended: JoinHandle<SessionError>,
}

impl Running {
    async fn begin(messages: MultiRailMessages, side: Side, own: u8, limits: Limits) -> Result<Self, SessionError> {
        let ((sender, receiver), limits) = (messages.split(), Arc::new(limits));
        let (session, receiver) = Session::begin(sender, receiver, side, Instance([own; 16]), limits.clone()).await?;
        let ((ask, asked), runs) = (mpsc::unbounded_channel(), session.clone());
        let ended = tokio::spawn(async move { runs.run(receiver, move |asking| drop(ask.send(asking))).await });
        Ok(Self { session, limits, asked, ended })
    }
}

fn rails() -> &'static Rails {
    static RAILS: OnceLock<Rails> = OnceLock::new();
    RAILS.get_or_init(|| {
        let plan = plan_rails(&Topology::detect().unwrap(), &RailRequest::loopback(2)).unwrap();
        Rails::build(&plan).unwrap()
    })
}

/// A stream of messages: the end that dialled, and the one that accepted.
async fn messages() -> (MultiRailMessages, MultiRailMessages) {
    let rails = rails();
    let options = StreamOptions::new(Security::insecure());
    let listener = MultiRailListener::bind(rails, &["127.0.0.1:0"][..], &options).await.unwrap();
    let address = [listener.local_addrs()[0].socket.to_string()];
    let (dialled, accepted) = tokio::join!(MultiRailStream::connect(rails, &address, &options), listener.accept());
    (dialled.unwrap().into_messages().unwrap(), accepted.unwrap().into_messages().unwrap())
}
