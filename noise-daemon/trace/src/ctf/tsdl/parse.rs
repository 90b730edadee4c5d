//! The grammar of TSDL (CTF 1.8.3, section C), on winnow.
//!
//! Lengths and numbers are literals, as every tracer writes them; arithmetic is not computed.

use std::rc::Rc;

use winnow::Parser as _;
use winnow::combinator::{
    alt, cut_err, delimited, eof, not, opt, preceded, repeat, separated, terminated,
};
use winnow::error::{ContextError, ErrMode};
use winnow::token::{any, none_of, one_of, take_till, take_until, take_while};

use super::tree::{
    Attribute, BlockLine, Declaration, EnumLabel, Length, Path, StructItem, Top, TsdlValue, Type,
};

/// Braces within braces; those of tracers are five deep.
const MAX_DEPTH: usize = 40;
/// Lengths of one name; those of tracers have one.
const MAX_LENGTHS: usize = 8;

/// Signs that begin or end something or stand among words, and words: LTTng's metadata of a kernel of today has a quarter of a million
/// of the first and twice as many of the second. Each sign may take some 400 bytes once it is parsed.
const MAX_SIGNS: usize = 1_000_000;
const MAX_WORDS: usize = 2_000_000;

type TsdlParseResult<T> = Result<T, ErrMode<ContextError>>;

/// Whether a text has more signs or words than any metadata does; parsing it would take much memory.
pub fn is_endless(text: &str) -> bool {
    let signs = text.bytes().filter(|byte| b";,{=[*".contains(byte)).count();
    let ends = text.as_bytes().windows(2).filter(|two| {
        matches!(two, [letter, behind] if in_word(char::from(*letter)) && !in_word(char::from(*behind)))
    });
    signs > MAX_SIGNS || ends.count() > MAX_WORDS
}

/// Reads a whole text.
/// Errors: the line that cannot be understood, counted from 1, and what stands there.
pub fn parse(text: &str) -> Result<Vec<Top<'_>>, (usize, String)> {
    let at = |rest: &str| {
        let read = text.len().saturating_sub(rest.len());
        let line = 1 + text.as_bytes().iter().take(read).filter(|&&byte| byte == b'\n').count();
        let shown: String = rest.lines().next().unwrap_or_default().chars().take(60).collect();
        (line, shown)
    };
    if let Some(deep) = too_deep(text) {
        return Err(at(deep));
    }
    let mut rest = text;
    let mut parser = preceded(blank, terminated(repeat(0.., top), eof));
    let parsed: TsdlParseResult<Vec<Top<'_>>> = parser.parse_next(&mut rest);
    parsed.map_err(|_| at(rest))
}

/// The text from the brace on that lies too deep for a parser that calls itself. Braces in quoted texts and in
/// comments are none.
fn too_deep(text: &str) -> Option<&str> {
    let mut depth = 0_usize;
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        let next = text.as_bytes().get(at + 1);
        match (byte, next) {
            (b'{', _) => depth += 1,
            (b'}', _) => depth = depth.saturating_sub(1),
            (b'"', _) => {
                while let Some((_, inside)) = bytes.next()
                    && !matches!(inside, b'"' | b'\n')
                {
                    if inside == b'\\' {
                        bytes.next();
                    }
                }
            }
            (b'/', Some(b'/')) => {
                bytes.find(|(_, inside)| *inside == b'\n');
            }
            (b'/', Some(b'*')) => {
                let end = text.as_bytes().get(at + 2..)?.windows(2).position(|two| two == b"*/")?;
                bytes.nth(end + 2);
            }
            _ => {}
        }
        if depth > MAX_DEPTH {
            return text.get(at..);
        }
    }
    None
}

/// White space and comments.
fn blank(input: &mut &str) -> TsdlParseResult<()> {
    let space = take_while(1.., |c: char| c.is_whitespace()).void();
    let long = ("/*", cut_err(take_until(0.., "*/")), "*/").void();
    let short = ("//", take_till(0.., '\n')).void();
    repeat::<_, _, (), _, _>(0.., alt((space, long, short))).parse_next(input)
}

/// A sign, and the blank behind it.
fn sign<'i>(text: &'static str) -> impl FnMut(&mut &'i str) -> TsdlParseResult<()> {
    move |input| terminated(text, blank).void().parse_next(input)
}

fn starts_word(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

fn in_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// An identifier or a keyword.
fn word<'i>(input: &mut &'i str) -> TsdlParseResult<&'i str> {
    let spelled = (one_of(starts_word), take_while(0.., in_word)).take();
    terminated(spelled, blank).parse_next(input)
}

/// This word and no longer one.
fn keyword<'i>(text: &'static str) -> impl FnMut(&mut &'i str) -> TsdlParseResult<()> {
    move |input| (text, not(one_of(in_word)), blank).void().parse_next(input)
}

fn path<'i>(input: &mut &'i str) -> TsdlParseResult<Path<'i>> {
    separated(1.., word, sign(".")).parse_next(input)
}

