//! What is compared, and how exactly.
//!
//! Distances from differences, as scikit-learn's k-d tree and SciPy compute them, are ours to the last bit, and so is
//! all that follows from them, ties included. Distances by the expansion of squares into products have an error that
//! hides ties and turns zeros into small numbers: there, what is compared is what the error leaves determined.

use noise_cluster::{ClusterLabels, dbscan_labels, principal_components, silhouette, xi_labels};
use serde_json::Value;

use crate::{Case, sizes};

/// Numbers of theirs, with infinite ones.
fn numbers(values: &Value) -> Vec<f64> {
    let values = values.as_array().unwrap().iter();
    values.map(|value| value.as_f64().unwrap_or(f64::INFINITY)).collect()
}

/// Labels or points of theirs, of which -1 is none.
fn indices(values: &Value) -> ClusterLabels {
    let index = |value: &Value| usize::try_from(value.as_i64().unwrap()).ok();
    values.as_array().unwrap().iter().map(index).collect()
}

fn assert_close(ours: &[f64], theirs: &[f64], allowed: impl Fn(usize) -> f64, what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (index, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        let is_close = ours == theirs || (ours - theirs).abs() <= allowed(index);
        assert!(is_close, "{what}: {ours} at {index}, not {theirs}");
    }
}

fn assert_ordering(case: &Case, theirs: &Value) {
    let (ours, name) = (&case.ordering, &case.set.name);
    let figures = [("core_distance", &ours.core_distance), ("reachability", &ours.reachability)];
    for (figure, ours) in figures {
        let theirs = numbers(&theirs[figure]);
        let allowed = |index: usize| 1e-9 * theirs[index].max(1.0);
        assert_close(ours, &theirs, allowed, &format!("{figure} of {name}"));
    }
    let order: Vec<usize> = indices(&theirs["order"]).into_iter().flatten().collect();
    assert_eq!(ours.order, order, "{name}");
    assert_eq!(ours.predecessor, indices(&theirs["predecessor"]), "{name}");
}

/// With neighbours from a tree.
pub fn orderings(cases: &[Case]) {
    for case in cases {
        assert_ordering(case, &case.theirs["tree"]);
    }
}

/// With neighbours by products of vectors: of whole numbers they are exact, of others core distances have their error.
pub fn orderings_by_products(cases: &[Case]) {
    let (mut whole, mut others) = (0, 0);
    for case in cases {
        let theirs = &case.theirs["brute"];
        if theirs.is_null() {
            continue;
        }
        if case.set.is_whole() {
            whole += 1;
            assert_ordering(case, theirs);
            continue;
        }
        others += 1;
        let errors: Vec<f64> = case
            .points
            .iter()
            .map(|one| case.points.iter().map(|other| error(one, other)).fold(0.0, f64::max))
            .collect();
        let theirs = numbers(&theirs["core_distance"]);
        // Near the largest distance, the error decides whether there is a core.
        let near = |index: usize| {
            (theirs[index].min(case.ordering.core_distance[index]) - case.set.max_distance).abs()
        };
        let allowed =
            |index: usize| if near(index) <= errors[index] { f64::INFINITY } else { errors[index] };
        assert_close(&case.ordering.core_distance, &theirs, allowed, &case.set.name);
    }
    assert!(whole >= 10 && others >= 20, "only {whole} and {others} sets");
}

/// How wrong a distance may be that is computed by products.
fn error(one: &[f64], other: &[f64]) -> f64 {
    let (distance, squares) =
        one.iter().zip(other).fold((0.0, 0.0), |(distance, squares), (one, other)| {
            (distance + (one - other).powi(2), squares + one * one + other * other)
        });
    let error = 4.0 * (one.len() + 4) as f64 * f64::EPSILON * squares;
    if distance > error { error / f64::sqrt(distance) } else { (2.0 * error).sqrt() }
}

pub fn labels_of_xi(cases: &[Case]) {
    for case in cases {
        let theirs = case.theirs["xi"].as_array().unwrap();
        for ((xi, size), theirs) in sizes(&case.set).iter().zip(theirs) {
            let ours = xi_labels(&case.ordering, *xi, case.set.min_points, *size);
            assert_eq!(ours, indices(theirs), "{} with {xi}, {size}", case.set.name);
        }
    }
}

