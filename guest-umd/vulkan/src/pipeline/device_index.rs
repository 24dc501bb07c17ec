// SPDX-License-Identifier: MIT OR Apache-2.0

//! The built-in `DeviceIndex` of shaders. Each GPU of a group is a whole device to the host, where the index is 0; so a module that
//! asks for it becomes one for each GPU, in which the built-in variable is a private one that begins with the GPU's index.
//!
//! Source: SPIR-V, "Physical Layout of a SPIR-V Module and Instruction", and the instructions' own sections.

/// Words before the first instruction; where among them the version is, and the bound of ids.
const HEADER: usize = 5;
const VERSION: usize = 1;
const BOUND: usize = 3;
/// The first version in which entry points list variables of all storage classes: 1.4.
const LISTS_ALL: u32 = 0x0001_0400;

const ENTRY_POINT: u32 = 15;
const TYPE_POINTER: u32 = 32;
const CONSTANT: u32 = 43;
const VARIABLE: u32 = 59;
const DECORATE: u32 = 71;

const BUILT_IN: u32 = 11;
const DEVICE_INDEX: u32 = 4438;
const PRIVATE: u32 = 6;

/// The modules for this many GPUs, by device index. `None` if one does for all.
pub(super) fn replaced(spirv: &[u32], count: u32) -> Option<Vec<Vec<u32>>> {
    if count < 2 {
        return None;
    }
    let variables = variables(spirv);
    if variables.is_empty() {
        return None;
    }
    (0..count).map(|index| replace(spirv, &variables, index)).collect()
}

/// A variable, and the type of its value.
struct Variable {
    id: u32,
    value_type: u32,
}

/// The instructions of a module, up to one that is none.
fn instructions(spirv: &[u32]) -> impl Iterator<Item = &[u32]> {
    let mut rest = spirv.get(HEADER..).unwrap_or_default();
    std::iter::from_fn(move || {
        let length = (*rest.first()? >> 16) as usize;
        let (instruction, behind) = rest.split_at_checked(length)?;
        rest = behind;
        (length > 0).then_some(instruction)
    })
}

/// The operation of an instruction, and its operands.
fn parts(instruction: &[u32]) -> (u32, &[u32]) {
    instruction.split_first().map_or((0, &[]), |(first, operands)| (first & 0xFFFF, operands))
}

/// The variables that are the device index.
fn variables(spirv: &[u32]) -> Vec<Variable> {
    let decorated = instructions(spirv).filter_map(|instruction| match parts(instruction) {
        (DECORATE, [id, BUILT_IN, DEVICE_INDEX]) => Some(*id),
        _ => None,
    });
    let decorated: Vec<u32> = decorated.collect();
    if decorated.is_empty() {
        return Vec::new();
    }
    let value_type = |pointer: u32| {
        instructions(spirv).find_map(|instruction| match parts(instruction) {
            (TYPE_POINTER, [id, _, of]) if *id == pointer => Some(*of),
            _ => None,
        })
    };
    let variable = |instruction| match parts(instruction) {
        (VARIABLE, [pointer, id, ..]) if decorated.contains(id) => {
            Some(Variable { id: *id, value_type: value_type(*pointer)? })
        }
        _ => None,
    };
    instructions(spirv).filter_map(variable).collect()
}

/// A module in which these variables are private ones that begin with a number.
fn replace(spirv: &[u32], variables: &[Variable], index: u32) -> Option<Vec<u32>> {
    let mut module = spirv.get(..HEADER)?.to_vec();
    let mut bound = *module.get(BOUND)?;
    let lists_all = *module.get(VERSION)? >= LISTS_ALL;
    let found = |id: &u32| variables.iter().find(|variable| variable.id == *id);
    for instruction in instructions(spirv) {
        match parts(instruction) {
            (DECORATE, [id, BUILT_IN, ..]) if found(id).is_some() => {}
            (ENTRY_POINT, operands) if !lists_all => {
                let kept = without(operands, |id| found(id).is_some());
                push(&mut module, ENTRY_POINT, &kept);
            }
            (VARIABLE, [_, id, ..]) => match found(id) {
                Some(Variable { id, value_type }) => {
                    let (pointer, constant) = (bound, bound.checked_add(1)?);
                    bound = bound.checked_add(2)?;
                    push(&mut module, TYPE_POINTER, &[pointer, PRIVATE, *value_type]);
                    push(&mut module, CONSTANT, &[*value_type, constant, index]);
                    push(&mut module, VARIABLE, &[pointer, *id, PRIVATE, constant]);
                }
                None => module.extend_from_slice(instruction),
            },
            _ => module.extend_from_slice(instruction),
        }
    }
    *module.get_mut(BOUND)? = bound;
    Some(module)
}

