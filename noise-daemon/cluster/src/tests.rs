//! What holds of clusters whatever the points are, and what is said of points that cannot be clustered.

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, prop_assert, prop_assert_eq, proptest};
use proptest::sample::select;

use super::{
    ClusterError, MAX_DIMENSIONS, MAX_DISTINCT, MAX_VALUES, OpticsSettings, Ordering, Points,
    Silhouette, dbscan_labels, merged_silhouettes, optics, principal_components, silhouette,
    xi_labels,
};

/// Some points, and a minimum of points that they reach.
fn points() -> impl Strategy<Value = (Points, usize)> {
    (1..5_usize, 2..70_usize)
        .prop_flat_map(|(dimensions, count)| {
            let whole = vec((0..4_i32).prop_map(f64::from), dimensions * count);
            let any = vec(-100.0..100.0, dimensions * count);
            let values = proptest::prop_oneof![whole, any];
            (Just(dimensions), values, 2..=count.min(9))
        })
        .prop_map(|(dimensions, values, min_points)| {
            (Points::new(dimensions, values).unwrap(), min_points)
        })
}

fn max_distance() -> impl Strategy<Value = f64> {
    select(vec![f64::INFINITY, 0.0, 1.0, 2.5, 40.0])
}

fn distance(one: &[f64], other: &[f64]) -> f64 {
    let squares = one.iter().zip(other).map(|(one, other)| (one - other).powi(2));
    squares.fold(0.0, |sum, square| sum + square).sqrt()
}

/// As the paper has it, with all distances at hand: a list of who may come next instead of a tree and a heap.
fn by_definition(points: &Points, settings: &OpticsSettings) -> Ordering {
    let rounded = |value: f64| (value * 1e15).round_ties_even() / 1e15;
    let count = points.len();
    let distances: Vec<Vec<f64>> = points
        .iter()
        .map(|one| points.iter().map(|other| distance(one, other)).collect())
        .collect();
    let core = |distances: &Vec<f64>| {
        let mut sorted = distances.clone();
        sorted.sort_by(f64::total_cmp);
        let core = sorted[settings.min_points - 1];
        if core > settings.max_distance { f64::INFINITY } else { rounded(core) }
    };
    let mut found = Ordering {
        order: Vec::new(),
        reachability: vec![f64::INFINITY; count],
        core_distance: distances.iter().map(core).collect(),
        predecessor: vec![None; count],
    };
    let mut left: Vec<usize> = (0..count).collect();
    while let Some(place) = (0..left.len()).min_by(|one, other| {
        found.reachability[left[*one]].total_cmp(&found.reachability[left[*other]])
    }) {
        let point = left.remove(place);
        found.order.push(point);
        for other in &left {
            let distance = distances[point][*other];
            let reached = rounded(distance.max(found.core_distance[point]));
            if distance <= settings.max_distance && reached < found.reachability[*other] {
                found.reachability[*other] = reached;
                found.predecessor[*other] = Some(point);
            }
        }
    }
    found
}

/// The same labels by other numbers, in the order in which they appear.
fn renamed(labels: &[Option<usize>]) -> Vec<Option<usize>> {
    let mut seen = Vec::new();
    let mut name = |label: usize| {
        seen.iter().position(|known| *known == label).unwrap_or_else(|| {
            seen.push(label);
            seen.len() - 1
        })
    };
    labels.iter().map(|label| label.map(&mut name)).collect()
}

