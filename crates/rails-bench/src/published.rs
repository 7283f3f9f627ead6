//! Documents in `docs/` that are generated.

use std::{env, fs, path::Path};

/// Panics if the file of `docs/` is another one than the generated text, which it writes there with
/// `RAILS_WRITE_COMMANDS=1`.
pub(crate) fn check(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file);
    if env::var_os("RAILS_WRITE_COMMANDS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let published = fs::read_to_string(&path).unwrap_or_default();
    assert!(published == text, "docs/{file} is another one; RAILS_WRITE_COMMANDS=1 writes this:\n{text}");
}
