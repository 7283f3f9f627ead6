//! A service on every rail: one listening socket per rail on one address.

use crate::{
    Rail, RailId, Rails,
    planner::PlannedRail,
    runtime::{RailTask, TaskError},
};
use rails_net::{Arrival, ListenError, SocketOptionError, SteeredListeners, listen_steered};
use rails_topo::CpuSet;
use std::{
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
};
use tokio::net::{TcpListener, ToSocketAddrs, lookup_host};

/// A service on every rail of a set, from [`Rails::serve`]. It keeps the rails running. Dropping it
/// lets the services go on while other owners keep the rails running.
#[derive(Debug)]
pub struct Service<T> {
    local: SocketAddr,
    steering: Result<(), SocketOptionError>,
    /// The services that have not ended, and those whose end `ended` has not returned yet.
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
    /// The number of values for the rails is another one than that of the rails.
    #[error("{values} values for {rails} rails")]
    Values {
        /// The number of rails.
        rails: usize,
        /// The number of values, of which no more than one more than the rails are counted.
        values: usize,
    },
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
    /// Serves connections to one address on all rails: each rail has a listening socket of its own,
    /// on its own runtime. If a name has several addresses, it is the first of them that can be
    /// listened on. The kernel gives each connection to the rail on whose CPU its first packet
    /// was handled, or whose NIC's interrupts that CPU serves and no other rail's; if there is
    /// none, to the rail whose NIC the packet came by, if only one has it; and else to
    /// any, by a hash ([`listen_steered`]). Its further packets mostly come the same way, so that
    /// the connection is served beside its interrupt. The places are those of the rails when
    /// this is called.
    ///
    /// Each rail's thread calls `make_service` with its socket, and keeps the future, which need
    /// not be `Send`. An HTTP server such as `axum::serve` spawns the tasks of its connections
    /// with `tokio::spawn`, which is on the rail.
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
    /// [`ServeError`]. An address at which another service listens is in use. A panic in
    /// `make_service` ends the service of its rail alone, and [`Service::ended`] tells of it;
    /// its connections then go to other rails.
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
        let values = self.iter().map(|_| ());
        self.serve_with(address, values, move |rail, listener, ()| make_service(rail, listener)).await
    }

    /// Serves as [`serve`](Self::serve) does, and hands each rail's service a value of its own,
    /// such as a shard of the application's data or the end of a channel: the first value goes
    /// to rail 0, and so on.
    ///
    /// # Errors
    /// [`ServeError`], as there, and [`ServeError::Values`] if there is not one value for each
    /// rail.
    ///
    /// # Privileges
    /// As there.
    pub async fn serve_with<V, F, Fut>(
        &self,
        address: impl ToSocketAddrs,
        values: impl IntoIterator<Item = V>,
        make_service: F,
    ) -> Result<Service<Fut::Output>, ServeError>
    where
        V: Send + 'static,
        F: Fn(&Rail, TcpListener, V) -> Fut + Send + Sync + 'static,
        Fut: Future + 'static,
        Fut::Output: Send + 'static,
    {
        let values: Vec<V> = values.into_iter().take(self.len() + 1).collect();
        let planned: Vec<_> = self.iter().map(Rail::planned).collect();
        let arrivals = arrivals(&planned);
        if arrivals.is_empty() {
            return Err(ServeError::NoRails);
        }
        if values.len() != planned.len() {
            return Err(ServeError::Values { rails: planned.len(), values: values.len() });
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
        let mut parts = Vec::new();
        for ((rail, socket), value) in self.iter().zip(listeners).zip(values) {
            let registering = rail.runtime().spawn(async { TcpListener::from_std(socket) });
            let registered = registering.await.map_err(|_| ServeError::RailStopped(rail.id()))?;
            let socket = registered.map_err(|source| ServeError::Register { rail: rail.id(), source })?;
            parts.push(Some((socket, value)));
        }
        let parts = Mutex::new(parts);
        let tasks = self.on_each(move |rail| {
            let part = parts.lock().unwrap_or_else(PoisonError::into_inner)[rail.id().0].take();
            let (socket, value) = part.expect("each rail is called once");
            make_service(rail, socket, value)
        });
        let tasks = self.iter().map(Rail::id).zip(tasks).collect();
        Ok(Service { local, steering, tasks, _rails: self.clone() })
    }
}

