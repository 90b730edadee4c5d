//! What the scheduler's programs call.
//!
//! A call of the kernel's helpers costs as much as dozens of instructions, and these programs run at every
//! switch and wake-up. The figures are those of the generated code: what is called on several paths counts
//! on each. Not counted are look-ups, which the kernel replaces by instructions, and the object's own
//! functions. `docs/recorder.md` has the figures without the flight recorder.

use std::collections::BTreeMap;

use aya_obj::Object;
use noise_common::hooks::{Attach, Hook};

use super::engine::ObjectKind;

/// `BPF_JMP | BPF_CALL`.
const CALL: u8 = 0x85;
/// `src_reg` of a call of a helper.
const HELPER: u8 = 0;

const LOOKUP: i32 = 1;
const UPDATE: i32 = 2;
const CLOCK: i32 = 5;
/// On the kernels from 6.10 on, a load.
const THIS_CPU: i32 = 8;
const RING_OUTPUT: i32 = 130;

/// How often the program of a hook calls which helper.
fn calls(object: &Object, hook: Hook) -> BTreeMap<i32, usize> {
    let program = &object.programs[hook.program(Attach::TpBtf).unwrap()];
    let function = &object.functions[&program.function_key()];
    let mut calls = BTreeMap::new();
    for instruction in &function.instructions {
        let is_call = instruction.code == CALL && instruction.src_reg() == HELPER;
        if is_call && instruction.imm != LOOKUP {
            *calls.entry(instruction.imm).or_default() += 1;
        }
    }
    calls
}

#[test]
fn the_flight_recorder_calls_nothing_in_switches_and_wakeups_and_the_clock_in_wakings() {
    let object = Object::parse(ObjectKind::Measuring.bytes()).unwrap();
    let expected = [
        (Hook::SchedSwitch, vec![(CLOCK, 1), (THIS_CPU, 3), (RING_OUTPUT, 1)]),
        (Hook::SchedWakeup, vec![(CLOCK, 1), (THIS_CPU, 1)]),
        // One of them for the recorder; a run reads the clock once at most.
        (Hook::SchedWaking, vec![(UPDATE, 1), (CLOCK, 3), (THIS_CPU, 2)]),
    ];
    for (hook, expected) in expected {
        assert_eq!(calls(&object, hook), BTreeMap::from_iter(expected), "{hook:?}");
    }
}
