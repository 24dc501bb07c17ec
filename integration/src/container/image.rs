// SPDX-License-Identifier: MIT OR Apache-2.0

//! The image: one static program.

use super::engine::{self, Engine};
use anyhow::Context;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

/// The image's name.
pub const NAME: &str = "localhost/bellhop-guest";

/// The Containerfile that the documentation names.
const CONTAINERFILE: &str = include_str!("../../container/Containerfile");

/// Builds the image with `program` in it, from nothing and without a network.
///
/// # Errors
/// When `folder` cannot be written, or podman fails.
pub async fn build(engine: &Engine, program: &Path, folder: &Path) -> anyhow::Result<()> {
    let context = folder.join("image");
    let containerfile = context.join("Containerfile");
    let copy = || {
        fs::create_dir(&context)?;
        fs::write(&containerfile, CONTAINERFILE)?;
        fs::copy(program, context.join("bellhop-guest"))
    };
    copy()
        .with_context(|| format!("cannot copy {} to {}", program.display(), context.display()))?;
    let mut arguments: Vec<OsString> = vec!["build".into(), "--quiet".into()];
    arguments.extend(["--network".into(), "none".into()]);
    // One layer: the instructions after the copy only say how to run the program.
    arguments.push("--layers=false".into());
    arguments.extend(["--tag".into(), NAME.into()]);
    arguments.extend(["--file".into(), containerfile.into(), context.into()]);
    engine::output(engine.command().args(&arguments))
        .await
        .context("cannot build the image")
        .map(drop)
}
