//! Paths of JSON documents, from the types that serde writes: an example would lack whatever it happens not to have.

use std::path::Path;

use anyhow::{Context, Result, bail};
use quote::ToTokens;
use syn::{Attribute, Fields, GenericArgument, Item, LitStr, PathArguments, Type};

use crate::tree::{self, Module};

/// Every type that can be written, with its module.
pub(crate) struct Types {
    modules: Vec<Module>,
}

/// What serde's attributes say of a type, a variant or a field.
#[derive(Default)]
struct Serde {
    words: Vec<String>,
    rename: Option<String>,
    rename_all: Option<String>,
}

impl Serde {
    fn of(attributes: &[Attribute]) -> Result<Self> {
        let mut said = Self::default();
        for attribute in attributes.iter().filter(|a| a.path().is_ident("serde")) {
            attribute.parse_nested_meta(|meta| {
                let word = meta.path.to_token_stream().to_string();
                let value = meta.value().ok().map(|v| v.parse::<LitStr>()).transpose()?;
                match word.as_str() {
                    "rename" => said.rename = value.map(|v| v.value()),
                    "rename_all" => said.rename_all = value.map(|v| v.value()),
                    _ => said.words.push(word),
                }
                Ok(())
            })?;
        }
        if let Some(word) = said
            .words
            .iter()
            .find(|w| ["tag", "untagged", "flatten", "into"].contains(&w.as_str()))
        {
            bail!("serde({word}) is not known here");
        }
        Ok(said)
    }

    fn has(&self, word: &str) -> bool {
        self.words.iter().any(|w| w == word)
    }

    /// The name of a variant.
    fn name(&self, own: &str, all: Option<&str>) -> Result<String> {
        let words = |by: &str| {
            let parts = own.char_indices().map(|(i, c)| {
                if i > 0 && c.is_uppercase() {
                    format!("{by}{c}")
                } else {
                    c.to_string()
                }
            });
            parts.collect::<String>().to_lowercase()
        };
        Ok(match (&self.rename, all) {
            (Some(name), _) => name.clone(),
            (None, None) => own.to_owned(),
            (None, Some("lowercase")) => own.to_lowercase(),
            (None, Some("UPPERCASE")) => own.to_uppercase(),
            (None, Some("kebab-case")) => words("-"),
            (None, Some("snake_case")) => words("_"),
            (None, Some(other)) => bail!("serde(rename_all = {other:?}) is not known here"),
        })
    }
}

