//! slurmd's command line, as getopt reads it.

/// The options of slurmd that identify its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// `-N`.
    pub node_name: Option<String>,
    /// `-f`.
    pub conf: Option<String>,
    /// `-b`: slurmd reports its own start as the boot of the node.
    pub is_boot: bool,
}

/// Short options with a value of their own or in the next argument.
const WITH_VALUE: &[char] = &['B', 'd', 'f', 'L', 'n', 'N'];
/// Short options whose value can only be attached.
const WITH_ATTACHED: &[char] = &['F'];
/// Long options whose value may be the next argument.
const LONG_WITH_VALUE: &[&str] = &[
    "--authinfo",
    "--ca-cert-file",
    "--conf",
    "--conf-server",
    "--extra",
    "--instance-id",
    "--instance-type",
];

/// Parses the arguments after the program's name. The last of two equal options wins, as in slurmd.
pub fn read(args: &[&str]) -> Given {
    let mut given = Given::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if *arg == "--" {
            break;
        }
        if LONG_WITH_VALUE.contains(arg) {
            args.next();
            continue;
        }
        let Some(cluster) = arg.strip_prefix('-').filter(|rest| !rest.starts_with('-')) else {
            continue;
        };
        let mut rest = cluster.chars();
        while let Some(option) = rest.next() {
            if WITH_ATTACHED.contains(&option) {
                break;
            }
            given.is_boot |= option == 'b';
            if !WITH_VALUE.contains(&option) {
                continue;
            }
            let attached = rest.as_str();
            let value = if attached.is_empty() {
                args.next().copied()
            } else {
                Some(attached)
            };
            match option {
                'N' => given.node_name = value.map(str::to_owned),
                'f' => given.conf = value.map(str::to_owned),
                _ => {}
            }
            break;
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_getopt_does() {
        for (line, node_name, conf) in [
            ("-D -N n0 -f /etc/slurm.conf", Some("n0"), Some("/etc/slurm.conf")),
            ("-DNn0", Some("n0"), None),
            ("-vDN n0 -f/a", Some("n0"), Some("/a")),
            ("--conf-server -N -N n1", Some("n1"), None),
            ("--conf-server=head:6817 -N n1", Some("n1"), None),
            ("-L -N -s", None, None),
            ("-FNfeature -D", None, None),
            ("-Z --conf Feature=a -N n2", Some("n2"), None),
            ("-N n1 -N n2", Some("n2"), None),
            ("-- -N n1", None, None),
            ("-N", None, None),
            ("", None, None),
        ] {
            let args: Vec<&str> = line.split(' ').collect();
            let given = read(&args);
            assert_eq!(given.node_name.as_deref(), node_name, "{line}");
            assert_eq!(given.conf.as_deref(), conf, "{line}");
        }
    }

    #[test]
    fn the_boot_option_alone_and_among_others() {
        for (line, is_boot) in [
            ("-b", true),
            ("-bD", true),
            ("-Dvb", true),
            ("--systemd -b -N n0", true),
            ("-DbNn0", true),
            ("-N b -D", false),
            ("-Nb -D", false),
            ("-N -b", false),
            ("-Fb", false),
            ("-L/var/log/b", false),
            ("--conf -b", false),
            ("--boot", false),
            ("-- -b", false),
        ] {
            let args: Vec<&str> = line.split(' ').collect();
            assert_eq!(read(&args).is_boot, is_boot, "{line}");
        }
    }
}
