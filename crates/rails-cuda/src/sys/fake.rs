//! A driver on the CPU, for tests: it keeps its arguments, runs the kernel's text, and notes each
//! use of the driver that a real one would not survive.
//!
//! Work in a stream runs when a caller waits for it, which is as late as can be: memory that is
//! read too early has not changed by then. There is one such driver in the process, so its tests
//! take turns.
//!
//! # Safety
//! The functions are called by this crate alone, with pointers as the driver's contract has them.
//! Addresses of work are read and written only while they are in a registered range.
#![allow(unsafe_code)]
#![allow(non_snake_case, reason = "the functions have the names of CUDA's header")]

use super::driver::{
    CU_EVENT_BLOCKING_SYNC, CU_EVENT_DISABLE_TIMING, CU_STREAM_NON_BLOCKING, CUDA_ERROR_NOT_READY, CUDA_SUCCESS,
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUjit_option, CUmodule, CUresult, CUstream, CudaDriver,
    functions,
};
use crate::ptx::Program;
use rails_multirail::pipeline::device::swap_red_and_blue;
use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap, VecDeque},
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    fs, ptr, slice,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

/// The kind of a call's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The call fails once.
    Passing,
    /// All later calls fail too: the context is lost.
    Lasting,
}

/// The state of the driver.
#[derive(Default)]
struct World {
    /// The call that fails, counted from 1 on, and how.
    failure: Option<(usize, Failure)>,
    calls: usize,
    failed: Option<&'static str>,
    last_handle: usize,
    retained: usize,
    streams: HashMap<usize, VecDeque<Work>>,
    /// Each with the stream and the number of its mark.
    events: HashMap<usize, Option<(usize, usize)>>,
    /// Marks that the device is beyond.
    reached: Vec<usize>,
    modules: HashMap<usize, Program>,
    device: BTreeMap<CUdeviceptr, Vec<u8>>,
    registered: BTreeMap<usize, usize>,
    violations: Vec<String>,
}

enum Work {
    ToDevice { to: CUdeviceptr, from: usize, bytes: usize },
    Kernel { module: usize, address: CUdeviceptr, count: u64, blocks: u64, threads: u64 },
    ToHost { to: usize, from: CUdeviceptr, bytes: usize },
    Mark(usize),
}

/// The turn of one test: a new driver until this is dropped.
pub(crate) struct Turn(#[expect(dead_code, reason = "held for its drop")] MutexGuard<'static, ()>);

/// The end of a test.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The call that was made to fail; `None` if there were fewer calls.
    pub(crate) failed: Option<&'static str>,
    /// Things that were made and are still there, and contexts that were retained.
    pub(crate) left: usize,
    /// Ranges of the host's memory that are still registered.
    pub(crate) registered: usize,
    /// Uses of the driver that a real one would not survive.
    pub(crate) violations: Vec<String>,
}

impl Turn {
    /// Waits for the turn.
    pub(crate) fn new(failure: Option<(usize, Failure)>) -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        *world() = World { failure, ..World::default() };
        Self(turn)
    }

    pub(crate) fn driver(&self) -> &'static CudaDriver {
        macro_rules! fakes {
            ($(fn $name:ident($($argument:ident: $kind:ty),*);)*) => {
                CudaDriver { $($name,)* _library: libloading::os::unix::Library::this().into() }
            };
        }
        Box::leak(Box::new(functions!(fakes)))
    }

    pub(crate) fn end(self) -> Ended {
        let mut world = world();
        let left = world.streams.len() + world.events.len() + world.modules.len() + world.device.len() + world.retained;
        let mut violations = std::mem::take(&mut world.violations);
        CURRENT.with_borrow(|current| {
            if !current.is_empty() {
                violations.push("a context is still current".to_owned());
            }
        });
        for (start, bytes) in &world.registered {
            if !is_mapped(*start, *bytes) {
                violations.push("memory was given back while it was registered".to_owned());
            }
        }
        Ended { failed: world.failed, left, registered: world.registered.len(), violations }
    }
}

