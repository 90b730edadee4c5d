//! Values of keys, with their ranges.

use noise_common::signals::{SIGNALS, Signal};
use noise_common::store::Class;
use noise_common::store::event::USUAL_CLASSES;
use noise_text::cpulist::CpuList;

#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cpus(pub Option<CpuList>);

impl TryFrom<String> for Cpus {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.is_empty() { Ok(Self(None)) } else { text.parse().map(|cpus| Self(Some(cpus))) }
    }
}

impl From<Cpus> for String {
    fn from(cpus: Cpus) -> Self {
        cpus.0.map(|cpus| cpus.to_string()).unwrap_or_default()
    }
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident, $number:ident, $smallest:literal..=$largest:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(try_from = "i64")]
        pub struct $name($number);

        impl $name {
            /// That many, where that is in range.
            pub const fn new(number: $number) -> Option<Self> {
                match number {
                    $smallest..=$largest => Some(Self(number)),
                    _ => None,
                }
            }

            /// A usual value: in a constant, one out of range does not compile.
            pub const fn of(number: $number) -> Self {
                match Self::new(number) {
                    Some(valid) => valid,
                    None => unreachable!(),
                }
            }

            pub const fn get(self) -> $number {
                self.0
            }
        }

        impl TryFrom<i64> for $name {
            type Error = String;

            fn try_from(number: i64) -> Result<Self, Self::Error> {
                let within = $number::try_from(number).ok().and_then(Self::new);
                within.ok_or_else(|| format!("{number} is not between {} and {}", $smallest, $largest))
            }
        }
    )*};
}

numbers! {
    /// A time in milliseconds, up to an hour.
    Milliseconds, u32, 1..=3_600_000;
    /// A time in microseconds, up to a minute.
    Microseconds, u32, 1..=60_000_000;
    /// A number of series; the largest is what a server that scrapes many hosts can bear of each.
    Limit, u16, 1..=10_000;
    /// A size in KiB, up to 16 GiB.
    Kibibytes, u32, 1..=16_777_216;
    /// A time in seconds, up to an hour.
    Seconds, u16, 1..=3_600;
    /// A size in KiB, up to 16 GiB, or 0 for one that follows from what the host does.
    #[derive(Default)]
    SizeOrAsNeeded, u32, 0..=16_777_216;
    /// A number of incidents whose kernel events are kept; 0 = none.
    Traces, u16, 0..=1_000;
}

impl SizeOrAsNeeded {
    /// The size, bytes; `None` where it follows from what the host does.
    pub fn bytes(self) -> Option<u64> {
        (self.0 > 0).then(|| u64::from(self.0) * 1024)
    }
}

/// Permissions, written as chmod takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SocketMode(pub u32);

impl TryFrom<String> for SocketMode {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match u32::from_str_radix(&text, 8) {
            Ok(mode @ 0..=0o777) if text.len() >= 3 => Ok(Self(mode)),
            _ => Err(format!("`{text}` is not between \"000\" and \"0777\", as chmod takes it")),
        }
    }
}

impl From<SocketMode> for String {
    fn from(mode: SocketMode) -> Self {
        format!("{:04o}", mode.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SignalName(pub Signal);

impl TryFrom<String> for SignalName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let found = SIGNALS.iter().find(|info| info.name == text);
        found.map(|info| Self(info.signal)).ok_or_else(|| {
            let names: Vec<&str> = SIGNALS.iter().map(|info| info.name).collect();
            format!("there is no signal `{text}`; there are {}", names.join(", "))
        })
    }
}

impl From<SignalName> for String {
    fn from(name: SignalName) -> Self {
        name.0.info().name.to_owned()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ClassName(pub Class);

impl TryFrom<String> for ClassName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let names = USUAL_CLASSES.map(Class::name).join(", ");
        match Class::from_name(&text) {
            Some(class) if USUAL_CLASSES.contains(&class) => Ok(Self(class)),
            Some(_) => Err(format!(
                "the flight recorder keeps no {text} events, but {names}: `noised record --own --events {text}` \
                 records them"
            )),
            None => Err(format!("there is no class `{text}`; there are {names}")),
        }
    }
}

impl From<ClassName> for String {
    fn from(name: ClassName) -> Self {
        name.0.name().to_owned()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    Error,
    /// What an operator should know.
    Warn,
    Info,
    /// How it happens; the BPF programs log what they could not count, and why.
    Debug,
    /// Everything, of the libraries and the BPF programs as well.
    Trace,
}

impl LogLevel {
    /// The filter that shows this level. What the libraries have to say is not for operators.
    pub const fn filter(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "info,noise_=debug",
            Self::Trace => "trace",
        }
    }

    /// Whether this is for those who look for a fault.
    pub const fn is_detailed(self) -> bool {
        matches!(self, Self::Debug | Self::Trace)
    }
}
