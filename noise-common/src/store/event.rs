//! One event, as it lies in the store.

pub use super::kind::{CLASSES, Class, EventKind, KINDS, USUAL_CLASSES};
pub use super::raw::{Body, StoredEvent};
use super::raw::{high, low, pair};
use crate::hooks::{Hook, Vector};

/// Bits of a word that holds a sector; beside it are some of the request's address.
const SECTOR_BITS: u32 = 48;
const SECTOR_MASK: u64 = (1 << SECTOR_BITS) - 1;
/// Requests do not lie closer to each other than this many bits of their addresses.
const REQUEST_SHIFT: u32 = 6;

/// Bits that all addresses of the kernel have on x86-64, with five levels of page tables, too.
const KERNEL_HALF: u64 = 0xff << 56;

/// Bits of a request's flags in the kernel's `blk_types.h` above the operation, the same from 4.14 on.
const REQ_SYNC: u32 = 11;
const REQ_FUA: u32 = 17;

/// `TASK_REPORT` and neighbours of the kernel's `sched.h`: the states that tracers name.
const REPORTED: u32 = 0x7f;
const UNINTERRUPTIBLE: u32 = 0x2;
const DEAD: u32 = 0x80;
const IDLE: u32 = 0x402;
const RTLOCK_WAIT: u32 = 0x1000;
const FROZEN: u32 = 0x8000;
/// What they show of a dead thread, and of an idle kernel thread.
const SHOWN_DEAD: u32 = 0x10;
const SHOWN_IDLE: u32 = 0x80;

/// What the kernel has in the place of the first sector of a request without any. Tracers show it of a
/// completion, and 0 of the other steps.
pub const NO_SECTOR: u64 = u64::MAX;

/// A step of a block request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredRequest {
    /// Major and minor number, `major << 20 | minor`; 0 where it has no disk.
    pub device: u32,
    /// First sector, 512 bytes each; [`NO_SECTOR`] where it has none, as of a flush.
    pub sector: u64,
    /// Bytes of the request; of a completion: the bytes done.
    pub bytes: u32,
    /// The operation, `REQ_OP_*` of the kernel's `blk_types.h`.
    pub operation: u8,
    /// From the lowest bit on: it is waited for (`REQ_SYNC`), about metadata (`REQ_META`), goes to the medium before it is done
    /// (`REQ_FUA`), a flush goes ahead of it (`REQ_PREFLUSH`), and it is read ahead (`REQ_RAHEAD`).
    pub flags: u8,
    /// The error of a completion, 0 to 255 as the kernel's `blk_status_t`, else 0.
    pub error: u8,
    /// Some bits of its address: requests under way that are about the same sector mostly differ in it.
    pub tag: u16,
}

/// Priorities fit into eight bits: -1 is 255.
#[inline(always)]
const fn priority(byte: u8) -> i16 {
    if byte == u8::MAX { -1 } else { byte as i16 }
}

impl Body {
    /// `sched_switch`; the state is 0 of a thread that was preempted.
    #[inline(always)]
    pub const fn switch(
        previous: (u32, u32),
        state: u32,
        preempted: bool,
        next: (u32, u32),
        time_ns: u64,
    ) -> Self {
        let priorities = (previous.1 & 0xff) | (next.1 & 0xff) << 8;
        let words = [pair(previous.0, next.0), pair(state, priorities)];
        Self::new(EventKind::Switch, preempted as u8, 0, words, time_ns)
    }

    /// A thread with its priority, on that CPU; `to` is another CPU where it moves there.
    #[inline(always)]
    pub const fn task(
        kind: EventKind,
        tid: u32,
        priority: u32,
        cpu: u32,
        to: u32,
        time_ns: u64,
    ) -> Self {
        Self::new(kind, priority as u8, 0, [pair(tid, cpu), to as u64], time_ns)
    }

    /// `sched_process_*`: up to three ids.
    #[inline(always)]
    pub const fn process(kind: EventKind, ids: [u32; 3], time_ns: u64) -> Self {
        let [first, second, third] = ids;
        Self::new(kind, 0, 0, [pair(first, second), third as u64], time_ns)
    }