impl<T> Service<T> {
    /// The address that the rails listen on; in place of a port 0 it has the port that the kernel
    /// chose.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Whether the kernel steers connections to the rails.
    ///
    /// # Errors
    /// Why it does not: connections are then spread by a hash of their addresses and ports.
    pub fn steering(&self) -> Result<(), &SocketOptionError> {
        self.steering.as_ref().copied()
    }

    /// Waits for the next service of a rail that ends, and gives its result; `None` after all of
    /// them. While the rails run, a service ends when its future does, or by a panic.
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

    /// Stops the services: drops their futures, and with them the listening sockets. When this
    /// returns, the address is free, unless a service has given its socket to another task.
    /// Connections in tasks of their own go on.
    pub async fn stop(mut self) {
        self.tasks.iter().for_each(|(_, task)| task.abort());
        while self.ended().await.is_some() {}
    }
}

/// The CPUs on which the packets of each rail's connections arrive: the rail's own CPU if it is
/// bound to one, and those that serve the interrupts of its NIC and of no other rail's.
fn arrivals(planned: &[Arc<PlannedRail>]) -> Vec<Arrival> {
    let own = |rail: &PlannedRail| rail.bound_cpu().map(CpuSet::single).unwrap_or_default();
    let arrival = |(index, rail): (usize, &Arc<PlannedRail>)| {
        let others = planned.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, other)| other);
        let of_others = others.fold(CpuSet::new(), |all, other| all.union(&other.interrupt_cpus).union(&own(other)));
        let cpus = rail.interrupt_cpus.difference(&of_others).union(&own(rail));
        Arrival { cpus, interface: rail.interface.clone() }
    };
    planned.iter().enumerate().map(arrival).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RailRequest, plan_rails};
    use rails_topo::{CpuId, Interrupt, Nic, NodeId, Topology};

    #[test]
    fn connections_arrive_where_the_interrupts_are() {
        let nic = |name: &str, node: u32, cpus: &str| {
            let cpus: Option<CpuSet> = cpus.parse().ok();
            let interrupts = vec![Interrupt { number: node, name: None, affinity: cpus.clone(), effective: cpus }];
            Nic { node: Some(NodeId(node)), up: Some(true), interrupts, ..Nic::named(name) }
        };
        let nics = vec![nic("eth0", 0, "1-2"), nic("eth1", 1, "2,6")];
        let machine = Topology::synthetic("package:2 numa:1 l3:1 core:4 pu:1", nics).unwrap();
        let plan = plan_rails(&machine, &"eth0,eth1".parse::<RailRequest>().unwrap()).unwrap();
        let planned: Vec<_> = plan.rails.into_iter().map(Arc::new).collect();
        assert_eq!((planned[0].cpu, planned[1].cpu), (CpuId(0), CpuId(4)), "on cores beside those of the interrupts");
        let cpus: Vec<String> = arrivals(&planned).iter().map(|arrival| arrival.cpus.to_string()).collect();
        assert_eq!(cpus, ["0-1", "4,6"], "CPU 2 serves both, so the interface decides there");
    }

    #[test]
    fn connections_of_an_unbound_rail_arrive_on_no_cpu() {
        let machine = Topology::synthetic("package:1 numa:1 core:4 pu:1", vec![]).unwrap();
        let plan = plan_rails(&machine, &"127.0.0.1@default,127.0.0.2@1".parse().unwrap()).unwrap();
        let planned: Vec<_> = plan.rails.into_iter().map(Arc::new).collect();
        let cpus: Vec<String> = arrivals(&planned).iter().map(|arrival| arrival.cpus.to_string()).collect();
        assert_eq!(cpus, ["", "1"]);
    }
}