/// The operands of an entry point, without some of the variables that it lists.
fn without(operands: &[u32], is_out: impl Fn(&u32) -> bool) -> Vec<u32> {
    // Its model, its function, and its name, which ends in the word that has a zero in it.
    let has_zero = |word: &u32| word.to_ne_bytes().contains(&0);
    let name = operands.iter().skip(2).position(has_zero).unwrap_or(operands.len());
    let listed = 2 + name + 1;
    let kept = |(at, id): &(usize, &u32)| *at < listed || !is_out(id);
    operands.iter().enumerate().filter(kept).map(|(_, id)| *id).collect()
}

/// Appends an instruction.
fn push(module: &mut Vec<u32>, operation: u32, operands: &[u32]) {
    module.push((operands.len() as u32 + 1) << 16 | operation);
    module.extend_from_slice(operands);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module of this version with a shader `main` that has the variables 6, of type 5, and 7: built-in ones with these numbers.
    fn module(version: u32, built_ins: [u32; 2]) -> Vec<u32> {
        let mut module = vec![0x0723_0203, version, 0, 20, 0];
        push(&mut module, ENTRY_POINT, &[5, 1, u32::from_le_bytes(*b"main"), 0, 6, 7]);
        for (id, built_in) in [6, 7].into_iter().zip(built_ins) {
            push(&mut module, DECORATE, &[id, BUILT_IN, built_in]);
        }
        // An input of type 4.
        push(&mut module, TYPE_POINTER, &[5, 1, 4]);
        push(&mut module, VARIABLE, &[5, 6, 1]);
        push(&mut module, VARIABLE, &[5, 7, 1]);
        module
    }

    fn lines(module: &[u32]) -> Vec<Vec<u32>> {
        let line = |instruction| {
            let (operation, operands) = parts(instruction);
            [&[operation], operands].concat()
        };
        instructions(module).map(line).collect()
    }

    #[test]
    fn the_index_is_a_private_variable_on_each_gpu() {
        let made = replaced(&module(0x0001_0300, [DEVICE_INDEX, 27]), 2).unwrap();
        assert_eq!(made.len(), 2);
        for (index, module) in (0..).zip(&made) {
            assert_eq!(module[..HEADER], [0x0723_0203, 0x0001_0300, 0, 22, 0]);
            let expected = [
                vec![ENTRY_POINT, 5, 1, u32::from_le_bytes(*b"main"), 0, 7],
                vec![DECORATE, 7, BUILT_IN, 27],
                vec![TYPE_POINTER, 5, 1, 4],
                vec![TYPE_POINTER, 20, PRIVATE, 4],
                vec![CONSTANT, 4, 21, index],
                vec![VARIABLE, 20, 6, PRIVATE, 21],
                vec![VARIABLE, 5, 7, 1],
            ];
            assert_eq!(lines(module), expected);
        }
    }

    #[test]
    fn since_version_1_4_an_entry_point_lists_private_variables() {
        let made = replaced(&module(LISTS_ALL, [27, DEVICE_INDEX]), 3).unwrap();
        let main = u32::from_le_bytes(*b"main");
        assert_eq!(lines(&made[2])[0], [ENTRY_POINT, 5, 1, main, 0, 6, 7]);
        assert_eq!(made[2][BOUND], 22);
    }

    #[test]
    fn a_module_that_does_not_ask_or_has_one_gpu_is_the_same_for_all() {
        assert_eq!(replaced(&module(LISTS_ALL, [26, 27]), 2), None);
        assert_eq!(replaced(&module(LISTS_ALL, [DEVICE_INDEX, 27]), 1), None);
    }

    #[test]
    fn what_is_no_module_is_left_alone() {
        let whole = module(LISTS_ALL, [DEVICE_INDEX, 27]);
        for length in 0..whole.len() {
            let _ = replaced(&whole[..length], 2);
        }
        let mut endless = whole;
        endless[HEADER] = 0;
        assert_eq!(replaced(&endless, 2), None);
    }
}
