//! The kernel's reports of changes.

use super::texts;
use rails_topo::monitor::fuzzing;

/// No datagram makes the decoder panic.
pub(crate) fn uevent(data: &[u8]) {
    fuzzing::uevent(data);
}

pub(crate) fn uevents() -> Vec<Vec<u8>> {
    texts([
        "offline@/devices/system/cpu/cpu3\0ACTION=offline\0DEVPATH=/devices/system/cpu/cpu3\0SUBSYSTEM=cpu\0SEQNUM=1\0",
        "online@/devices/system/memory/memory33\0ACTION=online\0SUBSYSTEM=memory\0",
        "remove@/devices/system/node/node1\0SUBSYSTEM=node\0",
        "libudev\0\u{2}",
    ])
}

pub(crate) const UEVENT_WORDS: &[&str] = &[
    "\0SUBSYSTEM=",
    "cpu",
    "memory",
    "node",
    "online@",
    "offline@",
    "/devices/system/cpu/cpu",
    "/devices/system/memory/memory",
    "1048575",
    "4294967295",
];

/// No datagram makes the decoder panic, or report more changes than the datagram has messages.
pub(crate) fn rtnetlink(data: &[u8]) {
    // A message's header is 16 bytes long (netlink(7)).
    assert!(fuzzing::rtnetlink(data) <= data.len() / 16);
}

/// `RTM_NEWLINK` of an interface that is up, with its name and its state, and `RTM_DELADDR`
/// (include/uapi/linux/rtnetlink.h).
pub(crate) fn datagrams() -> Vec<Vec<u8>> {
    let message = |kind: u16, body: &[u8]| {
        let header = [&(16 + body.len() as u32).to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10]].concat();
        [&header[..], body].concat()
    };
    let attribute = |kind: u16, value: &[u8; 4]| [&8u16.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    let link = [&[0, 0, 1, 0][..], &2u32.to_ne_bytes(), &0x11043u32.to_ne_bytes(), &[0; 4]].concat();
    let link = [link, attribute(3, b"et0\0"), attribute(16, &[6, 0, 0, 0]), attribute(33, &[1, 0, 0, 0])].concat();
    let address = [&[2, 24, 0, 0][..], &2u32.to_ne_bytes(), &attribute(2, &[10, 0, 0, 1])].concat();
    let (link, address) = (message(16, &link), message(21, &address));
    vec![[&link[..], &address].concat(), link, address]
}
