//! The options of a buffer or a pool.

use super::{
    MemoryError, MemoryPolicy, meminfo,
    range::{Range, Shape, effective, strict_nodes},
};
use crate::{
    Outcome,
    sys::mapping::{Mapping, page_bytes},
};
use rails_topo::{DataSize, NodeSet};
use serde::{Deserialize, Serialize};
use std::{fs, io};

/// The policy and the pages of memory, and when the pages are made.
///
/// # Examples
/// ```
/// use rails_bind::memory::{BufferOptions, MemoryPolicy, NumaBuffer};
///
/// let options = BufferOptions::new().policy(MemoryPolicy::Local).prefault(true);
/// let buffer = NumaBuffer::new(1 << 20, &options)?;
/// println!("{}", buffer.residency()?);
/// # Ok::<(), rails_bind::memory::MemoryError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BufferOptions {
    policy: MemoryPolicy,
    pages: Pages,
    prefault: bool,
    lock: bool,
}

/// The kind of pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Pages {
    /// The machine's ordinary pages, and no huge ones (`MADV_NOHUGEPAGE`).
    #[default]
    Small,
    /// Huge pages if the kernel finds them at the first touch, else small ones (`MADV_HUGEPAGE`),
    /// aligned for huge
    /// ones. [`transparent_huge_bytes`](super::NumaBuffer::transparent_huge_bytes) has their
    /// number.
    TransparentHuge,
    /// Huge pages of this many bytes each (`MAP_HUGETLB`), which the administrator has reserved; 2
    /// MiB or 1 GiB on most machines. They are there from the beginning, as with
    /// [`prefault`](BufferOptions::prefault).
    Huge {
        /// The size of a page.
        page_bytes: u64,
    },
}

/// Memory that was mapped with some options.
#[derive(Debug)]
pub(super) struct Allocation {
    pub(super) mapping: Mapping,
    pub(super) shape: Shape,
    pub(super) outcome: Outcome<MemoryPolicy>,
}

impl BufferOptions {
    /// The defaults: the policy of the thread that touches a page first, small pages, made when
    /// touched, not locked.
    pub fn new() -> Self {
        Self { policy: MemoryPolicy::Default, pages: Pages::Small, prefault: false, lock: false }
    }

    /// The nodes that the pages come from. Default: [`MemoryPolicy::Default`], the policy of the
    /// thread that touches.
    ///
    /// A [`MemoryPolicy::Bind`] includes [`prefault`](Self::prefault): a touch of strictly bound
    /// memory while its nodes are full ends a process, so its pages are made and verified
    /// beforehand.
    pub fn policy(mut self, policy: MemoryPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// The kind of pages. Default: [`Pages::Small`].
    pub fn pages(mut self, pages: Pages) -> Self {
        self.pages = pages;
        self
    }

    /// Whether all pages are made at once (`MADV_POPULATE_WRITE`, or by touching before Linux
    /// 5.14), so that no later touch waits for one. Default: no. The cost is about half a second
    /// per GiB of small pages.
    pub fn prefault(mut self, prefault: bool) -> Self {
        self.prefault = prefault;
        self
    }

    /// Whether pages are kept from being swapped out (`mlock`); includes
    /// [`prefault`](Self::prefault). Default: no.
    ///
    /// # Privileges
    /// Without `CAP_IPC_LOCK`, `RLIMIT_MEMLOCK` limits what a process locks in all (8 MiB on most
    /// machines).
    pub fn lock(mut self, lock: bool) -> Self {
        self.lock = lock;
        self
    }

    pub(super) fn wanted(&self) -> &MemoryPolicy {
        &self.policy
    }

    /// Maps `bytes`, rounded up to whole pages, with these options; on an error, nothing stays
    /// mapped.
    pub(super) fn allocate(&self, bytes: usize) -> Result<Allocation, MemoryError> {
        let shape = self.shape()?;
        let raw = effective(&self.policy)?;
        let nodes = MemoryPolicy::from_raw(&raw).as_ref().and_then(strict_nodes);
        let capacity = self.capacity(bytes, shape, nodes.as_ref())?;
        let mut mapping = self.map(capacity, shape, nodes.as_ref())?;
        if nodes.is_some() {
            let laid = Range { mapping: &mapping, shape }.rebind(&self.policy);
            let _ = laid.map_err(|error| self.of_huge_pages(error, capacity, nodes.as_ref()))?;
        } else {
            let range = Range { mapping: &mapping, shape };
            // Memory that was just mapped has the default policy (mmap(2) and `get_vma_policy` in
            // mm/mempolicy.c), and containers refuse `mbind`.
            if self.policy != MemoryPolicy::Default {
                range.set(&raw)?;
            }
            if self.prefault || self.lock || shape.is_reserved {
                range.check_machine((capacity / shape.page_bytes) as u64)?;
                match range.populate() {
                    Err(MemoryError::Unsupported { .. }) if !shape.is_reserved => mapping.touch(shape.page_bytes),
                    populated => populated.map_err(|error| self.of_huge_pages(error, capacity, None))?,
                }
            }
        }
        if self.lock {
            mapping.lock().map_err(|source| lock_refused(capacity, source))?;
        }
        let got = match self.policy {
            MemoryPolicy::Default => MemoryPolicy::Default,
            _ => Range { mapping: &mapping, shape }.policy()?,
        };
        let outcome = Outcome::compare(self.policy.clone(), got);
        Ok(Allocation { mapping, shape, outcome })
    }

    fn shape(&self) -> Result<Shape, MemoryError> {
        let small = page_bytes();
        Ok(match self.pages {
            Pages::Small => Shape { page_bytes: small, unit_bytes: small, is_reserved: false },
            Pages::TransparentHuge => {
                Shape { page_bytes: small, unit_bytes: transparent_page_bytes()?, is_reserved: false }
            }
            Pages::Huge { page_bytes } => {
                let existing = meminfo::huge_page_sizes();
                let bytes = usize::try_from(page_bytes).ok().filter(|_| existing.contains(&page_bytes));
                let bytes = bytes.ok_or(MemoryError::HugePageSize { bytes: page_bytes, existing })?;
                Shape { page_bytes: bytes, unit_bytes: bytes, is_reserved: true }
            }
        })
    }

    fn capacity(&self, bytes: usize, shape: Shape, nodes: Option<&NodeSet>) -> Result<usize, MemoryError> {
        if bytes == 0 {
            return Err(MemoryError::Zero { what: "the size of a buffer" });
        }
        check_existing(bytes as u128, nodes)?;
        bytes.checked_next_multiple_of(shape.unit_bytes).ok_or_else(|| beyond(bytes as u128, u64::MAX, nodes))
    }

    fn map(&self, capacity: usize, shape: Shape, nodes: Option<&NodeSet>) -> Result<Mapping, MemoryError> {
        let failed = |call: &'static str| {
            let subject = DataSize::bytes(capacity as u64).to_string();
            move |source| MemoryError::Call { call, subject, source }
        };
        match self.pages {
            Pages::Huge { .. } => Mapping::huge(capacity, shape.page_bytes.ilog2())
                .map_err(failed("mmap(MAP_HUGETLB)"))
                .map_err(|error| self.of_huge_pages(error, capacity, nodes)),
            Pages::Small | Pages::TransparentHuge => {
                let mapping = Mapping::new(capacity, shape.unit_bytes).map_err(failed("mmap"))?;
                match (mapping.advise_huge(self.pages == Pages::TransparentHuge), self.pages) {
                    // A kernel without huge pages makes only small ones.
                    (Ok(()), _) | (Err(_), Pages::Small) => Ok(mapping),
                    (Err(error), _) => {
                        Err(MemoryError::NoTransparentHugePages { reason: format!("madvise(MADV_HUGEPAGE): {error}") })
                    }
                }
            }
        }
    }

