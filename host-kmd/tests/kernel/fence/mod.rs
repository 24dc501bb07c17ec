// SPDX-License-Identifier: MIT OR Apache-2.0

//! Fences, their logs, and the interrupts that report them.

mod cross_adapter;
mod cross_adapter_tables;
mod fences;
mod logs;
mod optimized_interrupt;
