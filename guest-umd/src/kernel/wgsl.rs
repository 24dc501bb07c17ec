// SPDX-License-Identifier: MIT OR Apache-2.0

//! WGSL, compiled to SPIR-V in this process.

use super::builder::Module;
use bellhop_protocol::control::kernel::SpecialisationConstant;
use naga::back::PipelineConstants;
use naga::back::spv::{
    Options, PipelineOptions, WriterFlags, ZeroInitializeWorkgroupMemoryMode, write_vec,
};
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{Capabilities, ValidationFlags, Validator};
use naga::{AddressSpace, EntryPoint, ScalarKind, ShaderStage, TypeInner};
use zerocopy::IntoBytes;

/// What kernels may use beyond WGSL's basis.
const CAPABILITIES: Capabilities = Capabilities::IMMEDIATES.union(Capabilities::SHADER_INT64);
/// The version of SPIR-V that every Vulkan 1.2 takes.
const SPIRV: (u8, u8) = (1, 3);

/// Compiles an entry point, the only one if none is named. The error says what is wrong, and where.
pub(super) fn compile(
    source: &str,
    entry_point: Option<&str>,
    constants: &[SpecialisationConstant],
) -> Result<Module, String> {
    let module =
        naga::front::wgsl::parse_str(source).map_err(|error| error.emit_to_string(source))?;
    let entry = entry_named(&module, entry_point)?.name.clone();
    let info = Validator::new(ValidationFlags::all(), CAPABILITIES)
        .validate(&module)
        .map_err(|error| error.emit_to_string(source))?;
    // WGSL's constants become plain ones here: SPIR-V's are numbered differently.
    let values = values(&module, constants)?;
    let stage = Some((ShaderStage::Compute, &*entry));
    let (module, info) =
        naga::back::pipeline_constants::process_overrides(&module, &info, stage, &values)
            .map_err(|error| error.to_string())?;
    let work_group = entry_named(&module, Some(&entry))?.workgroup_size;
    let (push_constants, descriptors) = arguments(&module)?;
    let pipeline = PipelineOptions { shader_stage: ShaderStage::Compute, entry_point: entry };
    let words = write_vec(&module, &info, &options(), Some(&pipeline))
        .map_err(|error| error.to_string())?;
    Ok(Module {
        spirv: words.as_bytes().to_vec(),
        entry_point: pipeline.entry_point,
        push_constants,
        descriptors,
        constants: Vec::new(),
        work_group: Some(work_group),
    })
}

fn options() -> Options<'static> {
    // WGSL promises that a kernel stays in its buffers, whatever its indices are.
    let checks = BoundsCheckPolicies {
        index: BoundsCheckPolicy::Restrict,
        buffer: BoundsCheckPolicy::Restrict,
        ..BoundsCheckPolicies::default()
    };
    Options {
        lang_version: SPIRV,
        // Names help whoever reads the compiler's errors.
        flags: WriterFlags::DEBUG,
        bounds_check_policies: checks,
        zero_initialize_workgroup_memory: ZeroInitializeWorkgroupMemoryMode::Polyfill,
        // The engine's time-out ends a loop that does not end by itself.
        force_loop_bounding: false,
        ..Options::default()
    }
}

fn entry_named<'a>(module: &'a naga::Module, name: Option<&str>) -> Result<&'a EntryPoint, String> {
    let of_compute = |entry: &&EntryPoint| entry.stage == ShaderStage::Compute;
    let entries: Vec<_> = module.entry_points.iter().filter(of_compute).collect();
    let names = || entries.iter().map(|entry| &*entry.name).collect::<Vec<_>>().join(", ");
    match (name, &entries[..]) {
        (_, []) => Err("it has no entry point: mark a function with @compute".to_owned()),
        (None, [only]) => Ok(only),
        (None, _) => Err(format!("it has several entry points; choose one of {}", names())),
        (Some(name), _) => entries
            .iter()
            .copied()
            .find(|entry| entry.name == name)
            .ok_or_else(|| format!("it has no entry point {name}, but {}", names())),
    }
}

/// The values of overridable constants.
fn values(
    module: &naga::Module,
    constants: &[SpecialisationConstant],
) -> Result<PipelineConstants, String> {
    let mut values = PipelineConstants::default();
    for SpecialisationConstant { id, value } in constants {
        let mut overrides = module.overrides.iter().map(|(_, constant)| constant);
        let constant = overrides
            .find(|constant| constant.id.map(u32::from) == Some(*id))
            .ok_or_else(|| format!("it declares no constant with @id({id})"))?;
        let value = match &module.types[constant.ty].inner {
            TypeInner::Scalar(scalar) if scalar.kind == ScalarKind::Float => {
                f64::from(f32::from_bits(*value))
            }
            TypeInner::Scalar(scalar) if scalar.kind == ScalarKind::Sint => {
                f64::from(value.cast_signed())
            }
            _ => f64::from(*value),
        };
        values.insert(id.to_string(), value);
    }
    Ok(values)
}

