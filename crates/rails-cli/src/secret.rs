//! The security of streams: a secret from a file or the environment, TLS, or explicitly none.

use crate::{
    exit::{Help, Helped},
    print,
};
use anyhow::{Context, Result};
use rails_multirail::{Mode, Secret, Security};
use std::{
    env,
    fs::File,
    io::{ErrorKind, Read},
    os::unix::{ffi::OsStringExt, fs::PermissionsExt},
    path::{Path, PathBuf},
};

/// The credentials of peers. The environment variable RAILS_SECRET is the third way; it is no flag,
/// so that no secret stands in a list of processes.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Who may join (one of these, or else the secret in the variable RAILS_SECRET)")]
pub struct JoinArgs {
    /// File with the secret that both ends share, at least 16 bytes; a newline at its end does not
    /// count
    #[arg(long, value_name = "PATH", conflicts_with = "insecure")]
    secret_file: Option<PathBuf>,
    /// Let anyone join who reaches the port
    #[arg(long)]
    insecure: bool,
    /// Let the secret say who may join, and do not encrypt: anyone on the path reads the bytes, and
    /// can alter them. Both ends say so, or neither. Lanes of Celeritas are encrypted all the same
    /// [default: both encrypt with keys made of the secret, AES-256-GCM]
    #[arg(long, conflicts_with = "insecure")]
    no_encryption: bool,
}

impl JoinArgs {
    /// The security of streams: by a flag, or else by the variable. `tls` is the choice of TLS's
    /// flags. Warns on stderr of unsafe choices.
    ///
    /// # Errors
    /// None is stated, or the secret cannot be used.
    pub fn security(&self, tls: Option<Security>) -> Result<Security> {
        if let Some(tls) = tls {
            return Ok(tls);
        }
        match self.secret()? {
            Some(secret) if self.no_encryption => Ok(Security::psk(secret)),
            Some(secret) => encrypted(secret, "--no-encryption"),
            None => {
                print::note("warning: --insecure: anyone who reaches the port can join");
                Ok(Security::insecure())
            }
        }
    }

    /// The security of streams, as [`security`](Self::security) has it; `None` if neither a flag
    /// nor the variable states one.
    ///
    /// # Errors
    /// As [`security`](Self::security).
    pub fn stated(&self, tls: Option<Security>) -> Result<Option<Security>> {
        let is_silent = tls.is_none() && !is_in_environment() && self.secret_file.is_none();
        if is_silent && !self.insecure && !self.no_encryption { Ok(None) } else { self.security(tls).map(Some) }
    }

    /// The secret that both ends share; `None` if there is to be none.
    fn secret(&self) -> Result<Option<Secret>> {
        match (&self.secret_file, self.insecure, env::var_os(VARIABLE)) {
            (Some(path), _, _) => of_file("--secret-file", path).map(Some),
            (None, true, _) => Ok(None),
            (None, false, Some(secret)) => pre_shared(secret.into_vec(), VARIABLE, MAKE_ONE).map(Some),
            (None, false, None) => Err(Helped::usage(
                if self.no_encryption {
                    format!("--no-encryption goes with a secret: give --secret-file PATH, or set {VARIABLE}")
                } else {
                    let tls = if cfg!(feature = "tls") { ", or use TLS" } else { "" };
                    format!("no join secret: give --secret-file PATH, or set {VARIABLE}{tls}, or say --insecure")
                },
                MAKE_ONE,
            )),
        }
    }
}

/// Whether the environment has a secret, which counts where no flag says who may join.
pub fn is_in_environment() -> bool {
    env::var_os(VARIABLE).is_some()
}

/// Security by a secret of which keys are made; `instead` is the way to go without them.
///
/// # Errors
/// This build does not encrypt.
#[cfg(feature = "encryption")]
pub fn encrypted(secret: Secret, _instead: &str) -> Result<Security> {
    Ok(Security::encrypted(secret))
}

/// As with the feature `encryption`.
///
/// # Errors
/// This build does not encrypt.
#[cfg(not(feature = "encryption"))]
pub fn encrypted(_: Secret, instead: &str) -> Result<Security> {
    Err(Helped::usage(
        "this build does not encrypt, and there is a secret to encrypt with",
        format!(
            "build {} with its feature `encryption`; or give {instead} at both ends: then anyone on the path reads the \
             bytes, and can alter them",
            print::program()
        ),
    ))
}

