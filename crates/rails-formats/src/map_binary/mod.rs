//! MAP-Binary: four-dimensional fields with their metadata, big-endian, in records.
//!
//! NASA's MAP'06 data were stored in a format of this name, whose layout was not published. Its
//! features are known: data beside their metadata, big-endian, with the dimensions time, pressure
//! level, latitude and longitude. This is a format of our own with these features.
//!
//! # Layout
//! All numbers are big-endian. *text* is a u16, the number of bytes, and so many bytes of UTF-8.
//!
//! | field | type | meaning |
//! |---|---|---|
//! | magic | 8 bytes | `MAPBIN\r\n`, which a transfer as text destroys |
//! | version | u32 | 1 |
//! | header bytes | u32 | the length of the header from the magic on, at most 16 MiB |
//! | dimensions | u32 | at most 32 |
//! | attributes | u32 | |
//! | variables | u32 | |
//! | | | then the dimensions, the attributes and the variables |
//!
//! A dimension:
//!
//! | field | type | meaning |
//! |---|---|---|
//! | name | text | not empty, and that of no other dimension |
//! | unit | text | |
//! | length | u64 | |
//! | coordinates | f64 each | as many as the length says |
//!
//! An attribute is two texts: its name, which is not empty and that of no other attribute, and its
//! value. A variable:
//!
//! | field | type | meaning |
//! |---|---|---|
//! | name | text | not empty, and that of no dimension or other variable |
//! | unit | text | |
//! | type | u8 | 1 to 10: int8, uint8, int16, uint16, int32, uint32, int64, uint64, float32, float64 |
//! | has missing | u8 | 1 if `missing` is a value of the variable, else 0 |
//! | missing | 8 bytes | the value of elements without data, at the end of the field, zeros before it |
//! | rank | u8 | 1 to 32 |
//! | axes | u16 each | the numbers of the dimensions, that of the slowest one first |
//! | first record | u64 | the offset in the file of record 0 |
//! | record stride | u64 | the distance of the beginnings of neighbouring records |
//!
//! Bytes between the last variable and the end of the header are without meaning. A record has the
//! elements of one step of the variable's first dimension, in C order and without gaps. With the
//! record stride a file may have one variable behind the other, or all variables of a time step
//! side by side, as models write them.
//!
//! # In the manifest
//! Each dimension is an array of its own, its coordinates, of which the chunk lies in the header.
//! Each record of a variable is a chunk.

mod header;
mod index;
mod writer;

pub use header::{Dimension, Header, MAX_HEADER_BYTES, Variable};
pub use writer::{Layout, WriteError, Writer};
