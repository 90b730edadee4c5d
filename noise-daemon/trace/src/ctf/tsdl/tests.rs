//! What the grammar accepts, and where it stops.

use super::parse;
use super::tree::{BlockLine, Declaration, EnumLabel, Length, StructItem, Top, TsdlValue, Type};

fn one(text: &str) -> Top<'_> {
    let mut tops = parse(text).unwrap_or_else(|(line, rest)| panic!("line {line}: {rest}"));
    assert_eq!(tops.len(), 1);
    tops.remove(0)
}

#[test]
fn blocks_hold_values_and_types() {
    let text = "env { a = \"x\\\"y\\n\"; b = -0x10; c.d = le; e = 18446744073709551615ULL; };";
    let set = |path: &[&'static str], value| BlockLine::Set(path.to_vec(), value);
    let lines = vec![
        set(&["a"], TsdlValue::Text("x\"y\n".to_owned())),
        set(&["b"], TsdlValue::Number(-16)),
        set(&["c", "d"], TsdlValue::Words(vec!["le"])),
        set(&["e"], TsdlValue::Number(u64::MAX.into())),
    ];
    assert_eq!(one(text), Top::Block("env", lines));
    let Top::Block(word, lines) = one("stream { packet.context := struct context; };") else {
        panic!("no block");
    };
    let ty = Type::Struct { name: Some("context"), items: None, align: None };
    assert_eq!((word, lines), ("stream", vec![BlockLine::Typed(vec!["packet", "context"], ty)]));
}

#[test]
fn fields_have_types_of_several_words_and_lengths() {
    let Top::Declared(Declaration::Type(Type::Struct { items: Some(items), align, .. })) =
        one("struct s { const unsigned long a, b[2][n.m]; string c; } align(16);")
    else {
        panic!("no structure");
    };
    assert_eq!(align, Some(16));
    let ty = || Type::Named("unsigned long".to_owned()).into();
    let lengths = vec![Length::Fixed(2), Length::Counted(vec!["n", "m"])];
    let expected = [
        StructItem::Field { ty: ty(), name: "a", lengths: vec![] },
        StructItem::Field { ty: ty(), name: "b", lengths },
        StructItem::Field { ty: Type::Text.into(), name: "c", lengths: vec![] },
    ];
    assert_eq!(items, expected);
}

#[test]
fn enumerations_count_on() {
    let Top::Declared(Declaration::Type(Type::Enum { labels: Some(labels), base, .. })) =
        one("enum e : uint8_t { A, \"b c\" = 3 ... 5, D, };")
    else {
        panic!("no enumeration");
    };
    assert_eq!(base, Some(Box::new(Type::Named("uint8_t".to_owned()))));
    let label = |name: &str, range| EnumLabel { name: name.to_owned(), range };
    assert_eq!(labels, [label("A", None), label("b c", Some((3, 5))), label("D", None)]);
}

#[test]
fn names_are_given_in_both_ways() {
    for text in
        ["typealias integer { size = 8; } := my int;", "typedef integer { size = 8; } my_int;"]
    {
        let Top::Declared(Declaration::Alias { ty, .. }) = one(text) else { panic!("{text}") };
        assert_eq!(ty, Type::Integer(vec![("size", TsdlValue::Number(8))]));
    }
}

#[test]
fn mistakes_are_found_at_their_line() {
    for (text, line) in [
        ("a", 1),
        ("env { };\n\nenv { x };", 3),
        ("/* no end", 1),
        ("env { a = 1 };", 1),
        ("env { a = 0x; };", 1),
        ("typealias integer { size = 8 } := a;", 1),
    ] {
        assert_eq!(parse(text).unwrap_err().0, line, "{text}");
    }
    assert_eq!(parse(" \n/* nothing */ // at all\n"), Ok(vec![]));
}

#[test]
fn braces_in_texts_and_comments_do_not_count() {
    let deep = "struct { /* }}} */ ".repeat(100_000);
    assert_eq!(parse(&deep).unwrap_err().0, 1);
    let deep = "struct { // }}}\n".repeat(100_000);
    assert!(parse(&deep).unwrap_err().0 < 50);
    let deep = "struct { enum e { \"\\\"}}}\" } _e; ".repeat(100_000);
    assert_eq!(parse(&deep).unwrap_err().0, 1);
    let open = format!("env {{ a = \"{}\"; }}; // {}\n", "{".repeat(100), "{".repeat(100));
    assert!(matches!(one(&open), Top::Block("env", _)));
}
