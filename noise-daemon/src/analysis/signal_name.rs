//! Signals are written by name, so that the files outlive the numbers.

use std::borrow::Cow;

use noise_common::signals::{SIGNALS, Signal};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

/// The signal of that name.
fn find(name: &str) -> Option<Signal> {
    SIGNALS.iter().find(|info| info.name == name).map(|info| info.signal)
}

pub fn serialize<S: Serializer>(signal: &Signal, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(signal.info().name)
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Signal, D::Error> {
    let name = Cow::<'de, str>::deserialize(deserializer)?;
    find(&name).ok_or_else(|| D::Error::custom(format!("there is no signal `{name}`")))
}

pub mod list {
    //! Several of them, of those that are delays.

    use noise_common::signals::{Kind, SIGNALS, Signal};
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(signals: &[Signal], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(signals.iter().map(|signal| signal.info().name))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Signal>, D::Error> {
        let names = Vec::<String>::deserialize(deserializer)?;
        let delays = SIGNALS.iter().filter(|info| matches!(info.kind, Kind::Histogram(_)));
        names
            .iter()
            .map(|name| {
                let found = delays.clone().find(|info| info.name == name);
                found.map(|info| info.signal).ok_or_else(|| {
                    let known: Vec<_> = delays.clone().map(|info| info.name).collect();
                    D::Error::custom(format!(
                        "`{name}` is no signal that can be watched, expected one of {}",
                        known.join(", ")
                    ))
                })
            })
            .collect()
    }
}
