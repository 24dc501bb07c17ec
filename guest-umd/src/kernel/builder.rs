// SPDX-License-Identifier: MIT OR Apache-2.0

//! The description of a kernel before it is compiled.

use super::error::KernelError;
use super::object::{Inner, Kernel};
use super::spirv;
#[cfg(feature = "wgsl")]
use super::wgsl;
use crate::device::Device;
use crate::error::Error;
use crate::link::session;
use crate::memory::allocation::pages;
use bellhop_protocol::control::RequestCode;
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::gpu_va::Protection;
use bellhop_protocol::control::kernel::{
    CreateKernel, KernelCreated, KernelResult, QueryKernelCaps, SpecialisationConstant, unpadded,
};
use bellhop_protocol::status::Status;
use zerocopy::IntoBytes;

impl Kernel {
    /// Describes a kernel in SPIR-V: a module's bytes, little-endian, and the name of one of its entry points.
    pub fn from_spirv(device: &Device, spirv: &[u8], entry_point: &str) -> KernelBuilder {
        let source = Source::Spirv(spirv.to_vec());
        KernelBuilder::new(device, source, Some(entry_point.to_owned()))
    }

    /// Describes a kernel in WGSL. Its push constants (`var<immediate>`) and descriptors are those that the source
    /// declares: storage buffers in group 0, numbered from 0 without a gap. It has no pointers.
    #[cfg(feature = "wgsl")]
    pub fn from_wgsl(device: &Device, source: &str) -> KernelBuilder {
        KernelBuilder::new(device, Source::Wgsl(source.to_owned()), None)
    }
}

impl Device {
    /// Creates a kernel without arguments: [`Kernel::from_spirv`] describes others.
    ///
    /// # Errors
    /// As [`KernelBuilder::create`].
    pub fn create_kernel(&self, spirv: &[u8], entry_point: &str) -> Result<Kernel, KernelError> {
        Kernel::from_spirv(self, spirv, entry_point).create()
    }
}

/// The program.
enum Source {
    Spirv(Vec<u8>),
    #[cfg(feature = "wgsl")]
    Wgsl(String),
}

/// A module, and what its source says about it.
pub(super) struct Module {
    pub(super) spirv: Vec<u8>,
    pub(super) entry_point: String,
    /// Bytes of push constants.
    pub(super) push_constants: u32,
    pub(super) descriptors: u32,
    pub(super) constants: Vec<SpecialisationConstant>,
    pub(super) work_group: Option<[u32; 3]>,
}

/// Describes a kernel. By default it is called as its entry point, and has no arguments unless its source declares
/// them.
#[must_use = "`create` compiles the kernel"]
pub struct KernelBuilder {
    device: Device,
    source: Source,
    entry_point: Option<String>,
    name: Option<String>,
    push_constants: u32,
    descriptors: u32,
    constants: Vec<SpecialisationConstant>,
}

impl KernelBuilder {
    fn new(device: &Device, source: Source, entry_point: Option<String>) -> Self {
        Self {
            device: device.clone(),
            source,
            entry_point,
            name: None,
            push_constants: 0,
            descriptors: 0,
            constants: Vec::new(),
        }
    }

    /// The kernel's name, for people: errors have it.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The entry point, where the source has several.
    pub fn entry_point(mut self, name: impl Into<String>) -> Self {
        self.entry_point = Some(name.into());
        self
    }

    /// Bytes of push constants that each dispatch passes: a multiple of 4. For SPIR-V; WGSL declares them.
    pub fn push_constants(mut self, bytes: u32) -> Self {
        self.push_constants = bytes;
        self
    }

    /// Number of descriptors that each dispatch passes. For SPIR-V; WGSL declares them.
    pub fn descriptors(mut self, count: u32) -> Self {
        self.descriptors = count;
        self
    }

    /// Gives the specialisation constant with this number a value of 32 bits, in place of the source's: SPIR-V's
    /// `SpecId`, WGSL's `@id`.
    pub fn specialise(mut self, id: u32, value: u32) -> Self {
        self.constants.push(SpecialisationConstant { id, value });
        self
    }

