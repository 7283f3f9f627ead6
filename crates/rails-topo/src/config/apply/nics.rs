//! Network interfaces.

use super::{Ledger, locality_facts::LocalityFields};
use crate::{
    InterfaceAddress, Nic, Topology,
    config::{
        ConfigError, Problem,
        document::NicFacts,
        located::Span,
        values::{Hide, Text},
    },
    model::quoted,
};

pub(super) fn apply(topology: &mut Topology, ledger: &mut Ledger<'_>) -> Result<(), ConfigError> {
    let config = ledger.config;
    for (name, facts) in &config.document.nic {
        let key = format!("nic.{}", quoted(name.value()));
        check(ledger, &key, facts)?;
        let index = topology.nics.iter().position(|nic| nic.name == *name.value());
        let index = match (index, &facts.add) {
            (Some(index), None) => index,
            (Some(_), Some(add)) => return Err(config.wrong(&add.span(), format!("{key}.add"), Problem::AlreadyThere)),
            (None, None) => {
                return Err(config.wrong(&name.span(), key, Problem::NoSuchDevice { kind: "network interface" }));
            }
            (None, Some(add)) => {
                added(ledger, &key, &name.span(), name.value())?;
                ledger.note(format!("{key}.add"), &add.span(), None, Some("true".to_owned()));
                topology.nics.push(Nic::named(name.value()));
                topology.nics.len() - 1
            }
        };
        nic(ledger, &key, facts, &mut topology.nics[index])?;
    }
    Ok(())
}

fn nic(ledger: &mut Ledger<'_>, key: &str, facts: &NicFacts, nic: &mut Nic) -> Result<(), ConfigError> {
    let fact = |name: &str| format!("{key}.{name}");
    ledger.set_if(fact("pci"), &mut nic.pci, facts.pci.as_ref(), |function| function.0);
    ledger.set_if(fact("driver"), &mut nic.driver, facts.driver.as_ref(), String::clone);
    let fields = LocalityFields { pci: nic.pci, node: &mut nic.node, local_cpus: &mut nic.local_cpus };
    ledger.set_locality(key, &facts.locality(), fields)?;
    ledger.set_if(fact("speed"), &mut nic.speed, facts.speed.as_ref(), |rate| rate.0);
    ledger.set_if(fact("up"), &mut nic.up, facts.up.as_ref(), |up| *up);
    ledger.set_if(fact("mtu"), &mut nic.mtu, facts.mtu.as_ref(), |mtu| *mtu);
    ledger.set_if(fact("mac"), &mut nic.mac, facts.mac.as_ref(), |mac| mac.0);
    if let Some(stated) = &facts.addresses {
        let new: Vec<InterfaceAddress> = stated.value().iter().map(|Text(address)| address.clone()).collect();
        ledger.note(fact("addresses"), &stated.span(), list(&nic.addresses), list(&new));
        nic.addresses = new;
    }
    if let Some(stated) = &facts.hide {
        let new = match stated.value() {
            Hide::Because(reason) => Some(reason.clone()),
            Hide::No => None,
        };
        ledger.note(fact("hide"), &stated.span(), nic.hidden.clone(), new.clone());
        nic.hidden = new;
    }
    Ok(())
}

/// The faults that do not depend on the machine.
fn check(ledger: &Ledger<'_>, key: &str, facts: &NicFacts) -> Result<(), ConfigError> {
    if let Some(stated) = facts.addresses.as_ref().filter(|stated| stated.value().is_empty()) {
        return Err(ledger.config.wrong(&stated.span(), format!("{key}.addresses"), Problem::Empty));
    }
    let Some(hidden) = facts.hide.as_ref().filter(|stated| matches!(stated.value(), Hide::Because(_))) else {
        return Ok(());
    };
    match facts.first_fact_except_hide() {
        None => Ok(()),
        Some((name, span)) => {
            let hidden = ledger.config.position(&hidden.span(), "").line;
            Err(ledger.config.wrong(&span, format!("{key}.{name}"), Problem::HiddenToo { hidden }))
        }
    }
}

/// Refuses a name that the kernel would (`dev_valid_name` in net/core/dev.c).
fn added(ledger: &Ledger<'_>, key: &str, at: &Span, name: &str) -> Result<(), ConfigError> {
    let is_odd = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
    let is_valid = (1..=15).contains(&name.len()) && name != "." && name != ".." && !name.contains(is_odd);
    let problem = || Problem::BadName { name: name.to_owned(), expected: "the name of an interface" };
    if is_valid { Ok(()) } else { Err(ledger.config.wrong(at, key, problem())) }
}

impl NicFacts {
    /// The fact, other than `hide`, that stands first.
    fn first_fact_except_hide(&self) -> Option<(&'static str, Span)> {
        let facts = [
            ("add", self.add.as_ref().map(|fact| fact.span())),
            ("node", self.node.as_ref().map(|fact| fact.span())),
            ("local_cpus", self.local_cpus.as_ref().map(|fact| fact.span())),
            ("speed", self.speed.as_ref().map(|fact| fact.span())),
            ("up", self.up.as_ref().map(|fact| fact.span())),
            ("pci", self.pci.as_ref().map(|fact| fact.span())),
            ("driver", self.driver.as_ref().map(|fact| fact.span())),
            ("mtu", self.mtu.as_ref().map(|fact| fact.span())),
            ("mac", self.mac.as_ref().map(|fact| fact.span())),
            ("addresses", self.addresses.as_ref().map(|fact| fact.span())),
        ];
        let given = facts.into_iter().filter_map(|(name, span)| Some((name, span?)));
        given.min_by_key(|(_, span)| span.start)
    }
}

/// Addresses as text; `None` (unknown) without any.
fn list(addresses: &[InterfaceAddress]) -> Option<String> {
    let texts: Vec<String> = addresses.iter().map(|address| format!("{}/{}", address.ip, address.prefix_len)).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}
