//! How the ends of a stream know each other.

use std::fmt;

/// How the ends of a stream authenticate each other, and whether they encrypt its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Any peer that reaches the port may join.
    Insecure,
    /// A pre-shared secret authenticates joins. The bytes of the stream are neither encrypted nor
    /// authenticated.
    PreSharedKey,
    /// A pre-shared secret authenticates joins, and both ends seal all frames with keys derived
    /// from it.
    Encrypted,
    /// The opening lane performs a TLS 1.3 handshake. The others join with the secret that TLS
    /// exports, and both ends seal all frames.
    Tls,
}

impl Mode {
    pub(super) const ALL: [Self; 4] = [Self::Insecure, Self::PreSharedKey, Self::Encrypted, Self::Tls];

    /// Whether the frames of the lanes are encrypted and authenticated.
    pub fn is_sealed(self) -> bool {
        matches!(self, Self::Encrypted | Self::Tls)
    }

    /// The mode's number on the wire, from 0.
    pub(super) fn code(self) -> u8 {
        self as u8
    }

    pub(super) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Insecure => "insecure",
            Self::PreSharedKey => "psk, not encrypted",
            Self::Encrypted => "psk, encrypted",
            Self::Tls => "tls",
        })
    }
}
