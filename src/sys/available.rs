//! How much memory this process may use before the system has to take some away from it: that of the machine, and the
//! limits of its cgroups (both versions). Pages of files count as free: the system drops them when memory is needed.
#![forbid(unsafe_code)]

use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Bytes of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AvailableMemory {
    /// All that the process, or others in its cgroup, can ever have.
    pub total: u64,
    /// What is unused, or used only for pages of files.
    pub free: u64,
}

impl AvailableMemory {
    /// The smaller memory of two.
    fn within(self, other: Self) -> Self {
        Self { total: self.total.min(other.total), free: self.free.min(other.free) }
    }
}

/// The value of a line `NAME VALUE`, or `NAME: VALUE kB`, in bytes.
fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let is_it = words.next()?.trim_end_matches(':') == name;
        let value: u64 = words.next().filter(|_| is_it)?.parse().ok()?;
        Some(if words.next() == Some("kB") { value.saturating_mul(1024) } else { value })
    })
}

/// The machine's memory, from `/proc/meminfo`.
fn of_machine(meminfo: &str) -> Option<AvailableMemory> {
    Some(AvailableMemory { total: value(meminfo, "MemTotal")?, free: value(meminfo, "MemAvailable")? })
}

/// The memory of a cgroup; `None` if it has no limit. Not all controllers name files and values alike.
fn of_group(folder: &Path, limit: &str, usage: &str, stat: [&str; 2]) -> Option<AvailableMemory> {
    let number = |name: &str| read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    // Without a limit: the word "max", or almost 2^63.
    let total = number(limit).filter(|&n| n < 1 << 62)?;
    let stats = read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let files = stat.iter().filter_map(|name| value(&stats, name)).fold(0, u64::saturating_add);
    let used = number(usage)?.saturating_sub(files);
    Some(AvailableMemory { total, free: total.saturating_sub(used) })
}

/// A cgroup and those around it, up to `root`.
fn with_parents(root: &Path, path: &str) -> Vec<PathBuf> {
    let own = root.join(path.trim_start_matches('/'));
    // In a container the path may be one that only its host sees: the container's own group is the root then.
    let own = if own.is_dir() { own } else { root.to_owned() };
    own.ancestors().take_while(|p| p.starts_with(root)).map(Path::to_owned).collect()
}

/// The smallest memory of the cgroups that `/proc/self/cgroup` names; `None` if none has a limit. `mounts` is where
/// cgroups are.
fn of_groups(groups: &str, mounts: &Path) -> Option<AvailableMemory> {
    let lines = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        Some((parts.next()?, parts.next()?))
    });
    let all = lines.flat_map(|(controllers, path)| {
        let is_first = controllers.split(',').any(|c| c == "memory");
        let found: Vec<AvailableMemory> = if is_first {
            let stat = ["total_inactive_file", "total_active_file"];
            let limits = with_parents(&mounts.join("memory"), path);
            limits.iter().filter_map(|p| of_group(p, "memory.limit_in_bytes", "memory.usage_in_bytes", stat)).collect()
        } else if controllers.is_empty() {
            // Beside version 1, version 2 is in a folder of its own.
            let unified = mounts.join("unified");
            let root = if unified.is_dir() { unified } else { mounts.to_owned() };
            let limits = with_parents(&root, path);
            limits
                .iter()
                .filter_map(|p| of_group(p, "memory.max", "memory.current", ["inactive_file", "active_file"]))
                .collect()
        } else {
            Vec::new()
        };
        found
    });
    all.reduce(AvailableMemory::within)
}

/// Memory that ZFS has for its cache and gives back when others need it: the system does not count it as free.
fn of_zfs(arcstats: &str) -> u64 {
    let number = |name: &str| {
        let mut lines = arcstats.lines().map(|line| line.split_ascii_whitespace());
        lines.find_map(|mut words| (words.next() == Some(name)).then(|| words.nth(1)?.parse::<u64>().ok())?)
    };
    number("size").unwrap_or(0).saturating_sub(number("c_min").unwrap_or(0))
}

/// The function that gives memory back when much is about to be taken.
static GIVES_BACK: OnceLock<fn(u64)> = OnceLock::new();

/// Registers `f`, which gives memory back. It is called with the number of bytes that are about to be taken.
pub fn gives_back(f: fn(u64)) {
    GIVES_BACK.get_or_init(|| f);
}

/// A host is about to take so many bytes, and to write them.
pub fn will_take(bytes: usize) {
    /// Less changes nothing.
    const MUCH: usize = 1 << 20;
    if let Some(f) = GIVES_BACK.get().filter(|_| bytes >= MUCH) {
        f(bytes as u64);
    }
}

