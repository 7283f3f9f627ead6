//! `rails-bench redirect`

use super::door::{DoorArgs, Room, Ways, source};
use crate::{
    exit::{Exit, Help},
    print,
    stop::Stop,
    thread::block_on,
};
use anyhow::{Context, Error, Result};
use ipnet::IpNet;
use rails_divert::redirect::{AsyncRedirect, NetworkError, Redirect, RedirectError, cgroup_of_unit};
use rails_gate::{Door, DoorKind, policy::Target, reset_on_close};
use std::{
    fs,
    net::SocketAddr,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::TcpStream,
    time::{MissedTickBehavior, interval, sleep},
};

/// Divert the connections of a service, or of all programs of a cgroup, to the gate of this host
///
/// Only connections to destinations that the gate's policy sends through a peer are diverted, and
/// those that cannot go through go plain. All ends with this process.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Needs root, and cgroup version 2. Programs that run already are included, with the connections that they make from now on. A cgroup that is
removed, as that of a service that is started anew, is redirected again once it is there.

Examples:
  rails-bench redirect --unit backup.service
  rails-bench redirect --cgroup /sys/fs/cgroup/user.slice")]
pub(crate) struct Args {
    /// The systemd unit whose programs are meant
    #[arg(long, value_name = "NAME", required_unless_present = "cgroup", conflicts_with = "cgroup")]
    unit: Option<String>,
    /// The folder of the cgroup whose programs are meant, and those of the cgroups below it
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
    #[command(flatten)]
    gate: DoorArgs,
}

pub(crate) fn run(args: &Args) -> Result<Exit> {
    let cgroup = match (&args.cgroup, &args.unit) {
        (Some(path), _) => path.clone(),
        (None, Some(unit)) => cgroup_of_unit(unit).with_context(|| format!("--unit {unit}"))?,
        (None, None) => unreachable!("clap asks for one of them"),
    };
    block_on(async {
        let mut stop = Stop::on_signals()?;
        let door = args.gate.door(DoorKind::Redirect);
        let ways = Arc::new(Ways::new(door.clone()));
        let all = async {
            let mut redirect = install(&cgroup, &door).await;
            loop {
                serve(redirect.map_err(not_installed)?, &door, &ways).await?;
                print::note(format_args!("{} is gone: waiting until it is there again", cgroup.display()));
                redirect = loop {
                    sleep(LOOK_AT_CGROUP).await;
                    match install(&cgroup, &door).await {
                        Err(RedirectError::NoSuchCgroup { .. }) => {}
                        installed => break installed,
                    }
                };
            }
        };
        stop.or(all).await
    })
}

/// Redirects the connections of a cgroup that is there.
async fn install(cgroup: &Path, door: &Door) -> Result<Redirect, RedirectError> {
    if !cgroup.exists() {
        return Err(RedirectError::NoSuchCgroup { cgroup: cgroup.to_owned() });
    }
    let networks = networks(door).await;
    let gate = door.process().await.ok().flatten();
    let redirect = possible(networks.clone().unwrap_or_default(), |networks| {
        Redirect::install(cgroup, networks, gate.as_slice())
    })?;
    print::note(format_args!("redirecting the connections of {}", cgroup.display()));
    if networks.is_none() {
        print::note(format_args!("no gate answers at {}: nothing is redirected until one does", door.gate().display()));
    }
    Ok(redirect)
}

/// Serves the connections of a cgroup for as long as it is there.
async fn serve(redirect: Redirect, door: &Door, ways: &Arc<Ways>) -> Result<()> {
    let redirect = AsyncRedirect::new(redirect).context("cannot wait for connections")?;
    tokio::select! {
        never = accept(&redirect, ways) => never,
        never = follow(&redirect, door) => never,
        () = ended(&redirect) => Ok(()),
    }
}

/// Waits until the cgroup is no more.
async fn ended(redirect: &Redirect) {
    while redirect.has_cgroup() {
        sleep(LOOK_AT_CGROUP).await;
    }
}

