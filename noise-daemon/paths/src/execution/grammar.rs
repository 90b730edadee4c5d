//! The grammar of executions, on winnow.
//!
//! ```text
//! EXECUTION = thread:TID | process:NAME | mark:NAME[=KEY] | event:EVENT..EVENT | request:PORT | connection:PORT
//! PORT      = NUMBER | SERVICE
//! EVENT     = NAME [ "/" CONDITION { "," CONDITION } "/" ]
//! CONDITION = FIELD ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) VALUE
//!           | "process" ( "=" | "!=" ) VALUE | "port" ( "=" | "!=" ) PORT
//! VALUE     = NUMBER | WORD | '"' TEXT '"'
//! ```
//!
//! An event's name is the one that the recording has; of one with a subsystem in front (`sched:sched_switch`),
//! what stands behind the colon will do.

use std::cmp::Ordering;

use winnow::Parser as _;
use winnow::combinator::{alt, delimited, eof, opt, preceded, repeat, separated, terminated};
use winnow::error::{ContextError, ErrMode};
use winnow::token::{any, none_of, take_while};

use noise_trace::compare::Compare;
use noise_trace::select::ThreadOrProcess;
use noise_trace::threads::Threads;
use noise_trace::value::Value;

use super::PortNames;

type ExecutionParseResult<T> = Result<T, ErrMode<ContextError>>;

/// An event that begins or ends executions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pattern {
    pub name: String,
    /// What its fields are; all of it.
    pub conditions: Vec<Condition>,
    /// Of which processes its thread is, or is not.
    processes: Vec<(bool, ThreadOrProcess)>,
    /// Which ports its socket has, or has not, at either end.
    ports: Vec<(bool, u16)>,
}

impl Pattern {
    pub const fn has_ports(&self) -> bool {
        !self.ports.is_empty()
    }

    /// Whether it is of that thread, as far as that is known.
    pub fn is_of(&self, tid: Option<i32>, threads: &Threads) -> bool {
        let mut all = self.processes.iter();
        all.all(|(is, who)| tid.is_none_or(|tid| who.is_process_of(tid, threads) == *is))
    }

    /// Whether it is of a socket with those ports.
    pub fn is_at(&self, ports: [u16; 2]) -> bool {
        self.ports.iter().all(|(is, port)| ports.contains(port) == *is)
    }

    fn with(mut self, condition: PatternCondition) -> Self {
        match condition {
            PatternCondition::Field(condition) => self.conditions.push(condition),
            PatternCondition::Process(is, who) => self.processes.push((is, who)),
            PatternCondition::Port(is, port) => self.ports.push((is, port)),
        }
        self
    }
}

enum PatternCondition {
    Field(Condition),
    Process(bool, ThreadOrProcess),
    Port(bool, u16),
}

