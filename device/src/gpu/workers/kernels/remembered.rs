// SPDX-License-Identifier: MIT OR Apache-2.0

//! What was compiled for a guest, by its content.

use super::module::Module;
use super::source::Source;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Most modules of a guest that are remembered, and most bytes of their SPIR-V.
const REMEMBERED: usize = 64;
const REMEMBERED_BYTES: usize = 4 << 20;

/// A source, by its content: equal sources make equal kernels.
#[derive(Debug, Clone)]
struct Content(Arc<Source>);

impl Content {
    fn parts(&self) -> (&[u8], &str, [u32; 2], &[[u32; 2]]) {
        let Source { spirv, entry_point, push_constants, descriptors, constants } = &*self.0;
        (spirv, entry_point, [*push_constants, *descriptors], constants)
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for Content {}

impl Hash for Content {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

/// The modules that a guest has had compiled. No guest learns from, or suffers by, what another's compiler said.
#[derive(Debug, Default)]
pub struct Remembered {
    modules: HashMap<Content, Arc<Module>>,
    /// Oldest first.
    order: VecDeque<Content>,
    bytes: usize,
}

impl Remembered {
    /// The module of a source, perhaps of an earlier kernel.
    pub fn module(&mut self, source: Source) -> Arc<Module> {
        let content = Content(Arc::new(source));
        if let Some(module) = self.modules.get(&content) {
            return Arc::clone(module);
        }
        let module = Arc::new(Module::new(Arc::clone(&content.0)));
        self.bytes += content.0.spirv.len();
        self.modules.insert(content.clone(), Arc::clone(&module));
        self.order.push_back(content);
        while self.order.len() > REMEMBERED || self.bytes > REMEMBERED_BYTES {
            let Some(oldest) = self.order.pop_front() else { break };
            self.bytes -= oldest.0.spirv.len();
            self.modules.remove(&oldest);
        }
        module
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(bytes: usize, first: u8) -> Source {
        let mut spirv = vec![0; bytes];
        spirv[0] = first;
        let (entry_point, constants) = ("main".into(), Vec::new());
        Source { spirv, entry_point, push_constants: 0, descriptors: 0, constants }
    }

    #[test]
    fn equal_sources_have_one_module_and_others_their_own() {
        let mut remembered = Remembered::default();
        let first = remembered.module(source(20, 1));
        assert!(Arc::ptr_eq(&first, &remembered.module(source(20, 1))));
        let others = [
            source(20, 2),
            source(24, 1),
            Source { entry_point: "other".into(), ..source(20, 1) },
            Source { push_constants: 4, ..source(20, 1) },
            Source { descriptors: 4, ..source(20, 1) },
            Source { constants: vec![[1, 2]], ..source(20, 1) },
        ];
        for other in others {
            assert!(!Arc::ptr_eq(&first, &remembered.module(other)));
        }
    }

    #[test]
    fn as_many_modules_and_bytes_are_remembered_as_may_be() {
        let mut remembered = Remembered::default();
        let first = remembered.module(source(20, 0));
        for number in 1..=63 {
            remembered.module(source(20, number));
        }
        assert!(Arc::ptr_eq(&first, &remembered.module(source(20, 0))));
        remembered.module(source(20, 64));
        assert!(!Arc::ptr_eq(&first, &remembered.module(source(20, 0))));
        // Four of the longest that there are.
        let large: Vec<_> =
            (0..5).map(|number| remembered.module(source(1 << 20, number))).collect();
        assert!(Arc::ptr_eq(&large[4], &remembered.module(source(1 << 20, 4))));
        assert!(Arc::ptr_eq(&large[1], &remembered.module(source(1 << 20, 1))));
        assert!(!Arc::ptr_eq(&large[0], &remembered.module(source(1 << 20, 0))));
    }
}
