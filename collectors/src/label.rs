//! Label values, whose texts the series of a layout share.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A label value. A copy shares the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(Arc<str>);

impl Label {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for Label {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Label {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for Label {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl PartialEq<str> for Label {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Label {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

/// The label values of the series that are added to a layout: each text exists once.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    seen: HashSet<Label>,
    last: Arc<[Label]>,
}

impl Labels {
    /// The label values of one series.
    pub fn of(&mut self, labels: &[impl AsRef<str>]) -> Arc<[Label]> {
        let texts = labels.iter().map(AsRef::as_ref);
        if !self.last.iter().map(Label::as_str).eq(texts.clone()) {
            self.last = texts.map(|text| shared(&mut self.seen, text)).collect();
        }
        Arc::clone(&self.last)
    }
}

fn shared(seen: &mut HashSet<Label>, text: &str) -> Label {
    if let Some(label) = seen.get(text) {
        return label.clone();
    }
    let label = Label::from(text);
    seen.insert(label.clone());
    label
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_once_and_so_are_the_values_of_neighbours() {
        let mut labels = Labels::default();
        let [one, two, three] = [["gpu0", "x"], ["gpu0", "x"], ["gpu0", "y"]].map(|l| labels.of(&l));
        assert!(Arc::ptr_eq(&one, &two));
        assert!(Arc::ptr_eq(&one[0].0, &three[0].0));
        assert_eq!(*three, ["gpu0", "y"]);
        assert!(labels.of(&[""; 0]).is_empty());
        assert_eq!(format!("{0} {0:?}", three[1]), r#"y "y""#);
    }
}
