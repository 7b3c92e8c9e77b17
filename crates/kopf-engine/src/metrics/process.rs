//! The figures of this process, where the system has `/proc`: on Linux.

use std::fs;

/// How many clock ticks a second has in `/proc`; it is so on all Linux systems.
const TICKS_PER_SECOND: f64 = 100.0;

/// The unit of memory sizes in `/proc/self/status`.
const KIBIBYTE: f64 = 1024.0;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ProcessFigures {
    pub resident_bytes: Option<f64>,
    pub cpu_seconds: Option<f64>,
    pub open_fds: Option<f64>,
    pub threads: Option<f64>,
}

impl ProcessFigures {
    pub(super) fn now() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let open_fds = fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as f64);
        Self { open_fds, ..Self::read(&status, &stat) }
    }

    fn read(status: &str, stat: &str) -> Self {
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            line.split_whitespace().next()?.parse::<f64>().ok()
        };
        // The name of the program is in parentheses, and can contain anything.
        let after_name = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
        let numbers: Vec<&str> = after_name.split_whitespace().collect();
        let ticks = |index: usize| numbers.get(index).and_then(|number| number.parse::<f64>().ok());
        Self {
            resident_bytes: field("VmRSS").map(|kibibytes| kibibytes * KIBIBYTE),
            threads: field("Threads"),
            cpu_seconds: ticks(11).zip(ticks(12)).map(|(user, system)| (user + system) / TICKS_PER_SECOND),
            open_fds: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_linux() {
        let status = "Name:\tpython\nVmRSS:\t   2048 kB\nThreads:\t7\n";
        let stat = "12 (a) b) S 1 1 1 0 -1 4194304 100 0 0 0 150 50 0 0 20 0 7 0 100 1000 500";
        let figures = ProcessFigures::read(status, stat);
        assert_eq!(figures.resident_bytes, Some(2_097_152.0));
        assert_eq!((figures.threads, figures.cpu_seconds), (Some(7.0), Some(2.0)));
        assert_eq!(ProcessFigures::read("", ""), ProcessFigures::default());
    }
}