proptest! {
    #[test]
    fn the_order_is_that_of_the_definition(
        (points, min_points) in points(),
        max_distance in max_distance(),
    ) {
        let settings = OpticsSettings { min_points, max_distance };
        let found = optics(&points, &settings).unwrap();
        prop_assert_eq!(found, by_definition(&points, &settings));
    }

    #[test]
    fn each_point_comes_once_and_after_its_predecessor(
        (points, min_points) in points(),
        max_distance in max_distance(),
    ) {
        let found = optics(&points, &OpticsSettings { min_points, max_distance }).unwrap();
        let mut place = vec![None; points.len()];
        for (at, point) in found.order.iter().enumerate() {
            prop_assert_eq!(place[*point].replace(at), None);
        }
        prop_assert_eq!(found.order.len(), points.len());
        for point in 0..points.len() {
            let reached = found.reachability[point];
            match found.predecessor[point] {
                None => prop_assert_eq!(reached, f64::INFINITY),
                Some(before) => {
                    prop_assert!(place[before] < place[point]);
                    prop_assert!(reached >= found.core_distance[before]);
                    prop_assert!(reached <= max_distance);
                }
            }
        }
    }

    #[test]
    fn labels_stay_where_points_are_moved_together(
        (points, min_points) in points(),
        move_by in -50..50_i32,
    ) {
        // Whole numbers, whose differences are exact.
        let whole = |by: i32| {
            let values = points.iter().flatten().map(|value| value.round() + f64::from(by));
            Points::new(points.dimensions(), values.collect()).unwrap()
        };
        let settings = OpticsSettings { min_points, ..OpticsSettings::default() };
        let [here, there] = [0, move_by].map(|by| optics(&whole(by), &settings).unwrap());
        prop_assert_eq!(xi_labels(&here, 0.05, min_points, 2), xi_labels(&there, 0.05, min_points, 2));
        prop_assert_eq!(dbscan_labels(&here, 1.5), dbscan_labels(&there, 1.5));
    }

    #[test]
    fn clusters_are_stretches_of_the_order_that_are_long_enough(
        (points, min_points) in points(),
        xi in 0.0..1.0,
        size in 2..8_usize,
    ) {
        let settings = OpticsSettings { min_points, ..OpticsSettings::default() };
        let found = optics(&points, &settings).unwrap();
        let labels = xi_labels(&found, xi, min_points, size);
        let along: Vec<Option<usize>> = found.order.iter().map(|point| labels[*point]).collect();
        let stretches: Vec<(usize, usize)> = along
            .chunk_by(|one, other| one == other)
            .filter_map(|stretch| Some((stretch[0]?, stretch.len())))
            .collect();
        let mut names: Vec<usize> = stretches.iter().map(|(label, _)| *label).collect();
        names.sort_unstable();
        prop_assert_eq!(&names, &(0..stretches.len()).collect::<Vec<usize>>());
        prop_assert!(stretches.iter().all(|(_, length)| *length >= size));
    }

    #[test]
    fn cores_are_together_where_a_chain_of_cores_joins_them(
        (points, min_points) in points(),
        at in select(vec![0.5, 1.0, 1.5, 30.0]),
    ) {
        let settings = OpticsSettings { min_points, ..OpticsSettings::default() };
        let labels = dbscan_labels(&optics(&points, &settings).unwrap(), at);
        let near = |one: &[f64]| points.iter().filter(|other| distance(one, other) <= at).count();
        let cores: Vec<usize> =
            (0..points.len()).filter(|point| near(points.point(*point)) >= min_points).collect();
        // Each core by the first one that a chain leads to.
        let mut first: Vec<usize> = (0..cores.len()).collect();
        let near = |(one, other): &(usize, usize)| {
            distance(points.point(cores[*one]), points.point(cores[*other])) <= at
        };
        let all = (0..cores.len()).flat_map(|one| (0..cores.len()).map(move |other| (one, other)));
        let pairs: Vec<(usize, usize)> = all.filter(near).collect();
        for _ in &cores {
            for (one, other) in &pairs {
                first[*one] = first[*one].min(first[*other]);
            }
        }
        let chains: Vec<Option<usize>> = first.into_iter().map(Some).collect();
        let found: Vec<Option<usize>> = cores.iter().map(|core| labels[*core]).collect();
        prop_assert_eq!(renamed(&found), renamed(&chains));
    }

    #[test]
    fn whatever_is_called_an_order_has_labels(
        order in vec(0..12_usize, 0..12),
        figures in vec(select(vec![0.0, 1.0, 1.02, 7.0, f64::INFINITY, f64::NAN]), 0..12),
        predecessor in vec(proptest::option::of(0..12_usize), 0..12),
        xi in select(vec![0.0, 0.05, 0.9, 1.0, -1.0, f64::NAN]),
    ) {
        let core_distance = figures.iter().rev().copied().collect();
        let ordering = Ordering { order, reachability: figures, core_distance, predecessor };
        prop_assert_eq!(xi_labels(&ordering, xi, 0, 0).len(), ordering.order.len());
        prop_assert_eq!(dbscan_labels(&ordering, xi).len(), ordering.order.len());
    }

    #[test]
    fn silhouettes_are_those_of_the_definition(
        (points, _) in points(),
        labels in vec(0..4_usize, 70),
    ) {
        let labels = &labels[..points.len()];
        let clusters = (0..4).filter(|label| labels.contains(label)).count();
        let Ok(Silhouette { mean, of_each }) = silhouette(&points, labels) else {
            prop_assert!(clusters < 2 || clusters == points.len());
            return Ok(());
        };
        for (point, found) in of_each.iter().enumerate() {
            let to = |label: usize| {
                let others = (0..points.len()).filter(|other| labels[*other] == label && *other != point);
                let of = |other: usize| distance(points.point(point), points.point(other));
                let distances: Vec<f64> = others.map(of).collect();
                distances.iter().sum::<f64>() / distances.len() as f64
            };
            let inside = to(labels[point]);
            let others = (0..4).filter(|label| *label != labels[point]).map(to);
            let outside = others.fold(f64::INFINITY, f64::min);
            let value = (outside - inside) / inside.max(outside);
            // Alone in a cluster, or with all at one place.
            let expected = if inside.is_nan() || value.is_nan() { 0.0 } else { value };
            prop_assert!((found - expected).abs() < 1e-9, "{found}, not {expected}, of {point}");
            prop_assert!((-1.0..=1.0).contains(found));
        }
        prop_assert!((mean - of_each.iter().sum::<f64>() / points.len() as f64).abs() < 1e-12);
    }

    #[test]
    fn merged_silhouettes_are_those_of_the_points_that_are_in_them(
        (points, _) in points(),
        labels in vec(0..5_usize, 70),
        ways in vec(vec(proptest::option::of(0..3_usize), 4), 1..4),
    ) {
        let labels = &labels[..points.len()];
        let found = merged_silhouettes(&points, labels, &ways).unwrap();
        prop_assert_eq!(found.len(), ways.len());
        for (way, found) in ways.iter().zip(found) {
            let label = |point: usize| way.get(labels[point]).copied().flatten();
            let inside: Vec<usize> = (0..points.len()).filter(|point| label(*point).is_some()).collect();
            let values = inside.iter().flat_map(|point| points.point(*point)).copied().collect();
            let values = Points::new(points.dimensions(), values).unwrap();
            let labels: Vec<usize> = inside.iter().filter_map(|point| label(*point)).collect();
            match (silhouette(&values, &labels), found) {
                (Ok(alone), Some(merged)) => prop_assert!((alone.mean - merged).abs() < 1e-9),
                (alone, merged) => prop_assert!(alone.is_err() && merged.is_none()),
            }
        }
    }

    #[test]
    fn components_have_all_variance_and_nothing_in_common((points, _) in points()) {
        let dimensions = points.dimensions();
        let found = principal_components(&points, dimensions);
        let mean = |dimension: usize| {
            points.iter().map(|point| point[dimension]).sum::<f64>() / points.len() as f64
        };
        let all: f64 = (0..dimensions)
            .map(|dimension| {
                let mean = mean(dimension);
                points.iter().map(|point| (point[dimension] - mean).powi(2)).sum::<f64>()
            })
            .sum();
        for one in 0..dimensions {
            for other in 0..dimensions {
                let products = found.coordinates.iter().map(|point| point[one] * point[other]);
                let expected = if one == other { found.explained[one] * all } else { 0.0 };
                prop_assert!((products.sum::<f64>() - expected).abs() <= 1e-9 * all.max(1.0));
            }
        }
        prop_assert!(found.explained.is_sorted_by(|one, other| one >= other));
        let expected = if all > 0.0 { 1.0 } else { 0.0 };
        prop_assert!((found.explained.iter().sum::<f64>() - expected).abs() < 1e-9);
    }
}

