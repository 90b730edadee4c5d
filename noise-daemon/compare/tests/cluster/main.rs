//! Clusters, held against those of scikit-learn on generated sets of points and on vectors of threads of real traces
//! (`../shared/traces` beside the repository, or the folder that `NOISED_TRACES` names). Python runs once, for all
//! tests.

#![expect(clippy::unwrap_used, reason = "all of this is a test, which fails by panicking")]

#[expect(dead_code, reason = "the tests of the reader use all of it")]
#[path = "../../../trace/tests/traces/files.rs"]
mod files;
mod judged;
#[path = "../../../trace/tests/traces/python.rs"]
mod python;
mod real;
mod sets;

use std::fs;
use std::process::ExitCode;
use std::sync::OnceLock;

use libtest_mimic::{Arguments, Completion, Trial};
use noise_cluster::{OpticsSettings, Ordering, Points, optics};
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

/// What holds of all sets.
type Test = fn(&[Case]);

const TESTS: [(&str, Test); 5] = [
    ("orderings", judged::orderings),
    ("xi_labels", judged::labels_of_xi),
    ("dbscan_labels", judged::labels_of_dbscan),
    ("silhouettes", judged::silhouettes),
    ("principal_components", judged::components),
];

/// What holds of many of the generated sets.
const GENERATED: [(&str, Test); 1] = [("orderings_by_products", judged::orderings_by_products)];

/// What is asked of scikit-learn, in one run of Python.
struct Cases {
    generated: Vec<Case>,
    /// Those of real traces, or why there are none.
    real: Result<Vec<Case>, String>,
}

fn main() -> ExitCode {
    let all = TESTS.into_iter().chain(GENERATED);
    let generated =
        all.map(|(name, test)| trial("generated", name, test, |cases| Ok(&cases.generated)));
    let real = TESTS.map(|(name, test)| trial("traces", name, test, |cases| cases.real.as_ref()));
    let trials = generated.chain(real).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Which of the sets a test is about, or why there are none.
type Part = fn(&Cases) -> Result<&Vec<Case>, &String>;

fn trial(kind: &str, name: &str, test: Test, part: Part) -> Trial {
    let run = move || match cases().as_ref().and_then(part) {
        Ok(cases) => {
            test(cases);
            Ok(Completion::Completed)
        }
        Err(reason) => Ok(Completion::ignored_with(reason.clone())),
    };
    Trial::ignorable_test(format!("{kind}::{name}_are_those_of_scikit_learn"), run)
}

fn cases() -> &'static Result<Cases, String> {
    static CASES: OnceLock<Result<Cases, String>> = OnceLock::new();
    CASES.get_or_init(|| {
        let all = |sets: Vec<Set>| sets.into_iter().map(case).collect();
        let mut generated: Vec<Case> = all((0..sets::COUNT).map(sets::set).collect());
        let mut real: Result<Vec<Case>, String> = real::sets().map(all);
        let mut cases: Vec<&mut Case> =
            generated.iter_mut().chain(real.iter_mut().flatten()).collect();
        let asked: Vec<Value> = cases.iter().map(|case| question(case)).collect();
        let file = python::folder().join("clusters.json");
        fs::write(&file, serde_json::to_vec(&asked).unwrap()).unwrap();
        let answers = PACKAGES.run(include_str!("python/judge.py"), &[file.to_str().unwrap()])?;
        let answers = answers.as_array().unwrap();
        assert_eq!(answers.len(), cases.len());
        for (case, answer) in cases.iter_mut().zip(answers) {
            case.theirs = answer.clone();
        }
        Ok(Cases { generated, real })
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
