//! The sections of the configuration, with the usual values.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use noise_analysis::Settings;
use noise_client::connect::{DEFAULT_ADDRESS, DEFAULT_SOCKET};
use noise_common::store::event::USUAL_CLASSES;
use noise_host::kernel::{Measured, RecorderSize};
use noise_keep::Bounds;
use noise_keep::demand::{PeakRate, needed_bytes};
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

    /// How large a restart would make the flight recorder where that is what the busiest CPU writes. `None` where it would
    /// measure that first.
    pub fn recorder_after_restart(&self, busiest: Option<PeakRate>) -> Option<RecorderSize> {
        let remembered = busiest.filter(|_| !self.state.directory.as_os_str().is_empty());
        let is_known = remembered.is_some() || !self.recorder.follows_host();
        is_known.then(|| self.recorder.size(remembered))
    }
}

macro_rules! sections {
    ($($(#[$of_section:meta])* $section:ident {
        $($(#[$of_key:meta])* $key:ident: $type:ty = $usual:expr,)*
    })*) => {$(
        $(#[$of_section])*
        #[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
        pub struct $section {
            $($(#[$of_key])* pub $key: $type,)*
        }

        impl Default for $section {
            fn default() -> Self {
                Self { $($key: $usual,)* }
            }
        }
    )*};
}

sections! {
    WebSection {
        /// Address and port of the server.
        listen_address: ListenAddress = ListenAddress::At(DEFAULT_ADDRESS),
        /// Where its own configuration is.
        config: WebConfigSection = WebConfigSection::default(),
        /// Host names that requests on loopback may use, besides addresses and `localhost`.
        allowed_hosts: Vec<HostName> = Vec::new(),
    }
    /// `config.…` of `[web]`.
    WebConfigSection {
        /// A file of TLS, users and headers; empty = none of them.
        file: PathBuf = PathBuf::new(),
    }
    SocketSection {
        /// Where it is; empty = there is none.
        path: PathBuf = DEFAULT_SOCKET.into(),
        /// Who may use it.
        mode: SocketMode = SocketMode(0o660),
        /// The group it belongs to, where there is such a group.
        group: String = "noised".to_owned(),
        /// Whether there is one for marks beside it.
        marks: bool = true,
    }
    LogSection {
        /// Least severe level that is logged.
        level: LogLevel = LogLevel::Info,
    }
    SignalsSection {
        /// Signals that are not measured.
        off: Vec<SignalName> = Vec::new(),
    }
    OutliersSection {
        /// Length from which on a wait for a CPU is reported with its parts.
        threshold_microseconds: Microseconds = const { Microseconds::of(1_000) },
    }
    /// `[limits]`: how many subjects of a metric have series of their own; the others are `~other`.
    LimitsSection {
        /// Of `noised_interference_seconds_total`: victims with their culprits.
        interference: Limit = const { Limit::of(200) },
        /// Of `noised_preemptions_total`: victims with their culprits.
        preemptions: Limit = const { Limit::of(100) },
        /// Of each histogram by cgroup: cgroups.
        cgroups: Limit = const { Limit::of(50) },
    }
    NamesSection {
        /// Whether metrics say what the cluster, systemd and container engines call cgroups.
        labels: bool = true,
    }
    OsnoiseSection {
        /// The CPUs, as the kernel writes lists; empty = none.
        cpus: Cpus = Cpus::default(),
        /// From the begin of one measurement to that of the next.
        period_milliseconds: Milliseconds = const { Milliseconds::of(1_000) },
        /// How long each takes: usually one percent of a CPU.
        runtime_milliseconds: Milliseconds = const { Milliseconds::of(10) },
        /// A gap of this length is noise.
        threshold_microseconds: Microseconds = const { Microseconds::of(5) },
    }
    RecorderSection {
        enabled: bool = true,
        /// How far back it shall go on every CPU, where its size is not configured.
        seconds: Seconds = const { Seconds::of(10) },
        /// Memory for each possible CPU.
        kibibytes_per_cpu: SizeOrAsNeeded = SizeOrAsNeeded::default(),
        /// Memory for all CPUs at most.
        kibibytes_in_all: Kibibytes = const { Kibibytes::of(64 * 1_024) },
        classes: Vec<ClassName> = USUAL_CLASSES.map(ClassName).to_vec(),
    }
    StateSection {
        /// Where past incidents are kept; empty = nowhere.
        directory: PathBuf = DEFAULT_DIRECTORY.into(),
        /// Most incidents whose kernel events are kept there; 0 = none.
        traces: Traces = const { Traces::of(8) },
        /// Most memory of the recorder that is kept of one.
        trace_kibibytes: Kibibytes = const { Kibibytes::of(8 * 1_024) },
    }
    PrivilegesSection {
        /// Whether every privilege is given up once the programs are attached.
        drop: bool = true,
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

impl LimitsSection {
    pub fn limits(&self) -> Limits {
        Limits {
            interference: self.interference.get().into(),
            preemptions: self.preemptions.get().into(),
            cgroups: self.cgroups.get().into(),
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

impl RecorderSection {
    /// How large it shall be where that is what the busiest CPU writes, if it is known.
    pub fn size(&self, busiest: Option<PeakRate>) -> RecorderSize {
        if !self.enabled {
            return RecorderSize::default();
        }
        let needed = || needed_bytes(busiest, self.seconds.get().into());
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

impl StateSection {
    /// How much is kept of incidents.
    pub fn bounds(&self) -> Bounds {
        Bounds {
            incidents: usize::from(self.traces.get()),
            bytes: u64::from(self.trace_kibibytes.get()) * 1024,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_restart_makes_of_the_recorder_is_known_where_a_rate_is_remembered_or_the_size_is_fixed()
     {
        let config = |directory: &str, kibibytes: u32| Config {
            state: StateSection { directory: directory.into(), ..StateSection::default() },
            recorder: RecorderSection {
                kibibytes_per_cpu: SizeOrAsNeeded::of(kibibytes),
                ..RecorderSection::default()
            },
            ..Config::default()
        };
        let per_cpu = |config: &Config, busiest| {
            config.recorder_after_restart(busiest).map(|size| size.per_cpu)
        };
        let busy = Some(PeakRate::measured(4 << 20));
        let follows = config(DEFAULT_DIRECTORY, 0);
        assert_eq!(per_cpu(&follows, busy), Some(follows.recorder.size(busy).per_cpu));
        assert_eq!(per_cpu(&follows, None), None);
        // Nothing is remembered: the start measures the rate.
        assert_eq!(per_cpu(&config("", 0), busy), None);
        assert_eq!(per_cpu(&config("", 2_048), busy), Some(2 << 20));
        assert_eq!(per_cpu(&config("", 2_048), None), Some(2 << 20));
    }
}
