//! State and logic of each signal, under the names that noise-common/signals has.

pub mod block_device_wait;
pub mod block_queue_wait;
pub mod cgroup_runqueue_wait;
pub mod compaction;
pub mod context_switch;
pub mod direct_reclaim;
pub mod hardirq;
pub mod net_rx_wait;
pub mod net_tx_wait;
pub mod nmi;
pub mod packet_drop;
pub mod runqueue_wait;
pub mod softirq;
pub mod softirq_raise_wait;
pub mod tcp_retransmit;
pub mod uninterruptible_wait;
pub mod vector;
