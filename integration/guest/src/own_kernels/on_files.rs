// SPDX-License-Identifier: MIT OR Apache-2.0

//! Anybody's kernel, on files.

use super::bench::Bench;
use crate::files::NewFile;
use crate::output::wrapped;
use crate::units;
use anyhow::{Context as _, bail, ensure};
use bellhop_guest_umd::transport::Transport;
use bellhop_guest_umd::{Arguments, GpuMapping, Kernel, PlacementPolicy};
use std::fmt;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Three numbers, such as `64,64` on a command line; those that are left out are 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub [u32; 3]);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut size = [1; 3];
        let mut numbers = text.split(',');
        for (place, number) in size.iter_mut().zip(numbers.by_ref()) {
            *place = number.trim().parse().map_err(|error| format!("{number:?}: {error}"))?;
        }
        match numbers.next() {
            Some(_) => Err("there are at most three dimensions: X,Y,Z".to_owned()),
            None => Ok(Self(size)),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.0;
        write!(f, "{x},{y},{z}")
    }
}

/// A value among a kernel's push constants.
#[derive(Debug, Clone, PartialEq)]
pub enum PushValue {
    /// `u32:7`
    U32(u32),
    /// `i32:-7`
    I32(i32),
    /// `f32:0.5`
    F32(f32),
    /// `u64:7`
    U64(u64),
    /// `@0`: the address of a buffer, by its number.
    Address(usize),
    /// `0a0b0c`: bytes.
    Bytes(Vec<u8>),
}

impl FromStr for PushValue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        fn number<T: FromStr<Err: fmt::Display>>(text: &str) -> Result<T, String> {
            text.parse().map_err(|error| format!("{text:?}: {error}"))
        }
        if let Some(buffer) = text.strip_prefix('@') {
            return number(buffer).map(Self::Address);
        }
        match text.split_once(':') {
            Some(("u32", value)) => number(value).map(Self::U32),
            Some(("i32", value)) => number(value).map(Self::I32),
            Some(("f32", value)) => number(value).map(Self::F32),
            Some(("u64", value)) => number(value).map(Self::U64),
            Some((kind, _)) => Err(format!("{kind} is none of u32, i32, f32 and u64")),
            None => bytes(text).map(Self::Bytes),
        }
    }
}

impl fmt::Display for PushValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::U32(value) => write!(f, "u32:{value}"),
            Self::I32(value) => write!(f, "i32:{value}"),
            Self::F32(value) => write!(f, "f32:{value}"),
            Self::U64(value) => write!(f, "u64:{value}"),
            Self::Address(buffer) => write!(f, "@{buffer}"),
            Self::Bytes(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

/// Bytes in hexadecimal, two digits each.
fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let advice = "give bytes as hexadecimal digits, two each, or a value such as u32:7";
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return Err(advice.to_owned());
    }
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| Some((digit(*high)? << 4 | digit(*low)?) as u8);
    pairs.iter().map(byte).collect::<Option<_>>().ok_or_else(|| advice.to_owned())
}

/// The buffers of a kernel.
#[derive(Debug, Clone)]
pub struct Buffers {
    /// The files in the first ones.
    pub inputs: Vec<PathBuf>,
    /// Bytes of one more, with zeroes.
    pub zeroes: Option<u64>,
    /// The file that gets the last one's bytes, or `-` for standard output.
    pub output: Option<PathBuf>,
}

/// A kernel, and what it is to work on.
#[derive(Debug, Clone)]
pub struct OnFiles {
    /// Its source: SPIR-V or WGSL.
    pub kernel: PathBuf,
    /// Its entry point.
    pub entry_point: Option<String>,
    /// The number of its work groups.
    pub groups: Option<[u32; 3]>,
    /// The number of its invocations, instead.
    pub invocations: Option<[u32; 3]>,
    /// Its push constants.
    pub push: Vec<PushValue>,
    /// Its specialisation constants.
    pub constants: Vec<(u32, u32)>,
    /// Its buffers.
    pub buffers: Buffers,
    /// Whether it gets its buffers' addresses alone, not descriptors.
    pub pointers: bool,
}

