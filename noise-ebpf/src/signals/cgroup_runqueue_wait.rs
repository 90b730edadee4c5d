//! Run-queue latency by cgroup.
