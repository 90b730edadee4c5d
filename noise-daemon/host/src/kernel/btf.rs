//! What the running kernel says about itself: offsets of struct members, tracepoints and their
//! arguments, names of enumerators.
//!
//! The file is kept as the kernel offers it, beside a number for each type and for each name: a
//! type is decoded when it is looked at. Decoding all of them would take six times the memory of
//! the file, which a container with a small limit does not have.

use std::ops::Range;
use std::path::Path;

use aya::Btf;
use aya_obj::generated::{
    BTF_KIND_ARRAY, BTF_KIND_CONST, BTF_KIND_DATASEC, BTF_KIND_DECL_TAG, BTF_KIND_ENUM,
    BTF_KIND_ENUM64, BTF_KIND_FLOAT, BTF_KIND_FUNC, BTF_KIND_FUNC_PROTO, BTF_KIND_FWD,
    BTF_KIND_INT, BTF_KIND_PTR, BTF_KIND_RESTRICT, BTF_KIND_STRUCT, BTF_KIND_TYPE_TAG,
    BTF_KIND_TYPEDEF, BTF_KIND_UNION, BTF_KIND_VAR, BTF_KIND_VOLATILE,
};
use noise_system::procfs;

use super::KernelError;

/// Deepest nesting that is followed: a malformed file may go in a circle.
const MOST_NESTED: usize = 32;

/// The first number of a BTF file.
const MAGIC: u16 = 0xeb9f;
/// What the file begins with, as far as it is read here.
const HEADER_BYTES: usize = 24;
/// Name, kind and count, and size or type.
const TYPE_BYTES: usize = 12;
/// Bytes of each member of a struct, enum or function prototype.
const MEMBER_BYTES: usize = 12;
const ENUMERATOR_BYTES: usize = 8;
const PARAMETER_BYTES: usize = 8;

/// The number at an offset, as this machine writes it.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let found = bytes.get(at..at.checked_add(4)?)?;
    found.try_into().ok().map(u32::from_ne_bytes)
}

