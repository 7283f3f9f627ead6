//! The zeros of a hole, as both ends hash them.

/// Adds that many zeros.
pub(crate) fn hash_zeros(hasher: &mut blake3::Hasher, mut len: u64) {
    while len > 0 {
        let some = usize::try_from(len).map_or(ZEROS.len(), |len| len.min(ZEROS.len()));
        hasher.update(&ZEROS[..some]);
        len -= some as u64;
    }
}

static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
