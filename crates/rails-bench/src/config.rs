//! Files that complete the kernel's description of this machine: the system's, the user's, and
//! those that the command line names.

use crate::exit::Help;
use anyhow::{Context, Result};
use rails_topo::{
    Topology,
    config::{self, Config, SYSTEM_FILE},
};
use std::{
    env,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// The configuration files, which every command takes.
#[derive(Debug, Clone, Default)]
#[cfg_attr(feature = "cli", derive(clap::Args))]
pub(crate) struct ConfigArgs {
    /// Believe this TOML file about the machine, after the system's and the user's; may be given
    /// more than once
    #[cfg_attr(feature = "cli", arg(long, global = true, value_name = "FILE", display_order = 101))]
    config: Vec<PathBuf>,
    /// Do not look for topology.toml and config.toml in /etc/rails, and in the user's folder of
    /// that name
    #[cfg_attr(feature = "cli", arg(long, global = true, display_order = 102))]
    no_config: bool,
}

/// The choices of the command line, for every place that reads the machine.
static ARGS: OnceLock<ConfigArgs> = OnceLock::new();

impl ConfigArgs {
    /// Stores this configuration for the process. Only the first call counts, because a process has
    /// one command line.
    pub(crate) fn hold(self) {
        let _ = ARGS.set(self);
    }
}

/// This machine with the facts of the files.
pub(crate) fn of_this_machine(topology: Topology, more: &[PathBuf]) -> Result<Topology> {
    let args = ARGS.get().cloned().unwrap_or_default();
    let files = if args.no_config { Vec::new() } else { usual_files() };
    let topology =
        config::layers(&files, &[]).map_err(anyhow::Error::from).and_then(|layers| applied(topology, &layers));
    let topology = topology.map_err(|error| error.help("--no-config leaves this file out"))?;
    named(topology, &args, more)
}

/// Another machine, with the files named for it; those of the system and the user are about this
/// machine.
pub(crate) fn of_another(topology: Topology, more: &[PathBuf]) -> Result<Topology> {
    named(topology, &ARGS.get().cloned().unwrap_or_default(), more)
}

/// Whether a file states facts about a machine and is not a machine itself: one flag takes both.
pub(crate) fn is_toml(path: &Path) -> bool {
    let is_named_so = path.extension().is_some_and(|extension| extension == "toml");
    // Errors in a file with a TOML name are reported when it is read.
    let mut text = String::new();
    let mut read = || File::open(path)?.take(config::MAX_BYTES).read_to_string(&mut text);
    is_named_so || read().is_ok_and(|_| Config::is_toml(&text))
}

fn named(topology: Topology, args: &ConfigArgs, more: &[PathBuf]) -> Result<Topology> {
    let topology = applied(topology, &config::layers(&[], &args.config).context("--config")?).context("--config")?;
    applied(topology, &config::layers(&[], more).context("--topology")?).context("--topology")
}

fn applied(topology: Topology, layers: &[Config]) -> Result<Topology> {
    layers.iter().try_fold(topology, |topology, layer| Ok(config::apply(&topology, layer)?))
}

/// The files that may be missing, the weakest first.
fn usual_files() -> Vec<PathBuf> {
    let (config_home, home) = (env::var_os("XDG_CONFIG_HOME"), env::var_os("HOME"));
    let user = config::user_file(config_home.as_deref(), home.as_deref());
    [Some(PathBuf::from(SYSTEM_FILE)), user].into_iter().flatten().collect()
}