    /// The name of the thread that runs, as it lies in memory.
    #[inline(always)]
    pub const fn name(comm: [u64; 2], time_ns: u64) -> Self {
        Self::new(EventKind::Name, 0, 0, comm, time_ns)
    }

    #[inline(always)]
    pub const fn irq(kind: EventKind, irq: u32, result: u32, time_ns: u64) -> Self {
        Self::new(kind, 0, 0, [pair(irq, result), 0], time_ns)
    }

    /// `<vector>_entry` and `<vector>_exit`, with the kernel's number.
    #[inline(always)]
    pub const fn vector(kind: EventKind, vector: Vector, number: u16, time_ns: u64) -> Self {
        Self::new(kind, vector as u8, number, [0; 2], time_ns)
    }

    #[inline(always)]
    pub const fn softirq(kind: EventKind, vector: u8, time_ns: u64) -> Self {
        Self::new(kind, vector, 0, [0; 2], time_ns)
    }

    #[inline(always)]
    pub const fn nmi(duration_ns: u64, time_ns: u64) -> Self {
        Self::new(EventKind::Nmi, 0, 0, [duration_ns, 0], time_ns)
    }

    /// `hrtimer_expire_entry`. Of the addresses, only those bits are kept in which they differ: a timer lies
    /// in the kernel's half of memory, a function in its last 2 GiB (or is 0).
    #[inline(always)]
    pub const fn hrtimer(hrtimer: u64, function: u64, now_ns: u64, time_ns: u64) -> Self {
        let place = pair(function as u32, hrtimer as u32);
        let (detail, small) = ((hrtimer >> 32) as u16, (hrtimer >> 48) as u8);
        Self::new(EventKind::HrtimerEntry, small, detail, [place, now_ns], time_ns)
    }

    #[inline(always)]
    pub const fn hrtimer_exit(hrtimer: u64, time_ns: u64) -> Self {
        Self::new(EventKind::HrtimerExit, 0, 0, [hrtimer, 0], time_ns)
    }

    /// So much of a thread's wait that ends now was its quota's.
    #[inline(always)]
    pub const fn throttled(tid: u32, throttled_ns: u64, time_ns: u64) -> Self {
        Self::new(EventKind::Throttled, 0, 0, [tid as u64, throttled_ns], time_ns)
    }

    /// `block_rq_*`. `flags` are the kernel's, the operation in the low byte; the error of a completion
    /// is a `blk_status_t` or, on older kernels, an errno.
    #[inline(always)]
    pub const fn block(
        kind: EventKind,
        (request, sector): (u64, u64),
        (device, bytes): (u32, u32),
        flags: u32,
        error: u8,
        time_ns: u64,
    ) -> Self {
        let letters = (flags >> REQ_SYNC & 3) | (flags >> REQ_FUA & 7) << 2;
        let detail = (flags & 0xff | letters << 8) as u16;
        let place = sector & SECTOR_MASK | request >> REQUEST_SHIFT << SECTOR_BITS;
        Self::new(kind, error, detail, [place, pair(device, bytes)], time_ns)
    }

    /// A packet, or what is known of it; of a drop, the reason in the place of its length.
    #[inline(always)]
    pub const fn net(
        kind: EventKind,
        skb: u64,
        bytes: u32,
        (interface, namespace): (u32, u32),
        time_ns: u64,
    ) -> Self {
        Self::new(kind, 0, namespace as u16, [skb, pair(bytes, interface)], time_ns)
    }

    /// The event's words in the order in which they are written, with its number; the last makes it whole.
    #[inline(always)]
    pub const fn words(&self, number: u64) -> [(usize, u64); 4] {
        let head = self.head | number & 0xffff_ffff;
        [(0, self.time_ns), (2, self.words[0]), (3, self.words[1]), (1, head)]
    }

    /// It as it is read again, with its number.
    #[inline(always)]
    pub const fn stored(&self, number: u64) -> StoredEvent {
        let Self { time_ns, head, words } = *self;
        let (kind, small, detail) = ((head >> 32) as u8, (head >> 40) as u8, (head >> 48) as u16);
        StoredEvent { time_ns, number: number as u32, kind, small, detail, words }
    }
}

