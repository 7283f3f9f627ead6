//! Every decoder of outside bytes and text, driven by LLVM's libFuzzer: `cargo xtask fuzz`.
//!
//! One program holds all targets; `RAILS_FUZZ_TARGET` chooses the one that runs. With
//! `RAILS_FUZZ_SEEDS=FOLDER` it fuzzes nothing and writes the start of each target's search:
//! `FOLDER/NAME/`, its first inputs, made by the encoders themselves if there are any, and
//! `FOLDER/NAME.dict`, words that no search by coverage would guess (the format is that of
//! libFuzzer's documentation, "Dictionaries").

#![no_main]

mod script;
mod targets;

use std::{env, fs, io, path::Path, process, sync::OnceLock};
use targets::{TARGETS, Target};

libfuzzer_sys::fuzz_target!(init: choose(), |data: &[u8]| {
    let target = CHOSEN.get().expect("a target was chosen before the first input");
    (target.run)(data);
});

static CHOSEN: OnceLock<&'static Target> = OnceLock::new();

fn choose() {
    if let Some(folder) = env::var_os("RAILS_FUZZ_SEEDS") {
        match write_seeds(Path::new(&folder)) {
            Ok(()) => process::exit(0),
            Err(error) => fail(&format!("cannot write below {}: {error}", folder.display())),
        }
    }
    let name = env::var("RAILS_FUZZ_TARGET").unwrap_or_default();
    match TARGETS.iter().find(|target| target.name == name) {
        Some(target) => drop(CHOSEN.set(target)),
        None => fail(&format!("RAILS_FUZZ_TARGET names no target: `{name}`")),
    }
}

fn write_seeds(folder: &Path) -> io::Result<()> {
    for target in TARGETS {
        let inputs = folder.join(target.name);
        fs::create_dir_all(&inputs)?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            fs::write(inputs.join(format!("seed-{number}")), seed)?;
        }
        let words: String = target.words.iter().map(|word| format!("\"{}\"\n", escaped(word))).collect();
        if !words.is_empty() {
            fs::write(folder.join(format!("{}.dict", target.name)), words)?;
        }
    }
    Ok(())
}

/// A word for a dictionary: every byte by its number, so that none has a special meaning.
fn escaped(word: &str) -> String {
    word.bytes().map(|byte| format!("\\x{byte:02X}")).collect()
}

fn fail(why: &str) -> ! {
    eprintln!("error: {why}");
    process::exit(2)
}
