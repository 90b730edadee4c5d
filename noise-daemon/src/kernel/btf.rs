//! What the running kernel says about itself: offsets of struct members, tracepoints and their
//! arguments, names of enumerators.

use std::path::Path;

use btf_rs::{Btf, Type};

use super::KernelError;
use crate::procfs;

/// Deepest nesting that is followed: a malformed file may go in a circle.
const MOST_NESTED: usize = 32;

/// The kernel's type information.
pub struct KernelBtf {
    btf: Btf,
}

impl KernelBtf {
    /// Where the kernel offers it.
    pub const PATH: &'static str = "/sys/kernel/btf/vmlinux";

    /// Reads and parses a BTF file.
    ///
    /// # Errors
    /// [`KernelError::NoBtf`] where it is missing, unreadable or malformed.
    pub fn read(path: &Path) -> Result<Self, KernelError> {
        // Read it whole: a memory mapping of the sysfs file fails on older kernels.
        let bytes = procfs::bytes(path).map_err(|error| KernelError::NoBtf {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        let btf = Btf::from_bytes(&bytes).map_err(|error| KernelError::NoBtf {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Self { btf })
    }

    /// Byte offset of a member, given as names joined with dots; anonymous structs and unions are
    /// looked into. `None` where this kernel has no such member or it is a bit field.
    pub fn offset(&self, container: &str, path: &str) -> Option<u32> {
        let types = self.btf.resolve_types_by_name(container).ok()?;
        types.into_iter().find_map(|candidate| self.offset_in(candidate, path, MOST_NESTED))
    }

    fn offset_in(&self, container: Type, path: &str, depth: usize) -> Option<u32> {
        let depth = depth.checked_sub(1)?;
        let (name, rest) = path.split_once('.').map_or((path, None), |(a, b)| (a, Some(b)));
        let (Type::Struct(members) | Type::Union(members)) = self.bare(container)? else {
            return None;
        };
        for member in &members.members {
            if member.bit_offset() % 8 != 0 {
                continue;
            }
            let at = member.bit_offset() / 8;
            let member_name = self.btf.resolve_name(member).unwrap_or_default();
            if member_name == name {
                if member.bitfield_size().is_some_and(|bits| bits != 0) {
                    return None;
                }
                return match rest {
                    None => Some(at),
                    Some(rest) => {
                        let inner = self.btf.resolve_chained_type(member).ok()?;
                        at.checked_add(self.offset_in(inner, rest, depth)?)
                    }
                };
            }
            if member_name.is_empty() {
                let inner = self.btf.resolve_chained_type(member).ok()?;
                if let Some(offset) = self.offset_in(inner, path, depth) {
                    return at.checked_add(offset);
                }
            }
        }
        None
    }

    /// Strips qualifiers and typedefs; `None` of more than anybody writes, which may be a circle.
    fn bare(&self, mut kind: Type) -> Option<Type> {
        for _ in 0..MOST_NESTED {
            kind = match &kind {
                Type::Typedef(inner) => self.btf.resolve_chained_type(inner).ok()?,
                Type::Const(inner) | Type::Volatile(inner) | Type::Restrict(inner) => {
                    self.btf.resolve_chained_type(inner).ok()?
                }
                Type::TypeTag(inner) => self.btf.resolve_chained_type(inner).ok()?,
                _ => return Some(kind),
            };
        }
        None
    }

    /// Number of arguments of a tracepoint, or `None` where this kernel does not have it.
    pub fn tracepoint_arguments(&self, tracepoint: &str) -> Option<usize> {
        let types = self.btf.resolve_types_by_name(&format!("btf_trace_{tracepoint}")).ok()?;
        types.into_iter().find_map(|candidate| {
            let Type::Typedef(typedef) = candidate else { return None };
            let Type::Ptr(pointer) = self.btf.resolve_chained_type(&typedef).ok()? else {
                return None;
            };
            let Type::FuncProto(prototype) = self.btf.resolve_chained_type(&pointer).ok()? else {
                return None;
            };
            // The first parameter is the probe's own data.
            prototype.parameters.len().checked_sub(1)
        })
    }

    /// Names and values of an enum; empty where this kernel does not have it.
    pub fn enumerators(&self, name: &str) -> Vec<(u32, String)> {
        let Ok(types) = self.btf.resolve_types_by_name(name) else { return Vec::new() };
        let members = types.into_iter().find_map(|candidate| match candidate {
            Type::Enum(found) => Some(found.members),
            _ => None,
        });
        members
            .unwrap_or_default()
            .iter()
            .filter_map(|member| Some((member.val(), self.btf.resolve_name(member).ok()?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn this_kernel() -> Option<KernelBtf> {
        KernelBtf::read(Path::new(KernelBtf::PATH)).ok()
    }

    #[test]
    fn a_missing_file_is_said_to_be_missing() {
        let error = KernelBtf::read(Path::new("/nonexistent/btf")).err().unwrap();
        assert!(error.to_string().contains("/nonexistent/btf"), "{error}");
    }

    #[test]
    fn a_malformed_file_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"not BTF at all").unwrap();
        assert!(matches!(KernelBtf::read(file.path()), Err(KernelError::NoBtf { .. })));
    }

    #[test]
    fn members_are_found_through_anonymous_and_named_ones() {
        let Some(btf) = this_kernel() else {
            return eprintln!("skipped: this kernel has no BTF");
        };
        assert!(btf.offset("task_struct", "pid").is_some());
        // Inside an anonymous union of an anonymous struct, and inside a typedef'd struct.
        assert!(btf.offset("sk_buff", "dev").is_some());
        assert!(btf.offset("net_device", "nd_net.net").is_some());
        assert_eq!(btf.offset("task_struct", "no_such_member"), None);
        assert_eq!(btf.offset("no_such_struct", "pid"), None);
        assert!(btf.tracepoint_arguments("sched_switch").is_some_and(|count| count >= 3));
        assert_eq!(btf.tracepoint_arguments("no_such_tracepoint"), None);
        assert!(btf.enumerators("bpf_map_type").iter().any(|(_, name)| name.contains("RINGBUF")));
    }
}
