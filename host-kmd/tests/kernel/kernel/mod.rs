// SPDX-License-Identifier: MIT OR Apache-2.0

//! Adapters, and rules for all requests.

mod adapter;
mod adapters;
mod agent;
mod consent;
mod edge_table;
mod edges;
mod features;
mod malformed;
mod operator;
mod unknown_ids;
