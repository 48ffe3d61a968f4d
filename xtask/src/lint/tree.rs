//! The modules of a crate as rustc finds them from its root file, without those of tests.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, Item, UseTree, Visibility};

/// One module: a file, or a block `mod name { ... }` of one.
pub(crate) struct Module {
    /// Its path below the crate root; empty for the root itself.
    pub(crate) path: Vec<String>,
    /// The source file.
    pub(crate) file: PathBuf,
    /// Whether other crates see it, as far as its own line says.
    pub(crate) is_public: bool,
    /// Its items, without child modules and without `#[cfg(test)]`.
    pub(crate) items: Vec<Item>,
    attributes: Vec<Attribute>,
}

impl Module {
    /// Everything that it holds.
    pub(crate) fn tokens(&self) -> TokenStream {
        let attributes = self.attributes.iter().map(ToTokens::to_token_stream);
        attributes
            .chain(self.items.iter().map(ToTokens::to_token_stream))
            .collect()
    }
}

/// All modules of the crate with this root file.
///
/// # Errors
/// When a file cannot be read or is no Rust.
pub(crate) fn modules(root_file: &Path) -> Result<Vec<Module>> {
    let folder = root_file.parent().context("a root file has a folder")?;
    let mut found = Vec::new();
    let syn::File { attrs, items, .. } = parse(root_file)?;
    let root = Module {
        path: Vec::new(),
        file: root_file.to_owned(),
        is_public: true,
        items,
        attributes: attrs,
    };
    add(root, folder, &mut found)?;
    Ok(found)
}

/// The syntax of a file.
///
/// # Errors
/// When it cannot be read or is no Rust.
pub(crate) fn parse(file: &Path) -> Result<syn::File> {
    let name = || file.display().to_string();
    let text = std::fs::read_to_string(file).with_context(name)?;
    syn::parse_file(&text).with_context(name)
}

/// `folder`: where the files of child modules are.
fn add(mut module: Module, folder: &Path, found: &mut Vec<Module>) -> Result<()> {
    let mut items = Vec::new();
    for item in std::mem::take(&mut module.items) {
        if is_test(&item) {
            continue;
        }
        let Item::Mod(child) = item else {
            items.push(item);
            continue;
        };
        let name = child.ident.to_string();
        let below = folder.join(&name);
        let file = match child.content {
            Some(_) => module.file.clone(),
            None => [folder.join(format!("{name}.rs")), below.join("mod.rs")]
                .into_iter()
                .find(|f| f.exists())
                .with_context(|| format!("{}: no file of `mod {name};`", module.file.display()))?,
        };
        let (inner, inside) = match child.content {
            Some((_, items)) => (Vec::new(), items),
            None => parse(&file).map(|f| (f.attrs, f.items))?,
        };
        let child = Module {
            path: module.path.iter().cloned().chain([name]).collect(),
            file,
            is_public: module.is_public && matches!(child.vis, Visibility::Public(_)),
            items: inside,
            attributes: child.attrs.into_iter().chain(inner).collect(),
        };
        add(child, &below, found)?;
    }
    module.items = items;
    found.push(module);
    Ok(())
}

/// Whether it has `#[cfg(test)]`.
fn is_test(item: &Item) -> bool {
    let trees: Vec<TokenTree> = item.to_token_stream().into_iter().collect();
    let attributes = trees.chunks(2).map_while(|pair| match pair {
        [TokenTree::Punct(sign), TokenTree::Group(group)] if sign.as_char() == '#' => {
            Some(words(group.stream()))
        }
        _ => None,
    });
    let has = |words: &[String], word: &str| words.iter().any(|w| w == word);
    attributes
        .into_iter()
        .any(|a| a.first().is_some_and(|w| w == "cfg") && has(&a, "test") && !has(&a, "not"))
}

/// The words of each attribute that has `allow` or `expect` in it.
pub(crate) fn relaxations(tokens: TokenStream) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for tree in tokens {
        let TokenTree::Group(group) = tree else { continue };
        let words = words(group.stream());
        let is_attribute = group.delimiter() == Delimiter::Bracket;
        if is_attribute && words.iter().any(|w| w == "allow" || w == "expect") {
            found.push(words);
        } else {
            found.extend(relaxations(group.stream()));
        }
    }
    found
}

