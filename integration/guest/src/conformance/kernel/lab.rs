// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kernels to try behaviours with, and where there are none, why.

use crate::conformance::behaviour::{Mismatch, require};
use crate::conformance::scene::{Bench, Scene};
use crate::own_kernels::modules::{Module, module};
use bellhop_guest_umd::{Arguments, Error, Kernel, KernelError};
use bellhop_protocol::control::kernel::{KernelCaps, unpadded};

/// Multiplies 32-bit words by a constant, and adds their number and their index.
pub(super) const TRANSFORM: Module = module!("transform", push constants 0, descriptors 1);
/// Loops as often as its push constant says.
pub(super) const LOOP: Module = module!("loop", push constants 4, descriptors 1);
/// Arithmetic of 64 bits.
pub(super) const INTEGERS: Module = module!("integers", push constants 0, descriptors 1);
/// Follows a list of pointers.
pub(super) const POINTER: Module = module!("pointer", push constants 8, descriptors 0);
/// Takes pointers from a table, and multiplies what they point to by specialisation constant 7.
pub(super) const SCATTER: Module = module!("scatter", push constants 12, descriptors 0);
/// Loads from one address, and stores to another, each unless it is 0.
pub(super) const TOUCH: Module = module!("touch", push constants 16, descriptors 0);

/// One invocation a work group: counts in its first word until its second is not 0.
pub(super) const COUNT: &str = "
    struct Counter { count: atomic<u32>, stop: atomic<u32> }
    @group(0) @binding(0) var<storage, read_write> counter: Counter;
    @compute @workgroup_size(1)
    fn count() {
        while atomicLoad(&counter.stop) == 0 { atomicAdd(&counter.count, 1u); }
    }";

/// Adds one to each 32-bit word.
pub(super) const INCREMENT: &str = "
    @group(0) @binding(0) var<storage, read_write> words: array<u32>;
    @compute @workgroup_size(64)
    fn increment(@builtin(global_invocation_id) id: vec3u) {
        if id.x < arrayLength(&words) { words[id.x] += 1; }
    }";

impl From<KernelError> for Mismatch {
    fn from(error: KernelError) -> Self {
        match error {
            KernelError::NotOffered { missing } => {
                Self::NotOffered(format!("no kernels: {missing}"))
            }
            KernelError::Device(error) => error.into(),
            error => Self::Seen(error.to_string()),
        }
    }
}

/// What kernels can be here. "Not offered", with the device's reason, if there are none.
pub(super) fn caps(scene: &Scene) -> Result<KernelCaps, Mismatch> {
    let caps = scene.adapter().kernel_caps()?;
    if caps.are_supported() {
        return Ok(caps);
    }
    Err(Mismatch::NotOffered(format!("no kernels: {}", unpadded(&caps.missing))))
}

/// A bench on the 3D node of a device that runs kernels.
pub(super) fn bench(scene: &Scene) -> Result<Bench, Mismatch> {
    caps(scene)?;
    scene.bench()
}

/// A bench on a device whose kernels follow pointers.
pub(super) fn bench_with_pointers(scene: &Scene) -> Result<Bench, Mismatch> {
    if !caps(scene)?.have_pointers() {
        let reason = "kernels reach memory only through descriptors here";
        return Err(Mismatch::NotOffered(reason.into()));
    }
    scene.bench()
}

impl Bench {
    /// Compiles a module of the repository's.
    pub(super) fn kernel(&self, module: &Module) -> Result<Kernel, Mismatch> {
        Ok(module.create(&self.device)?)
    }

    /// Compiles WGSL.
    pub(super) fn wgsl(&self, source: &str) -> Result<Kernel, Mismatch> {
        Ok(Kernel::from_wgsl(&self.device, source).create()?)
    }

    /// Appends a dispatch with one descriptor, of bytes of the bench's memory.
    pub(super) fn dispatch_over(
        &mut self,
        kernel: &Kernel,
        groups: u32,
        offset: u64,
        length: u64,
    ) -> Result<(), Error> {
        let mut arguments = Arguments::new();
        arguments.descriptor(self.va(offset), length);
        self.commands.dispatch_kernel(kernel, [groups, 1, 1], &arguments)?;
        Ok(())
    }

    /// Appends a dispatch of [`TOUCH`].
    pub(super) fn touch(&mut self, kernel: &Kernel, from: u64, to: u64) -> Result<(), Error> {
        let mut arguments = Arguments::new();
        arguments.address(from).address(to);
        self.commands.dispatch_kernel(kernel, [1; 3], &arguments)?;
        Ok(())
    }

    /// The 32-bit words of a part of the memory.
    pub(super) fn words(&self, offset: usize, count: usize) -> Result<Vec<u32>, Error> {
        let bytes = self.read(offset, 4 * count)?;
        let (words, _) = bytes.as_chunks();
        Ok(words.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }

    /// Writes 32-bit words into the memory.
    pub(super) fn write_words(
        &self,
        offset: usize,
        words: impl IntoIterator<Item = u32>,
    ) -> Result<(), Error> {
        let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        self.write(offset, &bytes)
    }

    /// Asserts that a kernel still computes in this process.
    pub(super) fn expect_computes(&mut self) -> Result<(), Mismatch> {
        let kernel = self.wgsl(INCREMENT)?;
        self.commands.reset();
        self.write_words(0, 0..1000)?;
        self.dispatch_over(&kernel, 16, 0, 4000)?;
        self.run()?;
        let words = self.words(0, 1000)?;
        require!(words.into_iter().eq(1..=1000), "a kernel no longer computes");
        Ok(())
    }
}
