// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the guest does of a stream, without a GPU.

use super::check::{Check, transform};
use super::input::Input;
use super::{MAX_DEPTH, SEED};
use anyhow::bail;
use std::convert::Infallible;
use std::time::{Duration, Instant};

/// A chunk as a GPU would return it.
struct Returned {
    bytes: Vec<u8>,
    hash: u64,
}

/// How long the guest takes to read the input and to check what a GPU would have returned, which is there
/// already.
///
/// # Errors
/// When the input cannot be read, or changes.
pub fn check_alone(input: &mut Input, chunk: u64) -> anyhow::Result<Duration> {
    let chunk = usize::try_from(chunk)?;
    let mut returned = Vec::new();
    loop {
        let mut bytes = vec![0; chunk];
        let length = input.read(&mut bytes, |_, _| Ok(()))?;
        if length == 0 {
            break;
        }
        bytes.truncate(length);
        transform(&mut bytes, SEED + returned.len() as u64, 0);
        let hash = xxhash_rust::xxh64::xxh64(&bytes, SEED);
        returned.push(Returned { bytes, hash });
    }
    input.rewind()?;

    // As many buffers as a stream has on their way.
    let mut chunks = vec![vec![0; chunk]; MAX_DEPTH as usize];
    let (mut check, mut number) = (Check::new(), 0);
    let start = Instant::now();
    loop {
        let bytes = &mut chunks[number % MAX_DEPTH as usize];
        let length = input.read(bytes, |_, _| Ok(()))?;
        if length == 0 {
            break;
        }
        let Some(Returned { bytes: made, hash }) = returned.get(number) else { break };
        let read = |offset: usize, block: &mut [u8]| {
            block.copy_from_slice(&made[offset..offset + block.len()]);
            Ok::<_, Infallible>(())
        };
        let Ok(checked) = check.run(&mut bytes[..length], SEED + number as u64, SEED, read);
        if checked != Ok(*hash) {
            bail!("the input changed while it was read");
        }
        number += 1;
    }
    Ok(start.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_checked_to_its_end() {
        let mut input = Input::in_memory(0..1000).unwrap();
        check_alone(&mut input, 4096).unwrap();
        assert_eq!(input.read(&mut [0; 8], |_, _| Ok(())).unwrap(), 0);
    }
}
