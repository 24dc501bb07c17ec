//! The kernel with the driver of our GPU, over a GPU of a few maps.

mod actor;
mod adapter;
mod bench;
mod contexts;
mod ddi;
mod detach;
mod donation;
mod doorbells;
mod edges;
mod faults;
mod fences;
mod global_doorbell;
mod inspect;
mod malformed;
mod memory;
mod model;
mod node_contexts;
mod node_paging;
mod objects;
mod paging;
mod power;
mod rotation;
mod submit;
mod tdr;
mod termination;
mod vidmm;
