//! A service on all rails, with a listening socket each.

use crate::loopback;
use rails::{
    bind::thread,
    multirail::{RailId, Rails, ServeError, Service, runtime::TaskError},
    topo::{CpuId, CpuSet},
};
use std::{
    cell::Cell,
    io::Read,
    net::{Ipv4Addr, SocketAddr, TcpStream as BlockingStream},
    rc::Rc,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task,
    time::timeout,
};

#[tokio::test]
async fn connections_are_served_on_the_rail_of_their_cpu() {
    let (_, rails) = loopback(3);
    let service = names_of_rails(&rails).await;
    service.steering().expect("this kernel steers");
    for cpu in rails.iter().map(|rail| rail.planned().cpu) {
        let nearest = rails.iter().find(|rail| rail.planned().cpu == cpu).unwrap().id();
        assert_eq!(served_by(service.local_addr(), cpu, 20).await, vec![nearest; 20], "from CPU {cpu}");
    }
}

#[tokio::test]
async fn each_rail_serves_with_its_own_value() {
    let (_, rails) = loopback(2);
    // A value that can be neither cloned nor shared.
    let values = [7, 8].map(Cell::new);
    let service = rails
        .serve_with((Ipv4Addr::LOCALHOST, 0), values, |_, listener, value| tell(RailId(value.get()), listener))
        .await
        .unwrap();
    for rail in rails.iter() {
        let cpu = rail.planned().cpu;
        assert_eq!(served_by(service.local_addr(), cpu, 5).await, [RailId(7 + rail.id().0); 5], "from CPU {cpu}");
    }
    let short = rails.serve_with("127.0.0.1:0", [7], |_, _, _| async {}).await.map(drop);
    assert!(matches!(short, Err(ServeError::Values { rails: 2, values: 1 })), "{short:?}");
}

#[tokio::test]
async fn a_panic_in_the_constructor_ends_its_own_service() {
    let (_, rails) = loopback(2);
    let mut service = rails
        .serve((Ipv4Addr::LOCALHOST, 0), |rail, listener| {
            assert_ne!(rail.id(), RailId(1), "on purpose");
            tell(rail.id(), listener)
        })
        .await
        .unwrap();
    let (rail, end) = timeout(PATIENCE, service.ended()).await.unwrap().unwrap();
    assert_eq!(rail, RailId(1));
    assert!(matches!(&end, Err(TaskError::Panicked(panic)) if panic.to_string().contains("on purpose")), "{end:?}");
    for rail in rails.iter() {
        let cpu = rail.planned().cpu;
        assert_eq!(served_by(service.local_addr(), cpu, 5).await, [RailId(0); 5], "from CPU {cpu}");
    }
    timeout(PATIENCE, service.stop()).await.unwrap();
}

#[tokio::test]
async fn a_stopped_service_keeps_only_its_connections() {
    let (_, rails) = loopback(2);
    let service = rails
        .serve("localhost:0", |_, listener| async move {
            // Not `Send`.
            let greeting = Rc::new(String::from("hello"));
            while let Ok((mut connection, _)) = listener.accept().await {
                let greeting = greeting.clone();
                task::spawn_local(async move {
                    connection.write_all(greeting.as_bytes()).await.unwrap();
                    let mut byte = [0];
                    connection.read_exact(&mut byte).await.unwrap();
                    connection.write_all(&byte).await.unwrap();
                });
            }
        })
        .await
        .unwrap();
    let address = service.local_addr();
    let mut open = TcpStream::connect(address).await.unwrap();
    let mut greeting = [0; 5];
    timeout(PATIENCE, open.read_exact(&mut greeting)).await.unwrap().unwrap();
    assert_eq!(&greeting, b"hello");

    let taken = rails.serve(address, tell_nothing).await.map(drop);
    assert!(matches!(taken, Err(ServeError::Listen(_))), "{taken:?}");
    timeout(PATIENCE, service.stop()).await.unwrap();
    TcpStream::connect(address).await.unwrap_err();
    let again = rails.serve(address, tell_nothing).await.unwrap();
    assert_eq!(again.local_addr(), address);
    open.write_all(b"!").await.unwrap();
    assert_eq!(timeout(PATIENCE, open.read_u8()).await.unwrap().unwrap(), b'!');
}

#[tokio::test]
async fn a_service_keeps_its_rails_and_ends_with_them() {
    let (_, rails) = loopback(2);
    let mut service = names_of_rails(&rails).await;
    let stopping = rails.clone();
    drop(rails);
    let cpu = stopping[RailId(0)].planned().cpu;
    assert_eq!(served_by(service.local_addr(), cpu, 1).await, [RailId(0)]);
    assert!(timeout(Duration::from_millis(20), service.ended()).await.is_err(), "it serves on");
    let stopped = stopping.clone();
    assert_eq!(stopped.shutdown(PATIENCE).await, Ok(()));
    for _ in 0..2 {
        let (_, end) = timeout(PATIENCE, service.ended()).await.unwrap().unwrap();
        assert!(matches!(end, Err(TaskError::Cancelled)));
    }
    assert!(service.ended().await.is_none());
    let late = timeout(PATIENCE, stopping.serve("127.0.0.1:0", tell_nothing)).await.unwrap().map(drop);
    assert!(matches!(late, Err(ServeError::RailStopped(RailId(0)))), "{late:?}");
    let unknown = timeout(PATIENCE, stopping.serve("no port", tell_nothing)).await.unwrap().map(drop);
    assert!(matches!(unknown, Err(ServeError::Resolve(_))), "{unknown:?}");
}

/// A service that tells each client which rail serves it.
async fn names_of_rails(rails: &Rails) -> Service<()> {
    rails.serve((Ipv4Addr::LOCALHOST, 0), |rail, listener| tell(rail.id(), listener)).await.unwrap()
}

async fn tell(rail: RailId, listener: TcpListener) {
    while let Ok((mut connection, _)) = listener.accept().await {
        connection.write_all(&[rail.0 as u8]).await.unwrap();
    }
}

fn tell_nothing(_: &rails::multirail::Rail, _listener: TcpListener) -> std::future::Pending<()> {
    std::future::pending()
}

/// The rails that serve `count` connections from a thread on `cpu`.
async fn served_by(address: SocketAddr, cpu: CpuId, count: usize) -> Vec<RailId> {
    let connect = move || {
        let mut connection = BlockingStream::connect(address).unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut rail = [0];
        connection.read_exact(&mut rail).unwrap();
        RailId(rail[0].into())
    };
    let client = std::thread::spawn(move || {
        let _bound = thread::bind_current(&CpuSet::single(cpu)).unwrap();
        (0..count).map(|_| connect()).collect()
    });
    task::spawn_blocking(move || client.join().unwrap()).await.unwrap()
}

/// A bound against hanging.
const PATIENCE: Duration = Duration::from_secs(20);