/// What came of it.
#[derive(Debug)]
pub struct Ran {
    name: String,
    device: String,
    groups: [u32; 3],
    work_group: Option<[u32; 3]>,
    compiling: Duration,
    running: Duration,
    output: Option<(PathBuf, usize)>,
}

/// Runs the kernel.
///
/// # Errors
/// When a file cannot be read or written, the kernel does not compile, or it fails.
pub fn run(
    transport: Arc<dyn Transport>,
    placement: PlacementPolicy,
    job: &OnFiles,
) -> anyhow::Result<Ran> {
    let source = read(&job.kernel)?;
    let contents = job.buffers.contents()?;
    // An unwritable file fails before there is work.
    let output = job.buffers.output.as_deref().filter(|path| *path != Path::new("-"));
    let output = output.map(NewFile::create).transpose()?;
    ensure!(
        job.buffers.output.is_none() || !contents.is_empty(),
        "the kernel has no buffer whose bytes could be written: give it one with --in or --zeroes"
    );
    let mut bench = Bench::new(transport, placement)?;
    let memory = contents.iter().map(|bytes| bench.memory(bytes)).collect::<Result<Vec<_>, _>>()?;
    let arguments = job.arguments(&contents, &memory)?;
    let start = Instant::now();
    let kernel = job.compile(&bench, &source, &arguments)?;
    let compiling = start.elapsed();
    let groups = job.groups(&kernel)?;
    let running = bench.run(&kernel, groups, &arguments)?;
    let mut ran = Ran {
        name: kernel.name().to_owned(),
        device: bench.device_name()?,
        groups,
        work_group: kernel.work_group(),
        compiling,
        running,
        output: None,
    };
    if let (Some(path), Some(memory), Some(bytes)) =
        (&job.buffers.output, memory.last(), contents.last())
    {
        let mut made = vec![0; bytes.len()];
        memory.allocation().read(0, &mut made)?;
        match output {
            Some(file) => file.finish_with(&made)?,
            None => {
                let mut out = std::io::stdout().lock();
                out.write_all(&made).and_then(|()| out.flush()).map_err(unwritable)?;
            }
        }
        ran.output = Some((path.clone(), made.len()));
    }
    Ok(ran)
}

