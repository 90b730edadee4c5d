//! PURE: what a cluster, the service manager and a container engine call the cgroups that series name.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Names of one cgroup. Empty where there is none, or where it is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupInfo {
    /// The Kubernetes namespace of its pod.
    pub namespace: String,
    pub pod: String,
    /// Its container; of one outside of pods, what its engine calls it.
    pub container: String,
    /// The systemd unit around it, unless the unit is no more than the container's scope.
    pub unit: String,
    /// What runs its container: `docker`, `cri-containerd`, `podman`.
    pub engine: String,
}

/// By the label of the cgroup. Shared by samples, and copied where one is added.
pub type Cgroups = BTreeMap<Arc<str>, Arc<CgroupInfo>>;
