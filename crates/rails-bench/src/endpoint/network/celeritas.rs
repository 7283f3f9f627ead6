//! Options of Celeritas on the command line.

use super::Address;
use crate::{
    exit::{Help, Helped},
    machine::this_machine,
    rate,
};
use anyhow::{Result, anyhow};
use rails_celeritas::{AdaptiveOptions, CeleritasOptions, CeleritasTransport};
use rails_multirail::{Scheme, Security};
use rails_topo::{Bandwidth, NicKind};
use std::{fmt, net::IpAddr, str::FromStr};

/// Options of Celeritas lanes, whose addresses are `celeritas://HOST:PORT`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CeleritasArgs {
    /// Rate at which Celeritas lanes send (celeritas://HOST:PORT; TCP lanes take none), headers
    /// included, such as 495mbit; IP=RATE is that of
    /// the lanes of one path, whose address IP is in --to or --listen [default: each lane looks
    /// for its rate, and makes way for others]
    #[arg(long, value_name = "[IP=]RATE,...", value_delimiter = ',')]
    rate: Vec<LaneRate>,
}

/// The rate of all lanes, or of those of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LaneRate {
    path: Option<IpAddr>,
    rate: Bandwidth,
}

impl CeleritasArgs {
    /// Celeritas with these rates. Its segments are sealed unless the security is none.
    pub(super) fn transport(&self, security: &Security) -> Result<CeleritasTransport> {
        self.check()?;
        let fixed = |rate| CeleritasOptions::fixed(rate).security(security.clone());
        let adaptive = || CeleritasOptions::adaptive(AdaptiveOptions::new()).security(security.clone());
        let common = self.rate.iter().find(|rate| rate.path.is_none());
        let mut transport = CeleritasTransport::new(common.map_or_else(adaptive, |common| fixed(common.rate)));
        for LaneRate { path, rate } in &self.rate {
            if let Some(address) = path {
                transport = transport.path(*address, fixed(*rate));
            }
        }
        Ok(transport)
    }

    /// Refuses a rate that no lane has: TCP finds its own.
    pub(super) fn check_lanes(&self, addresses: &[Address]) -> Result<()> {
        let is_unheeded = |rate: &&LaneRate| {
            // A name may stand for any address.
            let may_be = |address: &&Address| match (rate.path, address.ip()) {
                (Some(path), Some(ip)) => path == ip,
                _ => true,
            };
            let mut lanes = addresses.iter().filter(may_be).peekable();
            lanes.peek().is_some() && lanes.all(|address| address.scheme() == Scheme::TCP)
        };
        match self.rate.iter().find(is_unheeded) {
            Some(rate) => Err(Helped::usage(
                format_args!("--rate {rate}: no lane is of Celeritas, and TCP has no rate to set"),
                "use `send --bwlimit` to limit the files' bytes, or celeritas://HOST:PORT at both ends",
            )),
            None => Ok(()),
        }
    }

    /// Refuses a rate above the speed of the fastest interface, if speeds are known.
    fn check(&self) -> Result<()> {
        if self.rate.is_empty() {
            return Ok(());
        }
        let machine = this_machine()?;
        let real = machine.nics().iter().filter(|nic| nic.kind == NicKind::Device);
        let Some(fastest) = real.filter(|nic| nic.speed.is_some()).max_by_key(|nic| nic.speed) else { return Ok(()) };
        match self.rate.iter().find(|rate| Some(rate.rate) > fastest.speed) {
            Some(LaneRate { rate, .. }) => {
                let speed = fastest.speed.unwrap_or(Bandwidth::bits_per_second(0));
                let error = anyhow!("--rate {rate}: the fastest interface, {}, has {speed}", fastest.name);
                Err(error.help("a lane sends at this rate whatever happens to it on the way: name the path's own"))
            }
            None => Ok(()),
        }
    }
}

/// As the command line has it.
impl fmt::Display for LaneRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = self.path {
            write!(f, "{path}=")?;
        }
        self.rate.fmt(f)
    }
}

impl FromStr for LaneRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((path, text)) => {
                let path = path.parse().map_err(|_| format!("`{path}` is no IP address"))?;
                Ok(Self { path: Some(path), rate: rate::parse(text)? })
            }
            None => Ok(Self { path: None, rate: rate::parse(text)? }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_all_lanes_and_of_a_path() {
        let rate = Bandwidth::mbps(99);
        assert_eq!("99mbit".parse(), Ok(LaneRate { path: None, rate }));
        assert_eq!("fd00::1=99mbit".parse(), Ok(LaneRate { path: "fd00::1".parse().ok(), rate }));
        for wrong in ["host=99mbit", "10.0.0.1=", "=99mbit", "10.0.0.1=0kbit"] {
            wrong.parse::<LaneRate>().unwrap_err();
        }
    }
}
