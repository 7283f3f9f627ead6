//! The list of lanes that the responder sends to an initiator on request, in one message after the
//! handshake.
//!
//! The message carries the same kind of proof as `Accepted`, which also covers the message itself.
//! The message is sealed if the frames of the lane would be.

use super::{
    HandshakeError, HandshakeMessage, Joined, PREFIX_LEN, Proved, VERSION,
    message::{LANES, MAGIC, array_at},
};
use crate::{
    LaneAddress, RailId, Scheme,
    pairing::{LaneCandidate, MAX_OFFERS},
    seal::TAG_LEN,
};
use bytes::Bytes;
use std::{
    collections::HashSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

/// An error in a list of lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LanesError {
    /// The list is empty, or has more lanes than a stream may have.
    #[error("it names {0} lanes, and may name from 1 to {MAX_OFFERS}")]
    Count(u8),
    /// The list was changed on the way, or answers another handshake.
    #[error("it was changed on the way")]
    Sealed,
    /// An address of neither IPv4 nor IPv6.
    #[error("there is no address family {0}")]
    Family(u8),
    /// An IPv4 address of more than four bytes, or reserved bytes that are not 0.
    #[error("reserved bytes are not 0")]
    Padding,
    /// An address to which no end can connect.
    #[error("no end can connect to {0}")]
    Address(IpAddr),
    /// Port 0, on which no socket can listen.
    #[error("no socket can listen on port 0 of {0}")]
    Port(IpAddr),
    /// A prefix that is longer than the address.
    #[error("a prefix of {prefix_len} bits is too long for {ip}")]
    Prefix {
        /// The address.
        ip: IpAddr,
        /// The prefix in bits.
        prefix_len: u8,
    },
    /// The list has an address twice.
    #[error("it names {0} twice")]
    Repeated(LaneAddress),
    /// A name that no interface can have.
    #[error("an interface's name is invalid")]
    Name,
    /// A name that no transport can have.
    #[error("a transport's name is invalid")]
    Scheme,
}

impl Proved {
    /// The message that tells the initiator of these lanes. The responder sends it behind
    /// [`Proved::accept`]. The caller may ask for it once: it uses up the lane's seals.
    ///
    /// # Panics
    /// If `offers` is empty, or has more than [`MAX_OFFERS`].
    pub fn lanes(&mut self, offers: &[LaneCandidate]) -> Vec<u8> {
        assert!((1..=MAX_OFFERS).contains(&offers.len()), "from 1 to {MAX_OFFERS} lanes are offered");
        let mut message = MAGIC.to_vec();
        message.extend_from_slice(&[VERSION, LANES, 0, offers.len() as u8]);
        offers.iter().for_each(|offer| encode(offer, &mut message));
        let tag = self.transcript.sign_lanes(self.joining.key(), &message);
        message.extend_from_slice(&tag);
        match &mut self.seals {
            None => message,
            Some(seals) => {
                let body = Bytes::copy_from_slice(&message[PREFIX_LEN..]);
                message.truncate(PREFIX_LEN);
                message.extend_from_slice(seals.sealer.seal(&[], &[body]));
                message
            }
        }
    }
}

impl Joined {
    /// The number of bytes that follow the first [`PREFIX_LEN`] of the message with the list of
    /// lanes.
    ///
    /// # Errors
    /// As [`HandshakeMessage::body_len`], [`LanesError::Count`], and [`HandshakeError::Disorder`]
    /// for any other message.
    pub fn lanes_len(&self, prefix: &[u8; PREFIX_LEN]) -> Result<usize, HandshakeError> {
        if prefix[..6] != [&MAGIC[..], &[VERSION, LANES]].concat() {
            // Tell another protocol or version from a message out of turn.
            HandshakeMessage::body_len(prefix)?;
            return Err(HandshakeError::Disorder);
        }
        if prefix[6] != 0 {
            return Err(HandshakeError::Field { field: "mode", value: prefix[6].into() });
        }
        match usize::from(prefix[7]) {
            count @ 1..=MAX_OFFERS => Ok(count * ENTRY_LEN + MAC_LEN + self.seal_len()),
            _ => Err(HandshakeError::Lanes(LanesError::Count(prefix[7]))),
        }
    }

    /// The responder's lanes, in its order: the first is the lane that carried the question.
    ///
    /// # Errors
    /// [`HandshakeError::Secret`] if the proof is wrong, [`HandshakeError::Lanes`] if the list is
    /// invalid.
    ///
    /// # Panics
    /// If `body` is not as long as [`Joined::lanes_len`] says.
    pub fn lanes(
        &mut self,
        prefix: &[u8; PREFIX_LEN],
        mut body: Vec<u8>,
    ) -> Result<Vec<LaneCandidate>, HandshakeError> {
        assert_eq!(body.len(), self.lanes_len(prefix)?, "the body is as long as the prefix says");
        if let Some(seals) = &mut self.seals {
            let (text, tag) = body.split_at_mut(usize::from(prefix[7]) * ENTRY_LEN + MAC_LEN);
            seals.opener.payload(text, tag).map_err(|_| HandshakeError::Lanes(LanesError::Sealed))?;
        }
        let (entries, rest) = body.split_at(usize::from(prefix[7]) * ENTRY_LEN);
        self.transcript.verify_lanes(self.joining.key(), &[prefix, entries].concat(), &rest[..MAC_LEN])?;
        let (entries, _) = entries.as_chunks::<ENTRY_LEN>();
        let offers: Result<Vec<LaneCandidate>, LanesError> = entries.iter().map(decode).collect();
        let offers = offers.map_err(HandshakeError::Lanes)?;
        let mut seen = HashSet::new();
        match offers.iter().find(|offer| !seen.insert(offer.address)) {
            Some(twice) => Err(HandshakeError::Lanes(LanesError::Repeated(twice.address))),
            None => Ok(offers),
        }
    }

