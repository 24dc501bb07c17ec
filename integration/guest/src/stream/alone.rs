// SPDX-License-Identifier: MIT OR Apache-2.0

//! The guest's own part of a stream, without a GPU.

use super::check::{Comparison, Expected};
use super::input::Input;
use super::{MAX_DEPTH, SEED};
use anyhow::bail;
use std::time::{Duration, Instant};
use vm_memory::VolatileSlice;

/// A chunk as a GPU would return it.
struct Returned {
    bytes: Vec<u8>,
    hash: u64,
}

/// Measures how long the guest takes to read the input and to check a GPU's result, which is ready beforehand.
///
/// # Errors
/// When the input cannot be read, or changes.
pub fn check_alone(input: &mut Input, chunk: u64) -> anyhow::Result<Duration> {
    let chunk = usize::try_from(chunk)?;
    let mut returned = Vec::new();
    let mut own = Own::new(chunk);
    while let Some(hash) = own.read(input, returned.len() as u64)? {
        returned.push(Returned { bytes: own.expected.bytes().to_vec(), hash });
    }
    input.rewind()?;

    // As many buffers as a stream has in flight.
    let mut chunks: Vec<_> = (0..MAX_DEPTH).map(|_| Own::new(chunk)).collect();
    let (mut comparison, mut number) = (Comparison::new(), 0);
    let start = Instant::now();
    loop {
        let own = &mut chunks[number % MAX_DEPTH as usize];
        let Some(read) = own.read(input, number as u64)? else { break };
        let Some(Returned { bytes: made, hash }) = returned.get_mut(number) else { break };
        let (made, expected) = (VolatileSlice::from(&mut **made), own.expected.bytes());
        if made.len() != expected.len()
            || comparison.first_difference(&made, expected)?.is_some()
            || read != *hash
        {
            bail!("the input changed while it was read");
        }
        number += 1;
    }
    Ok(start.elapsed())
}

/// A chunk in the guest's memory.
struct Own {
    bytes: Vec<u8>,
    expected: Expected,
}

impl Own {
    fn new(chunk: usize) -> Self {
        Self { bytes: vec![0; chunk], expected: Expected::new(chunk) }
    }

    /// Reads a chunk and computes a GPU's result for it. Returns the result's hash; `None` at the input's end.
    fn read(&mut self, input: &mut Input, number: u64) -> anyhow::Result<Option<u64>> {
        let Self { bytes, expected } = self;
        let bytes = VolatileSlice::from(&mut **bytes);
        expected.begin(SEED + number, SEED);
        let length = input.read(&bytes, |length| Ok(expected.take(&bytes, length)?))?;
        Ok(if length == 0 { None } else { Some(expected.finish(&bytes, length)?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_checked_to_its_end() {
        let mut input = Input::in_memory(0..1000).unwrap();
        check_alone(&mut input, 4096).unwrap();
        let mut more = [0; 8];
        let more = VolatileSlice::from(&mut more[..]);
        assert_eq!(input.read(&more, |_| Ok(())).unwrap(), 0);
    }
}
