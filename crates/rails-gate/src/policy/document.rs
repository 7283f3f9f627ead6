//! The shape of a policy file.

use serde::Deserialize;
use std::path::PathBuf;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    #[serde(default)]
    pub(super) listen: Vec<Spanned<String>>,
    pub(super) socket: Option<PathBuf>,
    pub(super) socket_mode: Option<Spanned<String>>,
    pub(super) socket_group: Option<Spanned<String>>,
    #[serde(default = "encrypts")]
    pub(super) encrypt: bool,
    pub(super) certificate: Option<Spanned<PathBuf>>,
    pub(super) certificate_key: Option<Spanned<PathBuf>>,
    pub(super) authorities: Option<Spanned<PathBuf>>,
    #[serde(default)]
    pub(super) peer: Vec<Spanned<PeerTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PeerTable {
    pub(super) name: Spanned<String>,
    #[serde(default)]
    pub(super) dial: Vec<Spanned<String>>,
    pub(super) secret_file: Option<Spanned<PathBuf>>,
    pub(super) pin: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) networks: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) reach: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) proxy_protocol: Vec<Spanned<String>>,
    pub(super) streams: Option<Spanned<u32>>,
    pub(super) bytes: Option<Spanned<String>>,
    pub(super) connections_per_second: Option<Spanned<u32>>,
    pub(super) answer_within: Option<Spanned<String>>,
}

/// Sessions are encrypted if the policy does not say otherwise.
fn encrypts() -> bool {
    true
}
