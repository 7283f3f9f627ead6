//! Who asks, and what it may read.

use rails_formats::dataset::Principal;

/// A node or an application that reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    /// The application of this process.
    is_owner: bool,
    /// The pin of the key with which the peer has proven itself.
    key: Option<String>,
}

impl Peer {
    /// The application of this process, which may read whatever the process may.
    pub(crate) fn owner() -> Self {
        Self { is_owner: true, key: None }
    }

    /// A node at the other end of a link, with the pin of its key if it has proven one.
    pub(crate) fn far(key: Option<String>) -> Self {
        Self { is_owner: false, key }
    }

    /// Whether the peer may read a dataset that these may read. A dataset that names nobody is for
    /// all whom the link's security lets in.
    pub(crate) fn may_read(&self, readers: &[Principal]) -> bool {
        self.is_owner || readers.is_empty() || readers.iter().any(|reader| self.is(reader))
    }

    fn is(&self, principal: &Principal) -> bool {
        match principal {
            Principal::Key(key) => self.key.as_ref() == Some(key),
            // No link proves that a peer is a user of this machine.
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_key_reads_and_others_do_not() {
        let readers = [Principal::Key("sha256:abc".into()), Principal::User("ada".into())];
        assert!(Peer::owner().may_read(&readers));
        assert!(Peer::far(Some("sha256:abc".into())).may_read(&readers));
        assert!(!Peer::far(Some("sha256:abd".into())).may_read(&readers));
        assert!(!Peer::far(Some("ada".into())).may_read(&readers));
        assert!(!Peer::far(None).may_read(&readers));
        assert!(Peer::far(None).may_read(&[]));
    }
}
