// SPDX-License-Identifier: MIT OR Apache-2.0

//! Where members are in memory: in storage and uniform buffers, and in push constants.

use super::compile;
use crate::case::{Case, case};
use crate::lab::{Gpu, Kernel, Lab, Module, Outcome, Slot, same, whole};
use ash::vk;

/// Words of what is read: as many push constants as each device has.
const WORDS: usize = 32;
/// The results of a shader, at most.
const RESULTS: usize = 24;

/// What each word is that is read: a small number of each type, but for its exponent.
const fn word(index: u32) -> u32 {
    0x3f80_0000 + index
}

fn words() -> Vec<u32> {
    (0..WORDS as u32).map(word).collect()
}

/// Where what is read is.
#[derive(Clone, Copy)]
enum Space {
    Storage,
    Uniform,
    Push,
}
use Space::{Push, Storage, Uniform};

const STORAGE: vk::DescriptorType = vk::DescriptorType::STORAGE_BUFFER;
const UNIFORM: vk::DescriptorType = vk::DescriptorType::UNIFORM_BUFFER;

impl Space {
    /// The beginning of a variable in WGSL.
    const fn variable(self) -> &'static str {
        match self {
            Storage => "@group(0) @binding(0) var<storage, read>",
            Uniform => "@group(0) @binding(0) var<uniform>",
            Push => "var<immediate>",
        }
    }

    /// A pipeline that reads from here, and stores in a buffer at binding 1.
    fn kernel(self, gpu: &Gpu<'_>, module: Module<'_>) -> Outcome<Kernel> {
        let results = Slot(1, STORAGE, 1);
        match self {
            Storage => gpu.kernel(module, &[&[Slot(0, STORAGE, 1), results]], 0, &[]),
            Uniform => gpu.kernel(module, &[&[Slot(0, UNIFORM, 1), results]], 0, &[]),
            Push => gpu.kernel(module, &[&[results]], 4 * WORDS as u32, &[]),
        }
    }
}

/// Reads members of a `Data`, which are to be these.
fn reads(lab: &Lab, space: Space, declarations: &str, members: &[(&str, u32)]) -> Outcome {
    let stores: String = (0..)
        .zip(members)
        .map(|(place, (member, _))| format!("output[{place}] = bitcast<u32>({member});\n"))
        .collect();
    let source = format!(
        "
        {declarations}
        {variable} data: Data;
        @group(0) @binding(1) var<storage, read_write> output: array<u32, {RESULTS}>;
        @compute @workgroup_size(1)
        fn main() {{
            // No compiler knows these.
            let one = output[0];
            let two = output[1];
            {stores}
        }}",
        variable = space.variable()
    );
    let spirv = compile(&source)?;
    let gpu = lab.gpu()?;
    let kernel = space.kernel(&gpu, Module(&spirv))?;
    let (data, output) = (gpu.buffer_of(&words())?, gpu.buffer(RESULTS)?);
    output.write(&[1, 2]);
    let set = gpu.empty_set(&kernel, 0)?;
    match space {
        Storage => gpu.write(set, 0, STORAGE, &[whole(&data)]),
        Uniform => gpu.write(set, 0, UNIFORM, &[whole(&data)]),
        Push => {}
    }
    gpu.write(set, 1, STORAGE, &[whole(&output)]);
    gpu.run(|commands| {
        commands.bind(&kernel).sets(&kernel, &[set]);
        if matches!(space, Push) {
            commands.push(&kernel, &words());
        }
        commands.dispatch(1, 1, 1).barrier();
    })?;
    for ((member, expected), seen) in members.iter().zip(output.read()) {
        same!((member, seen), (member, *expected));
    }
    Ok(())
}

/// Declares cases: a name, what it shows, where `data` is, `Data` in WGSL, and members with what they are.
macro_rules! cases {
    ($($name:literal, $shows:literal, $space:expr, $declarations:literal, $members:expr;)*) => {
        pub(in super::super) const CASES: &[Case] = &[$(
            case(concat!("layout.", $name), $shows, |lab| reads(lab, $space, $declarations, &$members)),
        )*];
    };
}