    fn seal_len(&self) -> usize {
        if self.seals.is_some() { TAG_LEN } else { 0 }
    }
}

fn encode(offer: &LaneCandidate, bytes: &mut Vec<u8>) {
    let ip = offer.ip();
    let rail = u16::try_from(offer.rail.0).unwrap_or(u16::MAX);
    bytes.extend_from_slice(&rail.to_be_bytes());
    bytes.extend_from_slice(&[if ip.is_ipv4() { 4 } else { 6 }, offer.prefix_len.unwrap_or(UNKNOWN_PREFIX)]);
    bytes.extend_from_slice(&offer.address.port().to_be_bytes());
    bytes.extend_from_slice(&[0; 2]);
    bytes.extend_from_slice(&offer.node.unwrap_or(UNKNOWN_NODE).to_be_bytes());
    bytes.extend_from_slice(&offer.speed_bits_per_second.unwrap_or(0).to_be_bytes());
    let mut address = [0; 16];
    match ip {
        IpAddr::V4(ip) => address[..4].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => address = ip.octets(),
    }
    bytes.extend_from_slice(&address);
    let mut name = [0; NAME_LEN];
    // Leave out a name that the message cannot hold: the name only explains.
    if let Some(interface) = offer.interface.as_deref().filter(|name| is_name(name.as_bytes())) {
        name[..interface.len()].copy_from_slice(interface.as_bytes());
    }
    bytes.extend_from_slice(&name);
    bytes.extend_from_slice(&offer.address.scheme.to_padded());
}

fn decode(entry: &[u8; ENTRY_LEN]) -> Result<LaneCandidate, LanesError> {
    let address: [u8; 16] = array_at(entry, 20);
    let (ip, bits): (IpAddr, u8) = match entry[2] {
        4 if address[4..] == [0; 12] => (Ipv4Addr::from(array_at::<4>(&address, 0)).into(), 32),
        4 => return Err(LanesError::Padding),
        6 => (Ipv6Addr::from(address).into(), 128),
        family => return Err(LanesError::Family(family)),
    };
    if entry[6..8] != [0; 2] {
        return Err(LanesError::Padding);
    }
    if ip.is_unspecified() || ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST) || ip.to_canonical() != ip {
        return Err(LanesError::Address(ip));
    }
    let port = u16::from_be_bytes(array_at(entry, 4));
    if port == 0 {
        return Err(LanesError::Port(ip));
    }
    let prefix_len = match entry[3] {
        UNKNOWN_PREFIX => None,
        prefix_len if prefix_len <= bits => Some(prefix_len),
        prefix_len => return Err(LanesError::Prefix { ip, prefix_len }),
    };
    let speed_bits_per_second = Some(u64::from_be_bytes(array_at(entry, 12))).filter(|bits| *bits != 0);
    let node = Some(u32::from_be_bytes(array_at(entry, 8))).filter(|node| *node != UNKNOWN_NODE);
    let name: [u8; NAME_LEN] = array_at(entry, 36);
    let length = name.iter().position(|byte| *byte == 0).ok_or(LanesError::Name)?;
    let (name, rest) = name.split_at(length);
    if rest.iter().any(|byte| *byte != 0) || !(name.is_empty() || is_name(name)) {
        return Err(LanesError::Name);
    }
    let scheme = Scheme::from_padded(&array_at(entry, 36 + NAME_LEN)).ok_or(LanesError::Scheme)?;
    Ok(LaneCandidate {
        rail: RailId(u16::from_be_bytes(array_at(entry, 0)).into()),
        address: LaneAddress { scheme, socket: SocketAddr::new(ip, port) },
        prefix_len,
        speed_bits_per_second,
        node,
        interface: (!name.is_empty()).then(|| name.iter().map(|byte| char::from(*byte)).collect()),
    })
}

/// Whether the name may be printed as the name of an interface: the kernel takes it
/// (`dev_valid_name()` of net/core/dev.c), and it is visible ASCII.
fn is_name(name: &[u8]) -> bool {
    (1..NAME_LEN).contains(&name.len())
        && name.iter().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'/' | b':'))
}

/// For [`crate::fuzzing`].
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(bytes: &[u8]) {
    let (entries, _) = bytes.as_chunks::<ENTRY_LEN>();
    for entry in entries {
        match decode(entry) {
            Ok(offer) => {
                let mut again = Vec::new();
                encode(&offer, &mut again);
                assert_eq!(again, entry, "{offer:?}");
            }
            Err(error) => drop(error.to_string()),
        }
    }
}

/// For [`crate::fuzzing`].
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_seed(offers: &[LaneCandidate]) -> Vec<u8> {
    let mut entries = Vec::new();
    offers.iter().for_each(|offer| encode(offer, &mut entries));
    entries
}

/// `IFNAMSIZ` of include/uapi/linux/if.h, with the NUL.
const NAME_LEN: usize = 16;
const ENTRY_LEN: usize = 36 + NAME_LEN + Scheme::MAX_BYTES + 1;
const MAC_LEN: usize = 32;
const UNKNOWN_PREFIX: u8 = u8::MAX;
const UNKNOWN_NODE: u32 = u32::MAX;

#[cfg(test)]
mod tests;
