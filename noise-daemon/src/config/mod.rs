//! The configuration: the usual values, then the file, then flags over it.
//!
//! [`KEYS`] is the one table of what can be configured. The flags of `noised run`, the commented
//! sample in `deploy/`, the names that a mistyped key is compared with, and what a reload can apply
//! all come from it.

mod flags;
mod keys;
mod load;
mod mistakes;
mod parse;
mod reload;
mod sample;
mod sections;
mod values;

pub use flags::Flags;
#[cfg(test)]
pub use keys::REMOVED;
pub use keys::{Applies, FlagKind, KEYS, Key};
pub use load::{Configured, load};
pub use parse::parse;
pub use reload::{applied, changes};
pub use sample::sample;
pub use sections::{
    Config, IncidentsSection, LimitsSection, LogSection, OsnoiseSection, OutliersSection,
    PrivilegesSection, RecorderSection, SignalsSection, SocketSection, StateSection,
    WebConfigSection, WebSection,
};
pub use values::{
    ClassName, Cpus, Kibibytes, Limit, LogLevel, Microseconds, Milliseconds, Seconds, SignalName,
    SizeOrAsNeeded, SocketMode, Traces,
};
