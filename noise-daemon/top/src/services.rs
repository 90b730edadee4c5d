//! Which service waits for which, as it was watched while the screen of services is shown. It is in no frame: nothing is
//! attached for it as long as no one asks.

/// Requests of one service to another.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceLink {
    /// Who asks; empty where that is not on this host.
    pub caller: String,
    /// Who is asked: a process with its port or what else requests come by, or an address elsewhere.
    pub service: String,
    /// Requests a second.
    pub rate: f64,
    /// Half of them, and 99 of 100, have so long a true latency at most, ns.
    pub true_p50_ns: u64,
    pub true_p99_ns: u64,
    /// The same of their whole latency.
    pub latency_p50_ns: u64,
    pub latency_p99_ns: u64,
    /// The same of the time until the service came to them.
    pub reach_p50_ns: u64,
    pub reach_p99_ns: u64,
    /// Mean length of their stretches without a CPU, ns.
    pub idle_mean_ns: u64,
    /// Seconds of true latency in a second.
    pub busy: f64,
}

/// What was watched in some seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Watched {
    pub seconds: f64,
    pub lost: u64,
    /// Which service waits for which.
    pub links: Vec<ServiceLink>,
}

/// What is known of services.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Services {
    /// Nothing was watched yet.
    #[default]
    Unknown,
    Watched(Watched),
    /// Why nothing can be.
    Impossible(String),
}
