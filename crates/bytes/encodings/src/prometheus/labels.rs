//! Conversion of a metric's name and tags to labels.

use super::RejectReason;
use super::names::NameEscaping;
use crate::metric::{self, Kind, Scratch};
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

/// The label for a summary's quantile. A tag with this name becomes `exported_quantile`.
pub const QUANTILE: &[u8] = b"quantile";

/// Suffix of counter names.
const TOTAL: &[u8] = b"_total";

/// How names and tags are converted to labels.
#[derive(Clone, Debug)]
pub struct LabelRules {
    /// Labels that are added to every series, unless a tag has the same name.
    pub constant: Vec<(String, String)>,
    /// Name of the label for the host. The label is omitted if this is `None` or a tag has the same
    /// name.
    pub host_label: Option<String>,
    /// Whether to append `_total` to the names of counters that lack it.
    pub counter_suffix: bool,
    /// How invalid names are escaped.
    pub escaping: NameEscaping,
    /// Maximum length of a label value in bytes. A longer value is truncated at a character
    /// boundary.
    pub value_bytes_max: usize,
}

/// Ranges of one label in `text`.
#[derive(Clone, Debug)]
struct Label {
    name: Range<usize>,
    value: Range<usize>,
}

/// The labels of one series, sorted by name, and the metric name. The buffers are reused for each
/// series.
#[derive(Default)]
pub struct LabelSet {
    family: Vec<u8>,
    labels: Vec<Label>,
    text: Vec<u8>,
    last_key: Vec<u8>,
    scratch: Scratch,
    cut: u64,
    joined: u64,
    /// Hash of the tag keys that differ from their label's name. The hash does not depend on the
    /// order of the keys, and is 0 if no key differs.
    renamed_keys: u32,
}

impl LabelSet {
    /// Begins the labels of a metric: sets the metric name and removes all labels.
    pub fn begin(&mut self, rules: &LabelRules, name: &[u8], kind: Kind) {
        self.family.clear();
        self.labels.clear();
        self.text.clear();
        self.last_key.clear();
        self.renamed_keys = 0;
        let wants_total = kind == Kind::Counter && rules.counter_suffix;
        if rules.escaping == NameEscaping::Values && wants_total && !name.ends_with(TOTAL) {
            return rules.escaping.push_metric_name(&[name, TOTAL].concat(), &mut self.family);
        }
        rules.escaping.push_metric_name(name, &mut self.family);
        if wants_total && !self.family.ends_with(TOTAL) {
            self.family.extend_from_slice(TOTAL);
        }
    }

