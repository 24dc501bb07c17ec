// SPDX-License-Identifier: MIT OR Apache-2.0

//! The kernels of the self-test and of measurements. `cargo xtask kernels` compiles them; each module contains its source.

/// A kernel in SPIR-V, from `kernels/NAME.comp`.
pub struct Module(pub &'static [u8]);

impl Module {
    /// Returns its words.
    pub fn words(&self) -> Vec<u32> {
        words(self.0)
    }
}

fn words(bytes: &[u8]) -> Vec<u32> {
    let (words, rest) = bytes.as_chunks();
    debug_assert!(rest.is_empty());
    words.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

/// Transforms words.
pub const TRANSFORM: Module = Module(include_bytes!("../../kernels/transform.spv"));
/// Loops many times.
pub const LOOP: Module = Module(include_bytes!("../../kernels/loop.spv"));
/// Computes with 64-bit integers.
pub const INTEGERS: Module = Module(include_bytes!("../../kernels/integers.spv"));
/// Follows pointers.
pub const POINTER: Module = Module(include_bytes!("../../kernels/pointer.spv"));
/// Does nothing.
pub const NULL: Module = Module(include_bytes!("../../kernels/null.spv"));
/// Steps a sequence of words on.
pub const STEP: Module = Module(include_bytes!("../../kernels/step.spv"));
/// Adds 1 to words.
pub const STREAM: Module = Module(include_bytes!("../../kernels/stream.spv"));

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// SPIR-V's first word.
    const MAGIC: u32 = 0x0723_0203;
    /// The instruction with a source: language, version, file, text.
    const OP_SOURCE: u32 = 3;
    /// The instruction with more of the source's text.
    const OP_SOURCE_CONTINUED: u32 = 2;

    /// Returns the source that a module says it was compiled from.
    fn carried(words: &[u32]) -> String {
        let mut text = Vec::new();
        let mut rest = &words[5..];
        while let Some(&first) = rest.first() {
            let (opcode, length) = (first & 0xffff, (first >> 16) as usize);
            let string = match opcode {
                OP_SOURCE => rest.get(4..length),
                OP_SOURCE_CONTINUED => rest.get(1..length),
                _ => None,
            };
            let bytes = string.unwrap_or_default().iter().flat_map(|word| word.to_le_bytes());
            text.extend(bytes.take_while(|byte| *byte != 0));
            rest = &rest[length..];
        }
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn every_module_was_compiled_from_the_source_beside_it() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let sources: Vec<_> =
            files.filter(|path| path.extension() == Some("comp".as_ref())).collect();
        assert!(!sources.is_empty());
        for source in sources {
            let words = words(&fs::read(source.with_extension("spv")).unwrap());
            assert_eq!(words[0], MAGIC);
            let carried = carried(&words);
            // The compiler adds lines before the text.
            let text = fs::read_to_string(&source).unwrap();
            let advice = "run cargo xtask kernels";
            assert!(carried.ends_with(&text), "{}: {advice}: {carried}", source.display());
        }
    }
}
