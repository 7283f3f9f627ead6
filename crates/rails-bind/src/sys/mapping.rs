//! Anonymous private memory: `mmap(2)`, `madvise(2)`, `mlock(2)`.
//!
//! # Safety
//! A [`Mapping`] owns its range of addresses from `mmap` to `munmap` and gives no code its bytes.
//! Two types take a mapping *by value* and decide who may touch the bytes, [`Whole`] here and
//! [`SlotPool`](super::slots::SlotPool): a mapping goes into one of them, once. A `Whole` can be
//! given up for [`Part`](super::parts::Part)s, and those for a `Whole`. All else that an
//! `Arc<Mapping>` can do are system calls about pages, which change the nodes of bytes, never
//! the bytes.
#![allow(unsafe_code)]

use std::{
    fmt, io,
    ops::{Deref, DerefMut},
    ptr::{self, NonNull},
    slice,
    sync::Arc,
};

/// A private, anonymous, writable range of memory; all zeros until written.
pub(crate) struct Mapping {
    /// The mapped range, for unmapping.
    reserved: NonNull<u8>,
    reserved_bytes: usize,
    /// The usable range.
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and has no accessor to its bytes.
unsafe impl Send for Mapping {}

// SAFETY: as above; the system calls that `&Mapping` makes are ordered by the kernel.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `bytes` (a multiple of the page size) from a multiple of `alignment` (a power of two, at
    /// least a page).
    ///
    /// On both sides remain addresses without access, so that the kernel merges this range with no
    /// other one and its statements are about this range alone.
    pub(crate) fn new(bytes: usize, alignment: usize) -> io::Result<Self> {
        // A page before, up to an alignment of shift, and a page after.
        let around = alignment.checked_mul(2).and_then(|around| around.checked_add(alignment));
        let reserved_bytes = around.and_then(|around| bytes.checked_add(around)).ok_or_else(out_of_addresses)?;
        let reserved = map(reserved_bytes, libc::PROT_NONE, 0)?;
        let offset = (reserved.addr().get() + 1).next_multiple_of(alignment) - reserved.addr().get();
        // SAFETY: `offset` is in 1..=alignment and `bytes + offset` is less than what was reserved.
        let start = unsafe { reserved.add(offset) };
        let mapping = Self { reserved, reserved_bytes, start, bytes };
        // SAFETY: the range lies within the new mapping, begins with a page, and no other code knows it
        // yet.
        let result = unsafe { libc::mprotect(start.as_ptr().cast(), bytes, libc::PROT_READ | libc::PROT_WRITE) };
        if result == -1 { Err(io::Error::last_os_error()) } else { Ok(mapping) }
    }

    /// `bytes` (a multiple of the page size) of explicit huge pages of 2^`log2_page` bytes each.
    pub(crate) fn huge(bytes: usize, log2_page: u32) -> io::Result<Self> {
        let size = (log2_page as libc::c_int) << libc::MAP_HUGE_SHIFT;
        let start = map(bytes, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_HUGETLB | size)?;
        Ok(Self { reserved: start, reserved_bytes: bytes, start, bytes })
    }

    pub(crate) fn address(&self) -> usize {
        self.start.addr().get()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Requests transparent huge pages, or none.
    pub(crate) fn advise_huge(&self, wanted: bool) -> io::Result<()> {
        let advice = if wanted { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        self.advise(0, self.bytes, advice)
    }

    /// Gives every absent page among the `bytes` from `offset` on a page of its own (Linux 5.14;
    /// `EINVAL` before), and takes the kernel's marks for NUMA balancing off the present ones.
    pub(crate) fn populate(&self, offset: usize, bytes: usize) -> io::Result<()> {
        loop {
            match self.advise(offset, bytes, libc::MADV_POPULATE_WRITE) {
                // "MADV_POPULATE_WRITE ... EINTR"/"EAGAIN" are about signals and passing shortages of the kernel.
                Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN)) => {}
                result => return result,
            }
        }
    }

