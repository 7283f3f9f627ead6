//! The options of a site.

use crate::budgets::{BudgetError, BudgetRule};
use rails_celeritas::{AdaptiveOptions, CeleritasOptions};
use rails_multirail::{Mode, Security};
use rails_topo::{Bandwidth, DataSize};
use std::{path::PathBuf, time::Duration};

/// The options of a [`Site`](crate::Site).
#[derive(Debug, Clone)]
#[must_use]
pub struct SiteOptions {
    pub(crate) memory: DataSize,
    pub(crate) slot_bytes: u32,
    pub(crate) application: String,
    pub(crate) security: Option<Security>,
    pub(crate) rate: Option<Bandwidth>,
    pub(crate) window: DataSize,
    pub(crate) patience: Duration,
    pub(crate) views: bool,
    pub(crate) prefetch: bool,
    pub(crate) presend: bool,
    pub(crate) trace: Option<PathBuf>,
    pub(crate) budgets: Vec<BudgetRule>,
}

/// An option that a site cannot have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SiteOptionError {
    /// The memory is too small to be of use, or larger than slots can be counted.
    #[error(
        "the memory for blocks has from {} to {}, and not {}",
        DataSize::bytes(min * u64::from(*slot_bytes)),
        DataSize::bytes(max * u64::from(*slot_bytes)),
        DataSize::bytes(*bytes)
    )]
    Memory {
        /// The size in bytes.
        bytes: u64,
        /// The number of slots.
        slots: u64,
        /// The size of a slot in bytes.
        slot_bytes: u32,
        /// The smallest number of slots.
        min: u64,
        /// The largest number of slots.
        max: u64,
    },
    /// The name of the application is empty, too long, or not printable.
    #[error("an application has a name of 1 to 128 printable bytes")]
    Application,
    /// The memory cannot keep a rule for budgets.
    #[error(transparent)]
    Budget(#[from] BudgetError),
}

impl SiteOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self {
            memory: DataSize::bytes(256 << 20),
            slot_bytes: 64 << 10,
            application: "default".into(),
            security: None,
            rate: None,
            window: DataSize::bytes(32 << 20),
            patience: Duration::from_secs(10),
            views: true,
            prefetch: true,
            presend: false,
            trace: None,
            budgets: Vec::new(),
        }
    }

    /// The memory for blocks, which is taken at once. Default: 256 MiB. Prefetching fills at most
    /// 80 % of it.
    pub fn memory(self, memory: DataSize) -> Self {
        Self { memory, ..self }
    }

    /// The application, whose blocks have a budget of their own on nodes that serve. Default:
    /// `default`.
    pub fn application(self, name: impl Into<String>) -> Self {
        Self { application: name.into(), ..self }
    }

    /// How links are authenticated and protected. Default: links to this machine are
    /// [insecure](Security::insecure), and links to other machines are an error.
    pub fn security(self, security: impl Into<Security>) -> Self {
        Self { security: Some(security.into()), ..self }
    }

    /// The rate at which this end sends over Celeritas, for a path that no other sender uses.
    /// Default: the rate is searched for, and makes way for others.
    pub fn rate(self, rate: Bandwidth) -> Self {
        Self { rate: Some(rate), ..self }
    }

    /// The bytes that may be on their way to this end over one link. Default: 32 MiB. A link needs
    /// twice its rate times its round trip.
    pub fn window(self, window: DataSize) -> Self {
        Self { window, ..self }
    }

    /// How long wanted blocks wait for a node that cannot be reached. Default: 10 s. A node whose
    /// machine answers and whose process is stopped is waited for, as TCP does.
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Whether a region that is read again and again is divided into blocks of its own, so that no
    /// byte beside it travels. Default: yes.
    pub fn views(self, views: bool) -> Self {
        Self { views, ..self }
    }

    /// Whether blocks are fetched before they are asked for. Default: yes.
    pub fn prefetch(self, prefetch: bool) -> Self {
        Self { prefetch, ..self }
    }

    /// Whether a node that serves sends blocks before this one asks for them, into slots that were
    /// promised to it, instead of this node fetching them ahead. Default: no. It takes effect where
    /// one node serves.
    pub fn presend(self, presend: bool) -> Self {
        Self { presend, ..self }
    }

    /// The file in which reads are recorded, for a [replay](crate::replay). Default: the path in
    /// the environment variable `LRAM_TRACE`, or none; the variable is there so that programs
    /// can be recorded unchanged. A [trace] says what is recorded. Where the file is there
    /// already, as for the second site of a program, its name is followed by `.2`, and so on.
    ///
    /// Recording costs a read a few microseconds. A file that cannot be written any more is
    /// reported once, and the reads go on.
    ///
    /// [trace]: crate::trace
    pub fn trace(self, path: impl Into<PathBuf>) -> Self {
        Self { trace: Some(path.into()), ..self }
    }

    /// Adds a rule for the memory of applications: that of this process, and those of nodes that
    /// read from it if it [serves](crate::Server). Of several rules the first holds that names an
    /// application and a dataset. Default: an application may have all of the memory for a dataset,
    /// has no guarantee, and the weight 1.
    ///
    /// Rules whose `min`s are more than the memory are an error when the site is opened. A rule may
    /// name many applications and datasets: each has its `min`, from its first read on, and the
    /// first read of one for which nothing is left fails, as does that of an application without a
    /// rule.
    pub fn budget(mut self, rule: BudgetRule) -> Self {
        self.budgets.push(rule);
        self
    }

    /// The number of slots.
    pub(crate) fn slots(&self) -> Result<u32, SiteOptionError> {
        let (bytes, slot_bytes) = (self.memory.as_bytes(), self.slot_bytes);
        let slots = bytes / u64::from(slot_bytes);
        let (min, max) = (MIN_SLOTS, u64::from(u32::MAX / 2));
        match u32::try_from(slots) {
            Ok(count) if (min..=max).contains(&slots) => Ok(count),
            _ => Err(SiteOptionError::Memory { bytes, slots, slot_bytes, min, max }),
        }
    }

    /// Checks the options that are no numbers.
    pub(crate) fn check(&self) -> Result<(), SiteOptionError> {
        let name = &self.application;
        let fits = (1..=crate::wire::MAX_APPLICATION_BYTES).contains(&name.len());
        if fits && !name.chars().any(char::is_control) { Ok(()) } else { Err(SiteOptionError::Application) }
    }

    pub(crate) fn celeritas(&self, security: &Security) -> CeleritasOptions {
        let options = match self.rate {
            Some(rate) => CeleritasOptions::fixed(rate),
            None => CeleritasOptions::adaptive(AdaptiveOptions::default()),
        };
        let options = options.window(self.window).max_unsent(DataSize::bytes(MAX_UNSENT_BYTES));
        if security.mode() == Mode::Insecure { options } else { options.security(security.clone()) }
    }
}

impl Default for SiteOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// As the send buffer of a stream: a message that is demanded waits behind no more.
const MAX_UNSENT_BYTES: u64 = 4 << 20;
/// 4 MiB: four of the largest blocks.
const MIN_SLOTS: u64 = 64;
