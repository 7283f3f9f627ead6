//! Memory with a policy of its own.

use super::{BufferOptions, MemoryBinding, MemoryError, MemoryPolicy, Rebound, Residency};
use crate::{Outcome, sys::mapping::Whole};
use std::{
    fmt, fs, io,
    ops::{Deref, DerefMut},
    sync::Arc,
};

/// A buffer whose own policy decides its nodes, for all threads that touch it; all zeros at first.
///
/// A buffer is mapped for itself, in whole pages: for many small buffers, take a
/// [`BufferPool`](super::BufferPool).
///
/// # Examples
/// ```
/// use rails_bind::memory::{BufferOptions, MemoryPolicy, NumaBuffer, interleave_weights};
/// use rails_topo::{NodeId, NodeSet};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let text = std::fs::read_to_string("/sys/devices/system/node/has_memory")?;
/// # let node = text.parse::<NodeSet>()?.first().ok_or("no node has memory")?;
/// let on_node = MemoryPolicy::Bind(NodeSet::single(node));
/// let mut buffer = NumaBuffer::new(1 << 20, &BufferOptions::new().policy(on_node))?;
/// buffer[0] = 1;
/// assert_eq!(buffer.residency()?.bytes_on(node), 1 << 20);
///
/// // Later, and while it is used: a placement needs no access to the bytes.
/// let binding = buffer.binding();
/// let rebound = binding.rebind(&MemoryPolicy::Preferred(node))?;
/// println!("{} pages moved, {} could not", rebound.moved, rebound.failed);
/// # Ok(())
/// # }
/// ```
pub struct NumaBuffer {
    whole: Whole,
    length: usize,
    state: Arc<BufferState>,
}

/// The state of a buffer beside its bytes.
#[derive(Debug)]
pub(super) struct BufferState {
    pub(super) binding: MemoryBinding,
    outcome: Outcome<MemoryPolicy>,
}

impl NumaBuffer {
    /// Maps a buffer of `bytes` with these options; the policy is set before any page is made.
    ///
    /// # Privileges
    /// None; but see [`BufferOptions::lock`], and [`Pages::Huge`](super::Pages::Huge), for which
    /// root reserves pages.
    ///
    /// # Errors
    /// * [`MemoryError::Zero`] and [`MemoryError::BeyondMemory`] for impossible sizes,
    ///   [`MemoryError::Exhausted`] if the memory for pages that are made at once is not free;
    /// * [`MemoryError::Policy`] if the policy cannot be set: [`BindError::EmptySet`],
    ///   [`BindError::NodesUnusable`], [`BindError::Unsupported`] on a kernel without the policy,
    ///   [`BindError::Denied`] under a seccomp filter;
    /// * [`MemoryError::Misplaced`] if not every page could be brought to the nodes of a strict
    ///   policy, and [`MemoryError::Unsupported`] for a strict policy before Linux 5.14;
    /// * [`MemoryError::HugePageSize`], [`MemoryError::NoHugePages`],
    ///   [`MemoryError::NoTransparentHugePages`], [`MemoryError::LockRefused`];
    ///   [`MemoryError::Call`] if the kernel refuses otherwise.
    ///
    /// After an error nothing is mapped. A cgroup's limit is not checked: the kernel kills a
    /// process beyond it.
    ///
    /// [`BindError::EmptySet`]: crate::BindError::EmptySet
    /// [`BindError::NodesUnusable`]: crate::BindError::NodesUnusable
    /// [`BindError::Unsupported`]: crate::BindError::Unsupported
    /// [`BindError::Denied`]: crate::BindError::Denied
    ///
    /// # References
    /// [mmap(2)](https://man7.org/linux/man-pages/man2/mmap.2.html),
    /// [mbind(2)](https://man7.org/linux/man-pages/man2/mbind.2.html),
    /// [madvise(2)](https://man7.org/linux/man-pages/man2/madvise.2.html)
    #[doc(alias = "mbind")]
    #[doc(alias = "numa_alloc_onnode")]
    pub fn new(bytes: usize, options: &BufferOptions) -> Result<Self, MemoryError> {
        let allocation = options.allocate(bytes)?;
        let whole = Whole::new(allocation.mapping);
        let binding = MemoryBinding::new(whole.mapping(), allocation.shape);
        Ok(Self { whole, length: bytes, state: Arc::new(BufferState { binding, outcome: allocation.outcome }) })
    }

    /// The buffer of all of this memory.
    pub(super) fn of(whole: Whole, state: Arc<BufferState>) -> Self {
        Self { length: whole.mapping().bytes(), whole, state }
    }

    /// The buffer's memory and state.
    pub(super) fn into_memory(self) -> (Whole, Arc<BufferState>) {
        (self.whole, self.state)
    }

