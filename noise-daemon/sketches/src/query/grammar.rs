//! The grammar of conditions, on winnow.
//!
//! ```text
//! QUERY     = BOTH { "or" BOTH }
//! BOTH      = ONE { "and" ONE }
//! ONE       = "not" ONE | [ "sketch" ] "(" QUERY ")" | FIELD COMPARE VALUE
//! COMPARE   = "=" | "!=" | "<" | "<=" | ">" | ">="
//! FIELD     = "marker" | "process" | "thread" | "key" | "port" | "cause" | "cluster" | "latency" | "true_latency" | "idle"
//!           | "idle_count" | "idle_mean" | "idle_deviation" | "idle_variance" | "calls" [ "(" NAME ")" ] | "from" | "to"
//!           | "sketch" | "sketch_slices" | "sketch_cluster" | "sketch_latency" | "sketch_idle" | "sketch_idle_count"
//!           | "sketch_idle_mean" | "sketch_idle_deviation" | "sketch_idle_variance"
//! VALUE     = WORD | '"' TEXT '"' | NUMBER | NUMBER UNIT | [ "+" ] NUMBER UNIT
//! ```
//!
//! Where it cannot be understood, a parser puts the input back to the begin of what is wrong, and says what may stand there.

use winnow::Parser as _;
use winnow::combinator::{alt, delimited, opt, preceded, repeat};
use winnow::error::{ContextError, ErrMode, StrContext, StrContextValue};
use winnow::stream::Stream as _;
use winnow::token::{any, none_of, take_while};

use noise_trace::compare::Compare;

use super::Expression;
use super::condition::{Condition, Number, Pattern, SketchNumber, Whose};
use crate::marker::Marker;

type QueryParseResult<T> = Result<T, ErrMode<ContextError>>;

/// Parentheses and negations within each other.
const MAX_DEPTH: usize = 64;
/// Length of a query, bytes.
const MAX_BYTES: usize = 16_384;

const CONDITION: &str = "a condition (FIELD = VALUE), `not` or `(`";
const FIELD: &str = "marker, process, thread, key, port, cause, cluster, latency, true_latency, idle, idle_count, \
                     idle_mean, idle_deviation, idle_variance, calls, calls(NAME), from, to, sketch, sketch_slices, \
                     sketch_cluster, sketch_latency, sketch_idle (_count, _mean, _deviation, _variance), `sketch(`, \
                     `not` or `(`";
const COMPARE: &str = "=, !=, <, <=, > or >=";
const EQUAL: &str = "= or !=, since this has no order";
const MARKER: &str = "a marker: tcp_accept, tcp_connect, tcp_receive, tcp_send, the same with udp_, unix_ or socket_, process, \
                      wakeup, pipe, queue, semaphore, eventfd, futex, signal or child";
const TEXT: &str =
    "a name, in double quotes where it has other signs than letters, digits and _ - . : / *";
const NUMBER: &str = "a number";
const DURATION: &str = "a time with its unit: ns, us, ms, s or min, such as 20ms";
const VARIANCE: &str = "a square of a time with its unit: ns2, us2, ms2 or s2, such as 4ms2";
const CLUSTER: &str = "the number of a cluster, or none";
const CAUSE: &str = "the number of a slice, or none";
const TIME: &str = "a time after the first event, such as +1.5s, or nanoseconds since the epoch";
const CALL: &str = "the name of a system call, and `)`";
const CLOSE: &str = "`and`, `or` or `)`";
const END: &str = "`and`, `or` or the end";
const SHALLOWER: &str = "fewer parentheses within each other";
const SHORTER: &str = "a condition of at most 16,384 bytes";

/// Reads a query; else the place in bytes where it cannot be understood, and what may stand there.
pub fn query(text: &str) -> Result<Expression, (usize, String)> {
    if text.len() > MAX_BYTES {
        return Err((0, SHORTER.to_owned()));
    }
    let mut rest = text;
    let parsed = either(&mut rest, 0).and_then(|query| {
        space(&mut rest)?;
        if rest.is_empty() { Ok(query) } else { wrong(END) }
    });
    parsed.map_err(|error| {
        let context = error.into_inner().unwrap_or_default();
        let expected = context.context().find_map(|context| match context {
            StrContext::Expected(StrContextValue::Description(expected)) => Some(*expected),
            _ => None,
        });
        (text.len() - rest.len(), expected.unwrap_or(CONDITION).to_owned())
    })
}

/// What may stand here is something else.
fn wrong<T>(expected: &'static str) -> QueryParseResult<T> {
    let mut error = ContextError::new();
    error.push(StrContext::Expected(StrContextValue::Description(expected)));
    Err(ErrMode::Cut(error))
}

fn space(input: &mut &str) -> QueryParseResult<()> {
    take_while(0.., char::is_whitespace).void().parse_next(input)
}

fn is_in_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/' | '*')
}

/// A word, if it is that one.
fn keyword(input: &mut &str, word: &str) -> QueryParseResult<bool> {
    space(input)?;
    let start = input.checkpoint();
    let found: &str = take_while(0.., is_in_word).parse_next(input)?;
    if found == word {
        return Ok(true);
    }
    input.reset(&start);
    Ok(false)
}

