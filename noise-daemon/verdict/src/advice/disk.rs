//! Remedies at disks.

use noise_model::setup::{CgroupSetup, Controller, DiskSetup, Setup};

use super::command::{Change, Made, SettingValue, echo};
use super::outcome::{Files, Outcome, USUAL_WEIGHT, is_lower, lower};

/// What is tried first as a limit of a disk, MB a second.
const FIRST_LIMIT_MB: u64 = 50;

pub fn io_weight(setup: &Setup) -> Option<Outcome> {
    let culprit = setup.culprit.as_ref()?;
    let is_weighed = |disk: &DiskSetup| disk.has_cost || disk.scheduler.as_deref() == Some("bfq");
    // Of a disk that is not known it is not known either whether anything weighs there.
    if !is_weighed(setup.disk.as_ref()?) {
        return Some(Outcome::Out);
    }
    let Some(Files { folder, version }) = Files::of(&culprit.io) else {
        return Some(Outcome::Out);
    };
    let is_bfq = setup.disk.as_ref().is_some_and(|disk| !disk.has_cost);
    let weight_of = |one: &CgroupSetup| one.bfq_weight.filter(|_| is_bfq).or(one.io_weight);
    let (other, own) = (setup.victim.as_ref().and_then(weight_of), weight_of(culprit));
    if is_lower(other, own) {
        return Some(Outcome::Out);
    }
    let weight = lower(other, own);
    let file = match version {
        1 => "blkio.bfq.weight",
        // That is what bfq reads; systemd sets both.
        _ if is_bfq => "io.bfq.weight",
        _ => "io.weight",
    };
    let value = |weight: u64| SettingValue {
        property: format!("IOWeight={weight}"),
        flag: None,
        file: weight.to_string(),
    };
    let change = Change {
        to: value(weight),
        back: match &culprit.io {
            Controller::Off { .. } => {
                Some(SettingValue { property: "IOWeight=".to_owned(), ..value(USUAL_WEIGHT) })
            }
            _ => own.map(|own| SettingValue {
                property: format!("IOWeight={}", culprit.io_weight.unwrap_or(own)),
                ..value(own)
            }),
        },
        words: "",
        file: folder.map(|folder| (folder, file)),
    };
    let now = match own {
        Some(weight) => format!("{file} is {weight} of {}", culprit.label),
        None => format!("{file} of {} is as usual", culprit.label),
    };
    Some(Outcome::Applies { now, made: change.made(culprit) })
}

pub fn io_max(setup: &Setup) -> Option<Outcome> {
    let (culprit, disk) = (setup.culprit.as_ref()?, setup.disk.as_ref()?);
    let Some(Files { folder, version }) = Files::of(&culprit.io) else {
        return Some(Outcome::Out);
    };
    let is_limited = |line: &String| line.split(' ').next() == Some(&disk.numbers);
    if culprit.io_max.iter().any(is_limited) {
        return Some(Outcome::Out);
    }
    let (property, key, old) = match disk.is_write {
        true => ("IOWriteBandwidthMax", "wbps", "blkio.throttle.write_bps_device"),
        false => ("IOReadBandwidthMax", "rbps", "blkio.throttle.read_bps_device"),
    };
    let bytes = FIRST_LIMIT_MB * 1_000_000;
    // 0 and `max` lift it.
    let value = |limit: &str, v1: u64, v2: &str| SettingValue {
        property: format!("{property}=/dev/{} {limit}", disk.name),
        flag: None,
        file: match version {
            1 => format!("{} {v1}", disk.numbers),
            _ => format!("{} {key}={v2}", disk.numbers),
        },
    };
    let change = Change {
        to: value(&format!("{FIRST_LIMIT_MB}M"), bytes, &bytes.to_string()),
        back: Some(value("infinity", 0, "max")),
        words: "",
        file: folder.map(|folder| (folder, if version == 1 { old } else { "io.max" })),
    };
    let now = format!(
        "{} has no limit for {}; {FIRST_LIMIT_MB} MB/s is a first one to try",
        culprit.label, disk.name
    );
    Some(Outcome::Applies { now, made: change.made(culprit) })
}

pub fn io_scheduler(setup: &Setup) -> Option<Outcome> {
    let disk = setup.disk.as_ref()?;
    match disk.scheduler.as_deref()? {
        "none" => {
            let now = format!("{} has no scheduler", disk.name);
            let folder = format!("/sys/block/{}/queue", disk.name);
            Some(Outcome::Applies {
                now,
                made: Made {
                    commands: vec![echo("mq-deadline", &folder, "scheduler")],
                    undo: vec![echo("none", &folder, "scheduler")],
                    manifest: None,
                },
            })
        }
        _ => Some(Outcome::Out),
    }
}