/// Whether these addresses are readable and writable, as the kernel says.
fn is_mapped(start: usize, bytes: usize) -> bool {
    let maps = fs::read_to_string("/proc/self/maps").expect("the kernel tells a process its mappings");
    let range = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let number = |digits| usize::from_str_radix(digits, 16).ok();
        Some((number(from)?, number(to)?, rest.starts_with("rw")))
    };
    maps.lines().filter_map(range).any(|(from, to, is_usable)| is_usable && from <= start && start + bytes <= to)
}

fn world() -> MutexGuard<'static, World> {
    static WORLD: LazyLock<Mutex<World>> = LazyLock::new(Mutex::default);
    WORLD.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// The contexts of this thread, the current one last.
    static CURRENT: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// One call that belongs to the current context: it fails if its turn is to fail.
fn inside(name: &'static str, act: impl FnOnce(&mut World) -> Result<(), String>) -> CUresult {
    let is_current = CURRENT.with_borrow(|current| current.last() == Some(&CONTEXT));
    call(name, |world| if is_current { act(world) } else { Err("the context is not current".to_owned()) })
}

/// One call.
fn call(name: &'static str, act: impl FnOnce(&mut World) -> Result<(), String>) -> CUresult {
    let mut world = world();
    world.calls += 1;
    let calls = world.calls;
    let fails = |(at, failure)| calls == at || (calls > at && failure == Failure::Lasting);
    if world.failure.is_some_and(fails) {
        world.failed.get_or_insert(name);
        return FAILED;
    }
    match act(&mut world) {
        Ok(()) => CUDA_SUCCESS,
        Err(violation) => {
            world.violations.push(format!("{name}: {violation}"));
            INVALID
        }
    }
}

impl World {
    fn handle(&mut self) -> usize {
        self.last_handle += 1;
        self.last_handle
    }

    fn stream(&mut self, stream: CUstream) -> Result<&mut VecDeque<Work>, String> {
        self.streams.get_mut(&stream.addr()).ok_or_else(|| "there is no such stream".to_owned())
    }

    /// Whether work that has not run satisfies this.
    fn is_pending(&self, what: impl Fn(&Work) -> bool) -> bool {
        self.streams.values().flatten().any(what)
    }

    fn check_host(&self, start: usize, bytes: usize) -> Result<(), String> {
        let range = self.registered.range(..=start).next_back();
        let is_registered = range.is_some_and(|(from, length)| start + bytes <= from + length);
        if is_registered { Ok(()) } else { Err("the host's memory is not registered".to_owned()) }
    }

    fn device(&mut self, address: CUdeviceptr, bytes: usize) -> Result<&mut [u8], String> {
        let memory = self.device.get_mut(&address).ok_or("there is no such memory on the device")?;
        memory.get_mut(..bytes).ok_or_else(|| "the device's memory is shorter".to_owned())
    }

    /// Does the work of a stream up to this mark, or all of it.
    fn run(&mut self, stream: usize, until: Option<usize>) -> Result<(), String> {
        while until.is_none_or(|mark| !self.reached.contains(&mark)) {
            let queue = self.streams.get_mut(&stream).ok_or("the stream of the mark is gone")?;
            let Some(work) = queue.pop_front() else { break };
            match work {
                Work::Mark(mark) => self.reached.push(mark),
                Work::ToDevice { to, from, bytes } => {
                    self.check_host(from, bytes)?;
                    // SAFETY: registered, so mapped; the crate leaves it alone while it is under way.
                    let host = unsafe { slice::from_raw_parts(ptr::with_exposed_provenance::<u8>(from), bytes) };
                    self.device(to, bytes)?.copy_from_slice(host);
                }
                Work::ToHost { to, from, bytes } => {
                    self.check_host(to, bytes)?;
                    // SAFETY: as above.
                    let host = unsafe { slice::from_raw_parts_mut(ptr::with_exposed_provenance_mut::<u8>(to), bytes) };
                    host.copy_from_slice(self.device(from, bytes)?);
                }
                Work::Kernel { module, address, count, blocks, threads } => {
                    let program = self.modules.remove(&module).ok_or("the module was unloaded")?;
                    let is_whole = self.failure.is_none();
                    let pixels = self.device(address, count as usize * 4)?;
                    if is_whole {
                        program.run_grid(pixels, address, count, blocks, threads);
                    } else {
                        // Tests that have each call fail in turn are about the calls, and would take seconds.
                        swap_red_and_blue(pixels);
                    }
                    self.modules.insert(module, program);
                }
            }
        }
        Ok(())
    }
}

