//! What the kernel says of a thread that dirties pages: `balance_dirty_pages`.

use noise_common::queue::{DIRTY_PAGES, NO_DISK};

use super::{
    ARG_DIRTIED, Access, Address, BDI_ID, BDI_OWNER, DEVICE_NUMBER, THROTTLE_DIRTY, WRITEBACK_BDI,
    present,
};

/// The arguments of the tracepoint, of either form.
#[derive(Clone, Copy)]
pub struct DirtyBalance<A> {
    access: A,
    /// Whether limits are single arguments; else they are in a struct.
    is_long: bool,
}

impl<A: Access> DirtyBalance<A> {
    /// `None` where the kernel has another form.
    #[inline(always)]
    pub fn of(access: A) -> Option<Self> {
        let is_long = ARG_DIRTIED.load() == 8;
        (present(ARG_DIRTIED.load()) && (is_long || present(THROTTLE_DIRTY.load())))
            .then_some(Self { access, is_long })
    }

    /// Pages that the thread has dirtied since its last call.
    #[inline(always)]
    pub fn dirtied(self) -> u64 {
        self.access.chosen(if self.is_long { 8 } else { 4 })
    }

    /// Pages that are dirty, as far as they count for the limit which holds the thread back.
    #[inline(always)]
    pub fn dirty(self) -> u64 {
        if self.is_long {
            self.access.chosen(3)
        } else {
            self.access.load(self.access.pointer(1), THROTTLE_DIRTY.load())
        }
    }

    /// Whether the thread sleeps now.
    #[inline(always)]
    pub fn pauses(self) -> bool {
        self.access.chosen(if self.is_long { 10 } else { 6 }) as i64 > 0
    }

    /// When the call began, in jiffies: it may pause several times.
    #[inline(always)]
    pub fn call(self) -> u64 {
        self.access.chosen(if self.is_long { 11 } else { 7 })
    }

    /// The pages of its device as a queue; `None` where this kernel does not say which device it is.
    #[inline(always)]
    pub fn queue(self) -> Option<u64> {
        let access = self.access;
        let fields = [WRITEBACK_BDI.load(), BDI_ID.load(), BDI_OWNER.load(), DEVICE_NUMBER.load()];
        if !fields.into_iter().all(present) {
            return None;
        }
        let bdi: Address = access.load(access.pointer(0), WRITEBACK_BDI.load());
        let owner: Address = access.follow(bdi, BDI_OWNER.load());
        let disk: u32 = access.follow(owner, DEVICE_NUMBER.load());
        if disk != 0 {
            return Some(u64::from(disk) | DIRTY_PAGES);
        }
        let id: u64 = access.follow(bdi, BDI_ID.load());
        Some(id & (DIRTY_PAGES - 1) | DIRTY_PAGES | NO_DISK)
    }
}