impl PatternCondition {
    /// `None` where such a field is not compared in that way, or not with that.
    fn of((field, compare, operand): (&str, Compare, Operand), names: PortNames) -> Option<Self> {
        let is = compare == Compare::Equal;
        match (field, operand) {
            // Neither these nor texts have an order.
            ("process" | "port", _) | (_, Operand::Text(_)) if !compare.is_of_equality() => None,
            ("process", Operand::Number(id)) => {
                Some(Self::Process(is, ThreadOrProcess::Id(i32::try_from(id).ok()?)))
            }
            ("process", Operand::Text(name)) => {
                Some(Self::Process(is, ThreadOrProcess::Named(name)))
            }
            ("port", Operand::Number(port)) => {
                u16::try_from(port).ok().filter(|port| *port > 0).map(|port| Self::Port(is, port))
            }
            ("port", Operand::Text(name)) => names(&name).map(|port| Self::Port(is, port)),
            (field, operand) => {
                Some(Self::Field(Condition { field: field.to_owned(), compare, operand }))
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub field: String,
    compare: Compare,
    operand: Operand,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operand {
    Number(i128),
    Text(String),
}

impl Condition {
    /// Whether a value fulfils it. A number and a text are unequal, and neither is less.
    pub fn holds(&self, value: &Value<'_>) -> bool {
        let order = match (&self.operand, value) {
            // By its name or by its number.
            (Operand::Text(text), Value::Label { label: Some(label), .. }) => {
                (text == label).then_some(Ordering::Equal)
            }
            (_, Value::Label { value, .. }) => return self.holds(value),
            (Operand::Number(number), Value::Unsigned { value, .. }) => {
                Some(i128::from(*value).cmp(number))
            }
            (Operand::Number(number), Value::Signed { value, .. }) => {
                Some(i128::from(*value).cmp(number))
            }
            (Operand::Number(number), Value::Float(value)) => value.partial_cmp(&(*number as f64)),
            (Operand::Number(number), Value::Text(text)) => {
                (*text == number.to_string().as_bytes()).then_some(Ordering::Equal)
            }
            (Operand::Text(text), Value::Text(value)) => {
                (text.as_bytes() == *value).then_some(Ordering::Equal)
            }
            (Operand::Text(_), _) => None,
        };
        self.compare.holds(order)
    }
}

/// Reads `BEGIN..END`; what is left where it cannot be understood.
pub fn events(text: &str, names: PortNames) -> Result<(Pattern, Pattern), String> {
    let mut rest = text;
    let pattern = || move |input: &mut &str| pattern(input, names);
    let parsed: ExecutionParseResult<_> =
        (terminated(pattern(), ".."), terminated(pattern(), eof)).parse_next(&mut rest);
    parsed.map_err(|_| rest.to_owned())
}

fn pattern(input: &mut &str, names: PortNames) -> ExecutionParseResult<Pattern> {
    let condition = move |input: &mut &str| condition(input, names);
    let name = take_while(1.., |c: char| is_in_word(c) || c == ':');
    let conditions = delimited('/', separated(1.., condition, ','), '/');
    (name, opt(conditions))
        .map(|(name, conditions): (&str, Option<Vec<PatternCondition>>)| {
            let pattern = Pattern { name: name.to_owned(), ..Pattern::default() };
            conditions.into_iter().flatten().fold(pattern, Pattern::with)
        })
        .parse_next(input)
}

fn condition(input: &mut &str, names: PortNames) -> ExecutionParseResult<PatternCondition> {
    let field = take_while(1.., is_in_word);
    let condition = |found| PatternCondition::of(found, names);
    (field, Compare::parse, operand).verify_map(condition).parse_next(input)
}

fn operand(input: &mut &str) -> ExecutionParseResult<Operand> {
    let letter = alt((preceded('\\', any), none_of(['"', '\\'])));
    let quoted = delimited('"', repeat(0.., letter), '"').map(Operand::Text);
    let plain = take_while(1.., |c: char| !c.is_whitespace() && !matches!(c, ',' | '/' | '"'));
    let plain = plain.map(|word: &str| match number(word) {
        Some(number) => Operand::Number(number),
        None => Operand::Text(word.to_owned()),
    });
    alt((quoted, plain)).parse_next(input)
}

/// A decimal number, or one of base 16.
fn number(word: &str) -> Option<i128> {
    let (sign, digits) = word.strip_prefix('-').map_or((1, word), |digits| (-1, digits));
    let number: u64 = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(sign * i128::from(number))
}

fn is_in_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {

    use super::*;

    /// No service is known.
    const UNNAMED: PortNames = |_| None;

    fn one(text: &str) -> Pattern {
        events(&format!("{text}..end"), UNNAMED).unwrap().0
    }

    #[test]
    fn events_have_names_and_conditions() {
        let (begin, end) =
            events("syscall_entry_read/fd=3,count>=0x10/..sched:x", UNNAMED).unwrap();
        assert_eq!((begin.name.as_str(), end.name.as_str()), ("syscall_entry_read", "sched:x"));
        assert_eq!(begin.conditions.len(), 2);
        assert_eq!(begin.conditions[1].field, "count");
        assert!(end.conditions.is_empty());
        for (text, rest) in [
            ("a", ""),
            ("a..", ""),
            ("..a", "..a"),
            ("a..b c", " c"),
            ("a/b/..c", "/b/..c"),
            ("a/b<word/..c", "/b<word/..c"),
            ("a/b=\"x/..c", "/b=\"x/..c"),
            ("a..b/c=1", "/c=1"),
            ("a/process<3/..c", "/process<3/..c"),
            ("a/port>80/..c", "/port>80/..c"),
            ("a/port=http/..c", "/port=http/..c"),
            ("a/port=0/..c", "/port=0/..c"),
            ("a..b/port=65536/", "/port=65536/"),
            ("a..b/process=99999999999/", "/process=99999999999/"),
        ] {
            assert_eq!(events(text, UNNAMED), Err(rest.to_owned()), "{text}");
        }
    }

    #[test]
    fn processes_and_ports_stand_beside_fields() {
        let pattern = one("a/process=nginx,fd=3,port=80,process!=7,port!=0x51/");
        assert_eq!(pattern.conditions.len(), 1);
        let named = ThreadOrProcess::Named("nginx".to_owned());
        assert_eq!(pattern.processes, [(true, named), (false, ThreadOrProcess::Id(7))]);
        assert_eq!(pattern.ports, [(true, 80), (false, 81)]);
        for (ports, is_at) in [([80, 9], true), ([9, 80], true), ([81, 80], false), ([9, 7], false)]
        {
            assert_eq!(pattern.is_at(ports), is_at, "{ports:?}");
        }
        assert!(one("a/port!=80/").has_ports() && !one("a/fd=3/").has_ports());
    }

    #[test]
    fn conditions_hold_or_not() {
        let unsigned = |value| Value::Unsigned { value, base: 10 };
        let signed = |value| Value::Signed { value, base: 10, bits: 32 };
        let two = unsigned(2);
        let label = Value::Label { label: Some("poll"), value: &two };
        for (condition, value, holds) in [
            ("f=3", unsigned(3), true),
            ("f=0x10", unsigned(16), true),
            ("f=-1", signed(-1), true),
            ("f=18446744073709551615", unsigned(u64::MAX), true),
            ("f<0", signed(-5), true),
            ("f<=-5", signed(-5), true),
            ("f>-5", signed(-5), false),
            ("f>=4", unsigned(3), false),
            ("f!=3", unsigned(4), true),
            ("f=nginx", Value::Text(b"nginx"), true),
            ("f=\"a,b/\\\"\"", Value::Text(b"a,b/\""), true),
            ("f=8", Value::Text(b"8"), true),
            ("f!=x", unsigned(3), true),
            ("f=poll", label, true),
            ("f=2", label, true),
            ("f>1", Value::Float(1.5), true),
        ] {
            let pattern = one(&format!("e/{condition}/"));
            assert_eq!(pattern.conditions[0].holds(&value), holds, "{condition}");
        }
    }
}