    /// Compiles the kernel. Returns when it is compiled; other threads and queues do not wait for it.
    ///
    /// # Errors
    /// [`KernelError`] says why there is no kernel: the device has none, the source or its arguments are wrong,
    /// the compiler refused it.
    pub fn create(self) -> Result<Kernel, KernelError> {
        let (device, name) = (self.device.clone(), self.shown_name());
        let module = self.module(&name)?;
        if let Some(problem) = spirv::problem(&module.spirv) {
            return Err(KernelError::NotSpirv { kernel: name, problem });
        }
        let created = upload(&device, &module, &name)?;
        check(&created, &name)?;
        let Module { push_constants, descriptors, work_group, .. } = module;
        Ok(Kernel::new(Inner {
            device,
            handle: created.kernel,
            number: created.number,
            name,
            push_constants,
            descriptors,
            work_group,
        }))
    }

    fn shown_name(&self) -> String {
        let given = self.name.as_ref().or(self.entry_point.as_ref());
        given.map_or_else(|| "in WGSL".to_owned(), Clone::clone)
    }

    fn module(self, _name: &str) -> Result<Module, KernelError> {
        let Self { source, entry_point, push_constants, descriptors, constants, .. } = self;
        match source {
            Source::Spirv(spirv) => Ok(Module {
                work_group: spirv::work_group(&spirv),
                spirv,
                entry_point: entry_point.unwrap_or_default(),
                push_constants,
                descriptors,
                constants,
            }),
            #[cfg(feature = "wgsl")]
            Source::Wgsl(text) => wgsl::compile(&text, entry_point.as_deref(), &constants)
                .map_err(|text| KernelError::Wgsl { kernel: _name.to_owned(), text }),
        }
    }
}

/// Puts the module into memory that the GPU reads, and has it compiled.
fn upload(device: &Device, module: &Module, name: &str) -> Result<KernelCreated, KernelError> {
    let Module { spirv, push_constants, descriptors, constants, .. } = module;
    let allocation = device.create_allocation(AllocationKind::SYSTEM, pages(spirv.len() as u64))?;
    let mapping = allocation.map(Protection::empty())?;
    allocation.write(0, spirv)?;
    let mut entry_point = [0; 64];
    match entry_point.get_mut(..module.entry_point.len()) {
        // The last byte stays zero.
        Some(room) if room.len() < 64 => room.copy_from_slice(module.entry_point.as_bytes()),
        _ => {
            let problem = "the name of its entry point is longer than 63 bytes";
            return Err(KernelError::NotSpirv { kernel: name.to_owned(), problem });
        }
    }
    let request = CreateKernel {
        device: device.handle(),
        spirv: mapping.gpu_va(),
        spirv_length: spirv.len() as u32,
        push_constants: *push_constants,
        descriptors: *descriptors,
        constant_count: constants.len() as u32,
        entry_point,
    };
    match device.session().call_with_list(&request, constants.as_bytes()) {
        Err(Error::Refused { status: Status::NOT_SUPPORTED, .. }) => Err(not_offered(device)?),
        created => Ok(created?),
    }
}

/// Why the device has no kernels.
fn not_offered(device: &Device) -> Result<KernelError, Error> {
    let transport = &device.session().link.transport;
    let caps = session::call(&**transport, 0, &QueryKernelCaps { reserved: 0 }, &[])?;
    Ok(KernelError::NotOffered { missing: unpadded(&caps.missing).to_owned() })
}

/// The result of compiling.
fn check(created: &KernelCreated, name: &str) -> Result<(), KernelError> {
    let length = (created.text_length as usize).min(created.text.len());
    let text = unpadded(&created.text[..length]).to_owned();
    let kernel = name.to_owned();
    Err(match created.result {
        KernelResult::COMPILED if created.kernel.0 != 0 && created.number != 0 => return Ok(()),
        KernelResult::REFUSED => KernelError::Refused { kernel, text },
        KernelResult::COMPILER_CRASHED => KernelError::CompilerCrashed { kernel, text },
        KernelResult::TOO_SLOW => KernelError::TooSlow { kernel, text },
        KernelResult::NO_WORKER => KernelError::NoWorker { kernel, text },
        _ => KernelError::Device(Error::BadReply(RequestCode::CREATE_KERNEL)),
    })
}