pub fn labels_of_dbscan(cases: &[Case]) {
    for case in cases {
        for (eps, theirs) in case.eps.iter().zip(case.theirs["dbscan"].as_array().unwrap()) {
            let ours = dbscan_labels(&case.ordering, *eps);
            assert_eq!(ours, indices(theirs), "{} with {eps}", case.set.name);
        }
    }
}

/// By differences, and by products with what their error may do.
pub fn silhouettes(cases: &[Case]) {
    for case in cases {
        let name = &case.set.name;
        let ours = silhouette(&case.points, &case.set.labels);
        let Some(theirs) = case.theirs["silhouette"]["exact"].as_object() else {
            assert!(ours.is_err(), "{name}");
            continue;
        };
        let ours = ours.unwrap();
        let mean = theirs["mean"].as_f64().unwrap();
        assert_close(&[ours.mean], &[mean], |_| 1e-9, name);
        assert_close(&ours.of_each, &numbers(&theirs["of_each"]), |_| 1e-9, name);
        let usual = &case.theirs["silhouette"]["usual"]["of_each"];
        let allowed = |point: usize| 1e-9 + error_of_silhouette(case, point);
        assert_close(&ours.of_each, &numbers(usual), allowed, name);
    }
}

/// How wrong a silhouette may be whose distances are computed by products.
fn error_of_silhouette(case: &Case, point: usize) -> f64 {
    if case.set.is_whole() {
        return 0.0;
    }
    let from = case.points.point(point);
    let mut largest = 0.0_f64;
    let mut sums = vec![(0.0, 0.0); case.set.labels.iter().max().unwrap() + 1];
    for (to, label) in case.points.iter().zip(&case.set.labels) {
        let distance: f64 = from.iter().zip(to).map(|(one, other)| (one - other).powi(2)).sum();
        largest = largest.max(error(from, to));
        sums[*label] = (sums[*label].0 + distance.sqrt(), sums[*label].1 + 1.0);
    }
    let own = case.set.labels[point];
    if sums[own].1 < 2.0 {
        return 0.0;
    }
    sums[own].1 -= 1.0;
    let inside = sums[own].0 / sums[own].1;
    sums[own].1 = 0.0;
    let outside = sums.iter().filter(|sums| sums.1 > 0.0).map(|sums| sums.0 / sums.1);
    let farthest = inside.max(outside.fold(f64::INFINITY, f64::min));
    // Both means may be wrong by the largest error of a distance, and the larger one divides.
    if farthest > 0.0 { 8.0 * largest / farthest } else { 2.0 }
}

/// Up to their signs, where no other component has the same variance: then all directions in their plane are right.
pub fn components(cases: &[Case]) {
    let mut compared = 0;
    for case in cases {
        let ours = principal_components(&case.points, 2);
        if case.points.iter().all(|point| point == case.points.point(0)) {
            // What scikit-learn finds there is how its mean is rounded.
            assert!(ours.coordinates.concat().iter().all(|coordinate| *coordinate == 0.0));
            assert_eq!(ours.explained, [0.0, 0.0]);
            continue;
        }
        let theirs = &case.theirs["components"];
        let explained = numbers(&theirs["explained"]);
        let of = |component: usize| {
            explained.get(component).copied().filter(|share| share.is_finite()).unwrap_or(0.0)
        };
        for component in 0..2 {
            let name = format!("component {component} of {}", case.set.name);
            assert_close(&[ours.explained[component]], &[of(component)], |_| 1e-9, &name);
            // Among them are those in which points do not differ.
            let others = (0..explained.len()).filter(|other| *other != component).map(of);
            if others.chain([0.0]).any(|other| (of(component) - other).abs() < 1e-7) {
                continue;
            }
            let along = |coordinates: &[f64]| coordinates.get(component).copied().unwrap_or(0.0);
            let ours: Vec<f64> = ours.coordinates.iter().map(|point| along(point)).collect();
            let rows = theirs["coordinates"].as_array().unwrap().iter();
            let mut theirs: Vec<f64> = rows.map(|row| along(&numbers(row))).collect();
            let same: f64 = ours.iter().zip(&theirs).map(|(ours, theirs)| ours * theirs).sum();
            if same < 0.0 {
                theirs.iter_mut().for_each(|coordinate| *coordinate = -*coordinate);
            }
            let largest = theirs.iter().fold(0.0_f64, |largest, theirs| largest.max(theirs.abs()));
            assert_close(&ours, &theirs, |_| 1e-6 * largest, &name);
            compared += 1;
        }
    }
    assert!(compared * 2 >= cases.len(), "only {compared} components are determined");
}
