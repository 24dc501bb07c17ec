//! The driver against a device that does what a test says: the submission path, waiting, opening,
//! the life of objects, and devices that lie.

mod device;
mod donation;
mod fallback;
mod hostile;
mod lifetime;
mod node_contexts;
mod opening;
mod paged;
mod retrying;
mod rig;
mod ring;
mod submission;
mod waiting;
