//! The system call bpf(2): maps, types of their values, programs, and links that attach programs
//! to a cgroup.
//!
//! All that is made here lives as long as its file descriptors: nothing is pinned. The kernel sets
//! close-on-exec on each of them.
//!
//! # Safety
//! [`call`] is the one system call. Its callers argue that each address in their attribute is that
//! of a buffer which is borrowed until the call has returned, and as large as the kernel takes it
//! to be.
#![allow(unsafe_code)]

use std::{
    ffi::{CStr, c_int},
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

/// One instruction of a program (`struct bpf_insn` of include/uapi/linux/bpf.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Instruction {
    /// The operation with its class, size and kind of operand.
    pub(crate) code: u8,
    /// The registers: four bits for each of destination and source.
    pub(crate) registers: u8,
    /// The offset of a jump or of a place in memory.
    pub(crate) offset: i16,
    /// The operand that is part of the instruction.
    pub(crate) immediate: i32,
}

/// The kinds of maps that are used here (`enum bpf_map_type`).
#[derive(Debug, Clone, Copy)]
pub(crate) enum MapKind {
    /// A hash table.
    Hash = 1,
    /// A table of prefixes, in which the longest match is found.
    Prefixes = 11,
    /// An array of other maps.
    Maps = 12,
    /// A value beside each socket, which ends with the socket.
    Sockets = 24,
}

/// A map with keys of `K` and values of `V` bytes.
#[derive(Debug)]
pub(crate) struct Map<const K: usize, const V: usize> {
    fd: OwnedFd,
}

impl<const K: usize, const V: usize> Map<K, V> {
    /// Creates a map of at most `max_entries`; room for each is taken when it is written.
    pub(crate) fn new(kind: MapKind, max_entries: u32) -> io::Result<Self> {
        Self::create(MapAttribute { map_flags: BPF_F_NO_PREALLOC, ..Self::attribute(kind, max_entries) })
    }

    /// Creates a map of values beside sockets. They are arrays of 32-bit integers to the kernel,
    /// which wants to know the type of each such map.
    pub(crate) fn for_sockets() -> io::Result<Self> {
        let types = load_types(V / size_of::<u32>())?;
        Self::create(MapAttribute {
            map_flags: BPF_F_NO_PREALLOC,
            btf_fd: types.as_raw_fd() as u32,
            btf_key_type_id: INTEGER,
            btf_value_type_id: ARRAY,
            ..Self::attribute(MapKind::Sockets, 0)
        })
    }

    /// Creates an array with one slot for a map like `inner`.
    pub(crate) fn slot_for(inner: BorrowedFd<'_>) -> io::Result<Self> {
        Self::create(MapAttribute { inner_map_fd: inner.as_raw_fd() as u32, ..Self::attribute(MapKind::Maps, 1) })
    }

    fn attribute(kind: MapKind, max_entries: u32) -> MapAttribute {
        MapAttribute {
            map_type: kind as u32,
            key_size: K as u32,
            value_size: V as u32,
            max_entries,
            map_name: NAME,
            ..MapAttribute::default()
        }
    }

    fn create(mut attribute: MapAttribute) -> io::Result<Self> {
        // SAFETY: the attribute holds no address.
        let fd = unsafe { call_for_fd(BPF_MAP_CREATE, &mut attribute) }?;
        Ok(Self { fd })
    }