fn number(input: &mut &str) -> TsdlParseResult<i128> {
    let digits = |base: u32| {
        move |text: &str| {
            let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
            i128::from_str_radix(digits, base).ok()
        }
    };
    let suffix = || take_while(0.., ['u', 'U', 'l', 'L']);
    let hex = preceded(
        alt(("0x", "0X")),
        (take_while(1.., |c: char| c.is_ascii_hexdigit()), suffix()).take().verify_map(digits(16)),
    );
    let binary = preceded(
        alt(("0b", "0B")),
        (take_while(1.., ['0', '1']), suffix()).take().verify_map(digits(2)),
    );
    let octal = preceded('0', (take_while(1.., '0'..='7'), suffix()).take().verify_map(digits(8)));
    let plain = (take_while(1.., '0'..='9'), suffix()).take().verify_map(digits(10));
    let unsigned = alt((hex, binary, octal, plain));
    let signed = (opt(one_of(['-', '+'])), blank, unsigned);
    terminated(signed, (not(one_of(in_word)), blank))
        .map(|(minus, (), number)| if minus == Some('-') { -number } else { number })
        .parse_next(input)
}

fn text(input: &mut &str) -> TsdlParseResult<String> {
    let escape = preceded('\\', any).map(|c: char| match c {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        '0' => '\0',
        other => other,
    });
    let letters = repeat(0.., alt((escape, none_of(['"', '\\', '\n']))));
    terminated(delimited('"', letters, '"'), blank).parse_next(input)
}

fn value<'i>(input: &mut &'i str) -> TsdlParseResult<TsdlValue<'i>> {
    alt((text.map(TsdlValue::Text), number.map(TsdlValue::Number), path.map(TsdlValue::Words)))
        .parse_next(input)
}

/// `{ NAME = VALUE; … }`
fn attributes<'i>(input: &mut &'i str) -> TsdlParseResult<Vec<Attribute<'i>>> {
    let attribute = (word, preceded(sign("="), terminated(value, sign(";"))));
    delimited(sign("{"), repeat(0.., attribute), sign("}")).parse_next(input)
}

/// Words that name a type, up to the sign that ends them.
fn named<'i>(input: &mut &'i str) -> TsdlParseResult<Type<'i>> {
    let star = sign("*").value("*");
    let words: Vec<&str> = repeat(1.., alt((word, star))).parse_next(input)?;
    Ok(Type::Named(joined(&words)))
}

fn joined(words: &[&str]) -> String {
    let words: Vec<&str> = words.iter().filter(|word| **word != "const").copied().collect();
    words.join(" ")
}

fn integer<'i>(input: &mut &'i str) -> TsdlParseResult<Type<'i>> {
    preceded(keyword("integer"), cut_err(attributes)).map(Type::Integer).parse_next(input)
}

fn float<'i>(input: &mut &'i str) -> TsdlParseResult<Type<'i>> {
    preceded(keyword("floating_point"), cut_err(attributes)).map(Type::Float).parse_next(input)
}

fn string<'i>(input: &mut &'i str) -> TsdlParseResult<Type<'i>> {
    (keyword("string"), opt(attributes)).value(Type::Text).parse_next(input)
}

fn label(input: &mut &str) -> TsdlParseResult<EnumLabel> {
    let name = alt((text, word.map(str::to_owned)));
    let range = preceded(sign("="), (number, opt(preceded(sign("..."), number))));
    let (name, range) = (name, opt(range)).parse_next(input)?;
    let range = range.map(|(first, last)| (first, last.unwrap_or(first)));
    Ok(EnumLabel { name, range })
}

fn enumeration<'i>(input: &mut &'i str) -> TsdlParseResult<Type<'i>> {
    keyword("enum").parse_next(input)?;
    let name = opt(word).parse_next(input)?;
    let base = opt(preceded(sign(":"), alt((integer, named)))).parse_next(input)?;
    let list = terminated(separated(0.., label, sign(",")), opt(sign(",")));
    let labels = opt(delimited(sign("{"), list, sign("}"))).parse_next(input)?;
    Ok(Type::Enum { name, base: base.map(Box::new), labels })
}

fn items<'i>(input: &mut &'i str) -> TsdlParseResult<Vec<StructItem<'i>>> {
    let lists: Vec<Vec<StructItem<'i>>> =
        delimited(sign("{"), repeat(0.., item), sign("}")).parse_next(input)?;
    Ok(lists.into_iter().flatten().collect())
}

fn align(input: &mut &str) -> TsdlParseResult<u64> {
    delimited((keyword("align"), sign("(")), number, sign(")"))
        .verify_map(|bits| u64::try_from(bits).ok())
        .parse_next(input)
}

fn structure<'i>(input: &mut &'i str) -> TsdlParseResult<Type<'i>> {
    keyword("struct").parse_next(input)?;
    let (name, items, align) = (opt(word), opt(items), opt(align)).parse_next(input)?;
    Ok(Type::Struct { name, items, align })
}

