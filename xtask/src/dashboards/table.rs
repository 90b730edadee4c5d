//! What a dashboard consists of, before it becomes JSON.

use std::borrow::Cow;

/// A dashboard.
pub struct Board {
    /// Its place in addresses and its file's name, without the prefix `noised-`.
    pub name: &'static str,
    /// What Grafana calls it.
    pub title: &'static str,
    /// Whom it serves, in a sentence.
    pub description: &'static str,
    /// What can be chosen at its top, in order.
    pub variables: Vec<Variable>,
    /// Its panels, in reading order.
    pub panels: Vec<Panel>,
}

/// A choice at the top of a dashboard.
#[derive(Clone, Copy)]
pub struct Variable {
    /// By which queries name it.
    pub name: &'static str,
    /// What people read.
    pub label: &'static str,
    /// The query of its values.
    pub query: &'static str,
    /// Whether several can be chosen, and all.
    pub many: bool,
    /// What all are: `.+`, or `.*` where series without the label are among them.
    pub all: &'static str,
}

/// One picture of a dashboard.
pub struct Panel {
    /// Its headline.
    pub title: Cow<'static, str>,
    /// What it shows, and what is unusual.
    pub says: Cow<'static, str>,
    /// How it looks.
    pub shape: Shape,
    /// Unit of its values.
    pub unit: Unit,
    /// Of 24 columns.
    pub width: u32,
    /// In Grafana's rows, of about 36 pixels.
    pub height: u32,
    /// What it asks.
    pub queries: Vec<Query>,
    /// From which values on it is worth a look, and bad.
    pub limits: Option<(f64, f64)>,
    /// In a table, the unit of each query's column where it is not the panel's.
    pub units: &'static [Unit],
}

/// A question to Prometheus.
pub struct Query {
    /// In PromQL.
    pub expr: String,
    /// How a series is called; in a table, the column of the value, which is not shown if this is empty.
    pub legend: Cow<'static, str>,
}

/// How a panel looks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Lines over time.
    Lines,
    /// Areas over time that add up.
    Stacked,
    /// A number, and its past behind it.
    Number,
    /// A bar for each series, of now.
    Bars,
    /// How many delays of which length, over time.
    Heatmap,
    /// A table, of now: labels and what people read above them, in order. The values come behind.
    Table(&'static [(&'static str, &'static str)]),
}

/// A unit, as Grafana names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A duration.
    Seconds,
    /// Time lost in each second, of one task, request or packet or of several at once.
    SecondsPerSecond,
    /// A part of a whole, 1 = all.
    Share,
    /// A rate of events.
    PerSecond,
    /// A number of things.
    Count,
}

impl Unit {
    /// Grafana's identifier.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::SecondsPerSecond => "si:s/s",
            Self::Share => "percentunit",
            Self::PerSecond => "cps",
            Self::Count => "short",
        }
    }
}

impl Board {
    /// Whether several hosts can be chosen; `None` where no host can.
    pub fn hosts(&self) -> Option<bool> {
        let own = self.variables.iter().find(|variable| variable.name == "instance");
        own.map(|variable| variable.many)
    }
}

impl Shape {
    /// A panel of that look, half a dashboard wide.
    pub fn panel(
        self,
        title: impl Into<Cow<'static, str>>,
        unit: Unit,
        says: impl Into<Cow<'static, str>>,
    ) -> Panel {
        let (title, says) = (title.into(), says.into());
        let (width, height) = match self {
            Self::Number => (4, 4),
            _ => (12, 8),
        };
        let (queries, limits, units) = (Vec::new(), None, &[]);
        Panel { title, says, shape: self, unit, width, height, queries, limits, units }
    }
}

impl Panel {
    /// With one more query.
    pub fn ask(mut self, legend: impl Into<Cow<'static, str>>, expr: impl Into<String>) -> Self {
        self.queries.push(Query { expr: expr.into(), legend: legend.into() });
        self
    }

    /// Of another size.
    pub fn sized(mut self, width: u32, height: u32) -> Self {
        (self.width, self.height) = (width, height);
        self
    }

    /// With values from which on it is worth a look, and bad.
    pub fn limits(mut self, look: f64, bad: f64) -> Self {
        self.limits = Some((look, bad));
        self
    }

    /// With a unit of its own for each query's column.
    pub fn units(mut self, units: &'static [Unit]) -> Self {
        self.units = units;
        self
    }
}
