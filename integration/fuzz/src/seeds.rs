// SPDX-License-Identifier: MIT OR Apache-2.0

//! First inputs of targets, which random bytes would seldom be: made from actions, and kept in the corpus.
//!
//! After a change of seeds, or of what they are made of, `BELLHOP_WRITE_SEEDS=1 cargo test -p bellhop-fuzz seeds` writes
//! the files anew.

use std::fs;
use std::path::Path;

/// Writes bytes that [`arbitrary`] reads.
#[derive(Default)]
pub struct Bytes(Vec<u8>);

impl Bytes {
    /// Bytes as they are.
    pub fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// The choice of one of `count` variants.
    pub fn variant(&mut self, index: u64, count: u64) -> &mut Self {
        let choice = (index << 32).div_ceil(count) as u32;
        self.put(&choice.to_le_bytes())
    }

    /// A list: before each element, a flag that one more follows.
    pub fn list<T>(&mut self, elements: &[T], mut each: impl FnMut(&mut Self, &T)) -> &mut Self {
        for element in elements {
            self.put(&[1]);
            each(self, element);
        }
        self.put(&[0])
    }

    /// A value as [`arbitrary`] reads it.
    pub fn of(&mut self, value: &impl Seed) -> &mut Self {
        value.write(self);
        self
    }

    /// A list of values.
    pub fn all<T: Seed>(&mut self, values: &[T]) -> &mut Self {
        self.list(values, |bytes, value| value.write(bytes))
    }
}

/// What seeds are made of.
pub trait Seed {
    /// Writes it as [`arbitrary`] reads it.
    fn write(&self, bytes: &mut Bytes);
}

/// The bytes of a whole input.
pub fn input<T: Seed>(actions: &[T]) -> Vec<u8> {
    let mut bytes = Bytes::default();
    bytes.all(actions);
    bytes.0
}

/// Asserts that these bytes are a file of a target's corpus.
#[track_caller]
pub fn is_in_corpus(target: &str, name: &str, bytes: &[u8]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let file = folder.join(name);
    if std::env::var_os("BELLHOP_WRITE_SEEDS").is_some() {
        fs::create_dir_all(folder).unwrap();
        fs::write(&file, bytes).unwrap();
    }
    assert_eq!(fs::read(&file).ok().as_deref(), Some(bytes), "{name} is not in the corpus");
}
