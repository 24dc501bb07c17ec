//! The virtual GPU and its vhost-user service.

pub mod gpu;