/// Every identifier, also inside of macros' arguments.
pub(crate) fn words(tokens: TokenStream) -> Vec<String> {
    tokens
        .into_iter()
        .flat_map(|tree| match tree {
            TokenTree::Ident(word) => vec![word.to_string()],
            TokenTree::Group(group) => words(group.stream()),
            _ => Vec::new(),
        })
        .collect()
}

/// The names just below the crate root that code in `module` uses: of `crate::a::b` and `super::super::{a, c::d}`.
pub(crate) fn below_root(tokens: TokenStream, module: &[String]) -> Vec<String> {
    let trees: Vec<TokenTree> = tokens.into_iter().collect();
    let mut found = Vec::new();
    for (i, tree) in trees.iter().enumerate() {
        match tree {
            TokenTree::Ident(word) if word == "crate" => follow(&trees[i + 1..], 0, &mut found),
            // The first of several; a `super` after a path's start is followed from there.
            TokenTree::Ident(word) if word == "super" && !follows_path(&trees[..i]) => {
                follow(&trees[i + 1..], module.len().saturating_sub(1), &mut found);
            }
            TokenTree::Group(group) if !follows_path(&trees[..i]) => {
                found.extend(below_root(group.stream(), module));
            }
            _ => {}
        }
    }
    found
}

fn follows_path(before: &[TokenTree]) -> bool {
    matches!(before.last(), Some(TokenTree::Punct(p)) if p.as_char() == ':')
        && matches!(before.iter().rev().nth(1), Some(TokenTree::Punct(p)) if p.as_char() == ':')
}

/// The rest of a path that has come to the module of this depth; 0 is the root.
fn follow(rest: &[TokenTree], depth: usize, found: &mut Vec<String>) {
    let [TokenTree::Punct(a), TokenTree::Punct(b), next, rest @ ..] = rest else {
        return;
    };
    if a.as_char() != ':' || b.as_char() != ':' {
        return;
    }
    step(next, rest, depth, found);
}

fn step(next: &TokenTree, rest: &[TokenTree], depth: usize, found: &mut Vec<String>) {
    match next {
        TokenTree::Ident(word) if word == "super" => follow(rest, depth.saturating_sub(1), found),
        TokenTree::Ident(word) if depth == 0 && word != "self" => found.push(word.to_string()),
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
            let trees: Vec<TokenTree> = group.stream().into_iter().collect();
            let is_comma = |t: &TokenTree| matches!(t, TokenTree::Punct(p) if p.as_char() == ',');
            for part in trees.split(is_comma) {
                if let [first, rest @ ..] = part {
                    step(first, rest, depth, found);
                }
            }
        }
        _ => {}
    }
}

/// What a `use` brings in: each name with its whole path, but for `self` and `crate` at its start.
pub(crate) fn brought_in(tree: &UseTree) -> Vec<(String, Vec<String>)> {
    fn leaves(tree: &UseTree, path: &[String], found: &mut Vec<(String, Vec<String>)>) {
        let with = |name: String| path.iter().cloned().chain([name]).collect::<Vec<_>>();
        match tree {
            UseTree::Path(step) if ["self", "crate"].iter().any(|w| step.ident == w) => {
                leaves(&step.tree, path, found);
            }
            UseTree::Path(step) => leaves(&step.tree, &with(step.ident.to_string()), found),
            UseTree::Name(leaf) => found.push((leaf.ident.to_string(), with(leaf.ident.to_string()))),
            UseTree::Rename(leaf) => found.push((leaf.rename.to_string(), with(leaf.ident.to_string()))),
            UseTree::Group(group) => group.items.iter().for_each(|t| leaves(t, path, found)),
            UseTree::Glob(_) => {}
        }
    }
    let mut found = Vec::new();
    leaves(tree, &[], &mut found);
    found
}
