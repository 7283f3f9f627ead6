//! Archives that tests write themselves, sound or not.

use flate2::{Compression, write::GzEncoder};
use std::io::{self, Write};
use tar::{Builder, EntryType, Header};

/// The parts of an archive that make it a capture.
pub(crate) const EXTRA: &str = "rails-capture.json";

/// One without addresses.
pub(crate) const EMPTY: &str = r#"{ "version": 1, "addresses": null }"#;

pub(crate) struct Archive(Builder<Vec<u8>>);

impl Archive {
    pub(crate) fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    /// A machine of four CPUs of which nothing else is known.
    pub(crate) fn machine() -> Self {
        let folders = ["sys/", "sys/devices/", "sys/devices/system/", "sys/devices/system/cpu/"];
        let machine = folders.into_iter().fold(Self::new().file(EXTRA, EMPTY), Self::folder);
        machine.file("sys/devices/system/cpu/online", "0-3\n")
    }

    pub(crate) fn file(mut self, path: &str, text: &str) -> Self {
        let mut header = Header::new_gnu();
        header.set_size(text.len() as u64);
        self.0.append_data(&mut header, path, text.as_bytes()).unwrap();
        self
    }

    pub(crate) fn folder(self, path: &str) -> Self {
        self.of_kind(path, EntryType::Directory)
    }

    pub(crate) fn link(mut self, path: &str, target: &str) -> Self {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Symlink);
        header.set_size(0);
        self.0.append_link(&mut header, path, target).unwrap();
        self
    }

    pub(crate) fn of_kind(mut self, path: &str, kind: EntryType) -> Self {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(0);
        self.0.append_data(&mut header, path, io::empty()).unwrap();
        self
    }

    /// An empty file of a path that the library would not write.
    pub(crate) fn raw_file(mut self, path: &str) -> Self {
        self.0.get_mut().extend(Self::header(path, 0));
        self
    }

    /// The header of a file of so many bytes.
    pub(crate) fn header(path: &str, size: u64) -> Vec<u8> {
        let mut header = Header::new_old();
        header.as_old_mut().name = [0; 100];
        header.as_old_mut().name[..path.len().min(100)].copy_from_slice(&path.as_bytes()[..path.len().min(100)]);
        header.set_size(size);
        header.set_mode(0o644);
        header.set_cksum();
        header.as_bytes().to_vec()
    }

    /// Without an end, so that more can follow.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.get_ref().clone()
    }

    pub(crate) fn packed(self) -> Vec<u8> {
        pack(&self.0.into_inner().unwrap())
    }
}

pub(crate) fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}