fn of(dimensions: usize, values: &[f64]) -> Points {
    Points::new(dimensions, values.to_vec()).unwrap()
}

#[test]
fn components_of_points_that_differ_in_fewer_directions_are_0_there() {
    let found = principal_components(&of(3, &[0.0, 5.0, 0.0, 3.0, 5.0, 4.0]), 2);
    assert!(found.coordinates.iter().zip([-2.5, 2.5]).all(|(point, expected)| {
        (point[0] - expected).abs() < 1e-12 && point[1].abs() < 1e-12
    }));
    assert!((found.explained[0] - 1.0).abs() < 1e-12 && found.explained[1].abs() < 1e-12);
    for alike in [of(2, &[7.0, 0.1, 7.0, 0.1, 7.0, 0.1]), of(2, &[7.0, 0.1])] {
        let found = principal_components(&alike, 2);
        assert!(found.coordinates.iter().all(|point| *point == [0.0, 0.0]));
        assert_eq!(found.explained, [0.0, 0.0]);
    }
    assert_eq!(principal_components(&of(1, &[0.0, 2.0]), 2).coordinates, [[-1.0, 0.0], [1.0, 0.0]]);
    assert!(principal_components(&of(4, &[]), 2).coordinates.is_empty());
}

#[test]
fn components_point_to_where_their_largest_number_is_positive() {
    // y falls four times as fast as x rises.
    let found = principal_components(&of(2, &[0.0, 0.0, 1.0, -4.0, 2.0, -8.0]), 1);
    assert!(found.coordinates[0][0] > 4.0 && found.coordinates[2][0] < -4.0);
}

