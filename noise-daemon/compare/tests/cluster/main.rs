//! Clusters, held against those of scikit-learn on generated sets of points. Python runs once, for all tests.

#![expect(clippy::unwrap_used, reason = "all of this is a test, which fails by panicking")]

mod judged;
#[path = "../../../trace/tests/traces/python.rs"]
mod python;
mod sets;

use std::fs;
use std::process::ExitCode;
use std::sync::OnceLock;

use libtest_mimic::{Arguments, Completion, Trial};
use noise_compare::cluster::{OpticsSettings, Ordering, Points, optics};
use serde_json::{Value, json};

use crate::python::Environment;
use crate::sets::Set;

static PACKAGES: Environment =
    Environment::new("clusters", include_str!("python/requirements.txt"));

/// Steepness and least size of clusters.
const XI: [(f64, usize); 4] = [(0.05, 5), (0.05, 2), (0.2, 3), (0.01, 9)];

/// Distances of DBSCAN, as shares of the largest reachability.
const EPS: [f64; 4] = [0.0, 0.1, 0.35, 1.0];

/// A set, what we find in it, and what scikit-learn does.
struct Case {
    set: Set,
    points: Points,
    ordering: Ordering,
    eps: Vec<f64>,
    theirs: Value,
}

type Test = fn(&[Case]);

fn main() -> ExitCode {
    let tests: [(&str, Test); 6] = [
        ("orderings", judged::orderings),
        ("orderings_by_products", judged::orderings_by_products),
        ("xi_labels", judged::labels_of_xi),
        ("dbscan_labels", judged::labels_of_dbscan),
        ("silhouettes", judged::silhouettes),
        ("principal_components", judged::components),
    ];
    let trials = tests.into_iter().map(|(name, test)| {
        Trial::ignorable_test(format!("{name}_are_those_of_scikit_learn"), move || match cases() {
            Ok(cases) => {
                test(cases);
                Ok(Completion::Completed)
            }
            Err(reason) => Ok(Completion::ignored_with(reason.clone())),
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

fn cases() -> &'static Result<Vec<Case>, String> {
    static CASES: OnceLock<Result<Vec<Case>, String>> = OnceLock::new();
    CASES.get_or_init(|| {
        let mut cases: Vec<Case> = (0..sets::COUNT).map(sets::set).map(case).collect();
        let asked: Vec<Value> = cases.iter().map(question).collect();
        let file = python::folder().join("clusters.json");
        fs::write(&file, serde_json::to_vec(&asked).unwrap()).unwrap();
        let answers = PACKAGES.run(include_str!("python/judge.py"), &[file.to_str().unwrap()])?;
        let answers = answers.as_array().unwrap();
        assert_eq!(answers.len(), cases.len());
        for (case, answer) in cases.iter_mut().zip(answers) {
            case.theirs = answer.clone();
        }
        Ok(cases)
    })
}

fn case(set: Set) -> Case {
    let points = Points::new(set.dimensions, set.values.clone()).unwrap();
    let settings = OpticsSettings { min_points: set.min_points, max_distance: set.max_distance };
    let ordering = optics(&points, &settings).unwrap();
    let reached = ordering.reachability.iter().copied().filter(|reached| reached.is_finite());
    let largest = reached.fold(0.0, f64::max);
    let eps = EPS.map(|share| share * largest).to_vec();
    Case { set, points, ordering, eps, theirs: Value::Null }
}

fn sizes(set: &Set) -> Vec<(f64, usize)> {
    XI.into_iter().filter(|(_, size)| *size <= set.labels.len()).collect()
}

fn question(case: &Case) -> Value {
    let set = &case.set;
    json!({
        "points": set.values,
        "dimensions": set.dimensions,
        "labels": set.labels,
        "min_points": set.min_points,
        "max_distance": set.max_distance,
        "xi": sizes(set),
        "eps": case.eps,
    })
}