fn variant<'i>(input: &mut &'i str) -> TsdlParseResult<Type<'i>> {
    keyword("variant").parse_next(input)?;
    let name = opt(word).parse_next(input)?;
    let tag = opt(delimited(sign("<"), path, sign(">"))).parse_next(input)?;
    let items = opt(items).parse_next(input)?;
    Ok(Type::Variant { name, tag, items })
}

/// A type that begins with a word of its own.
fn spelled<'i>(input: &mut &'i str) -> TsdlParseResult<Type<'i>> {
    alt((integer, float, string, enumeration, structure, variant)).parse_next(input)
}

fn any_type<'i>(input: &mut &'i str) -> TsdlParseResult<Type<'i>> {
    alt((spelled, named)).parse_next(input)
}

fn length<'i>(input: &mut &'i str) -> TsdlParseResult<Length<'i>> {
    let fixed = number.verify_map(|number| u64::try_from(number).ok()).map(Length::Fixed);
    delimited(sign("["), alt((fixed, path.map(Length::Counted))), sign("]")).parse_next(input)
}

fn lengths<'i>(input: &mut &'i str) -> TsdlParseResult<Vec<Length<'i>>> {
    repeat(0..=MAX_LENGTHS, length).parse_next(input)
}

/// A name with its lengths.
type Declarator<'i> = (&'i str, Vec<Length<'i>>);

/// Names with their lengths: `_comm[16], _more`.
fn declarators<'i>(input: &mut &'i str) -> TsdlParseResult<Vec<Declarator<'i>>> {
    separated(1.., (word, lengths), sign(",")).parse_next(input)
}

/// A type and the names that get it, none where only the type is defined. Of plain words the last one is a name.
fn declared<'i>(input: &mut &'i str) -> TsdlParseResult<(Type<'i>, Vec<Declarator<'i>>)> {
    if let Some(ty) = opt(spelled).parse_next(input)? {
        let names = opt(declarators).parse_next(input)?;
        return Ok((ty, names.unwrap_or_default()));
    }
    let mut words = Vec::new();
    loop {
        let next = alt((word, sign("*").value("*"))).parse_next(input)?;
        let is_last = input.starts_with(['[', ';', ',']);
        if !is_last {
            words.push(next);
            continue;
        }
        let lengths = lengths.parse_next(input)?;
        let mut names = vec![(next, lengths)];
        if opt(sign(",")).parse_next(input)?.is_some() {
            names.extend(declarators.parse_next(input)?);
        }
        return Ok((Type::Named(joined(&words)), names));
    }
}

/// `typealias` and `typedef`.
fn alias<'i>(input: &mut &'i str) -> TsdlParseResult<Declaration<'i>> {
    let alias = (any_type, preceded(sign(":="), named)).verify_map(|(ty, name)| match name {
        Type::Named(name) => Some(Declaration::Alias { ty, name, lengths: Vec::new() }),
        _ => None,
    });
    let alias = preceded(keyword("typealias"), cut_err(alias));
    let definition = declared.verify_map(|(ty, mut names)| {
        let (name, lengths) = names.pop().filter(|_| names.is_empty())?;
        Some(Declaration::Alias { ty, name: name.to_owned(), lengths })
    });
    let definition = preceded(keyword("typedef"), cut_err(definition));
    terminated(alt((alias, definition)), sign(";")).parse_next(input)
}

fn declaration<'i>(input: &mut &'i str) -> TsdlParseResult<Declaration<'i>> {
    let plain = alt((structure, enumeration, variant)).map(Declaration::Type);
    alt((alias, terminated(plain, sign(";")))).parse_next(input)
}

fn item<'i>(input: &mut &'i str) -> TsdlParseResult<Vec<StructItem<'i>>> {
    if let Some(alias) = opt(alias).parse_next(input)? {
        return Ok(vec![StructItem::Declared(alias)]);
    }
    let (ty, names) = terminated(declared, sign(";")).parse_next(input)?;
    if names.is_empty() {
        return Ok(vec![StructItem::Declared(Declaration::Type(ty))]);
    }
    let ty = Rc::new(ty);
    let field = |(name, lengths)| StructItem::Field { ty: Rc::clone(&ty), name, lengths };
    Ok(names.into_iter().map(field).collect())
}

fn line<'i>(input: &mut &'i str) -> TsdlParseResult<BlockLine<'i>> {
    let set = (path, preceded(sign("="), value)).map(|(path, value)| BlockLine::Set(path, value));
    let typed = (path, preceded(sign(":="), any_type)).map(|(path, ty)| BlockLine::Typed(path, ty));
    let assigned = terminated(alt((typed, set)), sign(";"));
    alt((declaration.map(BlockLine::Declared), assigned)).parse_next(input)
}

fn top<'i>(input: &mut &'i str) -> TsdlParseResult<Top<'i>> {
    let lines = terminated(delimited(sign("{"), repeat(0.., line), sign("}")), sign(";"));
    let block = (word, lines).map(|(word, lines)| Top::Block(word, lines));
    alt((declaration.map(Top::Declared), block)).parse_next(input)
}
