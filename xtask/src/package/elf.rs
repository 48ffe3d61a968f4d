//! Requirements of the program on the system where it is installed.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::cmd;
use crate::supply::Arch;

/// Libraries of glibc 2.28; later releases have some of them for old programs only. NVML is loaded when it is there.
const LIBRARIES: &[&str] = &[
    "ld-linux-aarch64.so.1",
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libdl.so.2",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
];

/// What a program needs.
pub(super) struct Needs {
    /// The newest version of glibc's symbols: the oldest glibc that can run it.
    pub(super) glibc: String,
    /// Libraries that are not glibc's.
    others: Vec<String>,
}

/// Reads the dynamic section and the symbols of a program.
///
/// # Errors
/// When readelf fails, the program is for another machine, or it asks for no symbol of glibc.
pub(super) fn needs(binary: &Path, arch: Arch) -> Result<Needs> {
    let read = |option| cmd::output(cmd::program("readelf", &["--wide", option]).arg(binary));
    let header = read("--file-header")?;
    ensure!(
        machine(&header) == Some(arch.machine()),
        "{}: found a program for {:?}, expected {}",
        binary.display(),
        machine(&header),
        arch.machine()
    );
    let headers = read("--dynamic")?;
    let symbols = read("--dyn-syms")?;
    Ok(Needs {
        glibc: newest(&symbols).with_context(|| format!("{}: no symbol of glibc", binary.display()))?,
        others: foreign(&headers),
    })
}

impl Needs {
    /// Fails where a program needs more than a glibc of that version.
    ///
    /// # Errors
    /// When it does.
    pub(super) fn only_glibc(&self, most: &str) -> Result<()> {
        ensure!(
            parts(&self.glibc) <= parts(most),
            "the program needs GLIBC_{}, expected at most GLIBC_{most}",
            self.glibc
        );
        ensure!(
            self.others.is_empty(),
            "the program needs {}, expected glibc's libraries only",
            self.others.join(" ")
        );
        Ok(())
    }

    /// As the field Depends of Debian.
    ///
    /// # Errors
    /// When it needs a library of an unknown package.
    pub(super) fn debian(&self) -> Result<String> {
        let mut list = format!("libc6 (>= {})", self.glibc);
        for library in &self.others {
            match library.as_str() {
                // rustc links it where zig does not build the program.
                "libgcc_s.so.1" => list += ", libgcc-s1",
                other => bail!("the program needs {other}, expected libraries of glibc and gcc"),
            }
        }
        Ok(list)
    }
}

fn machine(header: &str) -> Option<&str> {
    let mut lines = header
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Machine:"));
    lines.next().map(str::trim)
}

/// Libraries that are not glibc's.
fn foreign(headers: &str) -> Vec<String> {
    let needed = headers.lines().filter(|line| line.contains("(NEEDED)"));
    needed
        .filter_map(|line| line.split_once('[')?.1.split(']').next())
        .filter(|name| !LIBRARIES.contains(name))
        .map(str::to_owned)
        .collect()
}

fn newest(table: &str) -> Option<String> {
    let versions = table.split("GLIBC_").skip(1).filter_map(|rest| {
        let number: &str = rest.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
        Some((parts(number), number.to_owned()))
    });
    versions.max().map(|(_, number)| number)
}

fn parts(version: &str) -> Vec<u32> {
    version.split('.').map(|p| p.parse().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number_and_private_ones_do_not_count() {
        let table = "2: 0 0 FUNC GLOBAL DEFAULT UND write@GLIBC_2.2.5 (2)\n3: 0 UND x@GLIBC_2.34 (3)\n4: 0 UND y@GLIBC_2.9 (4)\n\
                     5: 0 UND z@GLIBC_PRIVATE (5)\n6: 0 UND w@GCC_3.0 (6)\n";
        assert_eq!(newest(table).as_deref(), Some("2.34"));
        assert_eq!(newest("nothing"), None);
    }

    #[test]
    fn a_newer_glibc_than_the_oldest_supported_is_an_error() {
        let program = |glibc: &str, others: &[&str]| Needs {
            glibc: glibc.to_owned(),
            others: others.iter().map(ToString::to_string).collect(),
        };
        for old in ["2.28", "2.2.5", "2.9"] {
            program(old, &[]).only_glibc("2.28").unwrap();
        }
        for new in ["2.29", "2.100", "3.0", "2.28.1"] {
            let error = program(new, &[]).only_glibc("2.28").unwrap_err().to_string();
            assert!(
                error.contains(&format!("GLIBC_{new},")) && error.ends_with("GLIBC_2.28"),
                "{error}"
            );
        }
        let error = program("2.28", &["libssl.so.3"]).only_glibc("2.28").unwrap_err();
        assert!(error.to_string().contains("libssl.so.3"));
        assert!(program("2.28", &["libssl.so.3"]).debian().is_err());
        assert_eq!(program("2.28", &[]).debian().unwrap(), "libc6 (>= 2.28)");
    }

    #[test]
    fn a_library_of_another_package_is_named() {
        let headers = " 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]\n\
                       \x20 0x0000000000000001 (NEEDED)             Shared library: [libgcc_s.so.1]\n\
                       \x20 0x000000000000000e (SONAME)             Library soname: [x]\n";
        assert_eq!(foreign(headers), ["libgcc_s.so.1"]);
    }

    #[test]
    fn a_program_names_its_machine() {
        let header = "ELF Header:\n  Type:                              DYN\n  Machine:                           AArch64\n";
        assert_eq!(machine(header), Some(Arch::Aarch64.machine()));
        assert_eq!(machine("ELF Header:\n"), None);
    }
}
