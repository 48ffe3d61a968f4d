//! Requirements of the program on the system where it is installed.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::cmd;

/// The packages that hold its libraries, as dpkg-shlibdeps finds them.
///
/// # Errors
/// When dpkg-shlibdeps fails: a library of no package.
pub(super) fn depends(binary: &Path, work: &Path) -> Result<String> {
    // It looks for a source package around it.
    fs::create_dir_all(work.join("debian"))?;
    fs::write(
        work.join("debian/control"),
        "Source: nodewarden\n\nPackage: nodewarden\nArchitecture: any\n",
    )?;
    let mut command = cmd::program("dpkg-shlibdeps", &["-O"]);
    let text = cmd::output(command.arg(binary).current_dir(work))?;
    text.lines()
        .find_map(|l| l.strip_prefix("shlibs:Depends="))
        .map(|list| list.trim().to_owned())
        .with_context(|| format!("dpkg-shlibdeps said {text:?}"))
}

/// The newest version of glibc's symbols that it asks for: the oldest glibc that can run it.
///
/// # Errors
/// When objdump fails or the program asks for none.
pub(super) fn newest_glibc(binary: &Path) -> Result<String> {
    let text = cmd::output(cmd::program("objdump", &["-T"]).arg(binary))?;
    newest(&text).context("no symbol of glibc")
}

fn newest(table: &str) -> Option<String> {
    let versions = table.split("GLIBC_").skip(1).filter_map(|rest| {
        let number: &str = rest.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
        let parts: Vec<u32> = number.split('.').map(|p| p.parse().unwrap_or(0)).collect();
        Some((parts, number.to_owned()))
    });
    versions.max().map(|(_, number)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number_and_private_ones_do_not_count() {
        let table = "0 DF *UND* 0 (GLIBC_2.2.5) write\n0 DF *UND* 0 (GLIBC_2.34) x\n0 (GLIBC_2.9) y\n\
                     0 (GLIBC_PRIVATE) z\n0 (GCC_3.0) w\n";
        assert_eq!(newest(table).as_deref(), Some("2.34"));
        assert_eq!(newest("nothing"), None);
    }
}
