// SPDX-License-Identifier: MIT OR Apache-2.0

//! A kernel of a guest's, from the request for it on.

use super::module::Module;
use super::source::Source;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A kernel of a guest's. The control plane makes it from a copy of the source, which it does not look at; the manager
/// of workers looks for the module of this content later.
#[derive(Debug)]
pub struct Kernel {
    /// The name of its entry point.
    pub entry_point: String,
    /// Bytes of the SPIR-V.
    pub length: u32,
    /// The source, until its module is known. No engine ever takes this lock.
    source: Mutex<Option<Source>>,
    module: OnceLock<Arc<Module>>,
}

impl Kernel {
    /// A kernel whose module is not known yet.
    pub fn new(source: Source) -> Self {
        Self {
            entry_point: source.entry_point.clone(),
            // Bounded by `Source::read`.
            length: source.spirv.len() as u32,
            source: Mutex::new(Some(source)),
            module: OnceLock::new(),
        }
    }

    /// Manager: its module, which `find` finds for its source if it is not known yet.
    #[expect(
        clippy::disallowed_methods,
        reason = "a lock that the manager of workers alone takes while a module is looked for"
    )]
    pub fn module(&self, find: impl FnOnce(Source) -> Arc<Module>) -> Option<Arc<Module>> {
        if let Some(module) = self.module.get() {
            return Some(Arc::clone(module));
        }
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(Arc::clone(self.module.get_or_init(|| find(source))))
    }

    /// Its module, once that is compiled.
    pub fn compiled(&self) -> Option<&Arc<Module>> {
        self.module.get().filter(|module| module.is_compiled())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_is_looked_for_when_the_manager_asks_and_once() {
        let source = Source {
            spirv: vec![7; 24],
            entry_point: "main".into(),
            push_constants: 4,
            descriptors: 1,
            constants: Vec::new(),
        };
        let kernel = Kernel::new(source);
        assert_eq!((kernel.entry_point.as_str(), kernel.length), ("main", 24));
        let module = kernel.module(|source| Arc::new(Module::new(Arc::new(source)))).unwrap();
        assert!(kernel.compiled().is_none());
        let again = kernel.module(|_| panic!("it is known")).unwrap();
        assert!(Arc::ptr_eq(&again, &module));
        module.decide(Ok(()));
        assert!(Arc::ptr_eq(kernel.compiled().unwrap(), &module));
    }
}
