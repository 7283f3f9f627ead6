//! `rails-bench forward`

use super::door::{DoorArgs, Room, Service, Ways};
use crate::{
    endpoint::help_for_listener,
    exit::{Exit, Help},
    print,
    stop::Stop,
    thread::block_on,
};
use anyhow::{Context, Result};
use rails_gate::{DoorKind, reset_on_close, socks};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    str::FromStr,
    sync::Arc,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// Take connections on ports of this host, and carry each to a service, through the gate
///
/// With `--socks` the program names the service. A service to which the gate has no way is
/// connected to as by any program.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
LOCAL is PORT, ADDRESS:PORT or [IPv6]:PORT; without an address it is 127.0.0.1, and port 0 takes any.

Examples:
  rails-bench forward 5432=storage:5432 8080=10.0.1.9:80
  psql -h 127.0.0.1 -p 5432
  rails-bench forward --socks 1080
  curl --proxy socks5h://127.0.0.1:1080 http://storage/file")]
pub(crate) struct Args {
    /// A port of this host, and the service that its connections go to
    #[arg(value_name = "LOCAL=HOST:PORT", required_unless_present = "socks")]
    forwards: Vec<Forward>,
    /// A port of this host for programs that speak SOCKS5; every program that reaches the port may
    /// use it
    #[arg(long, value_name = "LOCAL", value_parser = local)]
    socks: Vec<SocketAddr>,
    #[command(flatten)]
    gate: DoorArgs,
}

/// A port of this host, and its service.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Forward {
    local: SocketAddr,
    service: Service,
}

impl FromStr for Forward {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (local, service) = text.split_once('=').with_context(|| format!("`{text}` has no `=`"))?;
        Ok(Self { local: self::local(local)?, service: service.parse()? })
    }
}

/// A port of this host, or an address with a port.
fn local(text: &str) -> Result<SocketAddr> {
    match text.parse::<u16>() {
        Ok(port) => Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)),
        Err(_) => text.parse().with_context(|| format!("`{text}` is no port, and no address with a port")),
    }
}

pub(crate) fn run(args: Args) -> Result<Exit> {
    block_on(async {
        let mut stop = Stop::on_signals()?;
        let doors = |kind| Arc::new(Doors(Ways::new(args.gate.door(kind))));
        let mut listening = JoinSet::new();
        let forward = doors(DoorKind::Forward);
        for Forward { local, service } in args.forwards {
            let listener = listen(local, &service.to_string()).await?;
            listening.spawn(forward.clone().listen(listener, Way::To(Arc::new(service))));
        }
        let socks = doors(DoorKind::Socks);
        for local in args.socks {
            let listener = listen(local, "SOCKS5").await?;
            listening.spawn(socks.clone().listen(listener, Way::AsAsked));
        }
        stop.or(async {
            listening.join_next().await;
            Ok(Exit::Failed)
        })
        .await
    })
}

async fn listen(local: SocketAddr, purpose: &str) -> Result<TcpListener> {
    let listener = TcpListener::bind(local).await.with_context(|| format!("cannot listen on {local}"));
    let listener = listener.map_err(|error| match help_for_listener(&error, local.port() == 0) {
        Some(help) => error.help(help),
        None => error,
    })?;
    print::note(format_args!("listening on {} for {purpose}", listener.local_addr()?));
    Ok(listener)
}

/// Where the connections of a port go.
#[derive(Clone)]
enum Way {
    To(Arc<Service>),
    /// The program says it, by SOCKS5.
    AsAsked,
}

/// The ways that ports share.
struct Doors(Ways);

impl Doors {
    async fn listen(self: Arc<Self>, listener: TcpListener, way: Way) {
        loop {
            let room = self.0.room().await;
            match listener.accept().await {
                Ok((program, source)) => {
                    let (doors, way) = (self.clone(), way.clone());
                    tokio::spawn(async move {
                        let carried = match &way {
                            Way::To(service) => doors.forward(program, source, service, room).await,
                            Way::AsAsked => doors.socks(program, source, room).await,
                        };
                        if let Err(error) = carried {
                            print::note_seldom(&format!("{error:#}"));
                        }
                    });
                }
                Err(error) => self.0.not_accepted(&error).await,
            }
        }
    }

    async fn forward(&self, program: TcpStream, source: SocketAddr, service: &Service, room: Room) -> Result<()> {
        let reached = async {
            let addresses = service.addresses().await?;
            self.0.reach(&addresses, Some(source), room).await.with_context(|| format!("cannot connect to {service}"))
        };
        match reached.await {
            Ok(reached) => reached.carry(program).await,
            Err(error) => {
                reset_on_close(&program);
                Err(error)
            }
        }
    }

    async fn socks(&self, program: TcpStream, source: SocketAddr, room: Room) -> Result<()> {
        // The answer leaves at once.
        let _ = program.set_nodelay(true);
        let request = socks::accept(program).await.context("SOCKS5")?;
        let reached = async {
            let addresses = request.destination().addresses().await?;
            self.0.reach(&addresses, Some(source), room).await
        };
        match reached.await {
            Ok(reached) => {
                let program = request.granted(reached.local()).await?;
                reached.carry(program).await
            }
            Err(error) => Ok(request.refused((&error).into()).await?),
        }
    }
}