    /// With explicit huge pages, a lack of memory is a lack of reserved pages.
    fn of_huge_pages(&self, error: MemoryError, capacity: usize, nodes: Option<&NodeSet>) -> MemoryError {
        let Pages::Huge { page_bytes } = self.pages else { return error };
        let source = match error {
            MemoryError::Call { source, .. } => source,
            MemoryError::Misplaced { source, .. } => {
                source.unwrap_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
            }
            other => return other,
        };
        MemoryError::NoHugePages {
            page_kib: page_bytes / 1024,
            pages: capacity as u64 / page_bytes,
            file: meminfo::huge_page_file(page_bytes, nodes),
            source,
        }
    }
}

impl Default for BufferOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Refuses a request that exceeds all memory, free or not.
pub(super) fn check_existing(bytes: u128, nodes: Option<&NodeSet>) -> Result<(), MemoryError> {
    match nodes.map_or_else(meminfo::of_machine, meminfo::of_nodes) {
        Some(meminfo) if bytes > u128::from(meminfo.existing) => Err(beyond(bytes, meminfo.existing, nodes)),
        _ => Ok(()),
    }
}

fn beyond(bytes: u128, existing: u64, nodes: Option<&NodeSet>) -> MemoryError {
    MemoryError::BeyondMemory { bytes, existing, nodes: nodes.cloned() }
}

fn lock_refused(capacity: usize, source: io::Error) -> MemoryError {
    let limit = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_MEMLOCK);
    MemoryError::LockRefused { bytes: capacity as u64, limit: limit.ok().map(|(soft, _)| soft), source }
}

/// The size of a transparent huge page, if the kernel gives them on request.
fn transparent_page_bytes() -> Result<usize, MemoryError> {
    let read = |name: &str| {
        let file = format!("/sys/kernel/mm/transparent_hugepage/{name}");
        let reason = |error: &dyn std::fmt::Display| format!("{file}: {error}");
        fs::read_to_string(&file).map_err(|error| MemoryError::NoTransparentHugePages { reason: reason(&error) })
    };
    if read("enabled")?.contains("[never]") {
        let reason = "/sys/kernel/mm/transparent_hugepage/enabled says `never`; `madvise` is enough".to_owned();
        return Err(MemoryError::NoTransparentHugePages { reason });
    }
    let size = read("hpage_pmd_size")?;
    match size.trim().parse::<usize>() {
        Ok(bytes) if bytes.is_power_of_two() && bytes >= page_bytes() => Ok(bytes),
        _ => Err(MemoryError::NoTransparentHugePages { reason: format!("hpage_pmd_size is `{}`", size.trim()) }),
    }
}
