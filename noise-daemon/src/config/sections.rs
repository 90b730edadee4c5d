//! The sections of the configuration, with the usual values.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use noise_analysis::Settings;
use noise_client::connect::{DEFAULT_ADDRESS, DEFAULT_SOCKET};
use noise_common::store::event::USUAL_CLASSES;
use noise_host::kernel::{Measured, RecorderSize};
use noise_keep::Bounds;
use noise_keep::demand::needed_bytes;
use noise_keep::state::DEFAULT_DIRECTORY;
use noise_measure::osnoise::DutyOptions;
use noise_model::Limits;
use noise_record::marks::beside;
use noise_serve::{HostName, Hosts, ListenAddress, SocketOptions};

use super::values::{
    ClassName, Cpus, Kibibytes, Limit, LogLevel, Microseconds, Milliseconds, Seconds, SignalName,
    SizeOrAsNeeded, SocketMode, Traces,
};

/// When something is unusual.
pub type IncidentsSection = Settings;

/// Everything that can be configured.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    pub web: WebSection,
    pub socket: SocketSection,
    pub log: LogSection,
    pub signals: SignalsSection,
    /// Which single waits are reported.
    pub outliers: OutliersSection,
    /// How many series of each kind there are at most.
    pub limits: LimitsSection,
    /// What cgroups are called besides.
    pub names: NamesSection,
    /// Which CPUs are measured from the inside.
    pub osnoise: OsnoiseSection,
    /// The latest kernel events.
    pub recorder: RecorderSection,
    /// What outlives the daemon.
    pub state: StateSection,
    /// What the daemon gives up once it measures.
    pub privileges: PrivilegesSection,
    pub incidents: IncidentsSection,
}

