//! What threads do, made up.

use proptest::prelude::{Strategy, any, prop, prop_oneof};

/// What ends a sleep that no thread ends.
#[derive(Clone, Copy, Debug)]
pub enum Device {
    Hrtimer,
    LocalTimer,
    TimerSoftirq,
    BlockSoftirq,
    NetSoftirq,
    Irq,
    Rcu,
    Reschedule,
    /// A device's interrupt within a softirq of the network.
    IrqInSoftirq,
    /// A timer's softirq that was interrupted and goes on.
    InterruptedSoftirq,
    /// Another CPU's interrupt, in which a request completes.
    CompletionOnAnotherCpu,
    /// An interrupt that another CPU sent from its softirq of block devices.
    SentByBlockSoftirq,
    /// A disk's interrupt, which is known by its name.
    Nvme,
    /// A disk's interrupt, with the request's events and those of another thread's.
    Disk,
    Unseen,
}

pub const DEVICES: [Device; 15] = [
    Device::Hrtimer,
    Device::LocalTimer,
    Device::TimerSoftirq,
    Device::BlockSoftirq,
    Device::NetSoftirq,
    Device::Irq,
    Device::Rcu,
    Device::Reschedule,
    Device::IrqInSoftirq,
    Device::InterruptedSoftirq,
    Device::CompletionOnAnotherCpu,
    Device::SentByBlockSoftirq,
    Device::Nvme,
    Device::Disk,
    Device::Unseen,
];

/// What a thread does next. Numbers are nanoseconds.
#[derive(Clone, Debug)]
pub enum Act {
    Run(u64),
    /// It runs, and is interrupted meanwhile; an exit may come twice, as if its entry was lost.
    Interrupted {
        ns: u64,
        nested: bool,
        unmatched: bool,
    },
    /// Another one takes its CPU.
    Preempted(u64),
    /// The same, and it goes on on its other CPU after the second time.
    Migrated(u64, u64),
    /// It is woken while it is on its way to sleep: its waker makes it runnable once it is. Or it was not the last
    /// time, and it sleeps on until a device is done.
    Raced {
        ns: u64,
        wait_ns: u64,
        device: Option<Device>,
    },
    /// It sleeps until a device or a timer is done, then waits for a CPU; wakings may be repeated.
    Sleep {
        ns: u64,
        wait_ns: u64,
        device: Device,
        repeated: bool,
    },
    /// It wakes another thread, runs on, and sleeps until that one is done.
    Ask {
        on_ns: u64,
        wait_ns: u64,
        back_ns: u64,
        other: Vec<Act>,
    },
    /// It creates a thread, runs on, and sleeps until that one ends.
    Join {
        on_ns: u64,
        new_ns: Option<u64>,
        wait_ns: u64,
        back_ns: u64,
        child: Vec<Act>,
    },
    /// It sends a packet, runs on, and sleeps until the answer.
    Request {
        on_ns: u64,
        way_ns: u64,
        wait_ns: u64,
        answer_ns: u64,
        back_ns: u64,
        server: Vec<Act>,
    },
}

/// What the first thread does.
pub type Schedule = Vec<Act>;

fn device() -> impl Strategy<Value = Device> {
    prop::sample::select(DEVICES.to_vec())
}

pub fn schedules() -> impl Strategy<Value = Schedule> {
    let ns = || 10..10_000u64;
    let leaf = prop_oneof![
        ns().prop_map(Act::Run),
        (100..10_000u64, any::<bool>(), any::<bool>())
            .prop_map(|(ns, nested, unmatched)| Act::Interrupted { ns, nested, unmatched }),
        ns().prop_map(Act::Preempted),
        (ns(), ns()).prop_map(|(on_ns, there_ns)| Act::Migrated(on_ns, there_ns)),
        (100..10_000u64, ns(), prop::option::of(device()))
            .prop_map(|(ns, wait_ns, device)| Act::Raced { ns, wait_ns, device }),
        (100..10_000u64, ns(), device(), any::<bool>()).prop_map(
            |(ns, wait_ns, device, repeated)| { Act::Sleep { ns, wait_ns, device, repeated } }
        ),
    ];
    let act = leaf.prop_recursive(5, 60, 5, move |inner| {
        let acts = || prop::collection::vec(inner.clone(), 1..5);
        prop_oneof![
            (ns(), ns(), ns(), acts()).prop_map(|(on_ns, wait_ns, back_ns, other)| Act::Ask {
                on_ns,
                wait_ns,
                back_ns,
                other
            }),
            (ns(), prop::option::of(1..9u64), ns(), ns(), acts()).prop_map(
                |(on_ns, new_ns, wait_ns, back_ns, child)| Act::Join {
                    on_ns,
                    new_ns,
                    wait_ns,
                    back_ns,
                    child
                }
            ),
            (ns(), 100..10_000u64, ns(), 100..10_000u64, ns(), acts()).prop_map(
                |(on_ns, way_ns, wait_ns, answer_ns, back_ns, server)| Act::Request {
                    on_ns,
                    way_ns,
                    wait_ns,
                    answer_ns,
                    back_ns,
                    server
                }
            ),
        ]
    });
    prop::collection::vec(act, 1..6)
}
