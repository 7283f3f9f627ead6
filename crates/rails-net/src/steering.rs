//! Several listening sockets on one address, and the choice between them for each connection.

use crate::{BindEndError, ListenError, SocketOptionError, interfaces, socket, sys::reuseport};
use rails_topo::CpuSet;
use socket2::{Domain, Protocol, Socket, Type};
use std::net::{SocketAddr, TcpListener};

/// The CPUs and the interface of the packets whose connections a socket accepts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Arrival {
    /// The CPUs that handle the packets.
    pub cpus: CpuSet,
    /// The name of the interface by which they arrive; `None`, or an interface that does not exist,
    /// is any.
    pub interface: Option<String>,
}

/// Listening sockets on one address, from [`listen_steered`].
#[derive(Debug)]
pub struct SteeredListeners {
    /// The sockets, in the order of their arrivals. They do not block.
    pub listeners: Vec<TcpListener>,
    /// The sockets' address; in place of a port 0 it has the port that the kernel chose.
    pub local: SocketAddr,
    /// Whether the kernel took the steering. If it did not, it spreads connections by a hash of
    /// their addresses and ports.
    pub steering: Result<(), SocketOptionError>,
}

/// Listens on `local` with one socket for each arrival (`SO_REUSEPORT`). The kernel gives each
/// connection to one of them: to the first one whose CPUs include the one that handles the
/// connection's first packet; else to the only one with the interface by which the packet came;
/// else by a hash of the addresses and ports.
///
/// The address must be free: one on which another socket listens, of this process or another, is in
/// use. Later sockets of the same user with `SO_REUSEPORT` can still join.
///
/// A connection that waits in a socket's queue when that socket is closed is reset by the kernel,
/// unless `net.ipv4.tcp_migrate_req` is set. After that the last socket takes the closed one's
/// place in the choice.
///
/// # Privileges
/// None; `CAP_NET_BIND_SERVICE` for ports below 1024.
///
/// # Errors
/// [`ListenError::LocalEnd`] for an address that this machine does not have or that is in use.
///
/// # References
/// [socket(7)](https://man7.org/linux/man-pages/man7/socket.7.html), `SO_REUSEPORT`, `SO_ATTACH_REUSEPORT_CBPF` (since
/// Linux 4.5 for TCP); net/core/sock_reuseport.c, `reuseport_select_sock`
#[doc(alias = "SO_ATTACH_REUSEPORT_CBPF")]
pub fn listen_steered(local: SocketAddr, arrivals: &[Arrival]) -> Result<SteeredListeners, ListenError> {
    let mut listeners = Vec::new();
    let mut bound = local;
    for _ in arrivals {
        let failed = |call| move |source| ListenError::Call { call, local, source };
        let socket = Socket::new(Domain::for_address(local), Type::STREAM, Some(Protocol::TCP));
        let socket = socket.map_err(failed("socket"))?;
        socket.set_nonblocking(true).map_err(failed("fcntl"))?;
        socket::prefer("SO_REUSEADDR", true, false, socket.set_reuse_address(true))?;
        // The first socket binds without `SO_REUSEPORT`, and sets it afterwards, so that binding
        // fails if another service listens there.
        let is_first = listeners.is_empty();
        if is_first {
            socket::bind_address(&socket, local)?;
        }
        socket::set("SO_REUSEPORT", true, socket.set_reuse_port(true))?;
        if is_first {
            let address = socket.local_addr().map_err(failed("getsockname"))?;
            bound = address.as_socket().unwrap_or(local);
        } else {
            socket::bind_address(&socket, bound)?;
        }
        socket.listen(BACKLOG).map_err(|source| match source.raw_os_error() {
            // Another socket was bound to the address, and did not listen yet.
            Some(libc::EADDRINUSE) => BindEndError::Address { address: bound, source }.into(),
            _ => ListenError::Call { call: "listen", local, source },
        })?;
        listeners.push(TcpListener::from(socket));
    }
    let index = |arrival: &Arrival| arrival.interface.as_deref().and_then(interfaces::index_of);
    let places: Vec<_> = arrivals.iter().map(|arrival| (arrival.cpus.clone(), index(arrival))).collect();
    let attached = listeners.first().map_or(Ok(()), |first| reuseport::attach_filter(first, &mut program(&places)));
    let steering = attached.map_err(|source| SocketOptionError {
        call: "setsockopt",
        option: "SO_ATTACH_REUSEPORT_CBPF",
        value: None,
        source,
    });
    Ok(SteeredListeners { listeners, local: bound, steering })
}

