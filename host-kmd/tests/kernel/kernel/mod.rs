// SPDX-License-Identifier: MIT OR Apache-2.0

//! Adapters, and requests whatever they ask for.

mod adapter;
mod adapters;
mod edge_table;
mod edges;
mod features;
mod malformed;
mod unknown_ids;
