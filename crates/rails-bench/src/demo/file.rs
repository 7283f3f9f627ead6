//! The file that a demo sends: made up or given, with a digest computed apart from the transfer.

use crate::{print, progress::Progress, stop::Stop, thread};
use anyhow::{Context, Result, bail};
use blake3::{Hash, Hasher};
use nix::sys::statvfs::statvfs;
use rails_topo::DataSize;
use std::{
    fs::{self, File},
    io::{Read, Write},
    path::{Path, PathBuf},
};

/// A file to send.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) path: PathBuf,
    /// The digest of the made-up bytes before they were written, or of the given file as it was
    /// read.
    pub(super) digest: Hash,
}

impl Source {
    /// A file of incompressible bytes in `folder`; `None` if the user ended the command.
    pub(super) async fn made(
        size: DataSize,
        seed: u64,
        folder: &Path,
        quiet: bool,
        stop: Stop,
    ) -> Result<Option<Self>> {
        let room = check_room(folder, size.as_bytes().saturating_mul(2))?;
        print::text(format_args!(
            "file       {size} of BLAKE3 output from --seed {seed}\n           in {}, which has {room} free and takes the file twice\n",
            folder.display(),
        ))?;
        let path = folder.join("made-up");
        let made = thread::aside("make", move || {
            let digest = make(&path, size.as_bytes(), seed, quiet, &stop);
            let digest = digest.with_context(|| format!("cannot write {}", path.display()))?;
            Ok(digest.map(|digest| Self { path, digest }))
        });
        made.await?
    }

    /// A given file; `None` if the user ended the command.
    pub(super) async fn given(path: &Path, folder: &Path, quiet: bool, stop: Stop) -> Result<Option<Self>> {
        let context = || format!("--file {}", path.display());
        let metadata = fs::metadata(path).with_context(context)?;
        if !metadata.is_file() {
            bail!("{}: it is not a regular file", context());
        }
        let size = DataSize::bytes(metadata.len());
        let room = check_room(folder, metadata.len())?;
        print::text(format_args!(
            "file       {}, {size}\n           received in {}, which has {room} free\n",
            path.display(),
            folder.display(),
        ))?;
        let digest = digest_of(path, "reading", quiet, stop).await.with_context(context)?;
        Ok(digest.map(|digest| Self { path: path.to_owned(), digest }))
    }
}

/// The BLAKE3 of a file; `None` if the user ended the command.
pub(super) async fn digest_of(path: &Path, doing: &'static str, quiet: bool, stop: Stop) -> Result<Option<Hash>> {
    let path = path.to_owned();
    let digest = thread::aside("digest", move || {
        let context = || format!("cannot read {}", path.display());
        let mut file = File::open(&path).with_context(context)?;
        let bar = Progress::of(doing, file.metadata().with_context(context)?.len(), quiet);
        let mut hasher = Hasher::new();
        let mut block = vec![0; BLOCK];
        loop {
            match file.read(&mut block).with_context(context)? {
                0 => break,
                count => {
                    hasher.update(&block[..count]);
                    bar.inc(count as u64);
                }
            }
            if stop.so_far().is_some() {
                return Ok(None);
            }
        }
        bar.finish_and_clear();
        Ok(Some(hasher.finalize()))
    });
    digest.await?
}

fn make(path: &Path, size: u64, seed: u64, quiet: bool, stop: &Stop) -> std::io::Result<Option<Hash>> {
    let mut file = File::create_new(path)?;
    let mut made_up = Hasher::new().update(&seed.to_le_bytes()).finalize_xof();
    let mut hasher = Hasher::new();
    let mut block = vec![0; BLOCK];
    let mut left = size;
    let bar = Progress::of("making the file", size, quiet);
    while left > 0 {
        let next = &mut block[..left.min(BLOCK as u64) as usize];
        made_up.fill(next);
        hasher.update(next);
        file.write_all(next)?;
        left -= next.len() as u64;
        bar.inc(next.len() as u64);
        if stop.so_far().is_some() {
            return Ok(None);
        }
    }
    bar.finish_and_clear();
    Ok(Some(hasher.finalize()))
}

/// Checks that the folder's file system has `needed` bytes and [`SPARE`] free, and returns its free
/// space in words. If the system does not state the space, a full file system is an error of the
/// write.
fn check_room(folder: &Path, needed: u64) -> Result<String> {
    let Ok(about) = statvfs(folder) else { return Ok("an unknown number of bytes".to_owned()) };
    let free = about.blocks_available().saturating_mul(about.fragment_size());
    if free < needed.saturating_add(SPARE) {
        bail!(
            "{} has {} free, and {} are needed: give a smaller --size or another TMPDIR",
            folder.display(),
            DataSize::bytes(free),
            DataSize::bytes(needed.saturating_add(SPARE)),
        );
    }
    Ok(DataSize::bytes(free).to_string())
}

const BLOCK: usize = 1 << 20;

/// The bytes to leave free beside the demo's files.
const SPARE: u64 = 64 << 20;
