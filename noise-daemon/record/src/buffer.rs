//! How large the buffer of a recording with programs of its own is: where events lie until they are read.

use noise_command::CommandError;
use noise_host::kernel::RecorderSize;

/// Half a second at half a million events a second on each CPU.
const USUAL: RecorderSize = RecorderSize { per_cpu: 8 << 20, all: 64 << 20 };
/// Sizes that can be asked for, bytes for each CPU.
pub const BUFFER_BYTES: (u64, u64) = (1 << 20, 1 << 30);
/// All buffers together take at most this part of the memory that the host has left: if all of them are full, reading
/// them takes three times as much besides.
const PART: u64 = 8;

/// The size for so many CPUs, of `wanted` bytes each or as usual, where the host has so much memory left.
/// Errors: where that is too little; then with what fits.
pub fn size(
    wanted: Option<u64>,
    cpus: u32,
    available: Option<u64>,
) -> Result<RecorderSize, CommandError> {
    let Some(per_cpu) = wanted else { return Ok(USUAL) };
    let cpus = u64::from(cpus.max(1));
    let all = per_cpu.saturating_mul(cpus);
    let (least, most) = BUFFER_BYTES;
    let share = available.map_or(most, |available| available / PART / cpus);
    let fitting = (1 << share.max(1).ilog2()).max(least);
    if per_cpu > share.max(least) {
        return Err(CommandError::misused(format!(
            "--buffer {} takes {} for {cpus} CPUs, more than an eighth of the {} of memory that this host has left: \
             --buffer {} fits",
            mebibytes(per_cpu),
            mebibytes(all),
            mebibytes(available.unwrap_or(0)),
            mebibytes(fitting),
        )));
    }
    Ok(RecorderSize { per_cpu, all })
}

/// As it is given on the command line.
fn mebibytes(bytes: u64) -> String {
    format!("{}M", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_as_large_as_asked_for_if_there_is_memory() {
        let of = |wanted: Option<u64>, cpus, available| size(wanted, cpus, available).unwrap();
        assert_eq!(of(None, 256, Some(0)), USUAL);
        let whole = RecorderSize { per_cpu: 64 << 20, all: 128 << 20 };
        assert_eq!(of(Some(64 << 20), 2, None), whole);
        assert_eq!(of(Some(64 << 20), 2, Some(1 << 30)), whole);
        // The smallest one is less than what is usual.
        assert_eq!(of(Some(1 << 20), 64, Some(0)).all, 64 << 20);
        let refused = |available| {
            let error = size(Some(64 << 20), 2, Some(available)).err().unwrap();
            error.to_string()
        };
        assert_eq!(
            refused((1 << 30) - 1),
            "--buffer 64M takes 128M for 2 CPUs, more than an eighth of the 1023M of memory that this host has left: \
             --buffer 32M fits"
        );
        assert!(refused(0).ends_with(": --buffer 1M fits"));
    }
}