type Networks = Vec<(IpNet, RangeInclusive<u16>)>;

/// The networks of the gate's policy; `None` if no gate answers.
async fn networks(door: &Door) -> Option<Networks> {
    let targets: Vec<Target> = door.networks().await.ok()?;
    let ranges = targets
        .iter()
        .flat_map(|target| target.ports().ranges().iter().map(|range| (target.net(), range.first()..=range.last())));
    Some(ranges.collect())
}

/// Applies networks, without those that are never redirected, or not on this host: they are for
/// other doors.
fn possible<T>(
    mut networks: Networks,
    apply: impl Fn(&Networks) -> Result<T, RedirectError>,
) -> Result<T, RedirectError> {
    loop {
        let before = networks.len();
        let error = match apply(&networks) {
            Err(error) => error,
            applied => return applied,
        };
        match &error {
            RedirectError::Network(NetworkError::NeverDiverted { network }) => {
                networks.retain(|(known, _)| known.trunc() != *network);
            }
            RedirectError::NoIpv6 { .. } => networks.retain(|(known, _)| known.addr().is_ipv4()),
            _ => return Err(error),
        }
        if networks.len() == before {
            return Err(error);
        }
        print::note_seldom(&format!("not redirected: {:#}", Error::new(error)));
    }
}

/// Follows the gate: its policy, and its place outside the cgroup. While no gate answers, the
/// networks stay, and their connections go plain.
async fn follow(redirect: &Redirect, door: &Door) -> Result<()> {
    let mut ticks = interval(LOOK_AT_GATE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut last, mut seen) = (None, None);
    loop {
        ticks.tick().await;
        let Some(mut now) = networks(door).await else { continue };
        if let Some(gate) = door.process().await.ok().flatten() {
            let place = (gate, fs::read(format!("/proc/{gate}/cgroup")).ok());
            // The cgroups are searched when the gate is another one or has moved.
            let (_, inside) = seen.take_if(|(known, _)| *known == place).unwrap_or_else(|| {
                let inside = redirect.keep_out(&[gate]).err().map(|error| format!("{:#}", not_installed(error)));
                (place.clone(), inside)
            });
            if let Some(error) = &inside {
                print::note_seldom(&format!("nothing is redirected: {error}"));
                now.clear();
            }
            seen = Some((place, inside));
        }
        if last.as_ref() == Some(&now) {
            continue;
        }
        match possible(now.clone(), |networks| redirect.set_networks(networks)) {
            Ok(()) => last = Some(now),
            Err(error) => {
                print::note_seldom(&format!("the networks of before are redirected: {:#}", Error::new(error)))
            }
        }
    }
}

async fn accept(redirect: &AsyncRedirect, ways: &Arc<Ways>) -> Result<()> {
    loop {
        let room = ways.room().await;
        match redirect.accept().await {
            Ok((program, destination)) => {
                let ways = ways.clone();
                tokio::spawn(async move {
                    if let Err(error) = carry(&ways, program, destination, room).await {
                        print::note_seldom(&format!("{destination}: {error:#}"));
                    }
                });
            }
            Err(error) => ways.not_accepted(&error).await,
        }
    }
}

async fn carry(ways: &Ways, program: TcpStream, destination: SocketAddr, room: Room) -> Result<()> {
    let port = program.peer_addr().map_or(0, |address| address.port());
    match ways.reach(&[destination], source(destination, port), room).await {
        Ok(reached) => reached.carry(program).await,
        Err(error) => {
            reset_on_close(&program);
            Err(error).context("cannot connect")
        }
    }
}

fn not_installed(error: RedirectError) -> Error {
    let remedy = error.remedy();
    let error = Error::new(error);
    match remedy {
        Some(remedy) => error.help(remedy),
        None => error,
    }
}

/// How often the gate is asked for its networks.
const LOOK_AT_GATE: Duration = Duration::from_secs(2);
/// How often it is asked whether the cgroup is there: a service that starts soon connects.
const LOOK_AT_CGROUP: Duration = Duration::from_millis(100);
