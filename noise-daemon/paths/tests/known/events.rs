//! Events of one or two machines, the graphs that they give, and paths in those.

use std::collections::BTreeMap;

use noise_paths::build::{Builder, Waker};
use noise_paths::graph::{Graph, Who, WorkerId};
use noise_paths::walk::{Bounds, walk};
use noise_trace::event::{Comm, Event, Task, TraceKind, Woken};
use noise_trace::state::LeftIn;
use serde_json::Value;

use crate::drawn::{Picture, expected_totals, number, totals};

/// The number of cases that the file has.
const CASES: usize = 5;
/// The name of the thread that handles an interrupt: the file has it in what it expects alone.
const IRQ_THREAD: &str = "irq/30-handler";

pub fn all(cases: &Value) {
    let cases = cases["event_cases"].as_array().unwrap();
    assert_eq!(cases.len(), CASES);
    for case in cases {
        one(case);
    }
}

fn one(case: &Value) {
    let name = &case["name"];
    let machines: Vec<String> = case["machines"].as_object().unwrap().keys().cloned().collect();
    let graph = graph(case, &machines);
    let names = names(&graph, &machines);
    let expected = Picture::expected(&case["graph"]);
    assert_eq!(Picture::of_graph(&graph, &names), expected, "{name}");
    for path in case["paths"].as_array().unwrap() {
        let (start, _) = names.iter().find(|(_, name)| **name == path["start"]).unwrap();
        let found = walk(&graph, *start, 0, u64::MAX, Bounds::default()).unwrap();
        let (from_ns, to_ns) = graph.get(*start).unwrap().span().unwrap();
        assert_eq!(found.fault(*start, from_ns, to_ns), None, "{name}");
        let expected = Picture::expected(&path["path"]);
        assert_eq!(Picture::of_path(&found, &graph, &names), expected, "{name}");
        assert_eq!(totals(&found), expected_totals(&path["path_totals"]), "{name}");
    }
}

fn names(graph: &Graph, machines: &[String]) -> BTreeMap<WorkerId, String> {
    let name = |who: Who| match who {
        Who::Thread { machine, tid } => format!("{}/{tid}", machines[usize::from(machine)]),
        Who::Kernel { machine, .. } => format!("{}/kernel", machines[usize::from(machine)]),
        Who::Idle { .. } => panic!("no case has an idle task"),
    };
    graph.workers().map(|(id, worker)| (id, name(worker.who))).collect()
}

/// The graph of the events of all machines, in the order of time.
fn graph(case: &Value, machines: &[String]) -> Graph {
    let mut events: Vec<(u64, u16, &Value)> = Vec::new();
    for (number_of, machine) in (0..).zip(machines) {
        let of_it = case["machines"][machine].as_array().unwrap();
        events.extend(of_it.iter().map(|event| (number(&event["t"]), number_of, event)));
    }
    events.sort_by_key(|(time_ns, machine, _)| (*time_ns, *machine));
    let mut builder = Builder::new(Waker::Wakeup);
    for (time_ns, machine, event) in events {
        let cpu = u32::try_from(number(&event["cpu"])).unwrap();
        let name = event["event"].as_str().unwrap();
        match name {
            "packet_sent" => builder.sent(machine, cpu, time_ns, number(&event["msg"])),
            "packet_received" => builder.received(machine, cpu, time_ns, number(&event["msg"])),
            name => builder.follow_on(machine, &Event { time_ns, cpu, kind: kind(name, event) }),
        }
    }
    builder.finish()
}

fn kind<'e>(name: &'e str, event: &'e Value) -> TraceKind<'e> {
    let small = |field: &str| u32::try_from(number(&event[field])).unwrap();
    let task = |field: &str| {
        let tid = i32::try_from(number(&event[field])).unwrap();
        let comm = if tid == 50 { Comm::new(IRQ_THREAD.as_bytes()) } else { Comm::default() };
        Task { comm, tid, prio: 0 }
    };
    match name {
        "sched_switch" => TraceKind::SchedSwitch {
            prev: task("prev"),
            prev_state: LeftIn::of(event["prev_state"].as_i64().unwrap()),
            next: task("next"),
        },
        "sched_wakeup" => {
            TraceKind::SchedWakeup(Woken { task: task("tid"), target_cpu: small("cpu") })
        }
        "irq_handler_entry" => TraceKind::IrqHandlerEntry { irq: small("irq"), name: b"" },
        "irq_handler_exit" => TraceKind::IrqHandlerExit { irq: small("irq"), ret: 1 },
        "softirq_raise" => TraceKind::SoftirqRaise { vec: small("vec") },
        "softirq_entry" => TraceKind::SoftirqEntry { vec: small("vec") },
        "softirq_exit" => TraceKind::SoftirqExit { vec: small("vec") },
        // The model has no such kinds.
        "do_IRQ_entry" | "do_IRQ_return" | "statedump_interrupt" => TraceKind::Other(name),
        "netif_receive_skb_internal_entry" | "netif_receive_skb_internal_return" => {
            TraceKind::Other(name)
        }
        "syscall_entry_read" | "syscall_exit_read" => TraceKind::Other(name),
        other => panic!("the file has an event `{other}`"),
    }
}
