//! What the tests of recordings and exports use of PyPI.

use super::python::Environment;

/// The environment with it.
pub static PACKAGES: Environment =
    Environment::new("python", include_str!("python/requirements.txt"));
