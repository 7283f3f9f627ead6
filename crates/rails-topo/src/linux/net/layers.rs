//! Virtual interfaces: their kinds, and the interfaces right under them.

use super::{super::root::Root, NET};
use crate::{Nic, NicKind};
use std::collections::BTreeMap;

/// The kind of an interface that is made in software, by the name that `ip link` has for it.
///
/// `DEVTYPE` of its `uevent`, if its driver sets one (`SET_NETDEV_DEVTYPE`). Others have a folder
/// or a file of their own. For the rest (team, veth, macvlan, dummy and more) no file states the
/// kind, and a name is no evidence.
pub(super) fn kind(root: &Root, nic: &Nic, vlans: &Vlans) -> Option<String> {
    if nic.kind != NicKind::Virtual {
        return None;
    }
    let folder = format!("{NET}/{}", nic.name);
    let uevent = root.text(&format!("{folder}/uevent")).unwrap_or_default();
    let device_type = uevent.lines().find_map(|line| line.strip_prefix("DEVTYPE=")).filter(|kind| !kind.is_empty());
    let has = |name: &str| root.is_dir(&format!("{folder}/{name}"));
    let shown = || {
        let by_folder = [("bonding", "bond"), ("bridge", "bridge"), ("macvtap", "macvtap")];
        let found = by_folder.into_iter().find(|(name, _)| has(name)).map(|(_, kind)| kind);
        let vlan = || vlans.0.contains_key(&nic.name).then_some("vlan");
        let tunnel = || tun_or_tap(&root.text(&format!("{folder}/tun_flags"))?);
        found.or_else(vlan).or_else(tunnel)
    };
    device_type.or_else(shown).map(str::to_owned)
}

/// The interfaces right under this one, by name.
///
/// `lower_*` are links to them since Linux 3.14; before, bonds, bridges and VLANs had files of
/// their own. Interfaces of another network namespace are in neither.
pub(super) fn lowers(root: &Root, name: &str, vlans: &Vlans) -> Vec<String> {
    let folder = format!("{NET}/{name}");
    let lower = |file: String| file.strip_prefix("lower_").filter(|lower| !lower.is_empty()).map(str::to_owned);
    let mut lowers: Vec<String> = root.names(&folder).into_iter().filter_map(lower).collect();
    if lowers.is_empty() {
        let slaves = root.text(&format!("{folder}/bonding/slaves")).unwrap_or_default();
        lowers = slaves.split_whitespace().map(str::to_owned).collect();
        lowers.extend(root.names(&format!("{folder}/brif")));
        lowers.extend(vlans.0.get(name).cloned());
        lowers.sort();
        lowers.dedup();
    }
    lowers
}

/// The interface under each VLAN, by name, from `/proc/net/vlan/config` (net/8021q/vlanproc.c: two
/// lines of heads, then `name | VLAN ID | interface`). Only root may read it.
pub(super) struct Vlans(BTreeMap<String, String>);

impl Vlans {
    pub(super) fn read(root: &Root) -> Self {
        Self::parse(&root.text("proc/net/vlan/config").unwrap_or_default())
    }

    fn parse(config: &str) -> Self {
        let vlan = |line: &str| {
            let mut fields = line.split('|').map(str::trim);
            let (name, id, lower) = (fields.next()?, fields.next()?, fields.next()?);
            id.parse::<u16>().ok()?;
            (fields.next().is_none() && !name.is_empty() && !lower.is_empty())
                .then(|| (name.to_owned(), lower.to_owned()))
        };
        Self(config.lines().filter_map(vlan).collect())
    }
}

/// IFF_TUN and IFF_TAP of include/uapi/linux/if_tun.h.
fn tun_or_tap(flags: &str) -> Option<&'static str> {
    let flags = u32::from_str_radix(flags.strip_prefix("0x")?, 16).ok()?;
    match flags & 3 {
        1 => Some("tun"),
        2 => Some("tap"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn vlans_are_read_below_their_heads() {
        let config = "VLAN Dev name\t | VLAN ID\nName-Type: VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD\n\
                      eth0.1015      | 1015  | eth0\nstorage        | 7  | bond0\n | 3 | eth0\neth1.x | x | eth1";
        let vlans = Vlans::parse(config).0;
        let expected = [("eth0.1015", "eth0"), ("storage", "bond0")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(vlans, BTreeMap::from(expected));
    }

    #[test]
    fn tun_and_tap_differ_by_their_flags() {
        assert_eq!(tun_or_tap("0x1001"), Some("tun"));
        assert_eq!(tun_or_tap("0x5102"), Some("tap"));
        for text in ["", "0x", "1002", "0x1000", "0x1003", "0xffffffffff"] {
            assert_eq!(tun_or_tap(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn hostile_lists_of_vlans_never_panic(text in "([a-z0-9.é]{0,4}[| \n]){0,12}|.{0,60}") {
            let _ = Vlans::parse(&text);
        }
    }
}