    /// The bytes that are mapped: the length, rounded up to whole pages.
    pub fn capacity(&self) -> usize {
        self.whole.mapping().bytes()
    }

    /// The policy that the buffer was made with, as read back then; [`Outcome::Partial`] if the
    /// kernel dropped nodes.
    pub fn outcome(&self) -> &Outcome<MemoryPolicy> {
        &self.state.outcome
    }

    /// A handle that reads the nodes of the buffer and moves it, also while another thread uses its
    /// bytes.
    pub fn binding(&self) -> MemoryBinding {
        self.state.binding.clone()
    }

    /// As [`MemoryBinding::residency`]. The pages are those of the capacity.
    ///
    /// # Errors
    /// As there.
    pub fn residency(&self) -> Result<Residency, MemoryError> {
        self.state.binding.residency()
    }

    /// As [`MemoryBinding::policy`].
    ///
    /// # Errors
    /// As there.
    pub fn policy(&self) -> Result<MemoryPolicy, MemoryError> {
        self.state.binding.policy()
    }

    /// As [`MemoryBinding::rebind`], which also works while others have the bytes.
    ///
    /// # Errors
    /// As there.
    pub fn rebind(&self, policy: &MemoryPolicy) -> Result<Rebound, MemoryError> {
        self.state.binding.rebind(policy)
    }

    /// The bytes of the buffer that lie on transparent huge pages at this moment.
    ///
    /// # Errors
    /// [`MemoryError::Call`] if `/proc/self/smaps` cannot be read or lacks the figures.
    pub fn transparent_huge_bytes(&self) -> Result<u64, MemoryError> {
        let file = "/proc/self/smaps";
        let first = self.whole.mapping().address();
        let range = first..first + self.capacity();
        fs::read_to_string(file)
            .and_then(|text| huge_bytes_in(&text, &range).ok_or_else(|| io::Error::other("it does not tell")))
            .map_err(|source| MemoryError::Call { call: "read", subject: file.to_owned(), source })
    }
}

impl Deref for NumaBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.whole[..self.length]
    }
}

impl DerefMut for NumaBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.whole[..self.length]
    }
}

impl AsRef<[u8]> for NumaBuffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsMut<[u8]> for NumaBuffer {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl fmt::Debug for NumaBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NumaBuffer")
            .field("start", &self.as_ptr())
            .field("length", &self.length)
            .field("capacity", &self.capacity())
            .field("outcome", &self.state.outcome)
            .finish()
    }
}

/// The `AnonHugePages` of the areas within `range`; `None` if no area is, or one lacks the figure.
/// Areas without access lie on both sides of a buffer, so none of its areas reaches beyond it.
fn huge_bytes_in(smaps: &str, range: &std::ops::Range<usize>) -> Option<u64> {
    let (mut within, mut areas, mut told, mut kib) = (false, 0, 0, 0_u64);
    for line in smaps.lines() {
        if let Some((start, end)) = area(line) {
            within = range.start <= start && end <= range.end;
            areas += usize::from(within);
        } else if let Some(value) = line.strip_prefix("AnonHugePages:").filter(|_| within) {
            kib = value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_add(kib)?;
            told += 1;
        }
    }
    kib.checked_mul(1024).filter(|_| areas > 0 && told == areas)
}

/// The addresses at the beginning of an area: `7f0000-7f2000 rw-p ...`.
fn area(line: &str) -> Option<(usize, usize)> {
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
}

/// For [`crate::fuzzing`].
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(text: &str) {
    let _ = huge_bytes_in(text, &(0..usize::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn huge_bytes_of_the_areas_within_a_buffer() {
        let smaps = "1000-2000 ---p 00000000 00:00 0 \nAnonHugePages:         8 kB\n\
                     2000-4000 rw-p 00000000 00:00 0 \nAnonHugePages:      2048 kB\nVmFlags: rd wr\n\
                     4000-6000 rw-p 00000000 00:00 0 \nAnonHugePages:         0 kB\n";
        assert_eq!(huge_bytes_in(smaps, &(0x2000..0x6000)), Some(2048 * 1024));
        assert_eq!(huge_bytes_in(smaps, &(0x2000..0x3000)), None);
        assert_eq!(huge_bytes_in("2000-4000 rw-p\n", &(0x2000..0x6000)), None);
    }
    proptest! {
        #[test]
        fn no_text_makes_it_panic(lines in prop::collection::vec(
            prop_oneof!["[0-9a-f]{1,18}-[0-9a-f]{1,18} rw-p", "AnonHugePages: *[0-9]{1,20} kB", ".{0,20}"], 0..8)) {
            let _ = huge_bytes_in(&lines.join("\n"), &(0..usize::MAX));
        }
    }
}