extern "C" fn cuInit(flags: c_uint) -> CUresult {
    call("cuInit", |_| require(flags == 0, "a flag"))
}

extern "C" fn cuGetErrorName(error: CUresult, name: *mut *const c_char) -> CUresult {
    // SAFETY: the caller's place for an address.
    unsafe { *name = if error == FAILED { c"CUDA_ERROR_ILLEGAL_ADDRESS".as_ptr() } else { ptr::null() } };
    if error == FAILED { CUDA_SUCCESS } else { INVALID }
}

extern "C" fn cuGetErrorString(error: CUresult, text: *mut *const c_char) -> CUresult {
    // SAFETY: as above.
    unsafe { *text = if error == FAILED { c"an illegal memory access".as_ptr() } else { ptr::null() } };
    if error == FAILED { CUDA_SUCCESS } else { INVALID }
}

extern "C" fn cuDeviceGetCount(count: *mut c_int) -> CUresult {
    // SAFETY: the caller's place for a number.
    call("cuDeviceGetCount", |_| unsafe { written(count, 1) })
}

extern "C" fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int) -> CUresult {
    call("cuDeviceGet", |_| {
        require(ordinal == 0, "no such device")?;
        // SAFETY: the caller's place for a number.
        unsafe { written(device, DEVICE) }
    })
}

extern "C" fn cuDeviceGetName(name: *mut c_char, bytes: c_int, device: CUdevice) -> CUresult {
    call("cuDeviceGetName", |_| {
        require(device == DEVICE && bytes as usize >= NAME.to_bytes_with_nul().len(), "no such device, or no room")?;
        // SAFETY: the caller's place for that many bytes.
        unsafe { ptr::copy_nonoverlapping(NAME.as_ptr(), name, NAME.to_bytes_with_nul().len()) };
        Ok(())
    })
}

extern "C" fn cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice) -> CUresult {
    call("cuDevicePrimaryCtxRetain", |world| {
        require(device == DEVICE, "no such device")?;
        world.retained += 1;
        // SAFETY: the caller's place for a handle.
        unsafe { written(context, ptr::without_provenance_mut(CONTEXT)) }
    })
}

extern "C" fn cuDevicePrimaryCtxRelease_v2(device: CUdevice) -> CUresult {
    call("cuDevicePrimaryCtxRelease", |world| {
        require(device == DEVICE && world.retained > 0, "the context is not retained")?;
        require(!world.is_pending(|_| true), "work is under way")?;
        world.retained -= 1;
        Ok(())
    })
}

extern "C" fn cuCtxPushCurrent_v2(context: CUcontext) -> CUresult {
    call("cuCtxPushCurrent", |world| {
        require(context.addr() == CONTEXT && world.retained > 0, "the context is not retained")?;
        CURRENT.with_borrow_mut(|current| current.push(CONTEXT));
        Ok(())
    })
}

extern "C" fn cuCtxPopCurrent_v2(context: *mut CUcontext) -> CUresult {
    let Some(popped) = CURRENT.with_borrow_mut(Vec::pop) else { return INVALID };
    // SAFETY: the caller's place for a handle.
    unsafe { *context = ptr::without_provenance_mut(popped) };
    CUDA_SUCCESS
}

extern "C" fn cuModuleLoadDataEx(
    module: *mut CUmodule,
    image: *const c_void,
    options: c_uint,
    option: *mut CUjit_option,
    value: *mut *mut c_void,
) -> CUresult {
    // SAFETY: the image is text that ends with a zero, and the arrays have as many elements.
    let (image, option, value) = unsafe {
        let options = options as usize;
        (CStr::from_ptr(image.cast()), slice::from_raw_parts(option, options), slice::from_raw_parts(value, options))
    };
    let status = inside("cuModuleLoadDataEx", |world| {
        require(option == [5, 6], "other options than a buffer for errors, and its size")?;
        let handle = world.handle();
        world.modules.insert(handle, Program::parse(image.to_str().map_err(|error| error.to_string())?));
        // SAFETY: the caller's place for a handle.
        unsafe { written(module, ptr::without_provenance_mut(handle)) }
    });
    if status != CUDA_SUCCESS && value[1].addr() >= LOG.to_bytes_with_nul().len() {
        // SAFETY: the caller's buffer, of the length that it says.
        unsafe { ptr::copy_nonoverlapping(LOG.as_ptr(), value[0].cast(), LOG.to_bytes_with_nul().len()) };
    }
    status
}

