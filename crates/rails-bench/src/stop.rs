//! Ctrl-C: the first ends what is under way in order, the second ends the program.

use crate::ending::INTERRUPTED;
use std::io;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

/// Whether the user wants an end of it. Clones hear of it as well.
#[derive(Debug, Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Takes SIGINT over from now on. Must be called inside a runtime with a thread of its own for the second Ctrl-C.
    ///
    /// # Errors
    /// What the operating system said.
    pub(crate) fn on_ctrl_c() -> io::Result<Self> {
        let mut interrupts = signal(SignalKind::interrupt())?;
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(async move {
            interrupts.recv().await;
            stop.send_replace(true);
            interrupts.recv().await;
            std::process::exit(INTERRUPTED.into());
        });
        Ok(Self(stopped))
    }

    /// Waits for it.
    pub(crate) async fn requested(&mut self) {
        if self.0.wait_for(|stop| *stop).await.is_err() {
            // Nobody is left who could ask for it: the runtime is being taken down.
            std::future::pending().await
        }
    }

    /// Whether it was asked for already.
    pub(crate) fn is_requested(&self) -> bool {
        *self.0.borrow()
    }
}
