//! Adds up who is charged with what.

use core::ptr;

use aya_ebpf::bindings::BPF_NOEXIST;
use aya_log_ebpf::macro_support::{Level, level_enabled};
use noise_common::charge::{
    CHARGE_CAUSES, CHARGE_WAYS, Cause, ChargeKey, ChargeRequest, ChargeSlot, Charged, RESOURCES,
    Resource, charge_slot,
};
use noise_common::event::{CpuState, Hash};

use crate::maps::{NOISE_CHARGES, cpu_state, note_hashed};

/// The words of an entry, as [`ChargeSlot`] lays them out.
#[repr(C)]
struct Words {
    victim: u64,
    culprit: u64,
    /// Place, cause, resource and the mark of a used entry; 0 = free.
    kind: u64,
    charged: Charged,
}

const _: () = assert!(size_of::<Words>() == size_of::<ChargeSlot>());
const _: () = assert!(size_of::<RequestWords>() == size_of::<ChargeRequest>());

/// Charges a culprit with a part of a victim's delay, or of what it lost while it ran.
///
/// Must be called with interrupts off: entries of a CPU's table are taken without a lock.
#[inline(always)]
pub fn charge(
    state: *mut CpuState,
    resource: Resource,
    cause: Cause,
    victim: u64,
    culprit: u64,
    ns: u64,
) {
    charge_kind(state, ChargeKey::kind(0, cause, resource), victim, culprit, ns);
}

/// The same, for a place, cause and resource as [`ChargeKey::kind`] puts them together.
#[inline(always)]
pub fn charge_kind(state: *mut CpuState, kind: u64, victim: u64, culprit: u64, ns: u64) {
    // SAFETY: the state is this CPU's.
    unsafe {
        let request = request(state);
        ptr::write_volatile(&raw mut (*request).kind, kind);
        ptr::write_volatile(&raw mut (*request).victim, victim);
        ptr::write_volatile(&raw mut (*request).culprit, culprit);
        ptr::write_volatile(&raw mut (*request).ns, ns);
    }
    noise_charge();
}

/// The words of [`CpuState::charge`].
#[repr(C)]
struct RequestWords {
    victim: u64,
    culprit: u64,
    kind: u64,
    ns: u64,
}

#[inline(always)]
fn request(state: *mut CpuState) -> *mut RequestWords {
    // SAFETY: the state is this CPU's.
    unsafe { (&raw mut (*state).charge).cast() }
}

/// Takes the charge of [`CpuState::charge`] into the table. A function that is verified by itself.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn noise_charge() -> u32 {
    let Some(state) = cpu_state() else { return 0 };
    // SAFETY: the state is this CPU's.
    let RequestWords { victim, culprit, kind, ns } = unsafe { ptr::read_volatile(request(state)) };
    add(state, kind, victim, culprit, ns);
    0
}

/// Does what [`charge_kind`] does without the call, for what nearly every switch charges: where returns
/// are guarded against speculation, a call costs as much as what it does.
#[inline(always)]
pub fn charge_here(state: *mut CpuState, kind: u64, victim: u64, culprit: u64, ns: u64) {
    if level_enabled(Level::Debug) {
        // See `detailed` of the ledger.
        return charge_kind(state, kind, victim, culprit, ns);
    }
    add(state, kind, victim, culprit, ns);
}

/// Adds a charge to the table, or to the hash where that has no room.
#[inline(always)]
fn add(state: *mut CpuState, kind: u64, victim: u64, culprit: u64, ns: u64) {
    let first = charge_slot(victim, culprit, kind);
    // SAFETY: the state is this CPU's; slots stay below the table's length.
    unsafe {
        let table = (&raw mut (*state).charges).cast::<Words>();
        for way in 0..CHARGE_WAYS {
            let entry = table.add(first ^ way);
            let other =
                ((*entry).kind ^ kind) | ((*entry).victim ^ victim) | ((*entry).culprit ^ culprit);
            if other == 0 {
                (*entry).charged.ns += ns;
                (*entry).charged.count += 1;
                return;
            }
            if (*entry).kind == 0 {
                (*entry).victim = victim;
                (*entry).culprit = culprit;
                (*entry).charged = Charged { ns, count: 1 };
                ptr::write_volatile(&raw mut (*entry).kind, kind);
                return;
            }
        }
    }
    spill(state, victim, culprit, kind, ns);
}

/// Charges in the hash, or by cause alone where that has no room. For charges that find no room in
/// the table, and for programs that run with interrupts on.
#[inline(never)]
pub fn spill(state: *mut CpuState, victim: u64, culprit: u64, kind: u64, ns: u64) {
    let (cause, resource) = ((kind >> 32) as u8, (kind >> 40) as u8);
    let key = ChargeKey {
        victim,
        culprit,
        place: kind as u32,
        cause,
        resource,
        used: (kind >> 48) as u16,
    };
    if let Some(charged) = NOISE_CHARGES.get_ptr_mut(key) {
        // SAFETY: the pointer is this CPU's value; interrupts are off.
        unsafe {
            (*charged).ns += ns;
            (*charged).count += 1;
        }
        return;
    }
    let first = Charged { ns, count: 1 };
    if NOISE_CHARGES.insert(key, first, u64::from(BPF_NOEXIST)).is_ok() {
        note_hashed(state, Hash::Charges);
        return;
    }
    match NOISE_CHARGES.get_ptr_mut(key) {
        // Another CPU inserted the key meanwhile.
        // SAFETY: as above.
        Some(charged) => unsafe {
            (*charged).ns += ns;
            (*charged).count += 1;
        },
        None => unplaced(state, cause, resource, ns),
    }
}

/// A number with all bits that an index below `len` may have: the verifier wants to see a bound, and
/// this mask changes no valid index.
const fn index_bits(len: usize) -> u8 {
    assert!(len > 0 && len <= u8::MAX as usize);
    (len.next_power_of_two() - 1) as u8
}

#[inline(always)]
fn unplaced(state: *mut CpuState, cause: u8, resource: u8, ns: u64) {
    let cause = usize::from(cause & const { index_bits(CHARGE_CAUSES.len()) });
    let resource = usize::from(resource & const { index_bits(RESOURCES.len()) });
    // SAFETY: the state is this CPU's; both indices are checked.
    unsafe {
        let unplaced = &raw mut (*state).unplaced;
        if cause < CHARGE_CAUSES.len() && resource < RESOURCES.len() {
            let charged = &raw mut (*unplaced)[resource][cause];
            (*charged).ns += ns;
            (*charged).count += 1;
        }
    }
}
