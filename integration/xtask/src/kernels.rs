// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask kernels`: compiles the repository's kernels to SPIR-V, beside their sources.

use crate::command::{exists, run};
use crate::workspace::root;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Khronos's GLSL compiler.
const COMPILER: &str = "glslangValidator";
/// The folders of the kernels, and of stages that draw.
const FOLDERS: [&str; 3] =
    ["device/worker/kernels", "integration/vulkan/kernels", "integration/vulkan/stages"];
/// The extensions of stages that draw, whose modules keep them in their names.
const STAGES: [&str; 5] = ["vert", "tesc", "tese", "geom", "frag"];

/// Compiles all kernels.
///
/// # Errors
/// When there is no compiler, or it rejects a kernel.
pub fn compile() -> Result<(), String> {
    if !exists(COMPILER) {
        return Err(format!("there is no {COMPILER}; sudo apt-get install glslang-tools"));
    }
    FOLDERS.iter().try_for_each(|folder| compile_in(&root().join(folder)))
}

fn compile_in(folder: &Path) -> Result<(), String> {
    let cannot = |error| format!("cannot list {}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(cannot)? {
        let source = entry.map_err(cannot)?.path();
        let extension = source.extension().unwrap_or_default();
        let module = match STAGES.iter().any(|stage| extension == *stage) {
            true => source.with_added_extension("spv"),
            false if extension == "comp" => source.with_extension("spv"),
            false => continue,
        };
        // `-g` adds the source to the module, so that a test can compare it with the file.
        run(Command::new(COMPILER)
            .args(["-V", "--target-env", "vulkan1.2", "-g", "--quiet", "-o"])
            .args([&module, &source].map(|path| path.file_name().unwrap_or_default()))
            .current_dir(folder))?;
        println!("{}", module.display());
    }
    Ok(())
}
