//! Lists that take no more memory than their limit, however long they are.

use serde::{
    Deserialize, Deserializer,
    de::{SeqAccess, Visitor},
};
use std::{fmt, marker::PhantomData};

/// Reads a list, and keeps its first `MAX + 1` entries: one too many shows that it is too long.
///
/// Postcard drops the words of an error, so a list that is too long is none here; the frame is
/// checked when all of it has been read.
pub(super) fn list<'de, D, T, const MAX: usize>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_seq(Entries::<T, MAX>(PhantomData))
}

struct Entries<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Entries<T, MAX> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Vec<T>, A::Error> {
        // Postcard gives no hint beyond the bytes that are left, and an entry has at least one.
        let mut kept = Vec::with_capacity(entries.size_hint().unwrap_or(0).min(MAX + 1));
        while let Some(entry) = entries.next_element()? {
            if kept.len() <= MAX {
                kept.push(entry);
            }
        }
        Ok(kept)
    }
}