impl StoredEvent {
    /// Copies an event that may be written meanwhile, word by word: the number first, which is written last.
    #[inline(always)]
    pub fn copy(mut word: impl FnMut(usize) -> u64) -> Self {
        let head = word(1);
        let time_ns = word(0);
        Body { time_ns, head, words: [word(2), word(3)] }.stored(head)
    }

    /// Its kind; `None` where nothing was written yet.
    pub const fn kind(&self) -> Option<EventKind> {
        EventKind::from_number(self.kind)
    }

    /// It as it is sent: little-endian, in the order of the fields.
    pub fn to_bytes(self) -> [u8; size_of::<Self>()] {
        let [first, second] = self.words;
        let head = u64::from(self.number)
            | u64::from(self.kind) << 32
            | u64::from(self.small) << 40
            | u64::from(self.detail) << 48;
        let mut bytes = [0; size_of::<Self>()];
        for (place, word) in bytes.chunks_exact_mut(8).zip([self.time_ns, head, first, second]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    pub fn from_bytes(bytes: &[u8; size_of::<Self>()]) -> Self {
        Self::copy(|word| {
            let (words, _) = bytes.as_chunks();
            words.get(word).map_or(0, |word| u64::from_le_bytes(*word))
        })
    }

    /// The numbers of 32 bits that most kinds are made of, in the order in which its maker takes them: threads, CPUs, an
    /// interrupt and what its handler returned, the length of a packet and its interface …
    pub const fn numbers(&self) -> [u32; 4] {
        let [first, second] = self.words;
        [low(first), high(first), low(second), high(second)]
    }

    /// What a switch says of the thread that leaves: its priority, and its state as tracers show it; and the priority of the
    /// one that comes.
    pub const fn left_in(&self) -> (i16, u32, i16) {
        let [.., state, priorities] = self.numbers();
        let shown = shown_state(state, self.small != 0);
        (priority(priorities as u8), shown, priority((priorities >> 8) as u8))
    }

    /// The priority of a thread that is woken, new or moved.
    pub const fn priority(&self) -> i16 {
        priority(self.small)
    }

    /// A name, or an address of IPv6.
    pub fn text(&self) -> [u8; 16] {
        let mut text = [0; 16];
        for (place, word) in text.chunks_exact_mut(8).zip(self.words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        text
    }

    /// The addresses of a timer and of its function.
    pub const fn hrtimer(&self) -> (u64, u64) {
        let [place, _] = self.words;
        let high_bits = (self.small as u64) << 48 | (self.detail as u64) << 32;
        let function = low(place).cast_signed() as i64;
        (KERNEL_HALF | high_bits | high(place) as u64, function.cast_unsigned())
    }

    pub fn vector(&self) -> Option<Vector> {
        let Hook::Vector(vector, _) =
            crate::hooks::VECTOR_HOOKS.get(2 * usize::from(self.small))?
        else {
            return None;
        };
        Some(*vector)
    }

    pub fn request(&self) -> StoredRequest {
        let [place, size] = self.words;
        let sector = place & SECTOR_MASK;
        StoredRequest {
            device: low(size),
            sector: if sector == SECTOR_MASK { NO_SECTOR } else { sector },
            bytes: high(size),
            operation: self.detail as u8,
            flags: (self.detail >> 8) as u8,
            error: self.small,
            tag: (place >> SECTOR_BITS) as u16,
        }
    }
}

/// A thread's state as tracers show it, from the state in which it was switched away from: 0 runnable,
/// else one bit; `preempted` has the bit above them all, 0x100.
///
/// The kernel's `__trace_sched_switch_state` does the same, and distinguishes
/// a zombie (0x20) from a thread that is gone at once (0x10); here both are 0x10.
pub(super) const fn shown_state(state: u32, preempted: bool) -> u32 {
    if preempted {
        return 0x100;
    }
    if state & IDLE == IDLE {
        return SHOWN_IDLE;
    }
    if state & DEAD != 0 {
        return SHOWN_DEAD;
    }
    let reported =
        if state & (RTLOCK_WAIT | FROZEN) != 0 { UNINTERRUPTIBLE } else { state & REPORTED };
    // The highest bit.
    if reported == 0 { 0 } else { 1 << reported.ilog2() }
}
