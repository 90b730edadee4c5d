//! Protocol buffers read by another's code, for tests: the messages of prometheus/client_model, as far as
//! they are written.

use std::collections::BTreeMap;

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub struct Family {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub help: Option<String>,
    #[prost(int32, optional, tag = "3")]
    pub kind: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    pub metric: Vec<Metric>,
    #[prost(string, optional, tag = "5")]
    pub unit: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Metric {
    #[prost(message, repeated, tag = "1")]
    pub label: Vec<DecodedLabel>,
    #[prost(message, optional, tag = "2")]
    pub gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    pub counter: Option<Number>,
    #[prost(message, optional, tag = "7")]
    pub histogram: Option<Histogram>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DecodedLabel {
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}

/// A counter, or a gauge, which has no begin.
#[derive(Clone, PartialEq, Message)]
pub struct Number {
    #[prost(double, optional, tag = "1")]
    pub value: Option<f64>,
    #[prost(message, optional, tag = "3")]
    pub created: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Timestamp {
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Histogram {
    #[prost(uint64, optional, tag = "1")]
    pub count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    pub sum: Option<f64>,
    #[prost(message, repeated, tag = "3")]
    pub bucket: Vec<Bucket>,
    #[prost(sint32, optional, tag = "5")]
    pub schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    pub zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    pub zero_count: Option<u64>,
    #[prost(message, repeated, tag = "12")]
    pub span: Vec<Span>,
    #[prost(sint64, repeated, tag = "13")]
    pub delta: Vec<i64>,
    #[prost(message, optional, tag = "15")]
    pub created: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Bucket {
    #[prost(uint64, optional, tag = "1")]
    pub cumulative_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    pub upper_bound: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Span {
    #[prost(sint32, optional, tag = "1")]
    pub offset: Option<i32>,
    #[prost(uint32, optional, tag = "2")]
    pub length: Option<u32>,
}

pub fn families(mut page: &[u8]) -> Vec<Family> {
    let mut families = Vec::new();
    while !page.is_empty() {
        families.push(Family::decode_length_delimited(&mut page).unwrap());
    }
    families
}

impl Metric {
    /// Its labels as they stand in a text.
    pub fn labels(&self) -> Vec<String> {
        let labels = self.label.iter();
        labels.map(|own| format!("{}={:?}", own.name(), own.value())).collect()
    }
}

impl Histogram {
    /// Native buckets by number.
    pub fn native(&self) -> BTreeMap<i32, u64> {
        let (mut number, mut count, mut deltas) = (0, 0_i64, self.delta.iter());
        let mut buckets = BTreeMap::new();
        for span in &self.span {
            number += span.offset();
            for _ in 0..span.length() {
                count += deltas.next().unwrap();
                buckets.insert(number, u64::try_from(count).unwrap());
                number += 1;
            }
        }
        assert_eq!(deltas.next(), None);
        buckets
    }
}