impl Config {
    pub fn measured(&self) -> Measured {
        Measured {
            off: self.signals.off.iter().map(|name| name.0).collect(),
            outlier_ns: u64::from(self.outliers.threshold_microseconds.get()) * 1_000,
            events: self.recorder.classes.iter().map(|name| name.0).collect(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct WebSection {
    /// Address and port of the server.
    pub listen_address: ListenAddress,
    /// Where its own configuration is.
    pub config: WebConfigSection,
    /// Host names that requests on loopback may use, besides addresses and `localhost`.
    pub allowed_hosts: Vec<HostName>,
}

impl Default for WebSection {
    fn default() -> Self {
        Self {
            listen_address: ListenAddress::At(DEFAULT_ADDRESS),
            config: WebConfigSection::default(),
            allowed_hosts: Vec::new(),
        }
    }
}

impl WebSection {
    /// The host names that requests to a server that listens there may use.
    pub fn hosts(&self, listening: &[IpAddr]) -> Hosts {
        let mut allowed = self.allowed_hosts.clone();
        if let ListenAddress::Named(name, _) = &self.listen_address {
            allowed.extend(HostName::try_from(name.clone()));
        }
        Hosts::at(listening, allowed)
    }
}

/// `config.…` of `[web]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct WebConfigSection {
    /// A file of TLS, users and headers; empty = none of them.
    pub file: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct SocketSection {
    /// Where it is; empty = there is none.
    pub path: PathBuf,
    /// Who may use it.
    pub mode: SocketMode,
    /// The group it belongs to, where there is such a group.
    pub group: String,
    /// Whether there is one for marks beside it.
    pub marks: bool,
}

impl Default for SocketSection {
    fn default() -> Self {
        Self {
            path: DEFAULT_SOCKET.into(),
            mode: SocketMode(0o660),
            group: "noised".to_owned(),
            marks: true,
        }
    }
}

impl SocketSection {
    /// The socket; `None` where there is none.
    pub fn options(&self) -> Option<SocketOptions> {
        (!self.path.as_os_str().is_empty()).then(|| SocketOptions {
            path: self.path.clone(),
            mode: self.mode.0,
            group: self.group.clone(),
        })
    }

    /// The socket of marks; `None` where there is none.
    pub fn marks(&self) -> Option<SocketOptions> {
        let options = self.options().filter(|_| self.marks)?;
        Some(SocketOptions { path: beside(&options.path), ..options })
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LogSection {
    /// Least severe level that is logged.
    pub level: LogLevel,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct SignalsSection {
    /// Signals that are not measured.
    pub off: Vec<SignalName>,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct OutliersSection {
    /// Length from which on a wait for a CPU is reported with its parts.
    pub threshold_microseconds: Microseconds,
}

impl Default for OutliersSection {
    fn default() -> Self {
        Self { threshold_microseconds: const { Microseconds::of(1_000) } }
    }
}

/// `[limits]`: how many subjects of a metric have series of their own; the others are `~other`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LimitsSection {
    /// Of `noised_interference_seconds_total`: victims with their culprits.
    pub interference: Limit,
    /// Of `noised_preemptions_total`: victims with their culprits.
    pub preemptions: Limit,
    /// Of each histogram by cgroup: cgroups.
    pub cgroups: Limit,
}

impl Default for LimitsSection {
    fn default() -> Self {
        Self {
            interference: const { Limit::of(200) },
            preemptions: const { Limit::of(100) },
            cgroups: const { Limit::of(50) },
        }
    }
}

impl LimitsSection {
    pub fn limits(&self) -> Limits {
        Limits {
            interference: self.interference.get().into(),
            preemptions: self.preemptions.get().into(),
            cgroups: self.cgroups.get().into(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct NamesSection {
    /// Whether metrics say what the cluster, systemd and container engines call cgroups.
    pub labels: bool,
}

impl Default for NamesSection {
    fn default() -> Self {
        Self { labels: true }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct OsnoiseSection {
    /// The CPUs, as the kernel writes lists; empty = none.
    pub cpus: Cpus,
    /// From the begin of one measurement to that of the next.
    pub period_milliseconds: Milliseconds,
    /// How long each takes.
    pub runtime_milliseconds: Milliseconds,
    /// A gap of this length is noise.
    pub threshold_microseconds: Microseconds,
}

impl Default for OsnoiseSection {
    fn default() -> Self {
        Self {
            cpus: Cpus::default(),
            // One percent of a CPU.
            period_milliseconds: const { Milliseconds::of(1_000) },
            runtime_milliseconds: const { Milliseconds::of(10) },
            threshold_microseconds: const { Microseconds::of(5) },
        }
    }
}

impl OsnoiseSection {
    /// What to measure; `None` where no CPU is.
    pub fn duty(&self) -> Option<DutyOptions> {
        let milliseconds = |time: Milliseconds| Duration::from_millis(u64::from(time.get()));
        self.cpus.0.clone().map(|cpus| DutyOptions {
            cpus,
            period: milliseconds(self.period_milliseconds),
            runtime: milliseconds(self.runtime_milliseconds),
            threshold_ns: u64::from(self.threshold_microseconds.get()) * 1_000,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct RecorderSection {
    pub enabled: bool,
    /// How far back it shall go on every CPU, where its size is not configured.
    pub seconds: Seconds,
    /// Memory for each possible CPU.
    pub kibibytes_per_cpu: SizeOrAsNeeded,
    /// Memory for all CPUs at most.
    pub kibibytes_in_all: Kibibytes,
    pub classes: Vec<ClassName>,
}

impl Default for RecorderSection {
    fn default() -> Self {
        Self {
            enabled: true,
            seconds: const { Seconds::of(10) },
            kibibytes_per_cpu: SizeOrAsNeeded::default(),
            kibibytes_in_all: const { Kibibytes::of(64 * 1_024) },
            classes: USUAL_CLASSES.map(ClassName).to_vec(),
        }
    }
}

impl RecorderSection {
    /// How large it shall be where the busiest CPU writes so many bytes a second, if that is known.
    pub fn size(&self, busiest: Option<u64>) -> RecorderSize {
        if !self.enabled {
            return RecorderSize::default();
        }
        let needed = || needed_bytes(busiest.unwrap_or(0), self.seconds.get().into());
        RecorderSize {
            per_cpu: self.kibibytes_per_cpu.bytes().unwrap_or_else(needed),
            all: u64::from(self.kibibytes_in_all.get()) * 1024,
        }
    }

    /// Whether its size follows from what the host does.
    pub fn follows_host(&self) -> bool {
        self.enabled && self.kibibytes_per_cpu.bytes().is_none()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct StateSection {
    /// Where past incidents are kept; empty = nowhere.
    pub directory: PathBuf,
    /// Most incidents whose kernel events are kept there; 0 = none.
    pub traces: Traces,
    /// Most memory of the recorder that is kept of one.
    pub trace_kibibytes: Kibibytes,
}

impl Default for StateSection {
    fn default() -> Self {
        Self {
            directory: DEFAULT_DIRECTORY.into(),
            traces: const { Traces::of(8) },
            trace_kibibytes: const { Kibibytes::of(8 * 1_024) },
        }
    }
}

impl StateSection {
    /// How much is kept of incidents.
    pub fn bounds(&self) -> Bounds {
        Bounds {
            incidents: usize::from(self.traces.get()),
            bytes: u64::from(self.trace_kibibytes.get()) * 1024,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct PrivilegesSection {
    /// Whether every privilege is given up once the programs are attached.
    pub drop: bool,
}

impl Default for PrivilegesSection {
    fn default() -> Self {
        Self { drop: true }
    }
}
