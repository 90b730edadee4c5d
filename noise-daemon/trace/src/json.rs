//! Events as lines of JSON: one object each.

use noise_model::clean::as_text;
use serde_json::{Map, Number, Value as Json};

use crate::event::{Kind, Loss};
use crate::record::Recorded;
use crate::value::{Shape, Value, Visit};

/// One event as one line: `time_ns`, `cpu`, `name`, `fields`, and `context` where it has one.
pub fn line<'t>(record: &impl Recorded<'t>, into: &mut String) {
    let mut object = Map::new();
    object.insert("time_ns".to_owned(), record.time_ns().into());
    object.insert("cpu".to_owned(), record.cpu().into());
    object.insert("name".to_owned(), record.name().into());
    if let Some(context) = context(record) {
        object.insert("context".to_owned(), context);
    }
    object.insert("fields".to_owned(), fields(record));
    into.push_str(&Json::Object(object).to_string());
    into.push('\n');
}

/// Its own fields.
pub fn fields<'t>(record: &impl Recorded<'t>) -> Json {
    if let Kind::Lost(loss) = record.kind() {
        return lost(&loss);
    }
    let mut tree = Tree::fields();
    record.visit(&mut tree);
    tree.done()
}

/// The fields of its contexts, where it has any.
pub fn context<'t>(record: &impl Recorded<'t>) -> Option<Json> {
    let mut context = None;
    record.visit_contexts(&mut ContextFields(&mut context), |context| {
        context.0.get_or_insert_with(Tree::fields);
    });
    context.map(Tree::done)
}

fn lost(loss: &Loss) -> Json {
    let Loss { events, packets, from_ns, to_ns } = *loss;
    serde_json::json!({"events": events, "packets": packets, "from_ns": from_ns, "to_ns": to_ns})
}

/// Values on their way into a document.
struct Tree {
    /// What is open, outermost first.
    open: Vec<Json>,
    /// Names of what is open and of the value that follows.
    names: Vec<String>,
}

impl Tree {
    fn fields() -> Self {
        Self { open: vec![Json::Object(Map::new())], names: vec![String::new()] }
    }

    fn done(mut self) -> Json {
        self.open.pop().unwrap_or_default()
    }

    fn put(&mut self, value: Json) {
        match self.open.last_mut() {
            Some(Json::Object(object)) => {
                let name = self.names.last().cloned().unwrap_or_default();
                object.insert(name, value);
            }
            Some(Json::Array(array)) => array.push(value),
            _ => {}
        }
    }
}

impl Visit for Tree {
    fn name(&mut self, name: &str) {
        if let Some(place) = self.names.last_mut() {
            name.strip_prefix('_').unwrap_or(name).clone_into(place);
        }
    }

    fn element(&mut self, _: u64) {}

    fn value(&mut self, value: Value<'_>) {
        self.put(json(value));
    }

    fn begin(&mut self, shape: Shape) {
        let empty = match shape {
            Shape::Elements => Json::Array(Vec::new()),
            Shape::Fields | Shape::Option => Json::Object(Map::new()),
        };
        self.open.push(empty);
        self.names.push(String::new());
    }

    fn end(&mut self, _: Shape) {
        self.names.pop();
        if let Some(value) = self.open.pop() {
            self.put(value);
        }
    }
}

fn json(value: Value<'_>) -> Json {
    match value {
        Value::Unsigned { value, .. } => value.into(),
        Value::Signed { value, .. } => value.into(),
        Value::Float(value) => Number::from_f64(value).map_or(Json::Null, Json::Number),
        Value::Text(text) => as_text(text).into(),
        Value::Label { label: Some(label), .. } => label.into(),
        Value::Label { label: None, value } => json(*value),
    }
}

/// Fields of all contexts, in one object.
struct ContextFields<'a>(&'a mut Option<Tree>);

impl Visit for ContextFields<'_> {
    fn name(&mut self, name: &str) {
        if let Some(tree) = self.0 {
            tree.name(name);
        }
    }

    fn element(&mut self, _: u64) {}

    fn value(&mut self, value: Value<'_>) {
        if let Some(tree) = self.0 {
            tree.value(value);
        }
    }

    fn begin(&mut self, shape: Shape) {
        if let Some(tree) = self.0 {
            tree.begin(shape);
        }
    }

    fn end(&mut self, shape: Shape) {
        if let Some(tree) = self.0 {
            tree.end(shape);
        }
    }
}