extern "C" fn cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char) -> CUresult {
    inside("cuModuleGetFunction", |world| {
        // SAFETY: the name ends with a zero.
        let name = unsafe { CStr::from_ptr(name) };
        require(world.modules.contains_key(&module.addr()) && name == c"swap_red_and_blue", "no such function")?;
        // SAFETY: the caller's place for a handle.
        unsafe { written(function, module) }
    })
}

extern "C" fn cuModuleUnload(module: CUmodule) -> CUresult {
    inside("cuModuleUnload", |world| {
        let runs = |work: &Work| matches!(work, Work::Kernel { module: runs, .. } if *runs == module.addr());
        require(!world.is_pending(runs), "the kernel is under way")?;
        world.modules.remove(&module.addr()).map(drop).ok_or_else(|| "there is no such module".to_owned())
    })
}

extern "C" fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize) -> CUresult {
    inside("cuMemAlloc", |world| {
        require(bytes > 0, "no bytes")?;
        let place = 0x7f00_0000_0000 + ((world.handle() as u64) << 32);
        world.device.insert(place, vec![0; bytes]);
        // SAFETY: the caller's place for an address.
        unsafe { written(address, place) }
    })
}

extern "C" fn cuMemFree_v2(address: CUdeviceptr) -> CUresult {
    inside("cuMemFree", |world| {
        let uses = |work: &Work| match work {
            Work::ToDevice { to: used, .. } | Work::ToHost { from: used, .. } => *used == address,
            Work::Kernel { address: used, .. } => *used == address,
            Work::Mark(_) => false,
        };
        require(!world.is_pending(uses), "the memory is in use")?;
        world.device.remove(&address).map(drop).ok_or_else(|| "there is no such memory".to_owned())
    })
}

extern "C" fn cuMemHostRegister_v2(start: *mut c_void, bytes: usize, flags: c_uint) -> CUresult {
    inside("cuMemHostRegister", |world| {
        require(flags == 0, "a flag")?;
        let first = start.expose_provenance();
        require(first.is_multiple_of(PAGE) && bytes.is_multiple_of(PAGE) && bytes > 0, "no whole pages")?;
        let overlaps = world.registered.iter().any(|(from, length)| first < from + length && *from < first + bytes);
        require(!overlaps, "registered already")?;
        world.registered.insert(first, bytes);
        Ok(())
    })
}

extern "C" fn cuMemHostUnregister(start: *mut c_void) -> CUresult {
    inside("cuMemHostUnregister", |world| {
        let uses = |work: &Work| match work {
            Work::ToDevice { from: used, .. } | Work::ToHost { to: used, .. } => *used == start.addr(),
            Work::Kernel { .. } | Work::Mark(_) => false,
        };
        require(!world.is_pending(uses), "the memory is in use")?;
        world.registered.remove(&start.addr()).map(drop).ok_or_else(|| "it is not registered".to_owned())
    })
}

extern "C" fn cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream) -> CUresult {
    inside("cuMemcpyHtoDAsync", |world| {
        world.check_host(from.addr(), bytes)?;
        world.device(to, bytes)?;
        world.stream(stream)?.push_back(Work::ToDevice { to, from: from.expose_provenance(), bytes });
        Ok(())
    })
}

extern "C" fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream) -> CUresult {
    inside("cuMemcpyDtoHAsync", |world| {
        world.check_host(to.addr(), bytes)?;
        world.device(from, bytes)?;
        world.stream(stream)?.push_back(Work::ToHost { to: to.expose_provenance(), from, bytes });
        Ok(())
    })
}

extern "C" fn cuStreamCreate(stream: *mut CUstream, flags: c_uint) -> CUresult {
    inside("cuStreamCreate", |world| {
        require(flags == CU_STREAM_NON_BLOCKING, "a stream that waits for others")?;
        let handle = world.handle();
        world.streams.insert(handle, VecDeque::new());
        // SAFETY: the caller's place for a handle.
        unsafe { written(stream, ptr::without_provenance_mut(handle)) }
    })
}