cases! {
    "storage-vector-of-three", "in a storage buffer, a vector of three begins at 16 bytes and a number follows it at once", Storage,
        "struct Data { a: u32, b: vec3<u32>, c: u32, d: vec2<u32>, e: u32 }",
        [("data.a", word(0)), ("data.b.x", word(4)), ("data.b.z", word(6)), ("data.c", word(7)), ("data.d.x", word(8)), ("data.d.y", word(9)), ("data.e", word(10))];
    "storage-array-of-threes", "in a storage buffer, vectors of three are 16 bytes apart", Storage,
        "alias Data = array<vec3<f32>, 5>;",
        [("data[0].x", word(0)), ("data[one].y", word(5)), ("data[two].z", word(10)), ("data[two * two].x", word(16))];
    "storage-array-of-twos", "in a storage buffer, vectors of two are 8 bytes apart", Storage,
        "alias Data = array<vec2<i32>, 9>;",
        [("data[0].y", word(1)), ("data[one].x", word(2)), ("data[two].y", word(5)), ("data[8].y", word(17))];
    "storage-array-of-numbers", "in a storage buffer, numbers are 4 bytes apart, and arrays of them follow each other", Storage,
        "struct Data { a: array<u32, 3>, b: array<f32, 5>, c: u32 }",
        [("data.a[two]", word(2)), ("data.b[0]", word(3)), ("data.b[two]", word(5)), ("data.c", word(8))];
    "storage-nested", "in a storage buffer, a structure begins and ends at its widest member's alignment", Storage,
        "struct Inner { a: u32, b: vec2<u32>, c: u32 } struct Data { first: u32, inner: Inner, last: u32 }",
        [("data.first", word(0)), ("data.inner.a", word(2)), ("data.inner.b.x", word(4)), ("data.inner.c", word(6)), ("data.last", word(8))];
    "storage-array-of-structures", "in a storage buffer, structures in an array are apart by their size, rounded up", Storage,
        "struct Part { a: vec3<f32>, b: f32, c: f32 } alias Data = array<Part, 4>;",
        [("data[0].c", word(4)), ("data[one].a.x", word(8)), ("data[two].b", word(19)), ("data[two + one].a.z", word(26))];
    "storage-array-of-arrays", "in a storage buffer, arrays of arrays are apart by the inner one's size", Storage,
        "alias Data = array<array<array<u32, 3>, 2>, 4>;",
        [("data[0][0][two]", word(2)), ("data[0][one][0]", word(3)), ("data[one][0][one]", word(7)), ("data[two + one][one][two]", word(23))];
    "storage-matrix-of-two", "in a storage buffer, columns of two are 8 bytes apart", Storage,
        "struct Data { a: f32, m: mat2x2<f32>, n: mat4x2<f32>, b: f32 }",
        [("data.m[0].x", word(2)), ("data.m[one].y", word(5)), ("data.n[0].x", word(6)), ("data.n[two].y", word(11)), ("data.b", word(14))];
    "storage-matrix-of-three", "in a storage buffer, columns of three are 16 bytes apart", Storage,
        "struct Data { a: f32, m: mat3x3<f32>, b: f32, n: mat2x3<f32> }",
        [("data.a", word(0)), ("data.m[0].y", word(5)), ("data.m[one].x", word(8)), ("data.m[two].z", word(14)), ("data.b", word(16)), ("data.n[one].y", word(25))];
    "storage-matrix-of-four", "in a storage buffer, columns of four are 16 bytes apart", Storage,
        "struct Data { m: mat3x4<f32>, n: mat4x4<f32> }",
        [("data.m[two].w", word(11)), ("data.n[0].x", word(12)), ("data.n[two][one]", word(21)), ("data.n[3].w", word(27))];
    "storage-placed", "in a storage buffer, members are where a program says", Storage,
        "struct Data { a: u32, @align(32) b: u32, @size(20) c: u32, d: u32, @align(16) e: vec2<u32> }",
        [("data.a", word(0)), ("data.b", word(8)), ("data.c", word(9)), ("data.d", word(14)), ("data.e.y", word(17))];
    "storage-length", "an array without a size has as many elements as the buffer has room for behind what precedes it", Storage,
        "struct Data { first: vec3<u32>, rest: array<u32> }",
        [("arrayLength(&data.rest)", 29), ("data.rest[0]", word(3)), ("data.rest[28]", word(31))];
    "storage-length-of-threes", "an array of vectors of three has no element that is not whole", Storage,
        "struct Data { first: array<u32, 5>, rest: array<vec3<u32>> }",
        [("arrayLength(&data.rest)", 6), ("data.rest[0].x", word(8)), ("data.rest[5].z", word(30))];
    "storage-length-of-structures", "an array of structures without a size is counted in whole structures", Storage,
        "struct Part { a: vec2<u32>, b: u32, c: array<u32, 4> } struct Data { first: u32, rest: array<Part> }",
        [("arrayLength(&data.rest)", 3), ("data.rest[two].a.x", word(18)), ("data.rest[two].c[3]", word(24))];
    "uniform-vector-of-three", "in a uniform buffer, a vector of three begins at 16 bytes and a number follows it at once", Uniform,
        "struct Data { a: f32, b: vec3<f32>, c: f32, d: vec2<f32> }",
        [("data.a", word(0)), ("data.b.y", word(5)), ("data.c", word(7)), ("data.d.y", word(9))];
    "uniform-array", "in a uniform buffer, vectors in an array are chosen by a number that no compiler knows", Uniform,
        "struct Data { a: array<vec4<u32>, 4>, b: array<vec3<i32>, 3> }",
        [("data.a[0].w", word(3)), ("data.a[two].y", word(9)), ("data.a[one][two]", word(6)), ("data.b[0].x", word(16)), ("data.b[two].z", word(26))];
    "uniform-nested", "in a uniform buffer, structures begin and end at 16 bytes", Uniform,
        "struct Inner { a: u32, b: u32 } struct Data { first: u32, @align(16) inner: Inner, @align(16) last: u32 }",
        [("data.first", word(0)), ("data.inner.a", word(4)), ("data.inner.b", word(5)), ("data.last", word(8))];
    "uniform-array-of-structures", "in a uniform buffer, structures in an array are apart by their size", Uniform,
        "struct Part { a: vec3<u32>, b: u32 } struct Data { parts: array<Part, 6> }",
        [("data.parts[0].b", word(3)), ("data.parts[two].a.y", word(9)), ("data.parts[two * two + one].b", word(23))];
    "uniform-matrix", "in a uniform buffer, columns of three and four are 16 bytes apart", Uniform,
        "struct Data { m: mat3x3<f32>, n: mat4x4<f32> }",
        [("data.m[0].z", word(2)), ("data.m[one].y", word(5)), ("data.m[two].x", word(8)), ("data.n[one].x", word(16)), ("data.n[two][one]", word(21))];
    "uniform-matrices", "in a uniform buffer, matrices in an array are apart by their columns", Uniform,
        "struct Data { all: array<mat2x4<f32>, 3>, last: f32 }",
        [("data.all[0][one].w", word(7)), ("data.all[two][0].y", word(17)), ("data.all[one][one][two]", word(14)), ("data.last", word(24))];
    "push-numbers", "push constants of each type are where they were pushed", Push,
        "struct Data { a: u32, b: i32, c: f32, d: vec2<f32>, e: vec4<i32> }",
        [("data.a", word(0)), ("data.b", word(1)), ("data.c", word(2)), ("data.d.x", word(4)), ("data.e.x", word(8)), ("data.e.w", word(11))];
    "push-vector-of-three", "among push constants, a number follows a vector of three at once", Push,
        "struct Data { a: f32, b: vec3<f32>, c: f32, d: vec3<u32> }",
        [("data.b.x", word(4)), ("data.c", word(7)), ("data.d.z", word(10))];
    "push-matrix", "a matrix is pushed by its columns", Push,
        "struct Data { m: mat4x4<f32>, n: mat3x3<f32> }",
        [("data.m[one].z", word(6)), ("data.m[3][two]", word(14)), ("data.n[0].x", word(16)), ("data.n[two].z", word(26))];
    "push-array", "push constants in an array are chosen by a number that no compiler knows", Push,
        "struct Part { a: u32, b: u32 } struct Data { parts: array<Part, 10>, rest: array<u32, 12> }",
        [("data.parts[one].b", word(3)), ("data.parts[two * two].a", word(8)), ("data.rest[two]", word(22)), ("data.rest[11]", word(31))];
}