fn unwritable(error: std::io::Error) -> crate::output::Unwritable {
    error.into()
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

impl Buffers {
    /// The bytes of each, in whole words.
    fn contents(&self) -> anyhow::Result<Vec<Vec<u8>>> {
        let mut contents =
            self.inputs.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
        if let Some(zeroes) = self.zeroes {
            contents.push(vec![0; usize::try_from(zeroes)?]);
        }
        for bytes in &mut contents {
            ensure!(!bytes.is_empty(), "a buffer cannot be empty");
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        Ok(contents)
    }
}

impl OnFiles {
    fn arguments(&self, contents: &[Vec<u8>], memory: &[GpuMapping]) -> anyhow::Result<Arguments> {
        let mut arguments = Arguments::new();
        for value in &self.push {
            match value {
                PushValue::U32(value) => arguments.u32(*value),
                PushValue::I32(value) => arguments.i32(*value),
                PushValue::F32(value) => arguments.f32(*value),
                PushValue::U64(value) => arguments.u64(*value),
                PushValue::Bytes(bytes) => arguments.bytes(bytes),
                PushValue::Address(buffer) => match memory.get(*buffer) {
                    Some(memory) => arguments.address(memory.gpu_va()),
                    None => bail!("@{buffer}: there are {} buffers, from @0 on", memory.len()),
                },
            };
        }
        for (bytes, memory) in contents.iter().zip(memory).filter(|_| !self.pointers) {
            arguments.descriptor(memory.gpu_va(), bytes.len() as u64);
        }
        Ok(arguments)
    }

    fn compile(
        &self,
        bench: &Bench,
        source: &[u8],
        arguments: &Arguments,
    ) -> anyhow::Result<Kernel> {
        let is_wgsl = self.kernel.extension().is_some_and(|extension| extension == "wgsl");
        let builder = if is_wgsl {
            let text = std::str::from_utf8(source)
                .with_context(|| format!("{} is no text", self.kernel.display()))?;
            let builder = Kernel::from_wgsl(&bench.device, text);
            match &self.entry_point {
                Some(name) => builder.entry_point(name),
                None => builder,
            }
        } else {
            let entry_point = self.entry_point.as_deref().unwrap_or("main");
            Kernel::from_spirv(&bench.device, source, entry_point)
                .push_constants(arguments.push_constants().len() as u32)
                .descriptors(arguments.descriptors().len() as u32)
        };
        let name = self.kernel.file_name().unwrap_or_default().to_string_lossy();
        let constants = self.constants.iter();
        let builder = constants
            .fold(builder.name(name), |builder, (id, value)| builder.specialise(*id, *value));
        Ok(builder.create()?)
    }

    fn groups(&self, kernel: &Kernel) -> anyhow::Result<[u32; 3]> {
        match (self.groups, self.invocations) {
            (Some(groups), _) => Ok(groups),
            (None, Some(invocations)) => kernel
                .groups_for(invocations)
                .context("the size of this kernel's work groups is not a constant: give --groups"),
            (None, None) => Ok([1; 3]),
        }
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, device, groups: [x, y, z], compiling, running, .. } = self;
        let time = |time: &Duration| units::time(time.as_nanos() as f64);
        let of =
            self.work_group.map_or_else(String::new, |[x, y, z]| format!(" of {x} x {y} x {z}"));
        let text = format!(
            "{name}: {x} x {y} x {z} work groups{of} in {}, compiled in {}, on {device}",
            time(running),
            time(compiling)
        );
        f.write_str(&wrapped("", &text))?;
        if let Some((path, bytes)) = &self.output {
            let bytes = units::bytes(*bytes as u64);
            match path.to_str() {
                Some("-") => writeln!(f, "  {bytes} written")?,
                _ => writeln!(f, "  {bytes} written to {}", path.display())?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_that_are_left_out_are_one() {
        assert_eq!("7".parse(), Ok(Size([7, 1, 1])));
        assert_eq!("7,8,9".parse(), Ok(Size([7, 8, 9])));
        assert_eq!(Size([7, 8, 9]).to_string().parse(), Ok(Size([7, 8, 9])));
        for wrong in ["", "x", "1,2,3,4", "-1", "1,,1"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn push_constants_are_values_addresses_or_bytes() {
        let values = [
            ("u32:7", PushValue::U32(7)),
            ("i32:-7", PushValue::I32(-7)),
            ("f32:0.5", PushValue::F32(0.5)),
            ("u64:18446744073709551615", PushValue::U64(u64::MAX)),
            ("@1", PushValue::Address(1)),
            ("0aFf", PushValue::Bytes(vec![10, 255])),
        ];
        for (text, value) in values {
            assert_eq!(text.parse(), Ok(value.clone()));
            assert_eq!(value.to_string().parse(), Ok(value));
        }
        for wrong in ["u32:x", "u16:1", "abc", "0g", "@", "@-1"] {
            assert!(wrong.parse::<PushValue>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn buffers_are_files_and_then_zeroes_in_whole_words() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in");
        fs::write(&path, b"hello").unwrap();
        let buffers = Buffers { inputs: vec![path], zeroes: Some(9), output: None };
        assert_eq!(buffers.contents().unwrap(), [b"hello\0\0\0".to_vec(), vec![0; 12]]);
        let missing = Buffers { inputs: vec!["/nonexistent".into()], ..buffers };
        assert!(missing.contents().unwrap_err().to_string().contains("/nonexistent"));
    }
}
