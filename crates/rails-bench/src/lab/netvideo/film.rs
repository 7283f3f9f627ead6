//! The file that frames are read from.

use rails_multirail::pipeline::file::{FileError, FileFrames};
use rails_topo::{CpuSet, Storage, StorageError, Topology};
use serde::Serialize;
use std::{fmt, path::PathBuf};

/// A file of frames, and its disks.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Film {
    /// The file.
    pub(crate) path: PathBuf,
    /// The file's whole frames, which are sent over and over.
    pub(crate) frames: u64,
    /// The bytes behind them, which are not sent.
    pub(crate) rest_bytes: usize,
    /// How the file is read.
    pub(crate) reading: String,
    /// The disks that hold it; none are known with `no_disk`.
    pub(crate) disks: Vec<String>,
    /// The reason why no disk is known.
    pub(crate) no_disk: Option<String>,
}

/// Frames cannot be taken from a file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilmError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A system call that looks for the file's disks failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The file is too short.
    #[error("`{path}` holds no whole frame of {frame_bytes} bytes", path = path.display())]
    NoFrame {
        /// The file.
        path: PathBuf,
        /// The length of a frame.
        frame_bytes: usize,
    },
}

impl Film {
    /// Opens and examines a file.
    pub(crate) fn of(path: PathBuf, frame_bytes: usize) -> Result<Self, FilmError> {
        let frames = FileFrames::open(&path, frame_bytes)?;
        if frames.count() == 0 {
            return Err(FilmError::NoFrame { path, frame_bytes });
        }
        let (disks, no_disk) = match Storage::of(&path) {
            Ok(storage) => (storage.disks, None),
            Err(error @ StorageError::Call { .. }) => return Err(error.into()),
            Err(nowhere) => (Vec::new(), Some(nowhere.to_string())),
        };
        let (count, rest_bytes, reading) = (frames.count(), frames.rest_bytes(), frames.reading().to_string());
        Ok(Self { path, frames: count, rest_bytes, reading, disks, no_disk })
    }

    /// The CPUs beside all disks of the file, or beside one of them where none is beside all;
    /// `None` is unknown.
    pub(crate) fn cpus_beside(&self, topology: &Topology) -> Option<CpuSet> {
        let locality = topology.locality();
        let disks = topology.block_devices().iter().filter(|disk| self.disks.contains(&disk.name));
        let beside: Vec<CpuSet> = disks.filter_map(|disk| locality.cpus_beside(disk)).collect();
        let all = beside.iter().cloned().reduce(|all, one| all.intersection(&one)).filter(|all| !all.is_empty());
        all.or_else(|| beside.into_iter().reduce(|all, one| all.union(&one)))
    }
}

/// `frames of /data/film.rgba (120, over and over), read with O_DIRECT, on nvme0n1`.
impl fmt::Display for Film {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, frames, rest_bytes, reading, disks, no_disk } = self;
        write!(f, "frames of {} ({frames}, over and over), read {reading}", path.display())?;
        match no_disk {
            None => write!(f, ", on {}", disks.join(", "))?,
            Some(reason) => write!(f, ", beside no disk: {reason}")?,
        }
        match rest_bytes {
            0 => Ok(()),
            bytes => write!(f, "; the last {bytes} bytes are no whole frame, and are not sent"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rails_topo::{BlockDevice, NodeId};
    use std::fs;

    /// A machine of two nodes with these disks, each on its node.
    fn machine(disks: &[(&str, Option<u32>)]) -> Topology {
        let disk = |(name, node): &(&str, Option<u32>)| BlockDevice {
            name: (*name).to_owned(),
            pci: None,
            size: None,
            model: None,
            node: node.map(NodeId),
            local_cpus: None,
        };
        let disks: Vec<BlockDevice> = disks.iter().map(disk).collect();
        let machine = Topology::synthetic("package:2 numa:1 core:2 pu:1", Vec::new()).unwrap();
        let mut model = serde_json::to_value(machine).unwrap();
        model["block_devices"] = serde_json::to_value(disks).unwrap();
        serde_json::from_value(model).unwrap()
    }

    #[test]
    fn the_reader_is_beside_the_disks() {
        let machine = machine(&[("nvme0n1", Some(0)), ("nvme1n1", Some(1)), ("nvme2n1", Some(1)), ("sda", None)]);
        let beside = |disks: &[&str]| {
            let disks = disks.iter().map(|disk| (*disk).to_owned()).collect();
            let film =
                Film { path: PathBuf::new(), frames: 1, rest_bytes: 0, reading: String::new(), disks, no_disk: None };
            film.cpus_beside(&machine).map(|cpus| cpus.to_string())
        };
        assert_eq!(beside(&["nvme1n1"]).as_deref(), Some("2-3"));
        assert_eq!(beside(&["nvme1n1", "nvme2n1"]).as_deref(), Some("2-3"));
        assert_eq!(beside(&["nvme0n1", "nvme1n1"]).as_deref(), Some("0-3"), "beside one of them");
        assert_eq!((beside(&["sda"]), beside(&["gone"]), beside(&[])), (None, None, None));
    }

    #[test]
    fn a_film_has_a_frame_and_says_its_rest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("film");
        fs::write(&path, [7; 2500]).unwrap();
        let film = Film::of(path.clone(), 1000).unwrap();
        assert_eq!((film.frames, film.rest_bytes, film.disks.is_empty()), (2, 500, film.no_disk.is_some()));
        let said = film.to_string();
        assert!(said.contains("(2, over and over), read through the page cache"), "{said}");
        assert!(said.ends_with("; the last 500 bytes are no whole frame, and are not sent"), "{said}");
        let error = Film::of(path.clone(), 3000).unwrap_err();
        assert_eq!(error.to_string(), format!("`{}` holds no whole frame of 3000 bytes", path.display()));
        assert!(matches!(Film::of(folder.path().join("none"), 1), Err(FilmError::File(FileError::Open { .. }))));
    }
}
