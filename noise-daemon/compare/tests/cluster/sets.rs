//! Sets of points that differ in what makes clustering hard: ties, equal points, density, dimensions.

use std::f64::consts::TAU;

/// How many sets there are.
pub const COUNT: u64 = 200;

/// Points, and how they are to be clustered.
#[derive(Clone)]
pub struct Set {
    pub name: String,
    /// How many numbers a point has.
    pub dimensions: usize,
    /// One point after the other.
    pub values: Vec<f64>,
    /// How they were made: a label per point.
    pub labels: Vec<usize>,
    /// Minimum of points in a dense region.
    pub min_points: usize,
    /// Farther apart are no neighbours.
    pub max_distance: f64,
}

impl Set {
    /// Whether products of its vectors are exact.
    pub fn is_whole(&self) -> bool {
        self.values.iter().all(|value| value.fract() == 0.0 && value.abs() < 1e6)
    }
}

/// A small generator (Steele's splitmix64), so that sets need no stored randomness.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// In (0, 1].
    fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Of a normal distribution, by Box and Muller.
    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (TAU * self.uniform()).cos()
    }

    /// Of a Poisson distribution, by Knuth's product.
    fn count(&mut self, mean: f64) -> f64 {
        let (limit, mut product, mut count) = ((-mean).exp(), self.uniform(), 0.0);
        while product > limit {
            product *= self.uniform();
            count += 1.0;
        }
        count
    }

    fn many<T>(&mut self, count: usize, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..count).map(|_| make(self)).collect()
    }
}

/// Makes so many points.
type Make = fn(&mut Random, usize) -> Kind;

/// The kinds of sets.
const KINDS: [(&str, Make); 12] = [
    ("blobs", |random, size| {
        let dimensions = 2 + random.below(12);
        random.around(size, dimensions, |_, _| 1.0)
    }),
    ("density", |random, size| random.around(size, 2, |_, cluster| [0.05, 0.5, 3.0][cluster % 3])),
    ("ring", |random, size| {
        let point = |random: &mut Random| {
            let (angle, radius) = (random.uniform() * TAU, 4.0 + 0.2 * random.normal());
            vec![radius * angle.cos(), radius * angle.sin()]
        };
        let mut points = random.many(size / 2, point);
        points.extend(random.many(size - size / 2, |random| random.many(2, Random::normal)));
        Kind { points, labels: (0..size).map(|index| index * 2 / size).collect() }
    }),
    ("duplicates", |random, size| {
        let few = random.many(4, |random| random.many(3, |random| random.below(9) as f64 * 0.1));
        let labels = random.many(size, |random| random.below(4));
        Kind { points: labels.iter().map(|label| few[*label].clone()).collect(), labels }
    }),
    ("counts", Random::counts),
    ("standardised", |random, size| {
        let mut kind = random.counts(size);
        kind.standardise();
        kind
    }),
    ("sparse", |random, size| {
        let dimensions = 20 + random.below(60);
        let labels = random.many(size, |random| random.below(3));
        let point = |random: &mut Random, label: usize| {
            let mut point = vec![0.0; dimensions];
            for _ in 0..4 {
                point[(label * 6 + random.below(8)) % dimensions] += 1.0;
            }
            point
        };
        let points = labels.iter().map(|label| point(random, *label)).collect();
        Kind { points, labels }
    }),
    ("wide", |random, size| {
        let dimensions = 16 + random.below(50);
        random.around(size, dimensions, |_, _| 2.0)
    }),
    ("grid", |random, size| {
        let side = (size as f64).sqrt() as usize + 1;
        let step = random.uniform();
        let point = |index: usize| vec![(index % side) as f64 * step, (index / side) as f64 * step];
        Kind {
            points: (0..size).map(point).collect(),
            labels: random.many(size, |random| random.below(5)),
        }
    }),
    ("line", |random, size| {
        let mut points: Vec<_> = (0..size).map(|index| vec![index as f64, 7.0]).collect();
        points[size - 1][0] = 1e6 * random.uniform();
        Kind { points, labels: (0..size).map(|index| index % 2).collect() }
    }),
    ("scales", |random, size| {
        let mut kind = random.around(size, 6, |dimension, _| 10_f64.powi(4 * dimension as i32 - 8));
        kind.points[0][5] += 1e9;
        kind
    }),
    ("equal", |random, size| {
        let point = random.many(4, Random::normal);
        Kind { points: vec![point; size], labels: (0..size).map(|index| index % 3).collect() }
    }),
];

/// Points, and a label for each.
struct Kind {
    points: Vec<Vec<f64>>,
    labels: Vec<usize>,
}

impl Random {
    /// Points around up to six centres.
    fn around(
        &mut self,
        size: usize,
        dimensions: usize,
        deviation: impl Fn(usize, usize) -> f64,
    ) -> Kind {
        let clusters = 2 + self.below(5);
        let centres = self.many(clusters, |random| random.many(dimensions, Self::normal));
        let labels = self.many(size, |random| random.below(clusters));
        let points = labels
            .iter()
            .map(|label| {
                let of = |(dimension, centre): (usize, &f64)| {
                    8.0 * centre + self.normal() * deviation(dimension, *label)
                };
                centres[*label].iter().enumerate().map(of).collect()
            })
            .collect();
        Kind { points, labels }
    }

    /// How often each state was entered, in executions of a few types.
    fn counts(&mut self, size: usize) -> Kind {
        let states = 3 + self.below(10);
        let types = self
            .many(3, |random| random.many(states, |random| [0.0, 0.3, 2.0, 15.0][random.below(4)]));
        let labels = self.many(size, |random| random.below(3));
        let points = labels
            .iter()
            .map(|label| types[*label].iter().map(|mean| self.count(*mean)).collect())
            .collect();
        Kind { points, labels }
    }
}

impl Kind {
    fn standardise(&mut self) {
        let count = self.points.len() as f64;
        for dimension in 0..self.points[0].len() {
            let values = || self.points.iter().map(|point| point[dimension]);
            let mean = values().sum::<f64>() / count;
            let variance = values().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
            let deviation = if variance > 0.0 { variance.sqrt() } else { 1.0 };
            for point in &mut self.points {
                point[dimension] = (point[dimension] - mean) / deviation;
            }
        }
    }
}

/// One of the sets.
pub fn set(number: u64) -> Set {
    let mut random = Random(number);
    let (kind, make) = KINDS[(number % KINDS.len() as u64) as usize];
    let min_points = [2, 5, 5, 5, 9][random.below(5)];
    // Most are small, for scikit-learn's sake; a few as small as they may be.
    let size = match random.below(16) {
        0 => min_points,
        1 => 160,
        _ => 10 + random.below(40),
    };
    let Kind { points, labels } = make(&mut random, size);
    let max_distance = [f64::INFINITY, f64::INFINITY, 2.5, 10.0][random.below(4)];
    Set {
        name: format!("{number} ({kind}, {size} points)"),
        dimensions: points[0].len(),
        values: points.concat(),
        labels,
        min_points,
        max_distance,
    }
}
