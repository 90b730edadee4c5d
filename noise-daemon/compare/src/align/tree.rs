//! Guide trees: UPGMA, the unweighted pair group method with arithmetic mean (Sokal and Michener, University of
//! Kansas Science Bulletin 38:1409, 1958).

/// Distances of all pairs, each once.
#[derive(Clone)]
pub struct Distances {
    of: usize,
    values: Vec<f64>,
}

impl Distances {
    /// Of `of` things, each pair's from a function of the larger and the smaller number.
    pub fn new(of: usize, mut distance: impl FnMut(usize, usize) -> f64) -> Self {
        let mut values = Vec::with_capacity(of * of.saturating_sub(1) / 2);
        for x in 0..of {
            values.extend((0..x).map(|y| distance(x, y)));
        }
        Self { of, values }
    }

    /// With two that are nearer than all others.
    pub fn with_nearest(mut self, x: usize, y: usize) -> Self {
        self.values[Self::place(x, y)] = f64::NEG_INFINITY;
        self
    }

    fn place(x: usize, y: usize) -> usize {
        let (large, small) = if x > y { (x, y) } else { (y, x) };
        large * (large - 1) / 2 + small
    }

    fn get(&self, x: usize, y: usize) -> f64 {
        self.values[Self::place(x, y)]
    }
}

/// A tree of two branches at each node. Its leaves are numbered first; node `leaves + n` is the n-th that was
/// joined, so that the numbers of nodes go up with their heights, and the last one is the root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// How many leaves there are.
    pub leaves: usize,
    /// The two nodes that each further node joins, the one with the smallest leaf first.
    pub joins: Vec<(usize, usize)>,
}

impl Tree {
    /// Joins the two nearest, again and again; the distance of two groups is the mean of all their pairs'. Of
    /// equal distances that of the smallest numbers is taken.
    pub fn upgma(mut distances: Distances) -> Self {
        let leaves = distances.of;
        let mut clusters: Vec<Option<Cluster>> = (0..leaves)
            .map(|node| Some(Cluster { node, first: node, size: 1.0, nearest: None }))
            .collect();
        for number in 0..leaves {
            find_nearest(&mut clusters, &distances, number);
        }
        let mut tree = Self { leaves, joins: Vec::with_capacity(leaves.saturating_sub(1)) };
        while let Some((x, y)) = nearest_two(&clusters) {
            let (Some(a), Some(b)) = (clusters[x].take(), clusters[y].take()) else { break };
            let node = leaves + tree.joins.len();
            tree.joins.push(if a.first < b.first { (a.node, b.node) } else { (b.node, a.node) });
            let size = a.size + b.size;
            for z in (0..leaves).filter(|z| clusters[*z].is_some()) {
                let mean = (a.size * distances.get(x, z) + b.size * distances.get(y, z)) / size;
                distances.values[Distances::place(x, z)] = mean;
            }
            let first = a.first.min(b.first);
            clusters[x] = Some(Cluster { node, first, size, nearest: None });
            for z in 0..leaves {
                let nearest = clusters[z].as_ref().and_then(|cluster| cluster.nearest);
                let is_gone = nearest.is_some_and(|(_, other)| other == x || other == y);
                if z == x || is_gone {
                    find_nearest(&mut clusters, &distances, z);
                } else if let Some(cluster) = &mut clusters[z]
                    && z > x
                {
                    cluster.consider(distances.get(x, z), x);
                }
            }
        }
        tree
    }

    /// How many nodes there are, leaves first.
    pub fn nodes(&self) -> usize {
        self.leaves + self.joins.len()
    }

    /// For each node a number that two nodes share, of this tree or the others that `known` has seen, if they join the
    /// same leaves in the same way.
    pub fn shapes(
        &self,
        known: &mut std::collections::HashMap<(usize, usize), usize>,
    ) -> Vec<usize> {
        let mut shapes: Vec<usize> = (0..self.leaves).collect();
        for (a, b) in &self.joins {
            let next = self.leaves + known.len();
            let shape = *known.entry((shapes[*a], shapes[*b])).or_insert(next);
            shapes.push(shape);
        }
        shapes
    }

    /// For each edge the leaves below it, from the leaves' edges to those at the root, which is farthest from
    /// them: the order in which Edgar cuts. The two edges at the root cut the same, and are there once.
    pub fn cuts(&self) -> Vec<Vec<bool>> {
        let mut below: Vec<Vec<bool>> = Vec::with_capacity(self.nodes());
        for leaf in 0..self.leaves {
            below.push((0..self.leaves).map(|other| other == leaf).collect());
        }
        for (a, b) in &self.joins {
            let both = below[*a].iter().zip(&below[*b]).map(|(a, b)| *a || *b).collect();
            below.push(both);
        }
        let at_root = self.joins.last().map(|(a, b)| *a.max(b));
        below.pop();
        if let Some(node) = at_root {
            below.remove(node);
        }
        below
    }
}

struct Cluster {
    node: usize,
    first: usize,
    size: f64,
    /// The nearest cluster of a smaller number, and how far it is.
    nearest: Option<(f64, usize)>,
}