/// Stands for a name where there are many (FNV-1a).
fn hash(name: &[u8]) -> u32 {
    name.iter()
        .fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// A type as the file has it.
#[derive(Clone, Copy)]
struct BtfType {
    /// Where its name is among the names.
    name: u32,
    info: u32,
    /// The type that it refers to, or its size.
    inner: u32,
    /// Where what follows begins.
    rest: usize,
}

impl BtfType {
    fn kind(self) -> u32 {
        self.info >> 24 & 0x1f
    }

    fn count(self) -> usize {
        self.info as usize & 0xffff
    }

    /// Its members say how many bits they have.
    fn has_bit_sizes(self) -> bool {
        self.info >> 31 != 0
    }

    /// Bytes of what follows; `None` of a kind that is not known.
    fn rest_bytes(self) -> Option<usize> {
        Some(match self.kind() {
            BTF_KIND_INT | BTF_KIND_VAR | BTF_KIND_DECL_TAG => 4,
            BTF_KIND_ARRAY => 12,
            BTF_KIND_STRUCT | BTF_KIND_UNION | BTF_KIND_DATASEC | BTF_KIND_ENUM64 => {
                self.count() * 12
            }
            BTF_KIND_ENUM => self.count() * ENUMERATOR_BYTES,
            BTF_KIND_FUNC_PROTO => self.count() * PARAMETER_BYTES,
            BTF_KIND_PTR | BTF_KIND_FWD | BTF_KIND_TYPEDEF | BTF_KIND_VOLATILE | BTF_KIND_CONST
            | BTF_KIND_RESTRICT | BTF_KIND_FUNC | BTF_KIND_FLOAT | BTF_KIND_TYPE_TAG => 0,
            _ => return None,
        })
    }
}

/// A member of a struct or a union.
struct StructMember {
    name: u32,
    kind: u32,
    bit_offset: u32,
    /// How many, if it is narrower than its type, else 0.
    bits: u32,
}

/// The kernel's type information.
pub struct KernelBtf {
    bytes: Vec<u8>,
    names: Range<usize>,
    /// Where each type begins; the first is type 1.
    types: Vec<u32>,
    /// Hash of a name and number of its type, sorted.
    by_name: Vec<(u32, u32)>,
}

impl KernelBtf {
    /// Where the kernel offers it.
    pub const PATH: &'static str = "/sys/kernel/btf/vmlinux";

    /// Bytes that reading a file of this size takes: the file, and for each type, of which there is
    /// one in 44 bytes of it, twelve at most.
    pub const fn memory(file_bytes: u64) -> u64 {
        file_bytes + file_bytes / 2
    }

    /// Bytes that [`Self::tracepoints`] takes at most: aya has 40 for each type.
    pub const fn memory_of_tracepoints(file_bytes: u64) -> u64 {
        file_bytes
    }

    /// Bytes that aya takes to read such a file: it, a copy of its names, the types, and a piece of the
    /// heap for the members of each.
    pub const fn memory_in_aya(file_bytes: u64) -> u64 {
        file_bytes * 4
    }

    /// Reads a BTF file.
    /// Errors: [`KernelError::NoBtf`] where it is missing, unreadable or malformed.
    pub fn read(path: &Path) -> Result<Self, KernelError> {
        let failed = |reason: String| KernelError::NoBtf { path: path.to_owned(), reason };
        // Read it whole: a memory mapping of the sysfs file fails on older kernels.
        let bytes = procfs::bytes(path).map_err(|error| failed(error.to_string()))?;
        Self::parse(bytes).map_err(|reason| failed(reason.to_owned()))
    }

    fn parse(bytes: Vec<u8>) -> Result<Self, &'static str> {
        let word = |index: usize| number(&bytes, 8 + index * 4).map(|word| word as usize);
        let magic = bytes.get(..2).and_then(|magic| magic.try_into().ok()).map(u16::from_ne_bytes);
        if magic != Some(MAGIC) || bytes.len() < HEADER_BYTES {
            return Err("it does not begin as BTF does");
        }
        let header = number(&bytes, 4).unwrap_or_default() as usize;
        let range = |at: Option<usize>, length: Option<usize>| -> Option<Range<usize>> {
            let begin = header.checked_add(at?)?;
            let range = begin..begin.checked_add(length?)?;
            bytes.get(range.clone()).map(|_| range)
        };
        let types = range(word(0), word(1)).ok_or("its types are cut off")?;
        let names = range(word(2), word(3)).ok_or("its names are cut off")?;
        let mut btf = Self { bytes, names, types: Vec::new(), by_name: Vec::new() };
        let mut at = types.start;
        while at < types.end {
            let found = btf.decode(at).filter(|found| found.rest <= types.end);
            let found = found.ok_or("a type is cut off")?;
            btf.types.push(at as u32);
            let name = btf.name(found.name).unwrap_or_default();
            if !name.is_empty() {
                let hash = hash(name);
                btf.by_name.push((hash, btf.types.len() as u32));
            }
            at = found.rest + found.rest_bytes().ok_or("a type is of a kind that this noised does not know; the kernel is newer: update noised")?;
        }
        if at != types.end {
            return Err("its last type is cut off");
        }
        btf.by_name.sort_unstable();
        Ok(btf)
    }

    fn decode(&self, at: usize) -> Option<BtfType> {
        let word = |index: usize| number(&self.bytes, at + index * 4);
        Some(BtfType { name: word(0)?, info: word(1)?, inner: word(2)?, rest: at + TYPE_BYTES })
    }

    fn get(&self, id: u32) -> Option<BtfType> {
        let at = self.types.get((id as usize).checked_sub(1)?)?;
        self.decode(*at as usize)
    }

    fn name(&self, at: u32) -> Option<&[u8]> {
        let names = self.bytes.get(self.names.clone())?.get(at as usize..)?;
        names.split(|byte| *byte == 0).next()
    }

    /// The types of this name, by number.
    fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (u32, BtfType)> + 'a {
        let hash = hash(name.as_bytes());
        let first = self.by_name.partition_point(|(known, _)| *known < hash);
        let candidates =
            self.by_name.iter().skip(first).take_while(move |(known, _)| *known == hash);
        let found = candidates.filter_map(|(_, id)| Some((*id, self.get(*id)?)));
        found.filter(move |(_, found)| self.name(found.name) == Some(name.as_bytes()))
    }

    fn members(&self, of: BtfType) -> impl Iterator<Item = StructMember> {
        (0..of.count()).map_while(move |index| {
            let at = of.rest + index * MEMBER_BYTES;
            let offset = number(&self.bytes, at + 8)?;
            let (bit_offset, bits) = match of.has_bit_sizes() {
                true => (offset & 0x00ff_ffff, offset >> 24),
                false => (offset, 0),
            };
            let (name, kind) = (number(&self.bytes, at)?, number(&self.bytes, at + 4)?);
            Some(StructMember { name, kind, bit_offset, bits })
        })
    }

    /// Byte offset of a member, given as names joined with dots; anonymous structs and unions are
    /// looked into. `None` where this kernel has no such member or it is a bit field.
    pub fn offset(&self, container: &str, path: &str) -> Option<u32> {
        self.named(container).find_map(|(_, found)| self.offset_in(found, path, MOST_NESTED))
    }

    /// Where a member of one bit is, in bits from the begin. `None` where this kernel has no such member or it is larger.
    pub fn bit(&self, container: &str, name: &str) -> Option<u32> {
        let members = self.named(container).flat_map(|(_, found)| self.members(found));
        let mut bits = members.filter(|member| member.bits == 1);
        bits.find(|member| self.name(member.name) == Some(name.as_bytes()))
            .map(|one| one.bit_offset)
    }

    fn offset_in(&self, container: BtfType, path: &str, depth: usize) -> Option<u32> {
        let depth = depth.checked_sub(1)?;
        let (name, rest) = path.split_once('.').map_or((path, None), |(a, b)| (a, Some(b)));
        let container = self.bare(container)?;
        if !matches!(container.kind(), BTF_KIND_STRUCT | BTF_KIND_UNION) {
            return None;
        }
        for member in self.members(container) {
            if member.bit_offset % 8 != 0 {
                continue;
            }
            let at = member.bit_offset / 8;
            let member_name = self.name(member.name).unwrap_or_default();
            if member_name == name.as_bytes() {
                if member.bits != 0 {
                    return None;
                }
                return match rest {
                    None => Some(at),
                    Some(rest) => {
                        let inner = self.get(member.kind)?;
                        at.checked_add(self.offset_in(inner, rest, depth)?)
                    }
                };
            }
            if member_name.is_empty() {
                let inner = self.get(member.kind)?;
                if let Some(offset) = self.offset_in(inner, path, depth) {
                    return at.checked_add(offset);
                }
            }
        }
        None
    }

    /// Strips qualifiers and typedefs; `None` of more than is ever nested, which may be a circle.
    fn bare(&self, mut found: BtfType) -> Option<BtfType> {
        for _ in 0..MOST_NESTED {
            found = match found.kind() {
                BTF_KIND_TYPEDEF | BTF_KIND_CONST | BTF_KIND_VOLATILE | BTF_KIND_RESTRICT
                | BTF_KIND_TYPE_TAG => self.get(found.inner)?,
                _ => return Some(found),
            };
        }
        None
    }

    /// Type and number of arguments of a tracepoint.
    fn tracepoint(&self, tracepoint: &str) -> Option<(u32, usize)> {
        self.named(&format!("btf_trace_{tracepoint}")).find_map(|(id, typedef)| {
            let inner = |of: BtfType, wanted: u32| {
                self.get(of.inner).filter(|found| found.kind() == wanted)
            };
            let typedef = Some(typedef).filter(|found| found.kind() == BTF_KIND_TYPEDEF)?;
            let prototype = inner(inner(typedef, BTF_KIND_PTR)?, BTF_KIND_FUNC_PROTO)?;
            // The first parameter is the probe's own data.
            Some((id, prototype.count().checked_sub(1)?))
        })
    }

    /// Number of arguments of a tracepoint, or `None` where this kernel does not have it.
    pub fn tracepoint_arguments(&self, tracepoint: &str) -> Option<usize> {
        self.tracepoint(tracepoint).map(|(_, arguments)| arguments)
    }

    /// As much as aya needs to find these tracepoints: their types by number and name, nothing in the
    /// place of the others. All types of a kernel would be 13 MiB.
    pub fn tracepoints<'a>(
        &self,
        wanted: impl Iterator<Item = &'a str>,
    ) -> Result<Btf, KernelError> {
        let mut types: Vec<(u32, &str)> =
            wanted.filter_map(|name| Some((self.tracepoint(name)?.0, name))).collect();
        types.sort_unstable();
        let (mut places, mut names) = (Vec::new(), vec![0]);
        let mut put = |name: usize, kind: u32| {
            for word in [name as u32, kind << 24, 0] {
                places.extend_from_slice(&word.to_ne_bytes());
            }
        };
        let mut next = 1;
        for (id, name) in types {
            (next..id).for_each(|_| put(0, BTF_KIND_FWD));
            next = id + 1;
            put(names.len(), BTF_KIND_TYPEDEF);
            names.extend_from_slice(format!("btf_trace_{name}\0").as_bytes());
        }
        let mut file = Vec::with_capacity(HEADER_BYTES + places.len() + names.len());
        file.extend_from_slice(&MAGIC.to_ne_bytes());
        file.extend_from_slice(&[1, 0]);
        for word in [HEADER_BYTES, 0, places.len(), places.len(), names.len()] {
            file.extend_from_slice(&(word as u32).to_ne_bytes());
        }
        file.append(&mut places);
        file.append(&mut names);
        Btf::parse(&file, aya::Endianness::default())
            .map_err(|error| KernelError::Refused(format!("types of tracepoints: {error}")))
    }

    /// Names and values of an enum; empty where this kernel does not have it.
    pub fn enumerators(&self, name: &str) -> Vec<(u32, String)> {
        let found = self.named(name).find(|(_, found)| found.kind() == BTF_KIND_ENUM);
        let Some((_, found)) = found else { return Vec::new() };
        let enumerators = (0..found.count()).map(|index| {
            let at = found.rest + index * ENUMERATOR_BYTES;
            let name = self.name(number(&self.bytes, at)?)?;
            Some((number(&self.bytes, at + 4)?, String::from_utf8_lossy(name).into_owned()))
        });
        enumerators.flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_missing_file_is_said_to_be_missing() {
        let error = KernelBtf::read(Path::new("/nonexistent/btf")).err().unwrap();
        assert!(error.to_string().contains("/nonexistent/btf"), "{error}");
    }

    #[test]
    fn a_malformed_file_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), b"not BTF at all").unwrap();
        assert!(matches!(KernelBtf::read(file.path()), Err(KernelError::NoBtf { .. })));
    }

    /// A file of these types and names.
    fn file(types: &[[u32; 3]], names: &[u8]) -> Vec<u8> {
        let length = (types.len() * TYPE_BYTES) as u32;
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend_from_slice(&[1, 0]);
        let words = [HEADER_BYTES as u32, 0, length, length, names.len() as u32];
        let words = words.iter().chain(types.iter().flatten());
        bytes.extend(words.flat_map(|word| word.to_ne_bytes()));
        bytes.extend_from_slice(names);
        bytes
    }

    #[test]
    fn tracepoints_keep_their_numbers_and_nothing_else_is_kept() {
        // A forward declaration, a pointer to a prototype, the prototype with one parameter and two
        // words of it, and the tracepoint.
        let types = [
            [1, BTF_KIND_FWD << 24, 0],
            [0, BTF_KIND_PTR << 24, 3],
            [0, BTF_KIND_FUNC_PROTO << 24 | 3, 0],
            [0, 0, 0],
            [0, 0, 0],
            [3, BTF_KIND_TYPEDEF << 24, 2],
        ];
        let bytes = file(&types, b"\0x\0btf_trace_t\0");
        let btf = KernelBtf::parse(bytes.clone()).unwrap();
        assert_eq!(btf.tracepoint_arguments("t"), Some(2));
        assert_eq!(btf.tracepoint_arguments("x"), None);
        let kept = btf.tracepoints(["x", "t"].into_iter()).unwrap();
        // Written out again, the tracepoint is the fourth type of four.
        let again = KernelBtf::parse(kept.to_bytes()).unwrap();
        let found: Vec<u32> = again.named("btf_trace_t").map(|(id, _)| id).collect();
        assert_eq!((found, again.types.len()), (vec![4], 4));
        // Cut off anywhere, it is refused.
        for length in 0..bytes.len() {
            assert!(KernelBtf::parse(bytes[..length].to_vec()).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn a_member_of_one_bit_is_found_by_its_bit() {
        // A struct of two bits, one bit and a whole member.
        let has_bit_sizes = 1 << 31;
        let types = [
            [1, BTF_KIND_FWD << 24, 0],
            [3, BTF_KIND_STRUCT << 24 | 3 | has_bit_sizes, 8],
            [5, 1, 2 << 24],
            [7, 1, 1 << 24 | 2],
            [9, 1, 32],
        ];
        let btf = KernelBtf::parse(file(&types, b"\0i\0s\0a\0b\0c\0")).unwrap();
        assert_eq!(btf.bit("s", "b"), Some(2));
        assert_eq!([btf.bit("s", "a"), btf.bit("s", "c"), btf.bit("s", "x")], [None; 3]);
        assert_eq!([btf.offset("s", "c"), btf.offset("s", "b")], [Some(4), None]);
    }

    #[test]
    fn what_goes_in_a_circle_ends() {
        let types = [[1, BTF_KIND_TYPEDEF << 24, 1], [3, BTF_KIND_CONST << 24, 77]];
        let btf = KernelBtf::parse(file(&types, b"\0a\0b\0")).unwrap();
        assert_eq!(btf.offset("a", "x"), None);
        assert_eq!(btf.offset("b", "x"), None);
        assert!(btf.enumerators("a").is_empty());
        assert!(KernelBtf::parse(file(&[[0, 31 << 24, 0]], b"\0")).is_err());
    }
}