fn either(input: &mut &str, depth: usize) -> QueryParseResult<Expression> {
    let mut all = vec![both(input, depth)?];
    while keyword(input, "or")? {
        all.push(both(input, depth)?);
    }
    Ok(one_or(all, Expression::Or))
}

fn both(input: &mut &str, depth: usize) -> QueryParseResult<Expression> {
    let mut all = vec![one(input, depth)?];
    while keyword(input, "and")? {
        all.push(one(input, depth)?);
    }
    Ok(one_or(all, Expression::And))
}

fn one_or(mut all: Vec<Expression>, several: impl Fn(Vec<Expression>) -> Expression) -> Expression {
    match (all.pop(), all.is_empty()) {
        (Some(only), true) => only,
        (last, _) => {
            all.extend(last);
            several(all)
        }
    }
}

fn one(input: &mut &str, depth: usize) -> QueryParseResult<Expression> {
    space(input)?;
    if depth >= MAX_DEPTH {
        return wrong(SHALLOWER);
    }
    if keyword(input, "not")? {
        return one(input, depth + 1).map(|query| Expression::Not(Box::new(query)));
    }
    let start = input.checkpoint();
    let is_of_sketch = keyword(input, "sketch")?;
    space(input)?;
    if opt('(').parse_next(input)?.is_some() {
        let query = either(input, depth + 1)?;
        space(input)?;
        return match opt(')').parse_next(input)? {
            Some(_) if is_of_sketch => Ok(Expression::InSketch(Box::new(query))),
            Some(_) => Ok(query),
            None => wrong(CLOSE),
        };
    }
    input.reset(&start);
    condition(input).map(Expression::Is)
}

fn condition(input: &mut &str) -> QueryParseResult<Condition> {
    let start = input.checkpoint();
    let field: &str = take_while(0.., is_in_word).parse_next(input)?;
    Ok(match field {
        "marker" => {
            let compare = equal(input)?;
            let at = input.checkpoint();
            match Marker::named(&text(input)?) {
                Some(marker) => Condition::Marker(compare, marker),
                None => {
                    input.reset(&at);
                    return wrong(MARKER);
                }
            }
        }
        "process" => Condition::Process(equal(input)?, whose(input)?),
        "thread" => Condition::Thread(equal(input)?, whose(input)?),
        "key" => Condition::Key(equal(input)?, Pattern(text(input)?)),
        "port" => Condition::Port(compare(input)?, whole(input, NUMBER)?),
        "cause" => {
            let (compare, cause) = number_or_none(input, CAUSE)?;
            Condition::Cause(compare, cause)
        }
        "cluster" => {
            let (compare, cluster) = number_or_none(input, CLUSTER)?;
            Condition::Cluster(compare, cluster)
        }
        "sketch" => Condition::Sketch(compare(input)?, whole(input, NUMBER)?),
        "sketch_cluster" => {
            let (compare, cluster) = number_or_none(input, CLUSTER)?;
            Condition::SketchCluster(compare, cluster)
        }
        "sketch_slices" => of_sketch(input, SketchNumber::Slices)?,
        "sketch_latency" => of_sketch(input, SketchNumber::Latency)?,
        "sketch_idle" => of_sketch(input, SketchNumber::Idle)?,
        "sketch_idle_count" => of_sketch(input, SketchNumber::IdleCount)?,
        "sketch_idle_mean" => of_sketch(input, SketchNumber::IdleMean)?,
        "sketch_idle_deviation" => of_sketch(input, SketchNumber::IdleDeviation)?,
        "sketch_idle_variance" => of_sketch(input, SketchNumber::IdleVariance)?,
        "latency" => duration_of(input, Number::Latency)?,
        "true_latency" => duration_of(input, Number::TrueLatency)?,
        "idle" => duration_of(input, Number::Idle)?,
        "idle_mean" => duration_of(input, Number::IdleMean)?,
        "idle_deviation" => duration_of(input, Number::IdleDeviation)?,
        "idle_count" => {
            let compare = compare(input)?;
            Condition::Number(Number::IdleCount, compare, whole(input, NUMBER)? as f64)
        }
        "idle_variance" => {
            let compare = compare(input)?;
            Condition::Number(Number::IdleVariance, compare, with_unit(input, &SQUARES, VARIANCE)?)
        }
        "calls" => {
            let name = called(input)?;
            let compare = compare(input)?;
            Condition::Number(Number::Calls(name), compare, whole(input, NUMBER)? as f64)
        }
        "from" | "to" => {
            let compare = compare(input)?;
            let (ns, is_relative) = time(input)?;
            Condition::Time { begins: field == "from", compare, ns, is_relative }
        }
        _ => {
            input.reset(&start);
            return wrong(FIELD);
        }
    })
}

fn duration_of(input: &mut &str, number: Number) -> QueryParseResult<Condition> {
    let compare = compare(input)?;
    Ok(Condition::Number(number, compare, with_unit(input, &UNITS, DURATION)?))
}