#[test]
fn points_that_are_all_equal_are_one_cluster() {
    let found = optics(&of(2, &[1.0; 20]), &OpticsSettings::default()).unwrap();
    assert_eq!(found.order, (0..10).collect::<Vec<usize>>());
    assert_eq!(found.core_distance, [0.0; 10]);
    assert_eq!(xi_labels(&found, 0.05, 5, 5), [Some(0); 10]);
    assert_eq!(dbscan_labels(&found, 0.0), [Some(0); 10]);
}

#[test]
fn what_cannot_be_clustered_is_said() {
    let settings = |min_points, max_distance| OpticsSettings { min_points, max_distance };
    let optics_of = |values: &[f64], settings| optics(&of(1, values), &settings).unwrap_err();
    let silhouette_of = |labels: &[usize]| silhouette(&of(1, &[1.0, 2.0]), labels).unwrap_err();
    let many = (0..=MAX_DISTINCT as u32).map(f64::from).collect::<Vec<_>>();
    for (error, said) in [
        (
            Points::new(0, Vec::new()).unwrap_err(),
            "no numbers in the vectors to cluster; choose at least one state or feature",
        ),
        (
            Points::new(MAX_DIMENSIONS + 1, Vec::new()).unwrap_err(),
            "vectors too long to cluster: 513 numbers, where at most 512 are taken; choose fewer states or features",
        ),
        (
            Points::new(1, vec![0.0; MAX_VALUES + 1]).unwrap_err(),
            "too many numbers to cluster: 16777217, where at most 16777216 are taken; choose fewer executions or fewer states",
        ),
        (
            Points::new(2, vec![1.0; 3]).unwrap_err(),
            "the last vector is incomplete: 3 numbers in all, 2 in each vector",
        ),
        (
            Points::new(2, vec![1.0, 2.0, 3.0, f64::NAN]).unwrap_err(),
            "number 2 of vector 2 is NaN; only finite numbers of at most 1e100 can be clustered",
        ),
        (
            Points::new(2, vec![f64::NEG_INFINITY, 2.0]).unwrap_err(),
            "number 1 of vector 1 is -inf; only finite numbers of at most 1e100 can be clustered",
        ),
        (
            optics_of(&[], settings(5, 1.0)),
            "too few vectors to cluster: 0, where at least 5 are needed; record more executions, or lower the minimum",
        ),
        (
            optics_of(&[4.0], settings(2, 1.0)),
            "too few vectors to cluster: 1, where at least 2 are needed; record more executions, or lower the minimum",
        ),
        (
            optics_of(&many, settings(5, 1.0)),
            "too many different vectors to cluster: 100001, where at most 100000 are taken; choose fewer executions or fewer states",
        ),
        (
            optics_of(&[1.0; 9], settings(1, 1.0)),
            "the minimum of points in a dense region is 1; it must be 2 or more",
        ),
        (
            optics_of(&[1.0; 9], settings(5, f64::NAN)),
            "the largest distance between neighbours is NaN; it must be 0 or more",
        ),
        (silhouette_of(&[0, 1, 1]), "each vector needs one label; labels: 3, vectors: 2"),
        (
            silhouette_of(&[0, 0]),
            "a silhouette needs at least 2 clusters, and fewer clusters than vectors; clusters: 1, vectors: 2",
        ),
        (
            silhouette_of(&[3, 7]),
            "a silhouette needs at least 2 clusters, and fewer clusters than vectors; clusters: 2, vectors: 2",
        ),
    ] {
        assert_eq!(error.to_string(), said);
    }
    let largest = of(1, &[1e100, -1e100, 0.0]);
    let found = optics(&largest, &settings(2, f64::INFINITY)).unwrap();
    assert!(found.reachability[1..].iter().all(|reached| reached.is_finite()));
    let error = ClusterError::Labels { labels: 0, points: 3 };
    assert_eq!(merged_silhouettes(&largest, &[], &[]), Err(error));
}
