//! The version and the limits of messages.

/// The version of the messages. An end refuses a peer of another one.
pub const VERSION: u16 = 1;

/// The longest message without a limit of its own, in bytes.
pub const MAX_FRAME_BYTES: usize = 16 << 10;

/// The longest `Listed` and `Status` of the node that serves, in bytes: 4,096 datasets whose names
/// have 230 bytes, or 1,300 budgets with the longest names.
pub const MAX_LISTING_BYTES: usize = 1 << 20;

/// The longest `Described`, in bytes.
pub const MAX_DESCRIPTION_BYTES: usize = 8 << 20;

/// The largest memory of a decoded description, in bytes.
///
/// The memory is counted before the description is decoded, because an attribute of three bytes may
/// take two hundred in memory. While lists grow, decoding takes up to three times as much.
pub const MAX_DESCRIPTION_MEMORY: u64 = 4 * MAX_DESCRIPTION_BYTES as u64;

/// The largest array that a description holds the elements of, in bytes.
pub const MAX_INLINE_BYTES: usize = 64 << 10;

/// The largest sum of the elements that a description holds, in bytes.
pub const MAX_INLINE_SUM: u64 = 1 << 20;

/// The largest number of runs in a list of blocks.
pub const MAX_RUNS: usize = 1024;

/// The largest number of blocks in a list.
pub const MAX_BLOCKS: u64 = 1 << 16;

/// The largest number of views that a description tells of one array.
pub const MAX_VIEWS: usize = 64;
/// The largest number of regions in an `Intend`.
pub const MAX_REGIONS: usize = 512;

/// The largest number of datasets in a `Listed`.
pub const MAX_DATASETS: usize = 4096;

/// The largest number of budgets in a `Status`.
pub const MAX_BUDGETS: usize = 1024;

/// The largest number of nodes between an application and a link.
pub const MAX_PATH: usize = 16;

/// The longest name of a dataset or an array, in bytes.
pub const MAX_NAME_BYTES: usize = 255;

/// The longest name of an application, in bytes.
pub const MAX_APPLICATION_BYTES: usize = 128;

/// The longest text for people, in bytes.
pub const MAX_TEXT_BYTES: usize = 1024;
