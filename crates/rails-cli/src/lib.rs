//! Flags, exits and printing that the commands of Rails share.
//!
//! A command returns an [`Exit`](exit::Exit), or an error for [`explain`](exit::explain). Results
//! go to stdout and everything else to stderr, by [`print`](mod@print). [`Stop`](stop::Stop) has
//! the signals that end a command, and [`block_on`](thread::block_on) runs it.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

#[cfg(feature = "flags")]
pub mod bar;
#[cfg(not(feature = "flags"))]
#[path = "no_bar.rs"]
pub mod bar;
pub mod exit;
pub mod print;
pub mod stop;
pub mod table;
pub mod thread;
pub mod width;

#[cfg(feature = "flags")]
pub mod draft;
#[cfg(feature = "flags")]
pub mod duration;
#[cfg(feature = "flags")]
pub mod logs;
#[cfg(feature = "flags")]
pub mod output_file;
#[cfg(feature = "flags")]
pub mod rate;
#[cfg(feature = "flags")]
pub mod secret;
#[cfg(feature = "flags")]
pub mod size;
#[cfg(feature = "flags")]
pub mod spread;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(all(feature = "flags", not(feature = "tls")))]
#[path = "no_tls.rs"]
pub mod tls;