    /// As `populate`, by writing a zero into every page, on any kernel.
    pub(crate) fn touch(&mut self, page_bytes: usize) {
        for offset in (0..self.bytes).step_by(page_bytes) {
            // SAFETY: the address is within the range, which is writable. `&mut self` proves that the mapping
            // has not become a `Whole` or a `SlotPool`, so no other thread reads or writes it. The
            // write is volatile, because the compiler would drop a write that no code reads.
            unsafe { self.start.add(offset).write_volatile(0) };
        }
    }

    /// Keeps the pages in memory, and faults in those that are absent.
    pub(crate) fn lock(&self) -> io::Result<()> {
        // SAFETY: `mlock` changes no byte; the range is mapped.
        let result = unsafe { libc::mlock(self.start.as_ptr().cast(), self.bytes) };
        if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    fn advise(&self, offset: usize, bytes: usize, advice: libc::c_int) -> io::Result<()> {
        assert!(offset.checked_add(bytes).is_some_and(|end| end <= self.bytes), "the range is within the mapping");
        // SAFETY: `offset` is within the mapping, see above.
        let start = unsafe { self.start.add(offset) };
        // SAFETY: the range is mapped, and none of the three advices given above changes a byte of it.
        let result = unsafe { libc::madvise(start.as_ptr().cast(), bytes, advice) };
        if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the one that `mmap` gave. `Whole`, parts, pools and their slots hold an
        // `Arc` of the mapping, so no slice into it is left. Unmapping fails only for ranges that
        // were never mapped, or if the kernel cannot split an area; both are out of the question
        // for whole areas.
        unsafe { libc::munmap(self.reserved.as_ptr().cast(), self.reserved_bytes) };
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapping").field("start", &self.start).field("bytes", &self.bytes).finish()
    }
}

/// The bytes of a mapping, in one piece.
#[derive(Debug)]
pub(crate) struct Whole {
    mapping: Arc<Mapping>,
}

impl Whole {
    /// Takes the mapping by value: from here on no other code can reach its bytes.
    pub(crate) fn new(mapping: Mapping) -> Self {
        Self { mapping: Arc::new(mapping) }
    }

    /// The mapping, for system calls about its pages.
    pub(crate) fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    /// Gives the bytes up to one [`Part`](super::parts::Part).
    pub(super) fn into_mapping(self) -> Arc<Mapping> {
        self.mapping
    }

    /// Takes the bytes over from the one part that has all of them.
    pub(super) fn of(mapping: Arc<Mapping>) -> Self {
        Self { mapping }
    }
}

impl Deref for Whole {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: mapped, readable, zeroed by the kernel where no thread wrote, at most `isize::MAX` bytes
        // (`mmap` gives no more), and alive as long as `self`. No thread writes: only `self`
        // reaches the bytes, and it is borrowed shared.
        unsafe { slice::from_raw_parts(self.mapping.start.as_ptr(), self.mapping.bytes) }
    }
}

impl DerefMut for Whole {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self`, the only one that reaches the bytes, is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.mapping.start.as_ptr(), self.mapping.bytes) }
    }
}

/// The size of the pages in which the kernel manages memory.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: asks for a constant.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).expect("every Linux has a page size")
}

fn map(bytes: usize, access: libc::c_int, flags: libc::c_int) -> io::Result<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: without MAP_FIXED and without a file, the kernel chooses addresses that nothing else
    // uses.
    let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mmap answered address 0"))
}

fn out_of_addresses() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOMEM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapping_aligned_zeroed_and_writable() {
        for (bytes, alignment) in [(page_bytes(), page_bytes()), (3 << 20, 2 << 20)] {
            let mut mapping = Mapping::new(bytes, alignment).expect("there is that much");
            assert_eq!(mapping.address() % alignment, 0);
            mapping.touch(page_bytes());
            let mut whole = Whole::new(mapping);
            assert_eq!(whole.len(), bytes);
            assert!(whole.iter().all(|byte| *byte == 0));
            *whole.last_mut().expect("it has bytes") = 7;
            assert_eq!(whole[bytes - 1], 7);
        }
    }

    #[test]
    fn sizes_beyond_all_addresses_are_refused() {
        for bytes in [usize::MAX & !(page_bytes() - 1), 1 << 60] {
            let error = Mapping::new(bytes, page_bytes()).expect_err("no machine has as much");
            assert_eq!(error.raw_os_error(), Some(libc::ENOMEM));
        }
    }
}
