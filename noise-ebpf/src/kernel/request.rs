//! Requests of the block layer.

use noise_common::charge::UNKNOWN;

use super::{
    ARG_REQUEST, Access, Address, BIO_BLKG, BLKCG_CGROUP, BLKG_BLKCG, CGROUP_KN, DISK_MAJOR,
    DISK_MINOR, KN_ID, Pointer, QUEUE_DISK, REQUEST_BIO, REQUEST_DISK_OLD, REQUEST_FLAGS,
    REQUEST_LEN, REQUEST_QUEUE, REQUEST_SECTOR, present,
};

#[derive(Clone, Copy)]
pub struct BlkRequest<A> {
    access: A,
    at: Pointer,
    argument: usize,
}

impl<A: Access> BlkRequest<A> {
    /// The request of a hook that had the queue as its first argument before 5.11.
    #[inline(always)]
    pub fn argument(access: A) -> Self {
        if ARG_REQUEST.load() == 1 {
            Self { access, at: access.pointer(1), argument: 1 }
        } else {
            Self::first_argument(access)
        }
    }

    /// The request of `block_rq_complete`, which never had the queue.
    #[inline(always)]
    pub fn first_argument(access: A) -> Self {
        Self { access, at: access.pointer(0), argument: 0 }
    }

    /// Address, which identifies the request while it is under way.
    #[inline(always)]
    pub fn address(self) -> u64 {
        self.at as u64
    }

    /// The same as a number.
    #[inline(always)]
    pub fn number(self) -> u64 {
        self.access.address(self.argument)
    }

    /// `cmd_flags`: the operation in the low byte.
    #[inline(always)]
    pub fn cmd_flags(self) -> u32 {
        self.access.load(self.at, REQUEST_FLAGS.load())
    }

    #[inline(always)]
    pub fn sector(self) -> u64 {
        self.access.load(self.at, REQUEST_SECTOR.load())
    }

    /// Bytes that are not completed yet.
    #[inline(always)]
    pub fn remaining_bytes(self) -> u32 {
        self.access.load(self.at, REQUEST_LEN.load())
    }

    /// Id of the cgroup on whose behalf it is: that of its first bio; [`UNKNOWN`] where it has none.
    #[inline(always)]
    pub fn cgroup(self) -> u64 {
        let access = self.access;
        let fields = [BIO_BLKG.load(), BLKG_BLKCG.load(), BLKCG_CGROUP.load(), KN_ID.load()];
        if !fields.into_iter().all(present) {
            return UNKNOWN;
        }
        let bio: Address = access.load(self.at, REQUEST_BIO.load());
        let blkg: Address = access.follow(bio, BIO_BLKG.load());
        let blkcg: Address = access.follow(blkg, BLKG_BLKCG.load());
        let cgroup: Address = access.follow(blkcg, BLKCG_CGROUP.load());
        let kn: Address = access.follow(cgroup, CGROUP_KN.load());
        let id: u64 = access.follow(kn, KN_ID.load());
        if id == 0 { UNKNOWN } else { id }
    }

    /// Major and first minor number of the disk; 0, 0 where the request has none.
    #[inline(always)]
    pub fn device(self) -> (u32, u32) {
        let access = self.access;
        let queue_disk = QUEUE_DISK.load();
        let disk: Address = if present(queue_disk) {
            let queue: Address = access.load(self.at, REQUEST_QUEUE.load());
            access.follow(queue, queue_disk)
        } else {
            access.load(self.at, REQUEST_DISK_OLD.load())
        };
        (access.follow(disk, DISK_MAJOR.load()), access.follow(disk, DISK_MINOR.load()))
    }

    /// The same as one number: `major << 20 | minor`.
    #[inline(always)]
    pub fn disk(self) -> u32 {
        let (major, minor) = self.device();
        major << 20 | minor
    }
}
