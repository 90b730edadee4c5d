//! The record of a long wait.

use noise_common::charge::Cause;
use noise_common::event::{CpuState, OUTLIER_PARTS, OutlierPart};
use noise_common::ledger::Turn;

/// Adds a part to the record that is made.
#[inline(always)]
pub fn push(state: *mut CpuState, cause: Cause, culprit: u64, ns: u64, turn: Option<&Turn>) {
    // SAFETY: the state is this CPU's, and interrupts are off; the index is checked.
    unsafe {
        let outlier = &raw mut (*state).outlier;
        let used = core::hint::black_box((*outlier).parts_used) as usize;
        if used >= OUTLIER_PARTS {
            (*outlier).rest_ns += ns;
            return;
        }
        let part = (&raw mut (*outlier).parts).cast::<OutlierPart>().add(used);
        (*part).culprit = culprit;
        (*part).ns = ns;
        (*part).cause = cause as u32;
        match turn {
            Some(turn) => {
                (*part).pid = turn.pid;
                (*part).comm = turn.comm;
            }
            None => {
                (*part).pid = 0;
                (*part).comm = [0; 2];
            }
        }
        (*outlier).parts_used = used as u16 + 1;
    }
}