impl Cluster {
    fn consider(&mut self, distance: f64, other: usize) {
        let is_nearer = |(nearest, number): (f64, usize)| {
            distance < nearest || (distance == nearest && other < number)
        };
        if self.nearest.is_none_or(is_nearer) {
            self.nearest = Some((distance, other));
        }
    }
}

fn find_nearest(clusters: &mut [Option<Cluster>], distances: &Distances, number: usize) {
    let (before, rest) = clusters.split_at_mut(number);
    let Some(Some(cluster)) = rest.first_mut() else { return };
    cluster.nearest = None;
    for (other, _) in before.iter().enumerate().filter(|(_, other)| other.is_some()) {
        cluster.consider(distances.get(number, other), other);
    }
}

fn nearest_two(clusters: &[Option<Cluster>]) -> Option<(usize, usize)> {
    let mut best: Option<(f64, usize, usize)> = None;
    for (number, cluster) in clusters.iter().enumerate() {
        let Some((distance, other)) = cluster.as_ref().and_then(|cluster| cluster.nearest) else {
            continue;
        };
        if best.is_none_or(|(nearest, _, _)| distance < nearest) {
            best = Some((distance, other, number));
        }
    }
    best.map(|(_, x, y)| (x, y))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::proptest;
    use proptest::{collection, prop_assert_eq};

    use super::{Distances, Tree};

    /// The example that Wikipedia's article on UPGMA computes by hand: five bacteria by their 5S ribosomal RNA.
    #[test]
    fn a_known_tree() {
        let rows: [&[f64]; 5] =
            [&[], &[17.0], &[21.0, 30.0], &[31.0, 34.0, 28.0], &[23.0, 21.0, 39.0, 43.0]];
        let tree = Tree::upgma(Distances::new(5, |x, y| rows[x][y]));
        // ((a, b), e), (c, d): a and b at 17, e with them at 22, c and d at 28, all at 33.
        assert_eq!(tree.joins, [(0, 1), (5, 4), (2, 3), (6, 7)]);
    }

    #[test]
    fn few_leaves() {
        assert_eq!(Tree::upgma(Distances::new(0, |_, _| 0.0)).nodes(), 0);
        assert_eq!(Tree::upgma(Distances::new(1, |_, _| 0.0)).joins, []);
        assert_eq!(Tree::upgma(Distances::new(2, |_, _| 1.0)).joins, [(0, 1)]);
    }

    #[test]
    fn each_edge_cuts_once() {
        let tree = Tree { leaves: 4, joins: vec![(0, 1), (4, 2), (5, 3)] };
        let cuts: Vec<String> = tree
            .cuts()
            .iter()
            .map(|cut| cut.iter().map(|below| if *below { '1' } else { '0' }).collect())
            .collect();
        // Leaf 3's edge at the root is the same as the other one there.
        assert_eq!(cuts, ["1000", "0100", "0010", "0001", "1100"]);
        assert_eq!(Tree { leaves: 2, joins: vec![(0, 1)] }.cuts(), [vec![true, false]]);
    }

    #[test]
    fn shapes_are_shared_by_what_joins_the_same() {
        let mut known = HashMap::new();
        let first = Tree { leaves: 4, joins: vec![(0, 1), (2, 3), (4, 5)] }.shapes(&mut known);
        let other = Tree { leaves: 4, joins: vec![(2, 3), (0, 4), (5, 1)] }.shapes(&mut known);
        assert_eq!(first, [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(other, [0, 1, 2, 3, 5, 7, 8]);
    }

    /// UPGMA without anything remembered: the mean of all pairs, computed anew each time.
    fn plain(of: usize, values: &[f64]) -> Vec<(usize, usize)> {
        let mut clusters: Vec<(usize, Vec<usize>)> = (0..of).map(|x| (x, vec![x])).collect();
        let get = |x: usize, y: usize| values[x.max(y) * (x.max(y) - 1) / 2 + x.min(y)];
        let mut joins = Vec::new();
        while clusters.len() > 1 {
            let mut best = (f64::INFINITY, 0, 0);
            for y in 0..clusters.len() {
                for x in 0..y {
                    let (a, b) = (&clusters[x].1, &clusters[y].1);
                    let sum: f64 = a.iter().flat_map(|x| b.iter().map(|y| get(*x, *y))).sum();
                    let mean = sum / (a.len() * b.len()) as f64;
                    if mean < best.0 {
                        best = (mean, x, y);
                    }
                }
            }
            let (_, x, y) = best;
            let (b, a) = (clusters.remove(y), clusters.remove(x));
            let a_first = a.1.iter().min() < b.1.iter().min();
            joins.push(if a_first { (a.0, b.0) } else { (b.0, a.0) });
            clusters.push((of + joins.len() - 1, [a.1, b.1].concat()));
        }
        joins
    }

    proptest! {
        #[test]
        fn the_tree_is_that_of_the_definition(
            of in 2_usize..12,
            // Means of what is drawn with 53 bits do not tie.
            values in collection::vec(0.0..1.0_f64, 66),
        ) {
            let mut next = values.iter();
            let tree = Tree::upgma(Distances::new(of, |_, _| *next.next().unwrap()));
            prop_assert_eq!(tree.joins, plain(of, &values));
        }
    }
}
