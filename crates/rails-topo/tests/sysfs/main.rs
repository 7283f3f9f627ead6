//! The reader of the kernel's files, on trees that the tests write.

mod allowed;
mod cpus;
mod devices;
mod hostile;
mod interrupts;
mod kinds;
mod large;
mod layers;
mod memory;
mod nics;
mod nonsense;
mod pci;
mod roots;
mod tree;
