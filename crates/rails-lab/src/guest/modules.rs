//! The order in which kernel modules must be loaded, by depmod's files.

use std::collections::{BTreeMap, BTreeSet};

/// The contents of `modules.dep` and `modules.builtin`.
///
/// # References
///
/// modules.dep(5)
#[derive(Debug, Default)]
pub(crate) struct Modules {
    /// Modules by name; paths are relative to the folder of the two files.
    loadable: BTreeMap<String, Module>,
    builtin: BTreeSet<String>,
}

#[derive(Debug)]
struct Module {
    file: String,
    needs: Vec<String>,
}

impl Modules {
    /// Lines that are not `FILE: FILE...` are ignored.
    pub(crate) fn parse(dep: &str, builtin: &str) -> Self {
        let entry = |line: &str| {
            let (file, needs) = line.split_once(':')?;
            let needs = needs.split_whitespace().map(str::to_owned).collect();
            Some((name(file), Module { file: file.to_owned(), needs }))
        };
        Self {
            loadable: dep.lines().filter_map(entry).collect(),
            builtin: builtin.lines().map(|line| name(line.trim())).collect(),
        }
    }

    /// The files to load for these modules, each once, after the files that it depends on. A
    /// built-in module needs no file.
    ///
    /// The error is a module that the kernel does not have.
    pub(crate) fn load_order<'a>(&'a self, wanted: &[&str]) -> Result<Vec<&'a str>, String> {
        let mut order = Vec::new();
        let mut seen = BTreeSet::new();
        for wish in wanted {
            self.visit(&name(wish), &mut seen, &mut order)?;
        }
        Ok(order)
    }

    fn visit<'a>(&'a self, module: &str, seen: &mut BTreeSet<String>, order: &mut Vec<&'a str>) -> Result<(), String> {
        if self.builtin.contains(module) || !seen.insert(module.to_owned()) {
            return Ok(());
        }
        let Module { file, needs } = self.loadable.get(module).ok_or_else(|| module.to_owned())?;
        for need in needs {
            self.visit(&name(need), seen, order)?;
        }
        order.push(file);
        Ok(())
    }
}

/// `kernel/net/9p/9pnet-virtio.ko.xz` is `9pnet_virtio`: the kernel does not distinguish hyphen and
/// underscore.
fn name(file: &str) -> String {
    let base = file.rsplit('/').next().unwrap_or(file);
    base.split(".ko").next().unwrap_or(base).replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DEP: &str = "kernel/net/9p/9pnet.ko:\n\
        kernel/fs/9p/9p.ko.xz: kernel/fs/netfs/netfs.ko.xz kernel/net/9p/9pnet.ko\n\
        kernel/fs/netfs/netfs.ko.xz:\n\
        kernel/drivers/virtio/virtio-ring.ko: kernel/drivers/virtio/virtio.ko\n\
        kernel/drivers/virtio/virtio.ko:\n\
        not a line\n";

    #[test]
    fn dependencies_of_a_module_come_first_and_once() {
        let modules = Modules::parse(DEP, "kernel/mm/tmpfs.ko\n");
        assert_eq!(
            modules.load_order(&["9p", "9pnet", "virtio_ring", "tmpfs"]).unwrap(),
            [
                "kernel/fs/netfs/netfs.ko.xz",
                "kernel/net/9p/9pnet.ko",
                "kernel/fs/9p/9p.ko.xz",
                "kernel/drivers/virtio/virtio.ko",
                "kernel/drivers/virtio/virtio-ring.ko"
            ]
        );
    }

    #[test]
    fn a_module_that_is_nowhere_is_named() {
        assert_eq!(Modules::parse(DEP, "").load_order(&["9p", "virtio_pci"]).unwrap_err(), "virtio_pci");
        let broken = Modules::parse("a/x.ko: a/gone.ko\n", "");
        assert_eq!(broken.load_order(&["x"]).unwrap_err(), "gone");
    }

    #[test]
    fn a_circle_ends() {
        let circle = Modules::parse("a.ko: b.ko\nb.ko: a.ko\n", "");
        assert_eq!(circle.load_order(&["a"]).unwrap(), ["b.ko", "a.ko"]);
    }

    proptest! {
        /// Module `i` needs some of those below it, so an order exists; the lines come in any order.
        #[test]
        fn every_need_is_loaded_before(
            needs in proptest::collection::vec(proptest::collection::vec(0_usize..20, 0..5), 1..20),
            wanted in 0_usize..20,
        ) {
            let needs: Vec<Vec<usize>> = needs
                .iter()
                .enumerate()
                .map(|(module, below)| below.iter().filter(|need| **need < module).copied().collect())
                .collect();
            let file = |module: usize| format!("kernel/m{module}.ko");
            let line = |module: usize| {
                let needs: Vec<String> = needs[module].iter().map(|need| file(*need)).collect();
                format!("{}: {}\n", file(module), needs.join(" "))
            };
            let text: String = (0..needs.len()).rev().map(line).collect();
            let modules = Modules::parse(&text, "");
            let wanted = wanted % needs.len();
            let order = modules.load_order(&[&format!("m{wanted}")]).unwrap();
            prop_assert_eq!(*order.last().unwrap(), file(wanted));
            for (at, loaded) in order.iter().enumerate() {
                prop_assert!(!order[..at].contains(loaded));
                let module = (0..needs.len()).find(|module| file(*module) == *loaded).unwrap();
                for need in &needs[module] {
                    prop_assert!(order[..at].contains(&file(*need).as_str()));
                }
            }
        }

        #[test]
        fn no_text_is_too_odd(dep: String, builtin: String, wish: String) {
            let _ = Modules::parse(&dep, &builtin).load_order(&[&wish]);
        }
    }
}
