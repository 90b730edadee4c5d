//! PURE: time in a state of a critical path, as a sentence names it.

pub fn time_in(state: &str) -> &str {
    match state {
        "running" => "time on a CPU",
        "waiting_cpu" => "waits for a CPU",
        "disk" => "waits for a disk",
        "network" => "waits for the network",
        "timer" => "sleeps until a timer",
        "futex" => "waits for a lock",
        "task" => "waits for another thread",
        "interrupt" => "waits for an interrupt",
        "ipi" => "waits for an interrupt from another CPU",
        "unknown" => "time of which the recording says nothing",
        other => other,
    }
}
