//! The peer, as the command line names it.

use super::Address;
use crate::{
    exit::{Help, Helped},
    print,
};
use anyhow::Result;
use rails_multirail::{LaneAddress, ResolveError, limit_names};
use std::fmt;

/// The addresses of a peer: all addresses of each name on the command line.
#[derive(Debug, Clone)]
pub(crate) struct Remotes(Vec<Vec<LaneAddress>>);

impl Remotes {
    /// Resolves the names of a flag.
    ///
    /// # Errors
    /// If a name is unknown, or there is no name; the error names the flag.
    pub(crate) async fn of(flag: &str, addresses: &[Address]) -> Result<Self> {
        if addresses.is_empty() {
            return Err(Helped::usage(format_args!("{flag}: no address"), format!("for example `{flag} 10.0.0.1`")));
        }
        let mut names = Vec::new();
        for address in addresses {
            let found = rails_multirail::resolve(address.to_string()).await;
            names.extend(found.map_err(|error| {
                let help = match &error {
                    ResolveError::Lookup { host, .. } => format!("`getent ahosts {host}` asks the same question"),
                    _ => "`rails-bench topo` prints this machine's interfaces".to_owned(),
                };
                anyhow::Error::new(error).context(format!("{flag} {address}")).help(help)
            })?);
        }
        Ok(Self(names))
    }

    /// Each name with its addresses.
    pub(crate) fn names(&self) -> &[Vec<LaneAddress>] {
        &self.0
    }

    /// Every address.
    pub(crate) fn all(&self) -> Vec<LaneAddress> {
        self.0.concat()
    }

    /// The first address of each name.
    pub(crate) fn firsts(&self) -> Vec<LaneAddress> {
        self.0.iter().filter_map(|addresses| addresses.first().copied()).collect()
    }

    /// These names with at most `max` addresses in all, but at least one each. A note lists those
    /// left out.
    pub(crate) fn limited(mut self, flag: &str, max: usize) -> Self {
        let left_out = limit_names(&mut self.0, max);
        if left_out > 0 {
            print::note(format_args!(
                "{flag}: {left_out} addresses of names are left out: a stream calls at most {max}"
            ));
        }
        self
    }

    /// These names with their first addresses alone.
    pub(crate) fn first_of_each(self) -> Self {
        Self(self.firsts().into_iter().map(|first| vec![first]).collect())
    }
}

impl fmt::Display for Remotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.all().iter().map(LaneAddress::to_string).collect();
        f.write_str(&all.join(","))
    }
}
