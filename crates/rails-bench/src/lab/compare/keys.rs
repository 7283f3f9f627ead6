//! The secret, the certificate and the key of an encrypted stream, in temporary files.

use super::ContestError;
use std::{
    fs::OpenOptions,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
};

/// The files.
pub(crate) struct Keys {
    folder: tempfile::TempDir,
}

impl Keys {
    /// Makes new keys.
    pub(super) fn make() -> Result<Self, ContestError> {
        let keys = |source| ContestError::Keys { source };
        let made =
            rcgen::generate_simple_self_signed([Self::NAME.to_owned()]).map_err(io::Error::other).map_err(keys)?;
        let folder = tempfile::tempdir().map_err(keys)?;
        let these = Self { folder };
        these.write(SECRET, &rand::random::<[u8; 32]>()).map_err(keys)?;
        these.write(CERTIFICATE, made.cert.pem().as_bytes()).map_err(keys)?;
        these.write(KEY, made.signing_key.serialize_pem().as_bytes()).map_err(keys)?;
        Ok(these)
    }

    /// The name on the certificate.
    pub(super) const NAME: &str = "rails.example";

    pub(super) fn secret(&self) -> PathBuf {
        self.folder.path().join(SECRET)
    }

    pub(super) fn certificate(&self) -> PathBuf {
        self.folder.path().join(CERTIFICATE)
    }

    pub(super) fn key(&self) -> PathBuf {
        self.folder.path().join(KEY)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.folder.path().join(name);
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(bytes)
    }
}

const SECRET: &str = "secret";
const CERTIFICATE: &str = "certificate.pem";
const KEY: &str = "key.pem";
