//! PURE: how a victim was held up over the last minutes, in a line.

use noise_model::HeldUp;
use noise_text::bars::{roughly, spark};
use noise_text::units;

/// Columns of the curve.
const COLUMNS: usize = 30;

/// `held up over 15 min: ▕ ▁▂▃█▏ at most 1.20 s/s`
pub fn held_up(trend: &HeldUp) -> String {
    let values = &trend.held_up_seconds_per_second;
    let most = values.iter().copied().fold(0.0, f64::max);
    let columns = COLUMNS.min(values.len());
    format!(
        "held up over {}: ▕{}▏ at most {}",
        roughly(trend.seconds),
        spark(values, columns),
        units::lost(most)
    )
}
