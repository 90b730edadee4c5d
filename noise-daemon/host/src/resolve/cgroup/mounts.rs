//! PURE: where the cgroup hierarchies are mounted, read from `/proc/self/mountinfo`. Its lines are bytes:
//! who may mount something chooses where, and the kernel escapes no more than white space.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

noise_common::named! {
    /// How a host mounts its cgroups.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum CgroupLayout {
        /// One hierarchy with all controllers.
        V2 = "v2",
        /// Controllers in hierarchies of version 1, and one of version 2 beside them.
        Hybrid = "hybrid (v1 controllers and a v2 tree)",
        /// Hierarchies of version 1 only.
        V1 = "v1",
    }
}

/// The hierarchies whose ids the kernel side may count by, and others whose settings are read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mounts {
    /// Mount point of version 2.
    pub unified: Option<PathBuf>,
    /// Mount point of version 1's `cpu` controller, alone or together with others.
    pub cpu: Option<PathBuf>,
    /// Mount point of version 1's `blkio` controller.
    pub blkio: Option<PathBuf>,
    /// Mount point of version 1's `cpuset` controller.
    pub cpuset: Option<PathBuf>,
    /// Mount point of version 1's `memory` controller.
    pub memory: Option<PathBuf>,
    pub(crate) any_v1: bool,
}

impl Mounts {
    /// Reads what is in `/proc/self/mountinfo`. Lines that make no sense are passed over.
    ///
    /// When a hierarchy is mounted several times, the mount that shows most of it counts: in a
    /// container with a cgroup namespace of its own, the host's tree appears as `/../..`.
    pub fn parse(mountinfo: impl AsRef<[u8]>) -> Self {
        let mut mounts = Self::default();
        let mut widest = [i64::MIN; 5];
        let lines = mountinfo.as_ref().split(|byte| *byte == b'\n');
        for mount in lines.filter_map(Mount::parse) {
            mounts.any_v1 |= mount.kind == b"cgroup";
            let shows = [
                (&mut mounts.unified, mount.kind == b"cgroup2"),
                (&mut mounts.cpu, mount.controls(b"cpu")),
                (&mut mounts.blkio, mount.controls(b"blkio")),
                (&mut mounts.cpuset, mount.controls(b"cpuset")),
                (&mut mounts.memory, mount.controls(b"memory")),
            ];
            let width = width(mount.root);
            for ((place, shown), widest) in shows.into_iter().zip(&mut widest) {
                if shown && (place.is_none() || width > *widest) {
                    *place = Some(unescape(mount.point));
                    *widest = width;
                }
            }
        }
        mounts
    }

    /// How this host mounts its cgroups, if it does.
    pub fn layout(&self) -> Option<CgroupLayout> {
        match (&self.unified, self.any_v1) {
            (Some(_), false) => Some(CgroupLayout::V2),
            (Some(_), true) => Some(CgroupLayout::Hybrid),
            (None, true) => Some(CgroupLayout::V1),
            (None, false) => None,
        }
    }
}

struct Mount<'a> {
    /// The folder of the hierarchy that is visible at the mount point.
    root: &'a [u8],
    point: &'a [u8],
    kind: &'a [u8],
    options: &'a [u8],
}

impl<'a> Mount<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        // The number of optional fields before the dash varies.
        let dash = line.windows(3).position(|three| three == b" - ")?;
        let fields = |part: &'a [u8]| part.split(|byte| *byte == b' ');
        let (mut mount, mut kind) = (fields(&line[..dash]).skip(3), fields(&line[dash + 3..]));
        Some(Self {
            root: mount.next()?,
            point: mount.next()?,
            kind: kind.next()?,
            options: kind.nth(1)?,
        })
    }

    /// Whether it is a hierarchy of version 1 with that controller.
    fn controls(&self, controller: &[u8]) -> bool {
        let mut options = self.options.split(|byte| *byte == b',');
        self.kind == b"cgroup" && options.any(|option| option == controller)
    }
}

/// Levels above (positive) or below (negative) the reader's own root that a mount begins at.
fn width(root: &[u8]) -> i64 {
    root.split(|byte| *byte == b'/')
        .filter(|segment| !segment.is_empty())
        .map(|segment| if segment == b".." { 1 } else { -1 })
        .sum()
}

