//! What only a build with the feature `testing` has: options that forge boot id and time. A released program has none.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use quote::ToTokens;
use syn::Item;

use crate::cmd;
use crate::lint::tree;

/// Fails where a program that is shipped has one of them.
///
/// # Errors
/// When it has, or when the source or the program cannot be read.
pub(crate) fn refuse(program: &Path) -> Result<()> {
    let (found, _) = options_in(program)?;
    ensure!(
        found.is_empty(),
        "{}: for tests alone: {found:?}",
        program.display()
    );
    Ok(())
}

/// Fails where a program for tests lacks one of them: then [`refuse`] would find nothing, whatever is shipped.
///
/// # Errors
/// As [`refuse`].
pub(crate) fn require(program: &Path) -> Result<()> {
    let (_, lost) = options_in(program)?;
    ensure!(
        lost.is_empty(),
        "{}: built for tests, and lacks {lost:?}",
        program.display()
    );
    Ok(())
}

/// The options whose names a program has, and those that it lacks.
fn options_in(program: &Path) -> Result<(Vec<String>, Vec<String>)> {
    let bytes = std::fs::read(program).with_context(|| program.display().to_string())?;
    let text = String::from_utf8_lossy(&bytes);
    let names = options(&cmd::root().join("agent/src/lib.rs"))?;
    Ok(names.into_iter().partition(|name| text.contains(name)))
}

/// The names of the options: fields behind `#[cfg(feature = "testing")]`, as clap writes them.
fn options(root_file: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for module in tree::modules(root_file)? {
        for item in module.items {
            let Item::Struct(item) = item else { continue };
            for field in &item.fields {
                let attributes: String = field
                    .attrs
                    .iter()
                    .map(|a| a.to_token_stream().to_string())
                    .collect();
                if attributes.contains("feature = \"testing\"") {
                    let name = field.ident.as_ref().context("an option without a name")?;
                    names.push(name.to_string().replace('_', "-"));
                }
            }
        }
    }
    if names.is_empty() {
        bail!(
            "{}: found no option of the feature `testing`",
            root_file.display()
        );
    }
    Ok(names)
}