fn of_sketch(input: &mut &str, number: SketchNumber) -> QueryParseResult<Condition> {
    let compare = compare(input)?;
    let value = match number {
        SketchNumber::Slices | SketchNumber::IdleCount => whole(input, NUMBER)? as f64,
        SketchNumber::IdleVariance => with_unit(input, &SQUARES, VARIANCE)?,
        _ => with_unit(input, &UNITS, DURATION)?,
    };
    Ok(Condition::SketchNumber(number, compare, value))
}

/// A comparison with a number, or with the word `none`, which has no order.
fn number_or_none(
    input: &mut &str,
    expected: &'static str,
) -> QueryParseResult<(Compare, Option<i64>)> {
    space(input)?;
    let start = input.checkpoint();
    let compare = compare(input)?;
    if !keyword(input, "none")? {
        return Ok((compare, Some(whole(input, expected)?)));
    }
    if !compare.is_of_equality() {
        input.reset(&start);
        return wrong(EQUAL);
    }
    Ok((compare, None))
}

fn compare(input: &mut &str) -> QueryParseResult<Compare> {
    space(input)?;
    let found = opt(Compare::parse).parse_next(input)?;
    let Some(found) = found else { return wrong(COMPARE) };
    space(input)?;
    Ok(found)
}

/// A comparison of what has no order.
fn equal(input: &mut &str) -> QueryParseResult<Compare> {
    space(input)?;
    let start = input.checkpoint();
    match compare(input)? {
        found if found.is_of_equality() => Ok(found),
        _ => {
            input.reset(&start);
            wrong(EQUAL)
        }
    }
}

fn text(input: &mut &str) -> QueryParseResult<String> {
    let start = input.checkpoint();
    let letter = alt((preceded('\\', any), none_of(['"', '\\'])));
    let quoted = delimited('"', repeat(0.., letter), '"');
    let plain = take_while(1.., is_in_word).map(str::to_owned);
    match opt(alt((quoted, plain))).parse_next(input)? {
        Some(text) => Ok(text),
        None => {
            input.reset(&start);
            wrong(TEXT)
        }
    }
}

fn whose(input: &mut &str) -> QueryParseResult<Whose> {
    let is_quoted = input.starts_with('"');
    let text = text(input)?;
    Ok(match text.parse() {
        Ok(id) if !is_quoted => Whose::Id(id),
        _ => Whose::Named(Pattern(text)),
    })
}

/// What has the begin of a word or a number: as far as that goes.
fn token<'i>(input: &mut &'i str) -> QueryParseResult<&'i str> {
    take_while(0.., |c: char| is_in_word(c) || c == '+').parse_next(input)
}

fn whole(input: &mut &str, expected: &'static str) -> QueryParseResult<i64> {
    let start = input.checkpoint();
    match token(input)?.parse() {
        Ok(number) => Ok(number),
        Err(_) => {
            input.reset(&start);
            wrong(expected)
        }
    }
}

const UNITS: [(&str, f64); 6] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("min", 60e9), ("s", 1e9)];
const SQUARES: [(&str, f64); 5] =
    [("ns2", 1.0), ("us2", 1e6), ("µs2", 1e6), ("ms2", 1e12), ("s2", 1e18)];

fn value(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (number, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    let is_plain = number.chars().all(|c| c.is_ascii_digit() || c == '.');
    let number: f64 = number.parse().ok().filter(|_| is_plain)?;
    Some(number * factor)
}

/// A number with one of these units, which may stand apart from it.
fn with_unit(
    input: &mut &str,
    units: &[(&str, f64)],
    expected: &'static str,
) -> QueryParseResult<f64> {
    let start = input.checkpoint();
    let first = token(input)?;
    if let Some(value) = value(first, units) {
        return Ok(value);
    }
    space(input)?;
    let unit = token(input)?;
    match value(&format!("{first}{unit}"), units) {
        Some(value) if !first.is_empty() => Ok(value),
        _ => {
            input.reset(&start);
            wrong(expected)
        }
    }
}

/// A system call's name in parentheses, if there is one.
fn called(input: &mut &str) -> QueryParseResult<Option<String>> {
    space(input)?;
    if opt('(').parse_next(input)?.is_none() {
        return Ok(None);
    }
    space(input)?;
    let start = input.checkpoint();
    let name: &str = take_while(0.., is_in_word).parse_next(input)?;
    space(input)?;
    match opt(')').parse_next(input)? {
        Some(_) if !name.is_empty() => Ok(Some(name.to_owned())),
        _ => {
            input.reset(&start);
            wrong(CALL)
        }
    }
}

fn time(input: &mut &str) -> QueryParseResult<(u64, bool)> {
    let start = input.checkpoint();
    let text = token(input)?;
    let found = match text.strip_prefix('+') {
        Some(after) => value(after, &UNITS).map(|ns| (ns as u64, true)),
        None => text.parse().ok().map(|ns| (ns, false)),
    };
    if found.is_none() {
        input.reset(&start);
    }
    found.map_or_else(|| wrong(TIME), Ok)
}