/// Undoes the kernel's escapes of blanks, tabs, line ends and backslashes: three octal digits.
fn unescape(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, tail)) = rest.split_first() {
        let (byte, tail) = match (byte, tail) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..]) => {
                ((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'), tail)
            }
            other => other,
        };
        bytes.push(byte);
        rest = tail;
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;

    use super::{CgroupLayout, Mounts};

    const V2: &str = "\
22 28 0:20 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw
30 22 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
";
    const HYBRID: &str = "\
31 22 0:27 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:9 - tmpfs tmpfs ro,mode=755
32 31 0:28 / /sys/fs/cgroup/unified rw,nosuid,nodev,noexec,relatime shared:10 - cgroup2 cgroup2 rw,nsdelegate
33 31 0:29 / /sys/fs/cgroup/systemd rw,nosuid,nodev,noexec,relatime shared:11 - cgroup cgroup rw,xattr,name=systemd
36 31 0:32 / /sys/fs/cgroup/cpuset rw,nosuid,nodev,noexec,relatime shared:15 - cgroup cgroup rw,cpuset
37 31 0:33 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid,nodev,noexec,relatime shared:16 - cgroup cgroup rw,cpu,cpuacct
";
    const V1: &str = "\
25 19 0:22 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
26 19 0:23 / /sys/fs/cgroup/cpu rw,relatime - cgroup none rw,cpu
";

    fn root_of(mounts: &Mounts) -> Option<&Path> {
        mounts.unified.as_deref().or(mounts.cpu.as_deref())
    }

    #[test]
    fn layouts_are_distinguished() {
        for (text, layout, name, root) in [
            (V2, CgroupLayout::V2, "v2", "/sys/fs/cgroup"),
            (HYBRID, CgroupLayout::Hybrid, "hybrid", "/sys/fs/cgroup/unified"),
            (V1, CgroupLayout::V1, "v1", "/sys/fs/cgroup/cpu"),
        ] {
            let mounts = Mounts::parse(text);
            assert_eq!(mounts.layout(), Some(layout));
            assert!(layout.name().starts_with(name), "{}", layout.name());
            assert_eq!(root_of(&mounts), Some(Path::new(root)));
        }
        let cpu = Mounts::parse(HYBRID).cpu;
        assert_eq!(cpu.as_deref(), Some(Path::new("/sys/fs/cgroup/cpu,cpuacct")));
    }

    #[test]
    fn v1_with_its_controllers_together_is_found() {
        let together: String =
            HYBRID.lines().filter(|line| !line.contains("cgroup2")).collect::<Vec<_>>().join("\n");
        let mounts = Mounts::parse(&together);
        assert_eq!(mounts.layout(), Some(CgroupLayout::V1));
        assert_eq!(root_of(&mounts), Some(Path::new("/sys/fs/cgroup/cpu,cpuacct")));
    }

    #[test]
    fn a_host_without_cgroups_has_no_layout() {
        for text in ["", "\n\n", "no mounts here", "1 2 0:3 / / rw - ext4 /dev/vda rw\n"] {
            assert_eq!(Mounts::parse(text), Mounts::default());
            assert_eq!(Mounts::parse(text).layout(), None);
        }
        let only_systemd = "33 31 0:29 / /cg rw - cgroup cgroup rw,name=systemd";
        let mounts = Mounts::parse(only_systemd);
        assert_eq!((mounts.layout(), root_of(&mounts)), (Some(CgroupLayout::V1), None));
    }

    #[test]
    fn the_widest_view_counts() {
        let own = "9 1 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        let part = "8 1 0:26 /docker/a /part ro - cgroup2 cgroup rw\n";
        let host = "7 1 0:26 /../.. /host/cgroup ro master:4 - cgroup2 cgroup2 rw\n";
        let root = |text: String| root_of(&Mounts::parse(&text)).map(Path::to_owned).unwrap();
        assert_eq!(root(format!("{part}{own}")), Path::new("/sys/fs/cgroup"));
        assert_eq!(root(format!("{own}{host}{part}")), Path::new("/host/cgroup"));
        assert_eq!(root(part.to_owned()), Path::new("/part"));
    }

    #[test]
    fn escaped_mount_points_are_read() {
        let text = "9 1 0:26 / /a\\040b\\134c\\9 rw - cgroup2 cgroup2 rw\n";
        assert_eq!(root_of(&Mounts::parse(text)), Some(Path::new("/a b\\c\\9")));
    }

    #[test]
    fn a_mount_point_that_is_no_text_hides_no_other() {
        let other = b"21 22 0:9 / /mnt/\xff\xfe rw - tmpfs tmpfs\xff rw\n";
        let own = b"9 1 0:26 / /cg\xff\\040x rw - cgroup2 cgroup2 rw\n";
        let mounts = Mounts::parse([&other[..], V2.as_bytes()].concat());
        assert_eq!(root_of(&mounts), Some(Path::new("/sys/fs/cgroup")));
        let mounts = Mounts::parse([&other[..], own].concat());
        assert_eq!(root_of(&mounts), Some(Path::new(OsStr::from_bytes(b"/cg\xff x"))));
    }
}