/// The memory that this process may use; `None` if the system does not say.
pub fn memory() -> Option<AvailableMemory> {
    if !cfg!(linux_kernel) {
        return super::memory::of_system().map(|(total, free)| AvailableMemory { total, free });
    }
    let mut machine = of_machine(&read_to_string("/proc/meminfo").ok()?)?;
    let zfs = read_to_string("/proc/spl/kstat/zfs/arcstats").map_or(0, |arcstats| of_zfs(&arcstats));
    machine.free = machine.free.saturating_add(zfs).min(machine.total);
    let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = of_groups(&groups, Path::new("/sys/fs/cgroup"));
    Some(limit.map_or(machine, |limit| machine.within(limit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn write(path: &Path, files: &[(&str, &str)]) {
        std::fs::create_dir_all(path).unwrap();
        files.iter().for_each(|(name, text)| std::fs::write(path.join(name), text).unwrap());
    }

    #[test]
    fn the_memory_of_the_machine() {
        let text = "MemTotal:       16384 kB\nMemFree:  12 kB\nMemAvailable:    8192 kB\n";
        assert_eq!(of_machine(text), Some(AvailableMemory { total: 16 * MIB, free: 8 * MIB }));
        assert_eq!(of_machine("MemTotal: 5 kB\n"), None);
        assert_eq!(of_machine(""), None);
    }

    #[test]
    fn limits_of_groups_and_of_those_around_them() {
        let mounts = tempfile::tempdir().unwrap();
        let at = |path: &str| mounts.path().join(path);
        // Version 2: pages of files are free; the group around it has less.
        let stat = "anon 1\ninactive_file 1048576\nactive_file 2097152\nfile 99\n";
        write(&at("a/b"), &[("memory.max", "104857600\n"), ("memory.current", "52428800\n"), ("memory.stat", stat)]);
        write(&at("a"), &[("memory.max", "max\n"), ("memory.current", "99999999\n"), ("memory.stat", "")]);
        let found = of_groups("0::/a/b\n", mounts.path());
        assert_eq!(found, Some(AvailableMemory { total: 100 * MIB, free: 53 * MIB }));
        write(&at("a"), &[("memory.max", "62914560\n")]);
        std::fs::write(at("a/memory.current"), "57671680").unwrap();
        assert_eq!(of_groups("0::/a/b\n", mounts.path()), Some(AvailableMemory { total: 60 * MIB, free: 5 * MIB }));
        // More is used than the limit, which was lowered.
        write(&at("a"), &[("memory.max", "1048576\n")]);
        assert_eq!(of_groups("0::/a/b\n", mounts.path()), Some(AvailableMemory { total: MIB, free: 0 }));
        assert_eq!(of_groups("0::/other\n1:cpu:/a\n", mounts.path()), None);
    }

    #[test]
    fn limits_of_version_1() {
        let mounts = tempfile::tempdir().unwrap();
        let group = mounts.path().join("memory/g");
        let stat = "inactive_file 1\ntotal_inactive_file 3145728\ntotal_active_file 1048576\n";
        let files =
            [("memory.limit_in_bytes", "33554432\n"), ("memory.usage_in_bytes", "20971520\n"), ("memory.stat", stat)];
        write(&group, &files);
        write(&mounts.path().join("memory"), &[("memory.limit_in_bytes", "9223372036854771712\n")]);
        let groups = "4:cpu,memory:/g\n1:name=systemd:/x\n";
        assert_eq!(of_groups(groups, mounts.path()), Some(AvailableMemory { total: 32 * MIB, free: 16 * MIB }));
        // A path of the host's that the container does not see: its own group is the root.
        write(&mounts.path().join("memory"), &files);
        assert_eq!(
            of_groups("4:memory:/docker/1\n", mounts.path()),
            Some(AvailableMemory { total: 32 * MIB, free: 16 * MIB })
        );
    }

    #[test]
    fn what_zfs_gives_back() {
        let arcstats =
            "13 1 0x01 147 39984 5 9\nname    type data\nc_min   4    300\nsize    4    1000\nhdr_size 4 7\n";
        assert_eq!((of_zfs(arcstats), of_zfs("size 4\nc_min 4 3\n"), of_zfs("")), (700, 0, 0));
    }

    #[test]
    fn this_machine_has_memory() {
        if let Some(AvailableMemory { total, free }) = memory() {
            assert!(free > 0 && free <= total, "{free} of {total}");
        }
    }
}
