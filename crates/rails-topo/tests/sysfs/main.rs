//! The reader of the kernel's files, on trees that the tests write.

mod allowed;
mod cpus;
mod hostile;
mod kinds;
mod large;
mod memory;
mod devices;
mod nics;
mod nonsense;
mod pci;
mod roots;
mod tree;
