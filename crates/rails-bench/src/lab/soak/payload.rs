//! Bytes that both ends know: the output stream of BLAKE3 over a seed and a direction, of which none repeat.

use bytes::Bytes;

/// The bytes of one direction, in order.
pub(super) struct Payload {
    stream: blake3::OutputReader,
    expected: Vec<u8>,
    compared: u64,
}

/// A byte that is not what was sent.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset} of the stream is {found:#04x}, and {sent:#04x} was sent")]
pub(super) struct Differs {
    offset: u64,
    found: u8,
    sent: u8,
}

impl Payload {
    pub(super) fn new(seed: u64, direction: u8) -> Self {
        let stream = blake3::Hasher::new().update(&seed.to_le_bytes()).update(&[direction]).finalize_xof();
        Self { stream, expected: Vec::new(), compared: 0 }
    }

    pub(super) fn next(&mut self, length: usize) -> Bytes {
        let mut bytes = vec![0; length];
        self.stream.fill(&mut bytes);
        bytes.into()
    }

    /// Whether these are the next ones.
    pub(super) fn compare(&mut self, found: &[u8]) -> Result<(), Differs> {
        self.expected.resize(found.len(), 0);
        self.stream.fill(&mut self.expected);
        if found != self.expected {
            let at = found.iter().zip(&self.expected).position(|(found, sent)| found != sent).unwrap_or(0);
            return Err(Differs { offset: self.compared + at as u64, found: found[at], sent: self.expected[at] });
        }
        self.compared += found.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_the_seed_knows_every_byte_however_they_are_cut() {
        let mut sent = Payload::new(7, 1).next(10_000).to_vec();
        let mut known = Payload::new(7, 1);
        for piece in sent.chunks(777) {
            known.compare(piece).unwrap();
        }
        let mut known = Payload::new(7, 1);
        let right = sent[5_000];
        sent[5_000] ^= 1;
        let compared: Result<(), Differs> = sent.chunks(777).try_for_each(|piece| known.compare(piece));
        assert_eq!(compared, Err(Differs { offset: 5_000, found: right ^ 1, sent: right }));
        assert!(Payload::new(7, 2).compare(&sent[..100]).is_err(), "the other direction has others");
    }
}
