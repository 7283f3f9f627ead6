//! A service on every rail: one listening socket per rail on one address.

use crate::{
    Rail, RailId, Rails,
    runtime::{RailTask, TaskError},
};
use rails_net::{Arrival, ListenError, OptionError, SteeredListeners, listen_steered};
use std::{
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{Mutex, PoisonError},
    task::Poll,
};
use tokio::net::{TcpListener, ToSocketAddrs, lookup_host};

/// A service on every rail of a set, from [`Rails::serve`]. It keeps the rails running. Dropping it lets the services go
/// on while the rails run otherwise.
#[derive(Debug)]
pub struct Service<T> {
    local: SocketAddr,
    steering: Result<(), OptionError>,
    /// The services that have not ended, or whose end was not told.
    tasks: Vec<(RailId, RailTask<T>)>,
    _rails: Rails,
}

/// Why no service was started. No address stays bound.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// There are no rails.
    #[error("no rails to serve on")]
    NoRails,
    /// The address is not known.
    #[error("the address to serve on is not known")]
    Resolve(#[source] io::Error),
    /// The address cannot be listened on; the error of the last one if the name has several.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A rail's runtime does not take the socket.
    #[error("rail {rail} does not take its listening socket")]
    Register {
        /// The rail.
        rail: RailId,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A rail's runtime has stopped.
    #[error("the runtime of rail {0} has stopped")]
    RailStopped(RailId),
}

impl Rails {
    /// Serves connections to one address on all rails: each rail has a listening socket of its own, on its own runtime.
    /// If a name has several addresses, it is the first of them that can be listened on. The kernel gives each
    /// connection to the rail on whose CPU its first packet was handled; if that is no rail's CPU, to the rail whose
    /// NIC the packet came by, if only one has it; and else to any, by a hash ([`listen_steered`]). Its further packets
    /// mostly come the same way, so that the connection is served where its interrupt is.
    ///
    /// Each rail's thread calls `make_service` with its socket, and keeps the future, which need not be `Send`. An HTTP
    /// server such as `axum::serve` spawns the tasks of its connections with `tokio::spawn`, which is on the rail.
    ///
    /// ```
    /// # use rails_multirail::{RailRequest, Rails, plan_rails};
    /// # use tokio::io::AsyncWriteExt;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let plan = plan_rails(&rails_topo::Topology::detect()?, &RailRequest::loopback(2))?;
    /// let rails = Rails::build(&plan)?;
    /// let service = rails
    ///     .serve("127.0.0.1:0", |_rail, listener| async move {
    ///         while let Ok((mut connection, _)) = listener.accept().await {
    ///             tokio::spawn(async move { connection.write_all(b"hello").await });
    ///         }
    ///     })
    ///     .await?;
    /// println!("listening on {}", service.local_addr());
    /// # let mut client = tokio::net::TcpStream::connect(service.local_addr()).await?;
    /// # let mut hello = String::new();
    /// # tokio::io::AsyncReadExt::read_to_string(&mut client, &mut hello).await?;
    /// # assert_eq!(hello, "hello");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ServeError`]. An address at which another service listens is in use. A panic in `make_service` ends the service of
    /// its rail alone, and [`Service::ended`] tells of it; its connections then go to other rails.
    ///
    /// # Privileges
    /// None; `CAP_NET_BIND_SERVICE` for ports below 1024.
    pub async fn serve<F, Fut>(
        &self,
        address: impl ToSocketAddrs,
        make_service: F,
    ) -> Result<Service<Fut::Output>, ServeError>
    where
        F: Fn(&Rail, TcpListener) -> Fut + Send + Sync + 'static,
        Fut: Future + 'static,
        Fut::Output: Send + 'static,
    {
        let arrivals: Vec<Arrival> = self.iter().map(Rail::arrival).collect();
        if arrivals.is_empty() {
            return Err(ServeError::NoRails);
        }
        let unknown = || ServeError::Resolve(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
        let mut listening = Err(unknown());
        for address in lookup_host(address).await.map_err(ServeError::Resolve)? {
            listening = listen_steered(address, &arrivals).map_err(ServeError::Listen);
            if listening.is_ok() {
                break;
            }
        }
        let SteeredListeners { listeners, local, steering } = listening?;
        if let Err(error) = &steering {
            tracing::warn!(%local, %error, "connections are spread over the rails by a hash");
        }
        let mut sockets = Vec::new();
        for (rail, socket) in self.iter().zip(listeners) {
            let registering = rail.runtime().spawn(async { TcpListener::from_std(socket) });
            let registered = registering.await.map_err(|_| ServeError::RailStopped(rail.id()))?;
            sockets.push(Some(registered.map_err(|source| ServeError::Register { rail: rail.id(), source })?));
        }
        let sockets = Mutex::new(sockets);
        let tasks = self.on_each(move |rail| {
            let socket = sockets.lock().unwrap_or_else(PoisonError::into_inner)[rail.id().0].take();
            make_service(rail, socket.expect("each rail is called once"))
        });
        let tasks = self.iter().map(Rail::id).zip(tasks).collect();
        Ok(Service { local, steering, tasks, _rails: self.clone() })
    }
}

impl<T> Service<T> {
    /// The address that the rails listen on; in place of a port 0 it has the port that the kernel chose.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Whether the kernel steers connections to the rails.
    ///
    /// # Errors
    /// Why it does not: connections are then spread by a hash of their addresses and ports.
    pub fn steering(&self) -> Result<(), &OptionError> {
        self.steering.as_ref().copied()
    }

    /// Waits for the next service of a rail that ends, and gives its result; `None` after all of them. While the rails run,
    /// a service ends when its future does, or by a panic.
    ///
    /// Cancel safe: no end is lost when the future is dropped.
    pub async fn ended(&mut self) -> Option<(RailId, Result<T, TaskError>)> {
        poll_fn(|context| {
            for (index, (rail, task)) in self.tasks.iter_mut().enumerate() {
                if let Poll::Ready(result) = Pin::new(task).poll(context) {
                    let rail = *rail;
                    self.tasks.remove(index);
                    return Poll::Ready(Some((rail, result)));
                }
            }
            if self.tasks.is_empty() { Poll::Ready(None) } else { Poll::Pending }
        })
        .await
    }

    /// Stops the services: drops their futures, and with them the listening sockets. When this returns, the address is free,
    /// unless a service has given its socket to another task. Connections in tasks of their own go on.
    pub async fn stop(mut self) {
        self.tasks.iter().for_each(|(_, task)| task.abort());
        while self.ended().await.is_some() {}
    }
}

impl Rail {
    /// Where the packets of the rail's connections arrive.
    fn arrival(&self) -> Arrival {
        let planned = self.planned();
        Arrival { cpu: planned.cpu, interface: planned.interface.clone() }
    }
}
