//! The reader of the kernel's files, on trees that the tests write.

mod cpus;
mod devices;
mod nics;
mod nonsense;
mod pci;
mod roots;
mod tree;
