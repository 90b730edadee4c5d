//! Support of the live tests: the daemon as a child process, its `/metrics` page read back, the
//! kernel's ftrace as an independent referee, and loads that make things happen.
//!
//! Nothing here uses the daemon's own code: what both got wrong together would go unnoticed. Only
//! `bench` does, which measures what the daemon's programs cost. What measures, or plays for a person, lies apart, in
//! `lab/`: benches, scenarios, drills and the long run.

pub mod attribution;
#[path = "../lab/bench/mod.rs"]
pub mod bench;
pub mod bpf;
pub mod cgroup;
pub mod compare;
pub mod daemon;
pub mod delays;
pub mod disk;
#[path = "../lab/drill/mod.rs"]
pub mod drill;
pub mod events;
pub mod ftrace;
pub mod group;
pub mod hostile;
pub mod http;
#[cfg(target_arch = "x86_64")]
pub mod inject;
pub mod load;
pub mod measuring;
pub mod namespace;
pub mod needed;
pub mod nspawn;
pub mod packages;
pub mod pages;
pub mod pairing;
pub mod pod;
pub mod prom;
pub mod prometheus;
pub mod recall;
pub mod recorded;
pub mod rights;
#[path = "../lab/scenario/mod.rs"]
pub mod scenario;
pub mod scratch;
pub mod seen;
pub mod slow_disk;
#[path = "../lab/soak/mod.rs"]
pub mod soak;
pub mod surroundings;
pub mod talk;
pub mod task;
pub mod terminal;
pub mod tiers;
pub mod toll;
pub mod wait;