/// Bytes of push constants and number of descriptors.
fn arguments(module: &naga::Module) -> Result<(u32, u32), String> {
    let mut push_constants = 0;
    let mut bindings = Vec::new();
    for (_, variable) in module.global_variables.iter() {
        let name = variable.name.as_deref().unwrap_or("without a name");
        match (variable.space, &variable.binding) {
            (AddressSpace::Immediate, _) => {
                let size = module.types[variable.ty].inner.size(module.to_ctx());
                push_constants = size.next_multiple_of(4);
            }
            (AddressSpace::Storage { .. }, Some(binding)) if binding.group == 0 => {
                bindings.push(binding.binding);
            }
            (_, Some(_)) => {
                return Err(format!(
                    "variable {name} is no storage buffer of group 0: kernels have @group(0) \
                     @binding(0), @binding(1) and so on, var<storage>, and var<immediate>"
                ));
            }
            _ => {}
        }
    }
    bindings.sort_unstable();
    if let Some((number, _)) = (0..).zip(&bindings).find(|(number, binding)| number != *binding) {
        return Err(format!("bindings are numbered from 0 without a gap, and {number} is missing"));
    }
    Ok((push_constants, bindings.len() as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: &str = "
        override FACTOR: u32 = 3;
        @id(7) override OFFSET: i32 = 1;
        var<immediate> count: u32;
        @group(0) @binding(0) var<storage, read> source: array<u32>;
        @group(0) @binding(1) var<storage, read_write> made: array<u32>;
        @compute @workgroup_size(64, 2)
        fn scale(@builtin(global_invocation_id) id: vec3u) {
            if id.x < count { made[id.x] = source[id.x] * FACTOR + u32(OFFSET); }
        }";

    fn refused(source: &str, entry_point: Option<&str>) -> String {
        compile(source, entry_point, &[]).err().expect("it compiles")
    }

    #[test]
    fn a_source_tells_its_entry_point_arguments_and_work_group() {
        let minus_one = SpecialisationConstant { id: 7, value: u32::MAX };
        for constants in [&[][..], &[minus_one]] {
            let module = compile(SCALE, None, constants).unwrap();
            assert_eq!(module.entry_point, "scale");
            assert_eq!((module.push_constants, module.descriptors), (4, 2));
            assert_eq!(module.work_group, Some([64, 2, 1]));
            assert_eq!(super::super::spirv::problem(&module.spirv), None);
            assert_eq!(super::super::spirv::work_group(&module.spirv), module.work_group);
        }
    }

    #[test]
    fn a_mistake_is_told_with_its_place() {
        let text = refused("@compute @workgroup_size(1) fn main() {\n  let a = b;\n}", None);
        assert!(text.contains("wgsl:2:11") && text.contains('b'), "{text}");
        // It parses, and is wrong.
        let text = refused(
            "@group(0) @binding(0) var<storage, read> a: array<u32>;\n\
             @compute @workgroup_size(1) fn main() { a[0] = 1; }",
            None,
        );
        assert!(text.contains("wgsl:"), "{text}");
    }

    #[test]
    fn only_numbered_storage_buffers_of_the_first_group_are_descriptors() {
        let with = |variables: &str, body: &str| {
            format!("{variables} @compute @workgroup_size(1) fn main() {{ {body} }}")
        };
        let gap = with("@group(0) @binding(1) var<storage> a: array<u32>;", "let x = a[0];");
        assert!(refused(&gap, None).contains("0 is missing"));
        for variable in [
            "@group(1) @binding(0) var<storage> a: array<u32>;",
            "@group(0) @binding(0) var<uniform> a: array<vec4u, 2>;",
        ] {
            let text = refused(&with(variable, "let x = a[0];"), None);
            assert!(text.contains("variable a is no storage buffer"), "{text}");
        }
        let none = compile(&with("var<workgroup> a: array<u32, 4>;", "a[0] = 1;"), None, &[]);
        assert_eq!(none.unwrap().descriptors, 0);
    }

    #[test]
    fn of_several_entry_points_one_is_chosen() {
        let two = "@compute @workgroup_size(1) fn one() {} @compute @workgroup_size(2) fn two() {}";
        assert!(refused(two, None).contains("one, two"));
        assert!(refused(two, Some("three")).contains("no entry point three, but one, two"));
        assert_eq!(compile(two, Some("two"), &[]).unwrap().work_group, Some([2, 1, 1]));
        assert!(refused("fn main() {}", None).contains("@compute"));
    }

    #[test]
    fn a_constant_that_is_not_declared_is_refused() {
        let constant = SpecialisationConstant { id: 3, value: 0 };
        let text = compile(SCALE, None, &[constant]).err().unwrap();
        assert!(text.contains("@id(3)"), "{text}");
    }
}