impl Types {
    /// Reads the crates below the repository's root that run on a node.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let agent = std::fs::read_dir(root.join("agent"))?;
        let mut folders = agent.map(|e| Ok(e?.path())).collect::<Result<Vec<_>>>()?;
        folders.extend([root.join("agent"), root.join("collectors")]);
        folders.sort();
        let mut modules = Vec::new();
        for file in folders
            .iter()
            .map(|f| f.join("src/lib.rs"))
            .filter(|f| f.exists())
        {
            modules.extend(tree::modules(&file)?);
        }
        Ok(Self { modules })
    }

    /// `json name.path: type` for each value in a document of this type.
    pub(crate) fn lines(&self, name: &str, of: &str) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        self.walk(&syn::parse_str(of)?, None, name, "", &mut lines)
            .with_context(|| name.to_owned())?;
        Ok(lines)
    }

    /// `mark`: `?` if it may be absent or null.
    fn walk<'s>(
        &'s self,
        of: &Type,
        from: Option<&'s Module>,
        at: &str,
        mark: &str,
        lines: &mut Vec<String>,
    ) -> Result<()> {
        let mut leaf = |kind: &str| lines.push(format!("json {at}: {kind}{mark}"));
        let path = match of {
            Type::Reference(of) => return self.walk(&of.elem, from, at, mark, lines),
            Type::Tuple(of) => {
                let mut parts = of.elems.iter().enumerate();
                return parts.try_for_each(|(i, of)| self.walk(of, from, &format!("{at}[{i}]"), mark, lines));
            }
            Type::Path(of) => &of.path,
            other => bail!("{at}: `{}` is not known here", other.to_token_stream()),
        };
        let last = path.segments.last().context("a path without an end")?;
        let name = last.ident.to_string();
        let inner = match &last.arguments {
            PathArguments::AngleBracketed(list) => list.args.iter().rev().find_map(|a| match a {
                GenericArgument::Type(of) => Some(of),
                _ => None,
            }),
            _ => None,
        };
        match (name.as_str(), inner) {
            ("bool", _) => leaf("boolean"),
            ("String" | "str" | "char", _) => leaf("string"),
            ("u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64", _) => leaf("integer"),
            ("f32" | "f64", _) => leaf("number"),
            ("Option", Some(of)) => self.walk(of, from, at, "?", lines)?,
            ("Box" | "Arc" | "Rc", Some(of)) => self.walk(of, from, at, mark, lines)?,
            ("Vec" | "VecDeque" | "BTreeSet", Some(of)) => {
                self.walk(of, from, &format!("{at}[]"), mark, lines)?
            }
            ("BTreeMap" | "HashMap", Some(of)) => self.walk(of, from, &format!("{at}.*"), mark, lines)?,
            _ => {
                let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
                let (module, item) = self.find(&segments, from).with_context(|| at.to_owned())?;
                self.item(item, module, at, mark, lines)
                    .with_context(|| format!("{at}: {name}"))?;
            }
        }
        Ok(())
    }

    fn item<'s>(
        &'s self,
        item: &Item,
        module: &'s Module,
        at: &str,
        mark: &str,
        lines: &mut Vec<String>,
    ) -> Result<()> {
        match item {
            Item::Struct(of) => {
                let all = Serde::of(&of.attrs)?;
                if let Fields::Unnamed(fields) = &of.fields
                    && let [field] = fields.unnamed.iter().collect::<Vec<_>>()[..]
                {
                    return self.walk(&field.ty, Some(module), at, mark, lines);
                }
                if all.rename_all.is_some() {
                    bail!("serde(rename_all) of a struct is not known here");
                }
                for field in &of.fields {
                    let said = Serde::of(&field.attrs)?;
                    if said.has("skip") || said.has("skip_serializing") {
                        continue;
                    }
                    let own = field
                        .ident
                        .as_ref()
                        .context("a tuple struct is not known here")?
                        .to_string();
                    let at = format!("{at}.{}", said.rename.as_ref().unwrap_or(&own));
                    let mark = if said.has("skip_serializing_if") {
                        "?"
                    } else {
                        mark
                    };
                    if said.has("with") || said.has("serialize_with") {
                        lines.push(format!("json {at}: of its own form{mark}"));
                    } else {
                        self.walk(&field.ty, Some(module), &at, mark, lines)?;
                    }
                }
            }
            Item::Enum(of) => {
                let all = Serde::of(&of.attrs)?.rename_all;
                let mut words = Vec::new();
                for variant in &of.variants {
                    if !matches!(variant.fields, Fields::Unit) {
                        bail!("a variant with fields is not known here: {}", variant.ident);
                    }
                    words.push(Serde::of(&variant.attrs)?.name(&variant.ident.to_string(), all.as_deref())?);
                }
                lines.push(format!("json {at}: {}{mark}", words.join("|")));
            }
            _ => bail!("neither struct nor enum"),
        }
        Ok(())
    }

    /// The type that a path means: one of its own module, else the one of the module that stands before its name, there or
    /// in the `use` of it. Only a `use` may name another module, which passes the type on.
    fn find<'s>(&'s self, path: &[String], from: Option<&'s Module>) -> Result<(&'s Module, &'s Item)> {
        let name = path.last().context("an empty path")?;
        let of = |module: &'s Module| {
            let item = module.items.iter().find(|item| match item {
                Item::Struct(i) => i.ident == name && writes(&i.attrs),
                Item::Enum(i) => i.ident == name && writes(&i.attrs),
                _ => false,
            });
            item.map(|item| (module, item))
        };
        if let (Some(own), [_]) = (from.and_then(of), path) {
            return Ok(own);
        }
        let uses = from
            .into_iter()
            .flat_map(|m| &m.items)
            .filter_map(|item| match item {
                Item::Use(line) => Some(tree::brought_in(&line.tree)),
                _ => None,
            });
        let brought = uses.flatten().find(|(n, _)| n == name).map(|(_, path)| path);
        let before = match path {
            [.., before, _] => Some(before.clone()),
            _ => brought.and_then(|path| path.into_iter().rev().nth(1)),
        };
        let all: Vec<_> = self.modules.iter().filter_map(of).collect();
        let near = |(module, _): &&(&Module, &Item)| module.path.last() == before.as_ref();
        let below = |(module, _): &&(&Module, &Item)| from.is_some_and(|f| module.path.starts_with(&f.path));
        let is_named = path.len() > 1;
        // The nearest that is the only one.
        let narrowed = [
            all.iter().filter(near).filter(below).collect::<Vec<_>>(),
            all.iter().filter(near).collect(),
            all.iter().filter(|_| !is_named).collect(),
        ];
        match narrowed
            .iter()
            .find(|found| !found.is_empty())
            .map(|found| &found[..])
        {
            Some([one]) => Ok(**one),
            Some(several) => bail!("`{}` is one of {} types", path.join("::"), several.len()),
            None => bail!("no type `{}`", path.join("::")),
        }
    }
}

/// Whether serde writes it.
fn writes(attributes: &[Attribute]) -> bool {
    let words = attributes.iter().flat_map(|a| tree::words(a.to_token_stream()));
    words.into_iter().any(|w| w == "Serialize")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_a_module_means_no_type_of_another_module() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let types = Types::read(&root).unwrap();
        assert!(types.lines("x", "view::IncidentView").is_ok());
        // Both are the only ones of their name, elsewhere.
        for of in ["proto::IncidentView", "Vec<status::NodeStatus>"] {
            let error = types.lines("x", of).unwrap_err();
            assert!(format!("{error:#}").contains("no type `"), "{of}: {error:#}");
        }
    }
}
