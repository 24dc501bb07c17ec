// SPDX-License-Identifier: MIT OR Apache-2.0

//! The arguments of `kernel` and `picture`.

use super::arguments::in_one_word;
use crate::own_kernels::{Buffers, OnFiles, Picture, PushValue, Size};
use clap::Args;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A kernel to run on files.
#[derive(Debug, Clone, Args)]
#[group(skip)]
#[command(after_help = KERNEL_HELP)]
pub struct KernelArguments {
    /// The kernel's source: WGSL if it ends in .wgsl, and SPIR-V otherwise
    #[arg(value_name = "FILE.spv|FILE.wgsl")]
    pub(super) kernel: PathBuf,
    /// The file in the kernel's next buffer; may be given several times
    #[arg(long = "in", value_name = "FILE")]
    pub(super) inputs: Vec<PathBuf>,
    /// One more buffer, of so many bytes of zero
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    zeroes: Option<u64>,
    /// The file that gets the last buffer's bytes when the kernel is done; - for standard output
    #[arg(long = "out", value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// How many work groups to run
    #[arg(long, value_name = "X,Y,Z", default_value = "1,1,1")]
    groups: Size,
    /// Run as many work groups as it takes for these invocations
    #[arg(long, value_name = "X,Y,Z", conflicts_with = "groups")]
    invocations: Option<Size>,
    /// The kernel's function; by default main, and in WGSL the only one
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// The next push constant; may be given several times
    ///
    /// One of u32:7, i32:-7, f32:0.5, u64:7; @0 for the address of the first buffer; or bytes in hexadecimal. Each
    /// value stands at a multiple of its size.
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    push: Vec<PushValue>,
    /// The value of a specialisation constant, as 32 bits; may be given several times
    #[arg(long, value_name = "ID=VALUE", value_parser = constant)]
    constant: Vec<(u32, u32)>,
    /// Pass buffers only by their addresses (--push @0), and no descriptors
    #[arg(long)]
    pointers: bool,
}

const KERNEL_HELP: &str = "\
A kernel reaches its buffers as storage buffers of group (set) 0, bindings 0, 1 and so on: the files of --in in their
order, then --zeroes. With --pointers, it gets their addresses instead, where --push has them.

A kernel in WGSL that doubles each number:

  @group(0) @binding(0) var<storage, read_write> numbers: array<u32>;
  @compute @workgroup_size(64)
  fn double(@builtin(global_invocation_id) id: vec3u) {
      if id.x < arrayLength(&numbers) { numbers[id.x] *= 2; }
  }

Examples:
  kernel double.wgsl --in numbers --out doubled --invocations 1000
  kernel blur.spv --in picture --zeroes 1000000 --out blurred --groups 16,16 --push f32:2.5
  kernel list.spv --pointers --push @0 --in list --out list.done";

fn constant(text: &str) -> Result<(u32, u32), String> {
    let (id, value) = text.split_once('=').ok_or("give a number and a value, such as 7=100")?;
    let number = |text: &str| text.parse().map_err(|error| format!("{text:?}: {error}"));
    Ok((number(id)?, number(value)?))
}

impl KernelArguments {
    /// What they ask for.
    pub(super) fn job(&self) -> OnFiles {
        OnFiles {
            kernel: self.kernel.clone(),
            entry_point: self.entry.clone(),
            groups: self.invocations.is_none().then_some(self.groups.0),
            invocations: self.invocations.map(|size| size.0),
            push: self.push.clone(),
            constants: self.constant.clone(),
            buffers: Buffers {
                inputs: self.inputs.clone(),
                zeroes: self.zeroes,
                output: self.output.clone(),
            },
            pointers: self.pointers,
        }
    }

    /// Whether standard output is for the kernel's bytes.
    pub(super) fn takes_standard_output(&self) -> bool {
        self.output.as_deref() == Some(Path::new("-"))
    }

    /// These arguments as a command line of `bellhop-guest`.
    #[must_use]
    pub fn to_command_line(&self) -> Vec<OsString> {
        let mut line: Vec<OsString> = vec!["kernel".into()];
        line.extend(self.inputs.iter().map(|file| in_one_word("--in", file)));
        line.extend(self.zeroes.map(|bytes| format!("--zeroes={bytes}").into()));
        line.extend(self.output.as_deref().map(|file| in_one_word("--out", file)));
        line.push(match self.invocations {
            Some(size) => format!("--invocations={size}").into(),
            None => format!("--groups={}", self.groups).into(),
        });
        line.extend(self.entry.as_ref().map(|name| format!("--entry={name}").into()));
        line.extend(self.push.iter().map(|value| format!("--push={value}").into()));
        line.extend(self.constant.iter().map(|(id, to)| format!("--constant={id}={to}").into()));
        line.extend(self.pointers.then(|| "--pointers".into()));
        line.extend(["--".into(), self.kernel.clone().into()]);
        line
    }
}

/// A picture to draw.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct PictureArguments {
    /// The file for the picture, as PNG; - for standard output
    #[arg(long = "out", value_name = "FILE.png", default_value = "picture.png")]
    pub(super) output: PathBuf,
    /// Its width in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 960, value_parser = clap::value_parser!(u32).range(1..=8192))]
    width: u32,
    /// Its height in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 540, value_parser = clap::value_parser!(u32).range(1..=8192))]
    height: u32,
}

impl PictureArguments {
    /// The picture.
    pub(super) fn picture(&self) -> Picture {
        Picture { width: self.width, height: self.height }
    }

    /// The file. `None` is standard output.
    pub(super) fn file(&self) -> Option<&Path> {
        (self.output != Path::new("-")).then_some(&self.output)
    }

    /// These arguments as a command line of `bellhop-guest`.
    #[must_use]
    pub fn to_command_line(&self) -> Vec<OsString> {
        let size = [format!("--width={}", self.width), format!("--height={}", self.height)];
        let mut line: Vec<OsString> = vec!["picture".into(), in_one_word("--out", &self.output)];
        line.extend(size.map(OsString::from));
        line
    }
}