/// The classic BPF program that chooses by the CPUs and the interface of each socket. The program
/// returns the index of a socket, or the number of sockets for the kernel's hash.
fn program(places: &[(CpuSet, Option<u32>)]) -> Vec<libc::sock_filter> {
    let give = |index: usize| statement(libc::BPF_RET | libc::BPF_K, index as u32);
    let mut program = vec![load(libc::SKF_AD_CPU)];
    for (index, (cpus, _)) in places.iter().enumerate() {
        program.extend(cpus.iter().flat_map(|cpu| [unless_equal(cpu.0), give(index)]));
    }
    program.push(load(libc::SKF_AD_IFINDEX));
    for (index, (_, interface)) in places.iter().enumerate() {
        let is_alone = places.iter().filter(|(_, other)| other == interface).count() == 1;
        if let Some(interface) = interface.filter(|_| is_alone) {
            program.extend([unless_equal(interface), give(index)]);
        }
    }
    program.push(give(places.len()));
    program
}

/// Loads a value of the packet.
fn load(figure: libc::c_int) -> libc::sock_filter {
    statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, (libc::SKF_AD_OFF + figure).cast_unsigned())
}

/// Skips the next instruction unless the loaded value equals `value`.
fn unless_equal(value: u32) -> libc::sock_filter {
    libc::sock_filter { jf: 1, ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value) }
}

fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

/// The limit on the connections that wait in each socket's queue; `net.core.somaxconn` bounds it.
const BACKLOG: i32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rails_topo::CpuId;

    /// Runs a program as the kernel does (Documentation/networking/filter.rst), for the
    /// instructions above.
    fn run(program: &[libc::sock_filter], cpu: u32, interface: u32) -> usize {
        let (mut at, mut figure) = (0, 0);
        loop {
            let libc::sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            match code {
                // BPF_LD | BPF_W | BPF_ABS
                0x20 if k == (-0x1000i32 + 36).cast_unsigned() => figure = cpu,
                0x20 if k == (-0x1000i32 + 8).cast_unsigned() => figure = interface,
                // BPF_JMP | BPF_JEQ | BPF_K
                0x15 => at += usize::from(if figure == k { jt } else { jf }),
                // BPF_RET | BPF_K
                0x06 => return k as usize,
                other => panic!("instruction {other:#x}"),
            }
        }
    }

    proptest! {
        #[test]
        fn choice_by_cpu_then_by_interface(
            places in proptest::collection::vec(
                (proptest::collection::vec(0u32..20, 0..4), proptest::option::of(1u32..6)), 0..40
            ),
            cpu in 0u32..24,
            interface in 1u32..7,
        ) {
            let set = |cpus: Vec<u32>| cpus.into_iter().map(CpuId).collect::<CpuSet>();
            let places: Vec<_> = places.into_iter().map(|(cpus, interface)| (set(cpus), interface)).collect();
            let chosen = run(&program(&places), cpu, interface);
            let by_cpu = places.iter().position(|place| place.0.contains(CpuId(cpu)));
            let with_it: Vec<_> = (0..places.len()).filter(|index| places[*index].1 == Some(interface)).collect();
            let by_interface = if let [one] = with_it[..] { Some(one) } else { None };
            prop_assert_eq!(chosen, by_cpu.or(by_interface).unwrap_or(places.len()));
        }
    }

    #[test]
    fn address_in_use_is_refused_and_a_free_one_is_shared() {
        let arrivals = [(); 3].map(|()| Arrival { cpus: CpuSet::single(CpuId(0)), interface: Some("lo".to_owned()) });
        let first = listen_steered("127.0.0.1:0".parse().expect("an address"), &arrivals).expect("it is free");
        first.steering.as_ref().expect("this kernel steers");
        assert_ne!(first.local.port(), 0);
        assert!(first.listeners.iter().all(|listener| listener.local_addr().ok() == Some(first.local)));
        let second = listen_steered(first.local, &arrivals).expect_err("the first one listens");
        assert!(second.to_string().contains("127.0.0.1"), "{second}");
        drop(first);
        let none = listen_steered("127.0.0.1:0".parse().expect("an address"), &[]).expect("nothing to do");
        assert!(none.listeners.is_empty());
    }
}