extern "C" fn cuStreamSynchronize(stream: CUstream) -> CUresult {
    inside("cuStreamSynchronize", |world| world.run(stream.addr(), None))
}

extern "C" fn cuStreamDestroy_v2(stream: CUstream) -> CUresult {
    inside("cuStreamDestroy", |world| {
        let work = world.streams.remove(&stream.addr()).ok_or("there is no such stream")?;
        require(work.is_empty(), "work is under way")
    })
}

extern "C" fn cuEventCreate(event: *mut CUevent, flags: c_uint) -> CUresult {
    inside("cuEventCreate", |world| {
        require(flags == CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING, "other flags")?;
        let handle = world.handle();
        world.events.insert(handle, None);
        // SAFETY: the caller's place for a handle.
        unsafe { written(event, ptr::without_provenance_mut(handle)) }
    })
}

extern "C" fn cuEventRecord(event: CUevent, stream: CUstream) -> CUresult {
    inside("cuEventRecord", |world| {
        let mark = world.handle();
        world.stream(stream)?.push_back(Work::Mark(mark));
        let event = world.events.get_mut(&event.addr()).ok_or("there is no such event")?;
        *event = Some((stream.addr(), mark));
        Ok(())
    })
}

extern "C" fn cuEventQuery(event: CUevent) -> CUresult {
    let mut is_over = true;
    let status = inside("cuEventQuery", |world| {
        let mark = world.events.get(&event.addr()).ok_or("there is no such event")?;
        is_over = mark.is_none_or(|(_, mark)| world.reached.contains(&mark));
        Ok(())
    });
    if status == CUDA_SUCCESS && !is_over { CUDA_ERROR_NOT_READY } else { status }
}

extern "C" fn cuEventSynchronize(event: CUevent) -> CUresult {
    inside("cuEventSynchronize", |world| {
        let mark = *world.events.get(&event.addr()).ok_or("there is no such event")?;
        mark.map_or(Ok(()), |(stream, mark)| world.run(stream, Some(mark)))
    })
}

extern "C" fn cuEventDestroy_v2(event: CUevent) -> CUresult {
    inside("cuEventDestroy", |world| {
        world.events.remove(&event.addr()).map(drop).ok_or_else(|| "there is no such event".to_owned())
    })
}

extern "C" fn cuLaunchKernel(
    function: CUfunction,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared_bytes: c_uint,
    stream: CUstream,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CUresult {
    inside("cuLaunchKernel", |world| {
        let module = function.addr();
        require(world.modules.contains_key(&module), "no such function")?;
        require(grid_x > 0 && (1..=1024).contains(&block_x), "a grid that no device has")?;
        require([grid_y, grid_z, block_y, block_z] == [1; 4] && shared_bytes == 0, "more than one dimension")?;
        require(extra.is_null(), "parameters in two ways")?;
        // SAFETY: the kernel has two parameters, each a word of 64 bits.
        let [address, count] = [0, 1].map(|at| unsafe { (*parameters.add(at)).cast::<u64>().read() });
        world.device(address, count as usize * 4)?;
        let (blocks, threads) = (grid_x.into(), block_x.into());
        world.stream(stream)?.push_back(Work::Kernel { module, address, count, blocks, threads });
        Ok(())
    })
}

fn require(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.to_owned()) }
}

/// # Safety
/// The place may be written to.
unsafe fn written<T>(place: *mut T, value: T) -> Result<(), String> {
    // SAFETY: as the caller says.
    unsafe { place.write(value) };
    Ok(())
}

/// `CUDA_ERROR_ILLEGAL_ADDRESS`, which every call answers with after a kernel did so.
const FAILED: CUresult = 700;
/// `CUDA_ERROR_INVALID_VALUE`.
const INVALID: CUresult = 1;
const CONTEXT: usize = 0xc0;
const DEVICE: CUdevice = 7;
const PAGE: usize = 4096;
/// The device's name.
const NAME: &CStr = c"a device of the tests";
/// The words of the compiler for a kernel that it does not take.
const LOG: &CStr = c"line 1: no such thing\n";
