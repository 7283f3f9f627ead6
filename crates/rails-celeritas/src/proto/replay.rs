//! Packets that have come before: a copy tells nothing of the path, and nothing of the peer's
//! address.

/// The packet numbers that have come, in a window below the highest (RFC 6479).
#[derive(Debug)]
pub struct ReplayWindow {
    highest: Option<u64>,
    /// A bit for each number, at its place modulo the window.
    seen: Box<[u64; WORDS]>,
}

impl ReplayWindow {
    /// A window without packets.
    pub fn new() -> Self {
        Self { highest: None, seen: Box::new([0; WORDS]) }
    }

    /// Notes a packet. Returns whether it is new: one below the window is taken for a repeated one.
    pub fn insert(&mut self, packet: u64) -> bool {
        let word = packet / BITS;
        let top = self.highest.map_or(word, |highest| highest / BITS);
        if word + WORDS as u64 <= top {
            return false;
        }
        (top + 1..=word).take(WORDS).for_each(|passed| self.seen[place(passed)] = 0);
        self.highest = self.highest.max(Some(packet));
        let bit = 1 << (packet % BITS);
        let is_new = self.seen[place(word)] & bit == 0;
        self.seen[place(word)] |= bit;
        is_new
    }
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self::new()
    }
}

fn place(word: u64) -> usize {
    (word % WORDS as u64) as usize
}

/// The bits of a word.
const BITS: u64 = u64::BITS as u64;
/// 16,384 packets: the bytes of one that this number have overtaken were sent again long before.
const WORDS: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn old_packets_are_taken_for_repeated_ones() {
        let mut window = ReplayWindow::new();
        assert!(window.insert(1 << 40) && !window.insert(0));
        assert!(window.insert((1 << 40) - 16_000) && !window.insert((1 << 40) - 16_000));
        assert!(window.insert(u64::MAX) && !window.insert(1 << 40));
    }

    proptest! {
        #[test]
        fn each_packet_is_new_once(steps in proptest::collection::vec((0..40_000u64, any::<bool>()), 1..500)) {
            let (mut window, mut seen, mut highest) = (ReplayWindow::new(), BTreeSet::new(), 0u64);
            for (step, is_ahead) in steps {
                let packet = if is_ahead { highest + step } else { highest.saturating_sub(step % 16_000) };
                highest = highest.max(packet);
                prop_assert_eq!(window.insert(packet), seen.insert(packet), "{} below {}", packet, highest);
            }
        }
    }
}
