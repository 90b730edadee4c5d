//! Everything at once, the daemon against the referee, over the same seconds.

use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use noise_tests::compare::{all_signals, observe};
use noise_tests::daemon::Daemon;
use noise_tests::disk::ScratchFile;
use noise_tests::ftrace::all_events;
use noise_tests::load::Worker;
use noise_tests::task::cpus;

use crate::Test;

pub(crate) const TESTS: &[(&str, Test)] = &[("mixed_load", mixed_load), ("idle", idle)];

/// Loads that together touch every signal, gently enough for a recording of some seconds.
pub(crate) struct MixedLoad {
    workers: Vec<Worker>,
    retransmitter: Worker,
    _file: ScratchFile,
}

impl MixedLoad {
    /// Starts them all.
    pub(crate) fn start() -> Result<Self> {
        let file = ScratchFile::new("mixed", 64)?;
        let path = file.argument()?;
        let last = (cpus() - 1).to_string();
        let last = last.as_str();
        let loads: &[(&str, &[&str])] = &[
            ("pipe", &["0", last, "2000"]),
            ("pipe", &["0", "0", "3000"]),
            ("tcp", &["0", last, "100", "3000"]),
            ("tcp", &[last, last, "20000", "5000"]),
            ("timer", &["0", "500"]),
            ("timer", &[last, "300"]),
            ("sleep", &[last, "700"]),
            ("burn", &["0"]),
            ("burn", &["0"]),
            ("direct-reads", &[last, path, "4096", "500", "0"]),
            ("shuffled-reads", &["0", path, "3000"]),
            ("synced-writes", &[last, path, "5000"]),
            ("stream", &[last, path, "8", "100000"]),
            ("udp-flood", &[last, "1000", "3000"]),
            ("udp-drops", &["0", "2000"]),
        ];
        let workers = loads
            .iter()
            .map(|(name, arguments)| Worker::start(name, arguments))
            .collect::<Result<_>>()?;
        let retransmitter = Worker::start("syn-retransmits", &["10"])?;
        Ok(Self { workers, retransmitter, _file: file })
    }

    /// Ends them all, and checks that each did something.
    pub(crate) fn stop(mut self) -> Result<()> {
        // All at once: one that waits for a slow disk does not leave the others at work.
        self.workers.iter_mut().for_each(Worker::ask_to_stop);
        for worker in self.workers {
            let figures = worker.stop()?;
            ensure!(figures.values().all(|&count| count > 0), "an idle load: {figures:?}");
        }
        self.retransmitter.figures()?;
        Ok(())
    }
}

fn mixed_load() -> Result<()> {
    let daemon = Daemon::start()?;
    let (seen, ()) = observe(&daemon, &all_events(), 256, || {
        let load = MixedLoad::start()?;
        thread::sleep(Duration::from_secs(5));
        load.stop()
    })?;
    let mut table = seen.table();
    all_signals(&mut table)?;
    table.ensure_present(&[
        "noised_runqueue_wait_seconds{wakeup}",
        "noised_runqueue_wait_seconds{preempt}",
        "noised_context_switches_total{voluntary}",
        "noised_context_switches_total{involuntary}",
        "noised_hardirq_seconds{",
        "noised_vector_seconds{local_timer}",
        "noised_softirq_seconds{net_rx}",
        "noised_softirq_raise_wait_seconds{timer}",
        "noised_block_queue_wait_seconds{",
        "noised_block_device_wait_seconds{",
        "noised_net_tx_wait_seconds{lo}",
        "noised_net_rx_wait_seconds{lo}",
        "noised_tcp_retransmits_total{",
        "noised_packet_drops_total{no_socket}",
    ])?;
    table.verdict()?;
    Ok(())
}

fn idle() -> Result<()> {
    let daemon = Daemon::start()?;
    let (seen, ()) = observe(&daemon, &all_events(), 32, || {
        thread::sleep(Duration::from_secs(2));
        Ok(())
    })?;
    let mut table = seen.table();
    all_signals(&mut table)?;
    table.verdict()?;
    Ok(())
}
