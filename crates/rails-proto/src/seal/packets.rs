//! Sealed packets: records that arrive in any order, late, twice or not at all.

use super::{PacketRole, Role, SealError, TAG_LEN, aes_gcm::expand};
use crate::secret::Secret;
use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey},
    hkdf::{HKDF_SHA256, Prk, Salt},
};
use std::{fmt, sync::Arc};
use zeroize::Zeroizing;

/// The packets that one key seals: if each has 9,000 bytes, they have 2^29 blocks of 16 bytes.
pub const PACKETS_PER_KEY: u64 = 1 << 20;

/// Seals the packets of one direction. Clones seal with the same keys, so that several threads may
/// seal packets.
#[derive(Debug, Clone)]
pub struct PacketSealer(Arc<Generation>);

/// Opens the packets of one direction, in any order: each must be of the latest key that has opened
/// one, or of its neighbours. Clones open packets on other threads; the caller
/// [notes](Self::opened) these here.
#[derive(Debug, Clone)]
pub struct PacketOpener {
    previous: Option<Arc<Generation>>,
    current: Arc<Generation>,
    /// The next key: derived when a packet claims it, and current once one has opened with it.
    next: Option<Arc<Generation>>,
}

/// The key of [`PACKETS_PER_KEY`] packets.
struct Generation {
    number: u64,
    traffic: Zeroizing<[u8; 32]>,
    key: LessSafeKey,
}

/// The seals of packets in both directions, at one end.
#[derive(Debug)]
pub struct PacketSeals {
    /// Seals the packets that this end sends.
    pub sealer: PacketSealer,
    /// Opens the packets of the peer.
    pub opener: PacketOpener,
}

/// The keys of packets; `None` in a build without the feature `encryption`.
pub(crate) fn of_packets(
    secret: &Secret,
    transcript: &[u8; 32],
    purpose: PacketRole,
    ours: Role,
) -> Option<PacketSeals> {
    Some(PacketSeals::derive(secret, transcript, purpose, ours))
}

impl PacketSeals {
    /// Derives the keys from a secret, the hash of the handshake's messages, and the packets'
    /// purpose.
    pub(crate) fn derive(secret: &Secret, transcript: &[u8; 32], purpose: PacketRole, ours: Role) -> Self {
        let prk = Salt::new(HKDF_SHA256, transcript).extract(secret.bytes());
        let first = |role| Arc::new(Generation::new(0, expand(&prk, purpose.label(role))));
        let (ours, theirs) = match ours {
            Role::Initiator => (Role::Initiator, Role::Responder),
            Role::Responder => (Role::Responder, Role::Initiator),
        };
        let opener = PacketOpener { previous: None, current: first(theirs), next: None };
        Self { sealer: PacketSealer(first(ours)), opener }
    }
}

impl PacketSealer {
    /// Derives the key of the packet with that number, in place of the keys before it. A clone that
    /// is made after this need not derive the key.
    pub fn advance(&mut self, number: u64) {
        while self.0.number < number / PACKETS_PER_KEY {
            self.0 = Arc::new(self.0.next());
        }
    }

    /// Seals the payload of a packet in place, and returns its tag, which covers the header too.
    /// The numbers rise, and each is used once: for one content, if several threads seal it.
    ///
    /// # Panics
    /// If `number` belongs to a key that is not in use any more.
    pub fn seal(&mut self, number: u64, header: &[u8], payload: &mut [u8]) -> [u8; TAG_LEN] {
        self.advance(number);
        assert_eq!(self.0.number, number / PACKETS_PER_KEY, "numbers rise");
        let tag = self.0.key.seal_in_place_separate_tag(nonce(number), Aad::from(header), payload);
        tag.expect("AES-GCM seals records of up to 2^36 bytes").as_ref().try_into().expect("a tag has 16 bytes")
    }
}

impl PacketOpener {
    /// Opens the payload of a packet in place.
    ///
    /// # Errors
    /// [`SealError`]: the payload is useless then. The peer's next packets open all the same.
    pub fn open(&mut self, number: u64, header: &[u8], payload: &mut [u8], tag: &[u8]) -> Result<(), SealError> {
        let current = self.current.number;
        let generation = match number / PACKETS_PER_KEY {
            claimed if claimed == current => &*self.current,
            claimed if claimed == current + 1 => self.next.get_or_insert_with(|| Arc::new(self.current.next())),
            claimed if claimed + 1 == current => self.previous.as_ref().ok_or(SealError)?,
            _ => return Err(SealError),
        };
        let opened = generation.key.open_in_place_separate_tag(nonce(number), Aad::from(header), tag, payload);
        opened.map_err(|_| SealError)?;
        self.opened(number);
        Ok(())
    }

    /// Notes that the packet of that number has opened, by a clone of this one.
    pub fn opened(&mut self, number: u64) {
        if number / PACKETS_PER_KEY == self.current.number + 1 {
            let next = self.next.take().unwrap_or_else(|| Arc::new(self.current.next()));
            self.previous = Some(std::mem::replace(&mut self.current, next));
        }
    }
}

