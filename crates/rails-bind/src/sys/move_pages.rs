//! `move_pages(2)`: the nodes of pages, and moving them.
//!
//! # Safety
//! The call goes through `libc::syscall`, because libc has no wrapper. Each block argues that the
//! kernel touches only the arrays it is given. The pages themselves are named by number and may be
//! any: asking changes nothing, and a page that moves keeps its bytes and its address.
#![allow(unsafe_code)]

use std::{io, ptr};

/// "Move only pages that are in exclusive use by the process."
const MPOL_MF_MOVE: libc::c_int = 1 << 1;

/// The addresses of one call. One array of them is filled again and again, so that a query of a
/// gigabyte takes no memory but the answer's. The kernel takes 16 at a time in any case
/// (`DO_PAGES_STAT_CHUNK_NR` in mm/migrate.c), so that from 512 on no number was seen to be faster
/// than another, nor all of them at once.
const CHUNK: usize = 4096;

/// For each of the pages from `first` on, `page_bytes` apart: the number of its node, or a negative
/// `errno`.
pub(crate) fn status(first: usize, page_bytes: usize, states: &mut [libc::c_int]) -> io::Result<()> {
    let mut addresses = [0_usize; CHUNK];
    let mut next = first;
    for states in states.chunks_mut(CHUNK) {
        let addresses = &mut addresses[..states.len()];
        for address in addresses.iter_mut() {
            *address = next;
            next = next.wrapping_add(page_bytes);
        }
        // SAFETY: "pages is an array of pointers to the pages" and "status is an array of integers", both
        // of "count" elements, the second exclusively borrowed; "if nodes is NULL, move_pages()
        // does not move any pages".
        let result = unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                0 as libc::c_long,
                states.len(),
                addresses.as_ptr(),
                ptr::null::<libc::c_int>(),
                states.as_mut_ptr(),
                0 as libc::c_long,
            )
        };
        if result == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Moves each page to the node of the same index. [`status`] has the outcome of each: the kernel
/// stops at the first page that fails for want of memory and reports nothing about those after it.
pub(crate) fn to(pages: &[usize], nodes: &[libc::c_int]) -> io::Result<()> {
    assert_eq!(pages.len(), nodes.len(), "every page has a node to go to");
    let mut states = vec![0; pages.len()];
    // SAFETY: three arrays of "count" elements each, alive during the call; only the last is written
    // to, and it is exclusively borrowed.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0 as libc::c_long,
            pages.len(),
            pages.as_ptr(),
            nodes.as_ptr(),
            states.as_mut_ptr(),
            libc::c_long::from(MPOL_MF_MOVE),
        )
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
