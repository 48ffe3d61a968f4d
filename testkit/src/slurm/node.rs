//! One node as `scontrol show node` prints it.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

/// Keys and values of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    fields: BTreeMap<String, String>,
}

/// Lines whose value is free text, so that `=` in it starts no new key.
const FREE_TEXT: [&str; 4] = ["Reason", "Comment", "Extra", "OS"];

impl Node {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut fields = BTreeMap::new();
        for line in text.lines().map(str::trim) {
            if let Some((key, value)) = line.split_once('=').filter(|(key, _)| FREE_TEXT.contains(key)) {
                fields.insert(key.to_owned(), value.trim().to_owned());
                continue;
            }
            for (key, value) in line.split_whitespace().filter_map(|word| word.split_once('=')) {
                fields.insert(key.to_owned(), value.to_owned());
            }
        }
        if !fields.contains_key("State") {
            bail!("not a node: {text}");
        }
        Ok(Self { fields })
    }

    /// A value by its key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.fields.get(key).map(String::as_str)
    }

    /// All of them.
    pub fn fields(&self) -> &BTreeMap<String, String> {
        &self.fields
    }

    /// `State=`, such as `IDLE+DRAIN`.
    pub fn state(&self) -> &str {
        self.get("State").unwrap_or_default()
    }

    /// Whether the state has this flag or base state.
    pub fn is(&self, flag: &str) -> bool {
        self.state()
            .split('+')
            .any(|part| part.trim_end_matches('*') == flag)
    }

    /// `Reason=` without the bracket with user and time.
    pub fn reason(&self) -> Option<&str> {
        let reason = self.get("Reason")?;
        let text = reason
            .rsplit_once(" [")
            .filter(|(_, by)| by.ends_with(']') && by.contains('@'));
        Some(text.map_or(reason, |(text, _)| text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_free_text_whole() {
        let text = "NodeName=n0 Arch=x86_64 \n   OS=Linux 6.1 #1 SMP\n   State=IDLE+DRAIN* Port=1\n\
                    \n   Reason=nodewarden:xid g act=reset [x] id=7 [root@2026-01-02T03:04:05]\n   Comment=a=b c=d";
        let node = Node::parse(text).unwrap();
        assert_eq!(node.reason(), Some("nodewarden:xid g act=reset [x] id=7"));
        assert_eq!(
            (node.get("Comment"), node.get("OS")),
            (Some("a=b c=d"), Some("Linux 6.1 #1 SMP"))
        );
        assert!(node.is("DRAIN") && node.is("IDLE") && !node.is("DOWN") && node.get("act").is_none());
        assert!(Node::parse("slurm_load_node error").is_err());
    }
}
