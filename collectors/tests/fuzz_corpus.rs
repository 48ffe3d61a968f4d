//! Runs the fuzz functions with any compiler: over their seeds, every cut of them, and mutations that are the same in
//! every run.

#[cfg(test)]
mod corpus {
    use std::path::Path;

    use collectors::{fuzz, sys::root};

    const MUTATIONS: u32 = 400;

    /// A small generator of its own, so that a failure can be repeated anywhere.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, end: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from(self.0 >> 11).unwrap() % end.max(1)
        }
    }

    fn seeds(target: &str) -> Vec<Vec<u8>> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../fixtures/fuzz")
            .join(target);
        let names = root::list(&dir).unwrap().unwrap();
        names
            .iter()
            .map(|name| {
                root::read_bytes(&dir.join(name), root::MAX_FILE)
                    .unwrap()
                    .unwrap()
            })
            .collect()
    }

    fn mutate(bytes: &mut Vec<u8>, numbers: &mut Numbers, other: &[u8]) {
        const TOKENS: [&[u8]; 12] = [
            b"NVRM: Xid (",
            b"PCI:",
            b"):",
            b": ",
            b"\\x",
            b"(",
            b")",
            b"0x",
            b"-1",
            b"99999999999999999999",
            b" Fatal ",
            b"\n",
        ];
        let at = numbers.below(bytes.len() + 1);
        match numbers.below(6) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, u8::try_from(numbers.below(256)).unwrap()),
            2 if at < bytes.len() => bytes[at] ^= 1 << numbers.below(8),
            3 if at < bytes.len() => drop(bytes.remove(at)),
            4 => drop(bytes.splice(at..at, TOKENS[numbers.below(TOKENS.len())].iter().copied())),
            _ => bytes.extend_from_slice(&other[numbers.below(other.len())..]),
        }
    }

    fn run(target: &str, check: fn(&[u8])) {
        let seeds = seeds(target);
        assert!(!seeds.is_empty());
        let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
        for seed in &seeds {
            for end in 0..=seed.len() {
                check(&seed[..end]);
            }
            for _ in 0..MUTATIONS {
                let mut bytes = seed.clone();
                for _ in 0..=numbers.below(4) {
                    let other = numbers.below(seeds.len());
                    mutate(&mut bytes, &mut numbers, &seeds[other]);
                }
                check(&bytes);
            }
        }
    }

    #[test]
    fn kmsg_record() {
        run("kmsg_record", fuzz::kmsg_record);
    }

    #[test]
    fn xid_line() {
        run("xid_line", fuzz::xid_line);
    }

    #[test]
    fn rdma_attribute() {
        run("rdma_attribute", fuzz::rdma_attribute);
    }

    #[test]
    fn netlink_recording() {
        run("netlink_recording", fuzz::netlink_recording);
    }

    #[test]
    fn netlink_messages() {
        run("netlink_messages", fuzz::netlink_messages);
    }

    #[test]
    fn ethernet_answer() {
        run("ethernet_answer", fuzz::ethernet_answer);
    }

    #[test]
    fn ethtool_statistics() {
        run("ethtool_statistics", fuzz::ethtool_statistics);
    }

    #[test]
    fn device_program() {
        run("device_program", fuzz::device_program);
    }

    #[test]
    fn cgroup_path() {
        run("cgroup_path", fuzz::cgroup_path);
    }
}