    /// Builds the labels of the current metric.
    ///
    /// A tag without a value gets the value `true`. Several values of one tag are joined with `,`.
    /// Values of different tags that map to the same label are joined with `;`. Empty values are
    /// omitted, because Prometheus treats them as absent.
    ///
    /// # Errors
    /// Returns an error if the tags are invalid.
    pub fn build(
        &mut self,
        rules: &LabelRules,
        tags: &[u8],
        kind: Kind,
        host: &str,
    ) -> Result<(), RejectReason> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = metric::tags(tags, &mut scratch, |key, value| {
            self.tag(rules.escaping, key, value, kind)
        });
        self.scratch = scratch;
        result.map_err(|_| RejectReason::BadTags)?;
        let constant = rules.constant.iter().map(|(name, value)| (name, value.as_str()));
        for (name, value) in constant.chain(rules.host_label.iter().map(|label| (label, host))) {
            let at = self.text.len();
            self.text.extend_from_slice(name.as_bytes());
            if self.find(&self.text[at..]).is_none() {
                self.push(at..self.text.len(), value.as_bytes());
            }
        }
        self.cut_values(rules.value_bytes_max);
        let LabelSet { labels, text, .. } = self;
        labels.retain(|label| !label.value.is_empty());
        labels.sort_unstable_by(|a, b| text[a.name.clone()].cmp(&text[b.name.clone()]));
        Ok(())
    }

    fn tag(&mut self, escaping: NameEscaping, key: &[u8], value: &[u8], kind: Kind) {
        let at = self.text.len();
        escaping.push_label_name(key, &mut self.text);
        if kind == Kind::Distribution && &self.text[at..] == QUANTILE {
            self.text.truncate(at);
            self.text.extend_from_slice(b"exported_quantile");
        }
        let is_first = self.last_key != key;
        if is_first && &self.text[at..] != key {
            self.renamed_keys = self.renamed_keys.wrapping_add(xxh3_64(key) as u32);
        }
        let value = if value.is_empty() { b"true" } else { value };
        match self.find(&self.text[at..]) {
            None => self.push(at..self.text.len(), value),
            Some(index) => {
                self.text.truncate(at);
                self.join(index, if is_first { b';' } else { b',' }, value);
                self.joined += u64::from(is_first);
            }
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
    }

    fn find(&self, name: &[u8]) -> Option<usize> {
        self.labels.iter().position(|label| &self.text[label.name.clone()] == name)
    }

    fn push(&mut self, name: Range<usize>, value: &[u8]) {
        let at = self.text.len();
        self.text.extend_from_slice(value);
        self.labels.push(Label { name, value: at..self.text.len() });
    }

    fn join(&mut self, index: usize, separator: u8, value: &[u8]) {
        let at = self.text.len();
        self.text.extend_from_within(self.labels[index].value.clone());
        self.text.push(separator);
        self.text.extend_from_slice(value);
        self.labels[index].value = at..self.text.len();
    }

    fn cut_values(&mut self, bytes_max: usize) {
        for Label { value, .. } in &mut self.labels {
            if value.len() > bytes_max {
                let is_continuation =
                    |at: &usize| self.text[value.start + at] & 0b1100_0000 == 0b1000_0000;
                let len = (0..=bytes_max).rev().find(|at| !is_continuation(at)).unwrap_or(0);
                value.end = value.start + len;
                self.cut += 1;
            }
        }
    }

    /// Returns the exposed metric name.
    pub fn family(&self) -> &[u8] {
        &self.family
    }

    /// Returns the label names and values.
    pub fn labels(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        self.labels
            .iter()
            .map(|label| (&self.text[label.name.clone()], &self.text[label.value.clone()]))
    }

    /// Returns a hash of the tag keys that differ from their label's name.
    pub fn renamed_keys(&self) -> u32 {
        self.renamed_keys
    }

    /// Returns the number of tags joined to the label of a different tag since the last call.
    pub fn take_joined(&mut self) -> u64 {
        std::mem::take(&mut self.joined)
    }

    /// Returns the number of label values truncated since the last call.
    pub fn take_cut(&mut self) -> u64 {
        std::mem::take(&mut self.cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> LabelRules {
        LabelRules {
            constant: vec![("cluster".into(), "x".into()), ("env".into(), "dev".into())],
            host_label: Some("host".into()),
            counter_suffix: true,
            escaping: NameEscaping::Underscores,
            value_bytes_max: 8,
        }
    }

    fn labels(kind: Kind, name: &str, tags: &str) -> String {
        labels_by(&rules(), kind, name, tags)
    }

    fn labels_by(rules: &LabelRules, kind: Kind, name: &str, tags: &str) -> String {
        let mut set = LabelSet::default();
        set.begin(rules, name.as_bytes(), kind);
        set.build(rules, tags.as_bytes(), kind, "web-1").unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let labels: Vec<_> =
            set.labels().map(|(name, value)| text(name) + "=" + &text(value)).collect();
        text(set.family()) + " " + &labels.join(" ")
    }

    #[test]
    fn labels_are_sorted_and_tags_override_constants() {
        let found = labels(
            Kind::Counter,
            "shop.orders",
            r#"{"Zone":"1","env":"prod","flag":true,"host":"h"}"#,
        );
        assert_eq!(found, "shop_orders_total Zone=1 cluster=x env=prod flag=true host=h");
        assert_eq!(labels(Kind::Counter, "a_total", "{}"), "a_total cluster=x env=dev host=web-1");
        assert_eq!(labels(Kind::Gauge, "a.b", "{}"), "a_b cluster=x env=dev host=web-1");
    }

    #[test]
    fn values_of_one_label_are_joined() {
        let found = labels(Kind::Gauge, "a", r#"{"a.b":"1","a-b":"2","c":["x","y"]}"#);
        assert_eq!(found, "a a_b=1;2 c=x,y cluster=x env=dev host=web-1");
    }

    #[test]
    fn joined_tags_are_counted() {
        let mut set = LabelSet::default();
        set.begin(&rules(), b"a", Kind::Gauge);
        let tags = br#"{"a.b":"1","a-b":["2","3"],"c":["x","y"]}"#;
        set.build(&rules(), tags, Kind::Gauge, "web-1").unwrap();
        assert_eq!((set.take_joined(), set.take_joined()), (1, 0));
    }

    #[test]
    fn escaped_values_keep_names_apart() {
        let rules = LabelRules { escaping: NameEscaping::Values, ..rules() };
        let found = labels_by(&rules, Kind::Counter, "a.b", r#"{"a.b":"1","a-b":"2","a_b":"3"}"#);
        let labels = "U__a_2d_b=2 U__a_2e_b=1 a_b=3 cluster=x env=dev host=web-1";
        assert_eq!(found, format!("U__a_2e_b__total {labels}"));
        let found = labels_by(&rules, Kind::Counter, "a_total", "{}");
        assert!(found.starts_with("a_total "), "{found}");
    }

    #[test]
    fn long_values_are_truncated_at_a_character_boundary() {
        let found = labels(Kind::Gauge, "a", r#"{"c":"1234567ä","d":"12345678"}"#);
        assert_eq!(found, "a c=1234567 cluster=x d=12345678 env=dev host=web-1");
    }

    #[test]
    fn a_quantile_tag_of_a_distribution_is_renamed() {
        let found = labels(Kind::Distribution, "a", r#"{"quantile":"1"}"#);
        assert!(found.contains("exported_quantile=1"), "{found}");
        assert!(labels(Kind::Gauge, "a", r#"{"quantile":"1"}"#).contains(" quantile=1"));
    }

    #[test]
    fn invalid_tags_are_rejected() {
        let result = LabelSet::default().build(&rules(), b"[1]", Kind::Gauge, "h");
        assert_eq!(result, Err(RejectReason::BadTags));
    }
}
