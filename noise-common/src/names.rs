//! Enumerations are written by name, so that what is written outlives their numbers.

use alloc::borrow::Cow;
use alloc::format;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::hooks::{HOOKS, Hook};
use crate::loss::{LOSSES, Loss};
use crate::signals::{SIGNALS, Signal};

macro_rules! by_name {
    ($type:ty, $what:literal, $name:expr, $all:expr) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let name: fn(&Self) -> &'static str = $name;
                serializer.serialize_str(name(self))
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name: fn(&Self) -> &'static str = $name;
                let wanted = Cow::<'de, str>::deserialize(deserializer)?;
                let found = $all.find(|one| name(one) == wanted);
                found.ok_or_else(|| D::Error::custom(format!("there is no {} `{wanted}`", $what)))
            }
        }
    };
}

by_name!(Signal, "signal", |signal| signal.info().name, SIGNALS.iter().map(|info| info.signal));
by_name!(Hook, "hook", |hook| hook.tracepoint(), HOOKS.iter().copied());
by_name!(Loss, "reason", |reason| reason.name(), LOSSES.iter().copied());
