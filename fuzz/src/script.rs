//! Bytes as a script: each target that drives a state machine reads its input as a list of steps.

/// The rest of an input. Behind its end there are zeros, so that every input is a script.
#[derive(Debug)]
pub(crate) struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    /// The next step, or the end.
    pub(crate) fn step(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.step().unwrap_or(0)
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// A number. Small numbers are as likely as those at the end of the range: the first byte says
    /// how many bytes follow.
    pub(crate) fn number(&mut self) -> u64 {
        match self.byte() {
            small @ 0..=199 => u64::from(small),
            200..=227 => u64::from(u16::from_be_bytes(self.array())),
            228..=240 => u64::from(u32::from_be_bytes(self.array())),
            241..=247 => u64::from_be_bytes(self.array()),
            near @ 248.. => u64::MAX - u64::from(255 - near),
        }
    }

    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }
}
