//! `noise-rights`: what this kernel leaves of BPF to a process that gave up its privileges, as JSON.
//! Run by `cargo xtask vm` in guests.
//!
//! With arguments it sets `kernel.unprivileged_bpf_disabled` to each of them in turn and tries again:
//! only on machines that are thrown away afterwards.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use noise_tests::rights::{
    Level, allowed, confinement, set_switch, switch, type_information_is_public,
};
use noise_tests::task::ended;
use serde_json::{Value, json};

fn main() -> ExitCode {
    ended("noise-rights", report().map(|report| println!("{report}")))
}

fn report() -> Result<Value> {
    let usual = switch()?;
    let mut values = vec![usual];
    for argument in std::env::args().skip(1) {
        values.push(argument.parse().context("a value of the switch is a number")?);
    }
    let mut found = Vec::new();
    for value in values {
        if value != switch()? {
            set_switch(value)?;
        }
        for level in Level::ALL {
            found.push(allowed(level)?);
        }
    }
    Ok(json!({
        "unprivileged_bpf_disabled": usual,
        "confinement": confinement()?,
        "public_type_information": type_information_is_public()?,
        "allowed": found,
    }))
}
