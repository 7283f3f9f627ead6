//! Gives files, folders and links the owners and attributes that a sender keeps.

use super::{
    Acls, Allows, Xattrs,
    xattrs::{has_list, has_value, is_user, shown},
};
use crate::{
    calls::{Guarantees, because, refuses},
    guarantee::Guarantee,
    meta::{Extras, FOLDER_BITS, MODE_BITS, Meta, SET_GROUP_ID, SET_USER_ID},
    reason::Reason,
};
use cap_std::fs::{Dir, Metadata, MetadataExt as _};
use nix::unistd::geteuid;
use rustix::fs::fremovexattr;
use std::{ffi::OsStr, fs::File, io};

/// The outcome for a file or folder.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Given {
    /// Whether something is another one now.
    pub(crate) has_changed: bool,
    /// The set-id bits whose owner the entry has.
    pub(crate) set_id_bits: u32,
}

impl Given {
    /// The mode that a file with those properties is to get, if it has another one. A change of
    /// owner or of an access list may have changed the mode.
    pub(crate) fn mode_for(self, meta: &Meta, there: &Metadata) -> Option<u32> {
        let kept = MODE_BITS | self.set_id_bits;
        meta.mode.map(|mode| mode & kept).filter(|mode| self.has_changed || *mode != there.mode() & kept)
    }
}

impl Extras {
    /// Whether a file or folder has other attributes or access lists.
    pub(crate) fn differ_from(&self, file: &File) -> bool {
        self.xattrs.as_ref().is_some_and(|xattrs| xattrs.differ(file))
            || self.acls.as_ref().is_some_and(|acls| acls.differ(file))
    }
}

impl Guarantees {
    /// Takes from a sender's record what the operator does not allow, and says so once.
    pub(crate) fn restrict(&self, meta: &mut Meta) {
        let Some(extras) = &mut meta.extras else { return };
        let Allows { owners, xattrs } = self.allows();
        if !owners && (extras.user.take().is_some() | extras.group.take().is_some()) {
            self.tell(Guarantee::Owners, Reason::new("`recv --allow-owners` allows them"));
        }
        if !xattrs {
            if extras.acls.take().is_some_and(|acls| acls != Acls::default()) {
                self.tell(Guarantee::AccessLists, Reason::new("`recv --allow-xattrs` allows them"));
            }
            if extras.xattrs.as_mut().is_some_and(Xattrs::drop_privileged) {
                self.tell(Guarantee::PrivilegedXattrs, Reason::new("`recv --allow-xattrs` allows them"));
            }
        }
        meta.extras = meta.extras.take().filter(|extras| **extras != Extras::default());
        meta.mode = meta.mode.map(|mode| mode & (FOLDER_BITS | meta.kept_bits()));
    }

    /// Gives a file or folder its owners, its attributes and its access lists, where it has others.
    /// The mode comes behind them: a change of owner takes set-id bits away, and an access list
    /// changes the mode.
    pub(crate) fn give(&self, file: &File, meta: &Meta) -> Result<Given, Reason> {
        let Some(extras) = &meta.extras else { return Ok(Given::default()) };
        let inspect = || Metadata::from_file(file).map_err(because("inspect the file"));
        let there = inspect()?;
        let (mut given, mut owners) = (Given::default(), (there.uid(), there.gid()));
        if !extras.has_owners(&there) {
            self.set_owners(extras, &there, |user, group| (self.calls().set_owner)(file, user, group))?;
            let now = inspect()?;
            if !extras.has_owners(&now) {
                let stays = format!("it stays of user {} and group {}", now.uid(), now.gid());
                self.without(Guarantee::Owners, "set the owner", io::Error::new(io::ErrorKind::Unsupported, stays))?;
            }
            given.has_changed = owners != (now.uid(), now.gid());
            owners = (now.uid(), now.gid());
        }
        given.set_id_bits = (u32::from(extras.user == Some(owners.0)) * SET_USER_ID)
            | (u32::from(extras.group == Some(owners.1)) * SET_GROUP_ID);
        if extras.differ_from(file) {
            // Attributes of `user.` need the permission to write, of the owner too.
            let is_closed = there.mode() & OWNER_WRITES == 0 && owners.0 == geteuid().as_raw();
            // A set-id bit that was there was that of the owners of then.
            let (mode, doing) = (there.mode() & FOLDER_BITS, "set attributes of a file that is not writable");
            if is_closed {
                self.set_mode(file, mode | OWNER_WRITES, doing)?;
            }
            let set = self.set_attributes(file, extras);
            if is_closed {
                self.set_mode(file, mode, doing)?;
            }
            given.has_changed |= set?;
        }
        Ok(given)
    }

    /// Gives a symbolic link in a folder its owners, if it has others.
    pub(crate) fn give_link(&self, dir: &Dir, name: &OsStr, meta: &Meta) -> Result<(), Reason> {
        let Some(extras) = &meta.extras else { return Ok(()) };
        let there = dir.symlink_metadata(name).map_err(because("inspect the link"))?;
        self.set_owners(extras, &there, |user, group| (self.calls().set_link_owner)(dir, name, user, group))
    }

    /// Sets those owners that are others. The group comes first: a process that may not give a file
    /// away may still give it a group.
    fn set_owners(
        &self,
        extras: &Extras,
        there: &Metadata,
        set: impl Fn(Option<u32>, Option<u32>) -> io::Result<()>,
    ) -> Result<(), Reason> {
        let group = extras.group.filter(|group| *group != there.gid());
        let user = extras.user.filter(|user| *user != there.uid());
        let done = group.map_or(Ok(()), |group| set(None, Some(group)));
        let done = done.and(user.map_or(Ok(()), |user| set(Some(user), None)));
        done.or_else(|error| self.without(Guarantee::Owners, "set the owner", error))
    }

    /// Sets and removes attributes and access lists; gives whether any could be.
    fn set_attributes(&self, file: &File, extras: &Extras) -> Result<bool, Reason> {
        let mut has_changed = false;
        let remove = |name: &[u8]| fremovexattr(file, name).map_err(io::Error::from);
        if let Some(xattrs) = &extras.xattrs {
            for name in xattrs.extraneous(file).unwrap_or_default() {
                has_changed |= self.changed(Guarantee::Xattrs, "remove", &name, remove(&name))?;
            }
            for (name, value) in xattrs.iter().filter(|(name, value)| !has_value(file, name, value)) {
                let guarantee = if is_user(name) { Guarantee::Xattrs } else { Guarantee::PrivilegedXattrs };
                has_changed |= self.changed(guarantee, "set", name, (self.calls().set_attribute)(file, name, value))?;
            }
        }
        for (name, list) in extras.acls.iter().flat_map(Acls::lists) {
            has_changed |= match list {
                list if has_list(file, name, list) => false,
                Some(list) => {
                    let set = (self.calls().set_attribute)(file, name, list);
                    self.changed(Guarantee::AccessLists, "set", name, set)?
                }
                None => self.changed(Guarantee::AccessLists, "remove", name, remove(name))?,
            };
        }
        Ok(has_changed)
    }

    /// Whether an attribute was changed. A refusal is told once, and a failure names the attribute.
    fn changed(&self, guarantee: Guarantee, doing: &str, name: &[u8], done: io::Result<()>) -> Result<bool, Reason> {
        match done {
            Ok(()) => Ok(true),
            Err(error) if refuses(&error) => self.without(guarantee, "set an attribute", error).map(|()| false),
            Err(error) => {
                Err(Reason::new(format_args!("receiver: cannot {doing} the attribute {}: {error}", shown(name))))
            }
        }
    }
}

const OWNER_WRITES: u32 = 0o200;
