//! A redirect whose connections a task waits for.

use super::Redirect;
use socket2::SockRef;
use std::{
    future::poll_fn,
    io,
    net::SocketAddr,
    ops::Deref,
    task::{Context, Poll},
};
use tokio::net::{TcpListener, TcpStream};

/// A [`Redirect`] that gives its connections as tokio's streams.
#[derive(Debug)]
#[must_use = "connections are redirected until this is dropped"]
pub struct AsyncRedirect {
    redirect: Redirect,
    listeners: Vec<TcpListener>,
}

impl AsyncRedirect {
    /// Registers the listeners at the runtime of the caller.
    ///
    /// # Errors
    ///
    /// Those of dup(2) and epoll_ctl(2).
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime with I/O, as [`TcpListener::from_std`] does.
    pub fn new(redirect: Redirect) -> io::Result<Self> {
        let own = |listener: &std::net::TcpListener| TcpListener::from_std(listener.try_clone()?);
        let listeners = redirect.listeners.iter().map(own).collect::<io::Result<_>>()?;
        Ok(Self { redirect, listeners })
    }

    /// Waits for a program's connection, as [`Redirect::accept`] does.
    ///
    /// # Errors
    ///
    /// Those of accept(2): the process may have too many open files. The connection waits then.
    ///
    /// # Cancel safety
    ///
    /// No connection is lost when the future is dropped.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        poll_fn(|context| self.poll_accept(context)).await
    }

    /// The form of [`AsyncRedirect::accept`] that is polled. One task at a time is woken.
    ///
    /// # Errors
    ///
    /// Those of [`AsyncRedirect::accept`].
    pub fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        for listener in &self.listeners {
            while let Poll::Ready(accepted) = listener.poll_accept(context) {
                let (stream, peer) = match accepted {
                    Ok(accepted) => accepted,
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                    Err(error) => return Poll::Ready(Err(error)),
                };
                match self.redirect.destination(SockRef::from(&stream), peer) {
                    Ok(Some(destination)) => return Poll::Ready(Ok((stream, destination))),
                    Ok(None) => {}
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
        }
        Poll::Pending
    }
}

impl Deref for AsyncRedirect {
    type Target = Redirect;

    fn deref(&self) -> &Redirect {
        &self.redirect
    }
}
