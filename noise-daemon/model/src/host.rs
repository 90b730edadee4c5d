//! PURE: the host that is measured.

/// What does not change while the daemon runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Host {
    pub name: String,
    pub kernel: String,
    /// Version of the `noised` that measures.
    pub noised: String,
    /// CPUs that are online, in order.
    pub cpus: Vec<u32>,
    /// Those of them that the scheduler leaves alone (`isolcpus=`, isolated partitions).
    pub isolated: Vec<u32>,
    /// Those of them without a tick while one task runs (`nohz_full=`).
    pub nohz_full: Vec<u32>,
}
