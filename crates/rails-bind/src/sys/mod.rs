//! The only home of `unsafe` in this crate: one file per family of system calls.
//!
//! The functions here check nothing and explain nothing; their safe callers do.

pub(crate) mod at_exit;
mod free_list;
pub(crate) mod mapping;
pub(crate) mod mempolicy;
pub(crate) mod move_pages;
pub(crate) mod parts;
pub(crate) mod sched;
pub(crate) mod sched_affinity;
pub(crate) mod signals;
pub(crate) mod slots;
#[cfg(test)]
mod slots_model;
pub(crate) mod sockopt;
mod sync;

/// [`rails_topo::IdSet`] keeps its mask in 64-bit words and the kernel reads `unsigned long`s: the
/// same bytes, except where a long is 32 bits wide and the high half comes first.
#[cfg(all(target_endian = "big", target_pointer_width = "32"))]
compile_error!("the masks of rails-bind do not have the kernel's layout on 32-bit big-endian machines");

/// The words to start reading a mask with: 1,024 bits, as `cpu_set_t` and most kernels have.
pub(crate) const FIRST_WORDS: usize = 1024 / 64;

/// The words at which growing a mask ends: 2^15 bits. Linux allows 8,192 CPUs and 1,024 nodes at
/// most (`CONFIG_NR_CPUS`, `CONFIG_NODES_SHIFT`), and `get_mempolicy` refuses masks that are larger
/// than a page.
const LARGEST_WORDS: usize = (1 << 15) / 64;

/// Calls `read` with ever larger masks for as long as it answers `EINVAL`, the kernel's "too
/// small".
fn with_growing_mask<R>(
    first_words: usize,
    mut read: impl FnMut(&mut [u64]) -> std::io::Result<R>,
) -> std::io::Result<(R, Vec<u64>)> {
    let mut words = vec![0; first_words.max(1)];
    loop {
        match read(&mut words) {
            Ok(result) => return Ok((result, words)),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && words.len() < LARGEST_WORDS => {
                let larger = (words.len() * 2).min(LARGEST_WORDS);
                words = vec![0; larger];
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn mask_grows_until_the_kernel_takes_it() {
        let mut sizes = Vec::new();
        let (result, words) = with_growing_mask(16, |words| {
            sizes.push(words.len());
            if words.len() < 100 { Err(io::Error::from_raw_os_error(libc::EINVAL)) } else { Ok("read") }
        })
        .expect("128 words are enough");
        assert_eq!((result, words.len()), ("read", 128));
        assert_eq!(sizes, [16, 32, 64, 128]);
    }

    #[test]
    fn growing_ends_and_other_errors_are_final() {
        let mut calls = 0;
        let mut fail = |code| {
            calls = 0;
            let error = with_growing_mask::<()>(16, |_| {
                calls += 1;
                Err(io::Error::from_raw_os_error(code))
            })
            .expect_err("it always fails");
            assert_eq!(error.raw_os_error(), Some(code));
            calls
        };
        assert_eq!(fail(libc::ESRCH), 1);
        assert_eq!(fail(libc::EINVAL), 6);
    }
}