    /// The value of a key.
    pub(crate) fn lookup(&self, key: &[u8; K]) -> io::Result<Option<[u8; V]>> {
        let mut value = [0; V];
        let mut attribute = self.element(key);
        attribute.value = std::ptr::from_mut(&mut value) as u64;
        // SAFETY: the map was created with keys of K bytes and values of V; the key is borrowed,
        // and the value exclusively so, until the call returns. None of the kinds of maps here has
        // a value for each CPU, which would be larger.
        match unsafe { call(BPF_MAP_LOOKUP_ELEM, &mut attribute) } {
            Ok(_) => Ok(Some(value)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sets the value of a key.
    pub(crate) fn insert(&self, key: &[u8; K], value: &[u8; V]) -> io::Result<()> {
        let mut attribute = self.element(key);
        attribute.value = std::ptr::from_ref(value) as u64;
        // SAFETY: the map was created with keys of K bytes and values of V, which the kernel only
        // reads; both are borrowed until the call returns.
        unsafe { call(BPF_MAP_UPDATE_ELEM, &mut attribute) }.map(drop)
    }

    /// Removes a key; one that is not there is no error.
    pub(crate) fn remove(&self, key: &[u8; K]) -> io::Result<()> {
        // SAFETY: the map was created with keys of K bytes, and the key is borrowed until the call
        // returns.
        match unsafe { call(BPF_MAP_DELETE_ELEM, &mut self.element(key)) } {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn element(&self, key: &[u8; K]) -> ElementAttribute {
        ElementAttribute {
            map_fd: self.fd.as_raw_fd() as u32,
            key: std::ptr::from_ref(key) as u64,
            ..ElementAttribute::default()
        }
    }
}

impl<const K: usize, const V: usize> AsFd for Map<K, V> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The places in the kernel to which programs are attached here (`enum bpf_attach_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hook {
    /// Events of a TCP socket.
    SocketEvents = 3,
    /// connect(2) of an IPv4 socket.
    Connect4 = 10,
    /// connect(2) of an IPv6 socket.
    Connect6 = 11,
    /// getpeername(2) of an IPv4 socket.
    PeerName4 = 29,
    /// getpeername(2) of an IPv6 socket.
    PeerName6 = 30,
}

impl Hook {
    /// The kind of the hook's programs (`enum bpf_prog_type`).
    fn program_kind(self) -> u32 {
        match self {
            Self::SocketEvents => 13,
            Self::Connect4 | Self::Connect6 | Self::PeerName4 | Self::PeerName6 => 18,
        }
    }
}

/// Loads a program for a hook. The verifier's words about a refused program are in `log`.
pub(crate) fn load(hook: Hook, program: &[Instruction], log: &mut String) -> io::Result<OwnedFd> {
    let refusal = match load_with(hook, program, &mut []) {
        Err(error) if error.raw_os_error() != Some(libc::EPERM) => error,
        answer => return answer,
    };
    let mut words = vec![0; LOG_BYTES];
    let answer = load_with(hook, program, &mut words);
    *log = CStr::from_bytes_until_nul(&words).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default();
    // A log that is too long for the buffer (`ENOSPC`) hides the refusal.
    answer.map_err(|error| if error.raw_os_error() == Some(libc::ENOSPC) { refusal } else { error })
}

fn load_with(hook: Hook, program: &[Instruction], log: &mut [u8]) -> io::Result<OwnedFd> {
    let mut attribute = ProgramAttribute {
        prog_type: hook.program_kind(),
        insn_cnt: program.len() as u32,
        insns: program.as_ptr() as u64,
        license: LICENSE.as_ptr() as u64,
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log_buf: if log.is_empty() { 0 } else { log.as_mut_ptr() as u64 },
        prog_name: NAME,
        // The events of a socket have one hook, which is not named here.
        expected_attach_type: if hook == Hook::SocketEvents { 0 } else { hook as u32 },
        ..ProgramAttribute::default()
    };
    // SAFETY: the kernel reads `insn_cnt` instructions, a licence that ends with a 0 and, where it
    // has a size, writes at most `log_size` bytes to the log; all three are borrowed until the call
    // returns, the log exclusively.
    unsafe { call_for_fd(BPF_PROG_LOAD, &mut attribute) }
}

/// A program that is attached to a cgroup until this is dropped, or the process ends.
#[derive(Debug)]
pub(crate) struct Link(OwnedFd);

impl Drop for Link {
    /// The last descriptor's end detaches too, but not at once: Linux 6.1 leaves that to a work
    /// queue.
    fn drop(&mut self) {
        let mut attribute = DetachAttribute { link_fd: self.0.as_raw_fd() as u32 };
        // Nothing is attached any more if the cgroup was removed meanwhile; otherwise the close
        // that follows detaches.
        // SAFETY: the attribute holds no address.
        let _ = unsafe { call(BPF_LINK_DETACH, &mut attribute) };
    }
}

/// Attaches a program to a cgroup and all cgroups below, beside the programs that are there (the
/// kernel gives links `BPF_F_ALLOW_MULTI`).
pub(crate) fn attach(hook: Hook, program: BorrowedFd<'_>, cgroup: BorrowedFd<'_>) -> io::Result<Link> {
    let mut attribute = LinkAttribute {
        prog_fd: program.as_raw_fd() as u32,
        target_fd: cgroup.as_raw_fd() as u32,
        attach_type: hook as u32,
        flags: 0,
    };
    // SAFETY: the attribute holds no address.
    unsafe { call_for_fd(BPF_LINK_CREATE, &mut attribute) }.map(Link)
}

/// Loads the description of two types: an integer of 32 bits, and an array of `words` of it.
///
/// # References
///
/// Documentation/bpf/btf.rst of the kernel, "2. BTF Type and String Encoding"
fn load_types(words: usize) -> io::Result<OwnedFd> {
    const INTEGER_KIND: u32 = 1 << 24;
    const ARRAY_KIND: u32 = 3 << 24;
    let names = b"\0u32\0";
    let types = [
        // The name's offset, the kind, the size in bytes, and the bits.
        [1, INTEGER_KIND, 4, 32].as_slice(),
        // No name, the kind, nothing, and the types of elements and index with the number of elements.
        &[0, ARRAY_KIND, 0, INTEGER, INTEGER, words as u32],
    ]
    .concat();
    let types_bytes = size_of_val(&types[..]) as u32;
    let header = [HEADER_BYTES, 0, types_bytes, types_bytes, names.len() as u32];
    let mut description = Vec::new();
    description.extend(0xeb9f_u16.to_ne_bytes());
    // The version, and no flags.
    description.extend([1, 0]);
    description.extend(header.iter().chain(&types).flat_map(|word| word.to_ne_bytes()));
    description.extend(names);

    let mut attribute = TypesAttribute {
        btf: description.as_ptr() as u64,
        btf_size: description.len() as u32,
        ..TypesAttribute::default()
    };
    // SAFETY: the kernel reads `btf_size` bytes of the description, which lives until the call
    // returns, and writes no log, for which no buffer is given.
    unsafe { call_for_fd(BPF_BTF_LOAD, &mut attribute) }
}

/// Calls bpf(2) with a command that answers with a descriptor.
///
/// # Safety
///
/// As [`call`]; and the command makes a descriptor.
unsafe fn call_for_fd<A>(command: c_int, attribute: &mut A) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise.
    let fd = unsafe { call(command, attribute) }?;
    // SAFETY: the command's answer is a descriptor that was made for this call, and nobody else
    // knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Calls bpf(2).
///
/// # Safety
///
/// `attribute` is laid out as `union bpf_attr` is for `command`, without padding, and each address
/// in it is that of a buffer that is valid for all that the command does with it.
unsafe fn call<A>(command: c_int, attribute: &mut A) -> io::Result<c_int> {
    // SAFETY: the kernel reads `size` bytes of the attribute, and takes those of its own, larger
    // union that are missing for zeros (bpf(2)); it writes none beyond them. The attribute is
    // exclusively borrowed; the rest is the caller's promise.
    let answer =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attribute), size_of::<A>() as libc::c_uint) };
    match c_int::try_from(answer) {
        Ok(answer) if answer >= 0 => Ok(answer),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `union bpf_attr` for `BPF_MAP_CREATE`.
#[derive(Default)]
#[repr(C)]
struct MapAttribute {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    map_flags: u32,
    inner_map_fd: u32,
    numa_node: u32,
    map_name: [u8; 16],
    map_ifindex: u32,
    btf_fd: u32,
    btf_key_type_id: u32,
    btf_value_type_id: u32,
}

/// `union bpf_attr` for `BPF_MAP_*_ELEM`.
#[derive(Default)]
#[repr(C)]
struct ElementAttribute {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// `union bpf_attr` for `BPF_PROG_LOAD`.
#[derive(Default)]
#[repr(C)]
struct ProgramAttribute {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; 16],
    prog_ifindex: u32,
    expected_attach_type: u32,
}

/// `union bpf_attr` for `BPF_BTF_LOAD`.
#[derive(Default)]
#[repr(C)]
struct TypesAttribute {
    btf: u64,
    btf_log_buf: u64,
    btf_size: u32,
    btf_log_size: u32,
    btf_log_level: u32,
    btf_log_true_size: u32,
}

/// `union bpf_attr` for `BPF_LINK_CREATE`.
#[repr(C)]
struct LinkAttribute {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
}

/// `union bpf_attr` for `BPF_LINK_DETACH`.
#[repr(C)]
struct DetachAttribute {
    link_fd: u32,
}

// `enum bpf_cmd` of include/uapi/linux/bpf.h.
const BPF_MAP_CREATE: c_int = 0;
const BPF_MAP_LOOKUP_ELEM: c_int = 1;
const BPF_MAP_UPDATE_ELEM: c_int = 2;
const BPF_MAP_DELETE_ELEM: c_int = 3;
const BPF_PROG_LOAD: c_int = 5;
const BPF_BTF_LOAD: c_int = 18;
const BPF_LINK_CREATE: c_int = 28;
const BPF_LINK_DETACH: c_int = 34;

/// Maps of prefixes and of sockets must be without preallocation; the others may be.
const BPF_F_NO_PREALLOC: u32 = 1;

/// The name of each map and program, as `bpftool` shows it.
const NAME: [u8; 16] = *b"rails_divert\0\0\0\0";
/// No helper that is called here is for programs under the GPL alone.
const LICENSE: &CStr = c"MIT OR Apache-2.0";

/// The types of [`load_types`], in their order.
const INTEGER: u32 = 1;
const ARRAY: u32 = 2;
/// `struct btf_header`, four bytes of which come before the words.
const HEADER_BYTES: u32 = 24;

/// The programs here have some hundred instructions, and a line of the log for each state.
const LOG_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// The offsets of `union bpf_attr` in the kernel's header, of the fields that are furthest in.
    #[test]
    fn attributes_are_laid_out_as_in_the_kernels_header() {
        assert_eq!(offset_of!(MapAttribute, btf_fd), 48);
        assert_eq!(offset_of!(ElementAttribute, flags), 24);
        assert_eq!(offset_of!(ProgramAttribute, expected_attach_type), 68);
        assert_eq!(offset_of!(TypesAttribute, btf_log_level), 24);
        assert_eq!(size_of::<LinkAttribute>(), 16);
        assert_eq!(size_of::<Instruction>(), 8);
    }
}