/// What the user of the end that connects can change where the security of the two ends differs.
pub fn remedy(ours: Mode, theirs: Mode) -> String {
    match (ours, theirs) {
        (Mode::Encrypted, Mode::PreSharedKey) => {
            "start the peer without --no-encryption, or give it here as well".to_owned()
        }
        (Mode::PreSharedKey, Mode::Encrypted) => {
            "leave --no-encryption out here, or give it to the peer as well".to_owned()
        }
        (ours, theirs) => {
            let there = if ours == Mode::Tls { "--tls-cert and --tls-key" } else { flags(ours) };
            format!("give {} here, or start the peer with {there}", flags(theirs))
        }
    }
}

/// The flags of the end that connects which choose a mode.
fn flags(mode: Mode) -> &'static str {
    match mode {
        Mode::Insecure => "--insecure",
        Mode::PreSharedKey => "--secret-file and --no-encryption",
        Mode::Encrypted => "--secret-file",
        Mode::Tls => "--tls-pin, or --tls-ca",
    }
}

/// The secret in a file, which `named_by` names: a flag, or a key of another file. Warns on stderr
/// of a file that others may read.
///
/// # Errors
/// The file cannot be read, or holds no secret.
pub fn of_file(named_by: &str, path: &Path) -> Result<Secret> {
    let context = || format!("{named_by} {}", path.display());
    // The peer has no flag for what a key of a file names.
    let remedy = if named_by.starts_with('-') { MAKE_ONE } else { MAKE_ONE_FOR_FILES };
    pre_shared(read(path, context, remedy)?, &context(), remedy)
}

fn read(path: &Path, context: impl Fn() -> String + Copy, remedy: &'static str) -> Result<Vec<u8>> {
    let file = File::open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => anyhow::Error::new(error).context(context()).help(remedy),
        _ => anyhow::Error::new(error).context(context()),
    })?;
    let metadata = file.metadata().with_context(context)?;
    let mode = metadata.permissions().mode();
    // The mode of a pipe or a device protects no secret.
    if metadata.is_file() && mode & 0o077 != 0 {
        print::note(format_args!(
            "warning: {} is open to others than its owner (mode {:o}): it is no secret to them; mend it with `chmod 600 {0}`",
            path.display(),
            mode & 0o777
        ));
    }
    let mut secret = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut secret).with_context(context)?;
    if secret.len() as u64 > LONGEST {
        anyhow::bail!("{}: it is longer than {LONGEST} bytes, which no secret is", context());
    }
    Ok(secret)
}

fn pre_shared(mut secret: Vec<u8>, from: &str, remedy: &'static str) -> Result<Secret> {
    if secret.last() == Some(&b'\n') {
        secret.pop();
        secret.pop_if(|byte| *byte == b'\r');
    }
    Secret::pre_shared(&secret).map_err(|error| Helped::usage(format_args!("{from}: {error}"), remedy))
}

/// The remedy for a secret that is missing or too short.
const MAKE_ONE: &str = "make one with `(umask 077; head -c 32 /dev/urandom | base64 > secret)`, copy it to the other \
                        machine, and give `--secret-file secret` at both ends";

/// The remedy for a secret that a key of a file names.
const MAKE_ONE_FOR_FILES: &str = "make one with `(umask 077; head -c 32 /dev/urandom | base64 > FILE)`, and copy it to \
                                  the other machine";

/// The variable with the secret, where it stands in no file.
const VARIABLE: &str = "RAILS_SECRET";

/// The limit on the file: a longer one was chosen by mistake.
const LONGEST: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedies_for_ends_that_differ() {
        let modes = [Mode::Insecure, Mode::PreSharedKey, Mode::Encrypted, Mode::Tls];
        for (ours, theirs) in modes.iter().flat_map(|ours| modes.map(|theirs| (*ours, theirs))) {
            let said = remedy(ours, theirs);
            let differ_in_it = [ours, theirs].contains(&Mode::PreSharedKey) && ours != theirs;
            assert_eq!(said.contains("--no-encryption"), differ_in_it || ours == Mode::PreSharedKey, "{said}");
        }
        assert!(remedy(Mode::Insecure, Mode::Tls).starts_with("give --tls-pin, or --tls-ca here, or start the peer"));
        assert!(remedy(Mode::Tls, Mode::Insecure).ends_with("start the peer with --tls-cert and --tls-key"));
    }
}