impl Generation {
    fn new(number: u64, traffic: Zeroizing<[u8; 32]>) -> Self {
        let key = expand(&Prk::new_less_safe(HKDF_SHA256, &*traffic), b"rails 5 key");
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &*key).expect("a key of AES-256 has 32 bytes"));
        Self { number, traffic, key }
    }

    fn next(&self) -> Self {
        let traffic = expand(&Prk::new_less_safe(HKDF_SHA256, &*self.traffic), b"rails 5 next traffic");
        Self::new(self.number + 1, traffic)
    }
}

/// Shows no key.
impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generation").field("number", &self.number).finish_non_exhaustive()
    }
}

fn nonce(number: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ends(transcript: u8, purpose: PacketRole) -> [PacketSeals; 2] {
        let secret = Secret::pre_shared(b"0123456789abcdef").unwrap();
        [Role::Initiator, Role::Responder].map(|role| PacketSeals::derive(&secret, &[transcript; 32], purpose, role))
    }

    fn sealed(sealer: &mut PacketSealer, number: u64) -> (Vec<u8>, [u8; TAG_LEN]) {
        let mut payload = format!("packet {number}").into_bytes();
        let tag = sealer.seal(number, b"header", &mut payload);
        (payload, tag)
    }

    proptest! {
        /// Also across keys.
        #[test]
        fn packets_open_in_any_order(order in Just((0..60).collect::<Vec<u64>>()).prop_shuffle(), begin in 0..3u64) {
            let [mut near, mut far] = ends(1, PacketRole::Segments);
            let begin = (begin * PACKETS_PER_KEY).saturating_sub(30);
            let packets: Vec<_> = (begin..begin + 60).map(|number| sealed(&mut near.sealer, number)).collect();
            // The receiver has the key of the time.
            for number in (0..begin).step_by(PACKETS_PER_KEY as usize) {
                let (mut payload, tag) = sealed(&mut ends(1, PacketRole::Segments)[0].sealer, number);
                far.opener.open(number, b"header", &mut payload, &tag).unwrap();
            }
            for index in order {
                let (payload, tag) = &packets[index as usize];
                let (number, mut opened) = (begin + index, payload.clone());
                far.opener.open(number, b"header", &mut opened, tag).unwrap();
                prop_assert_eq!(opened, format!("packet {number}").into_bytes());
            }
        }

        #[test]
        fn changed_packets_do_not_open(number in 0..1u64 << 56, at in 0..40usize, bit in 0..8u32) {
            let [mut near, mut far] = ends(1, PacketRole::Control);
            let (payload, tag) = sealed(&mut near.sealer, 5);
            let mut changed = [&b"header"[..], &payload, &tag].concat();
            let at = at % changed.len();
            changed[at] ^= 1 << bit;
            let (header, rest) = changed.split_at_mut(6);
            let (text, changed_tag) = rest.split_at_mut(payload.len());
            prop_assert_eq!(far.opener.open(5, header, text, changed_tag), Err(SealError));
            if number != 5 {
                prop_assert_eq!(far.opener.open(number, b"header", &mut payload.clone(), &tag), Err(SealError));
            }
            prop_assert_eq!(far.opener.open(5, b"header", &mut payload.clone(), &tag), Ok(()), "the true one opens");
        }
    }

    #[test]
    fn clones_seal_and_open_across_keys() {
        let [near, mut far] = ends(1, PacketRole::Segments);
        for number in [0, PACKETS_PER_KEY - 1, PACKETS_PER_KEY, 2 * PACKETS_PER_KEY, 2 * PACKETS_PER_KEY - 1] {
            let mut sealer = near.sealer.clone();
            let (mut payload, tag) = sealed(&mut sealer, number);
            let mut helper = far.opener.clone();
            helper.open(number, b"header", &mut payload, &tag).unwrap();
            far.opener.opened(number);
            assert_eq!(far.opener.current.number, helper.current.number.max(far.opener.current.number));
        }
        assert_eq!(far.opener.current.number, 2);
    }

    #[test]
    fn packets_of_others_do_not_open() {
        let [mut near, _] = ends(1, PacketRole::Segments);
        let (payload, tag) = sealed(&mut near.sealer, 0);
        let mut others =
            [ends(2, PacketRole::Segments)[1].opener.open(0, b"header", &mut payload.clone(), &tag); 1].to_vec();
        others.push(ends(1, PacketRole::Control)[1].opener.open(0, b"header", &mut payload.clone(), &tag));
        // Back to its sender.
        others.push(near.opener.open(0, b"header", &mut payload.clone(), &tag));
        assert_eq!(others, [Err(SealError); 3]);
    }

    #[test]
    #[should_panic(expected = "numbers rise")]
    fn an_earlier_key_seals_nothing_more() {
        let [mut near, _] = ends(1, PacketRole::Segments);
        sealed(&mut near.sealer, PACKETS_PER_KEY);
        sealed(&mut near.sealer, 1);
    }
}
