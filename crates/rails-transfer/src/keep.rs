//! The properties that a copy keeps on demand: owners with their set-id bits, extended attributes,
//! access lists and hard links.
//!
//! A sender reads those that its options name ([`Keeps`]). A receiver gives those that its operator
//! allows ([`Allows`]) and the system lets it, each through a handle.

mod give;
mod xattrs;

use crate::meta::{Extras, Meta, SET_GROUP_ID, SET_USER_ID};
use cap_std::fs::{Metadata, MetadataExt as _};
use std::fs::File;
#[cfg(test)]
pub(crate) use xattrs::MAX_ATTRIBUTES;
pub(crate) use xattrs::{Acls, Lost, Xattrs};

/// The properties that a sender keeps, beside those that it always does.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Keeps {
    pub(crate) user: bool,
    pub(crate) group: bool,
    pub(crate) xattrs: bool,
    pub(crate) acls: bool,
    pub(crate) hard_links: bool,
}

/// The properties that a receiver's operator lets a sender set.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Allows {
    /// Owners, and the set-id bits.
    pub(crate) owners: bool,
    /// Access lists, and the attributes of `security.` and `trusted.`.
    pub(crate) xattrs: bool,
}

impl Keeps {
    /// The record of an entry, without its attributes.
    pub(crate) fn meta(self, metadata: &Metadata) -> Meta {
        let mut meta = Meta::of(metadata);
        if !metadata.is_symlink() {
            meta.mode = meta.mode.map(|mode| mode | metadata.mode() & self.set_id_bits());
        }
        if self.user || self.group {
            let user = self.user.then_some(metadata.uid());
            let group = self.group.then_some(metadata.gid());
            meta.extras = Some(Box::new(Extras { user, group, ..Extras::default() }));
        }
        meta
    }

    /// Adds the attributes of a file or folder to its record. Gives those that the record has no
    /// room for, or that could not be read.
    pub(crate) fn add_attributes(self, meta: &mut Meta, file: &File) -> Vec<Lost> {
        let mut lost = Vec::new();
        if self.has_attributes() {
            let extras = meta.extras.get_or_insert_default();
            let mut room = xattrs::MAX_ATTRIBUTES;
            extras.acls = self.acls.then(|| Acls::read(file, &mut room, &mut lost));
            extras.xattrs = self.xattrs.then(|| Xattrs::read(file, &mut room, &mut lost));
        }
        lost
    }

    pub(crate) fn has_attributes(self) -> bool {
        self.xattrs || self.acls
    }

    /// The set-id bits of the entry that are not kept.
    pub(crate) fn drops_set_id(self, metadata: &Metadata) -> bool {
        let bits = (SET_USER_ID | SET_GROUP_ID) & !self.set_id_bits();
        !metadata.is_symlink() && metadata.mode() & bits != 0
    }

    fn set_id_bits(self) -> u32 {
        (u32::from(self.user) * SET_USER_ID) | (u32::from(self.group) * SET_GROUP_ID)
    }
}
