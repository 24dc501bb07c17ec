// SPDX-License-Identifier: MIT OR Apache-2.0

//! Callgrind's output: instructions by address.
//!
//! The files have neither compressed names nor compressed positions: see [`OPTIONS`].

use std::collections::BTreeMap;

/// Options with which callgrind writes the format that [`instructions`] reads.
pub const OPTIONS: [&str; 3] = ["--dump-instr=yes", "--compress-strings=no", "--compress-pos=no"];

/// The instructions that were executed at each address of a program. Calls into a library count at the address of
/// the call. Calls from before the collection are left out: their cost is the whole sum.
///
/// # Errors
/// When the text is not callgrind's, or its instructions do not add up to the sum that it states.
pub fn instructions(text: &str, program: &str) -> Result<BTreeMap<u64, u64>, String> {
    let mut costs = BTreeMap::new();
    let (mut is_program, mut calls_library, mut is_call) = (false, false, false);
    let mut sum = None;
    for (number, line) in (1..).zip(text.lines()) {
        let wrong = || format!("line {number} of callgrind's file is not understood: {line}");
        if let Some(object) = line.strip_prefix("ob=") {
            is_program = object == program;
        } else if let Some(object) = line.strip_prefix("cob=") {
            calls_library = object != program;
        } else if line.starts_with("calls=") {
            is_call = true;
        } else if let Some(total) = line.strip_prefix("summary: ") {
            sum = Some(total.trim().parse().map_err(|_| wrong())?);
        } else if line.starts_with("0x") {
            let (address, cost) = position(line).ok_or_else(wrong)?;
            let is_around = is_call && Some(cost) == sum;
            if is_program && (!is_call || calls_library) && !is_around {
                *costs.entry(address).or_default() += cost;
            }
            (is_call, calls_library) = (false, false);
        }
    }
    let sum: u64 = sum.ok_or("callgrind's file names no sum")?;
    let found: u64 = costs.values().sum();
    if found == sum {
        return Ok(costs);
    }
    Err(format!("{found} instructions were found in callgrind's file, and not {sum} as it says"))
}

/// The address and the instructions of a line `ADDRESS LINE COST`; no cost is 0.
fn position(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split(' ');
    let address = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    let _line = words.next()?;
    let cost = words.next().map_or(Some(0), |cost| cost.parse().ok())?;
    Some((address, cost))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# callgrind format
version: 1
positions: instr line
events: Ir
summary: 131

ob=/p
fl=main.rs
fn=main
0x100 7 3
fi=inlined.rs
0x104 9 5
fe=main.rs
cob=/libc
cfi=???
cfn=memcpy
calls=2 0x9000 0
0x108 8 100
0x108 8 2
cfn=f
calls=1 0x200 1
0x10c 8 21

fn=f
0x200 1 20
0x204 1 1
0x208 2

ob=/libc
fl=???
fn=memcpy
0x9000 0 100

ob=/libc
fn=start_main
cob=/p
cfn=main
calls=1 0x100 7
0x9100 0 131

ob=/p
fn=_start
cob=/libc
cfn=start_main
calls=1 0x9100 0
0x50 1 131

totals: 131
";

    #[test]
    fn what_a_library_executes_counts_where_it_was_called_and_what_the_program_executes_where_it_is()
     {
        let costs = instructions(FILE, "/p").unwrap();
        let expected = [(0x100, 3), (0x104, 5), (0x108, 102), (0x200, 20), (0x204, 1), (0x208, 0)];
        assert_eq!(costs, BTreeMap::from(expected));
    }

    #[test]
    fn a_file_that_does_not_add_up_or_is_not_understood_is_refused() {
        let error = |text: &str| instructions(text, "/p").unwrap_err();
        assert!(error(&FILE.replace("0x104 9 5", "0x104 9 6")).contains("132"));
        assert!(error(&FILE.replace("summary", "sum")).contains("sum"));
        assert!(error(&FILE.replace("0x104 9 5", "0x104 9 five")).contains("line 12"));
        assert!(instructions(FILE, "/another").is_err());
    }
}
