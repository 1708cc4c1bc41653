//! What an application hands to its tools: database handles, clients, settings.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The things that an application gives its tools, one of each type.
#[derive(Clone, Default)]
pub struct Services(Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

/// A type of service that a tool's code takes from its context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    id: TypeId,
    name: &'static str,
}

impl Need {
    /// Names a type.
    pub fn of<T: Send + Sync + 'static>() -> Self {
        Self { id: TypeId::of::<T>(), name: type_name::<T>() }
    }

    /// Returns the type's name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl Services {
    /// Adds a service; one of the same type is replaced.
    pub fn insert<T: Send + Sync + 'static>(&mut self, service: T) {
        Arc::make_mut(&mut self.0).insert(TypeId::of::<T>(), Arc::new(service));
    }

    /// Returns the service of a type.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref()
    }

    /// Returns whether there is a service of the type that a tool needs.
    pub fn has(&self, need: &Need) -> bool {
        self.0.contains_key(&need.id)
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services").field("n_services", &self.0.len()).finish()
    }
}
