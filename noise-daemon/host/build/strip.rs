//! Takes from a BPF object what only debuggers read: three quarters of it. The kernel's type
//! information (BTF) stays, with the lines that the verifier's log shows.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use object::build::elf::{Builder, SectionData};
use object::elf::SHT_STRTAB;

/// Writes the object anew, without its DWARF.
pub fn strip(file: &Path) -> anyhow::Result<()> {
    let whole = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let stripped = without_dwarf(&whole).with_context(|| format!("{} is odd", file.display()))?;
    fs::write(file, stripped).with_context(|| format!("cannot write {}", file.display()))
}

fn without_dwarf(whole: &[u8]) -> Result<Vec<u8>, object::build::Error> {
    let mut object = Builder::read(whole)?;
    for section in &mut object.sections {
        let name = section.name.as_slice();
        section.delete = name.starts_with(b".debug_") || name.starts_with(b".rel.debug_");
    }
    object.delete_orphans();
    // LLVM has the names of sections and symbols in one table, the builder in two.
    let names = object.sections.add();
    names.name = b".shstrtab".as_slice().into();
    names.sh_type = SHT_STRTAB;
    names.sh_addralign = 1;
    names.data = SectionData::SectionString;
    let mut stripped = Vec::new();
    object.write(&mut stripped)?;
    Ok(stripped)
}
