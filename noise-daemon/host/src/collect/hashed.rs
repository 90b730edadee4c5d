//! The per-CPU hashes, where the programs put what finds no place in the memory of their CPU: read in few
//! system calls.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use anyhow::{Context as _, bail};
use aya::Pod;
use aya::maps::{Map, MapData, PerCpuHashMap, PerCpuValues};
use aya_obj::generated::bpf_cmd;
use bytemuck::Zeroable;

/// The command of the `bpf` system call, which aya does not offer.
const MAP_LOOKUP_BATCH: libc::c_long = bpf_cmd::BPF_MAP_LOOKUP_BATCH as libc::c_long;
/// What the values of one call take, bytes, unless one bucket has more.
const BATCH_BYTES: usize = 64 * 1024;
/// Entries of one call: at least, and at most, which is more than any bucket has.
const BATCH: (usize, usize) = (16, 4096);

pub struct Hashed<K: Pod, V: Pod> {
    map: PerCpuHashMap<MapData, K, V>,
    fd: OwnedFd,
    cpus: usize,
    keys: Vec<K>,
    values: Vec<V>,
}

/// `batch` of the kernel's `union bpf_attr`.
#[repr(C)]
struct BatchAttributes {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

impl<K: Pod + Zeroable, V: Pod + Zeroable> Hashed<K, V> {
    /// Takes over the map, whose values are of that many CPUs.
    /// Errors: where it is of another type, or there are no descriptors left.
    pub fn new(map: Map, cpus: usize) -> anyhow::Result<Self> {
        let Map::PerCpuHashMap(data) = &map else { bail!("it is not a per-CPU hash") };
        let fd = data.fd().as_fd().try_clone_to_owned().context("cannot copy its descriptor")?;
        let (keys, values) = (Vec::new(), Vec::new());
        Ok(Self { map: map.try_into()?, fd, cpus: cpus.max(1), keys, values })
    }

    fn make_room(&mut self, entries: usize) {
        self.keys.resize(entries, K::zeroed());
        self.values.resize(entries * self.cpus, V::zeroed());
    }

    /// Shows every key with its values by CPU.
    /// Errors: where the kernel refuses; what was shown until then is right.
    pub fn read(&mut self, mut show: impl FnMut(K, &[V])) -> io::Result<()> {
        if self.keys.is_empty() {
            let entries = BATCH_BYTES / (size_of::<V>() * self.cpus);
            self.make_room(entries.clamp(BATCH.0, BATCH.1));
        }
        // The kernel's own notion of where it is.
        let (mut from, mut to) = (0u64, 0u64);
        let mut first = true;
        loop {
            let mut attributes = BatchAttributes {
                in_batch: if first { 0 } else { &raw mut from as u64 },
                out_batch: &raw mut to as u64,
                keys: self.keys.as_mut_ptr() as u64,
                values: self.values.as_mut_ptr() as u64,
                count: u32::try_from(self.keys.len()).unwrap_or(u32::MAX),
                map_fd: self.fd.as_raw_fd() as u32,
                elem_flags: 0,
                flags: 0,
            };
            // SAFETY: the attributes and all that they point to live for the call. The kernel
            // writes at most `count` keys, as many values for each possible CPU, and four bytes
            // into `to`.
            let result = unsafe {
                libc::syscall(
                    libc::SYS_bpf,
                    MAP_LOOKUP_BATCH,
                    &raw mut attributes,
                    size_of::<BatchAttributes>(),
                )
            };
            let error = if result == 0 { None } else { Some(io::Error::last_os_error()) };
            match error.as_ref().and_then(io::Error::raw_os_error) {
                None | Some(libc::ENOENT) => {}
                // One bucket has more than there is room for.
                Some(libc::ENOSPC) if self.keys.len() < BATCH.1 => {
                    self.make_room(self.keys.len() * 2);
                    continue;
                }
                Some(_) => return error.map_or(Ok(()), Err),
            }
            let values = self.values.chunks_exact(self.cpus);
            for (key, of_cpus) in self.keys.iter().zip(values).take(attributes.count as usize) {
                show(*key, of_cpus);
            }
            if error.is_some() {
                return Ok(());
            }
            (from, first) = (to, false);
        }
    }

    /// The values of a key by CPU; `None` where it is not there.
    pub fn get(&self, key: &K) -> Option<PerCpuValues<V>> {
        self.map.get(key, 0).ok()
    }

    /// Takes a key out. What a program adds at that very moment is lost, so that is for those who can add nothing.
    pub fn remove(&mut self, key: &K) {
        // Gone already is as good.
        let _ = self.map.remove(key);
    }
}
