//! Points that are equal, together: executions of few states often have equal vectors, and whatever is true of a
//! point's distances is true of all its equals.

use super::error::ClusterError;
use super::limits::MAX_DISTINCT;
use super::points::Points;

/// The distinct points among some, each with the points that are equal to it.
pub struct Distinct {
    /// All points; those that are equal are beside each other, by their index.
    members: Vec<usize>,
    /// Where each distinct point's members begin, and where the last one's end.
    begins: Vec<usize>,
    /// The distinct point of each point.
    of: Vec<usize>,
}

impl Distinct {
    /// Errors: with more of them than [`MAX_DISTINCT`].
    pub fn new(points: &Points) -> Result<Self, ClusterError> {
        let mut members: Vec<usize> = (0..points.len()).collect();
        members.sort_unstable_by(|one, other| {
            let bits = |index: &usize| points.point(*index).iter().map(|value| value.to_bits());
            bits(one).cmp(bits(other)).then(one.cmp(other))
        });
        let mut begins = Vec::new();
        let mut of = vec![0; points.len()];
        let mut last = None;
        for (place, member) in members.iter().enumerate() {
            let point = points.point(*member);
            if last != Some(point) {
                begins.push(place);
                last = Some(point);
            }
            if let Some(distinct) = of.get_mut(*member) {
                *distinct = begins.len() - 1;
            }
        }
        begins.push(members.len());
        match begins.len() - 1 {
            ..=MAX_DISTINCT => Ok(Self { members, begins, of }),
            count => Err(ClusterError::TooManyPoints(count)),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.begins.len() - 1
    }

    /// The points that are equal to this one, by their index. Never empty.
    pub fn members(&self, distinct: usize) -> &[usize] {
        let (Some(begin), Some(end)) = (self.begins.get(distinct), self.begins.get(distinct + 1))
        else {
            return &[];
        };
        self.members.get(*begin..*end).unwrap_or_default()
    }

    /// The first of its points.
    pub fn first(&self, distinct: usize) -> usize {
        self.members(distinct).first().copied().unwrap_or_default()
    }

    /// The distinct point that a point is equal to.
    pub fn of(&self, point: usize) -> usize {
        self.of.get(point).copied().unwrap_or_default()
    }
}
