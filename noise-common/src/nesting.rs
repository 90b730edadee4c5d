//! Net interrupt time: nothing is charged twice.
//!
//! An NMI inside a hardirq inside a softirq is subtracted outward, as the kernel's osnoise tracer
//! does. Instead of pushing start times forward, each CPU keeps one running total of net time per
//! level; whatever the deeper totals grew by between entry and exit ran inside. Each total has one
//! writer level, so an interrupt between load and store of an outer level's program loses nothing.

/// Net nanoseconds that interrupts took on one CPU since the programs were attached, by level, and
/// what the hypervisor took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "user", derive(bytemuck::Pod, bytemuck::Zeroable))]
#[repr(C)]
pub struct Taken {
    /// By NMI handlers.
    pub nmi_ns: u64,
    /// By hardirq handlers and vectors, net of NMIs.
    pub hardirq_ns: u64,
    /// By softirq vectors, net of both.
    pub softirq_ns: u64,
    /// By the hypervisor, up to the last switch: the kernel's own total since boot.
    pub stolen_ns: u64,
}

impl Taken {
    /// What all took together.
    #[inline(always)]
    pub const fn all_ns(&self) -> u64 {
        self.interrupts_ns().wrapping_add(self.softirq_ns).wrapping_add(self.stolen_ns)
    }

    /// What NMIs and hardirqs took together.
    #[inline(always)]
    pub const fn interrupts_ns(&self) -> u64 {
        self.nmi_ns.wrapping_add(self.hardirq_ns)
    }
}

/// An interval that is still open: when it began and what interrupts had taken by then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Frame {
    /// Time of entry; 0 where no interval is open.
    pub start_ns: u64,
    /// [`Taken::interrupts_ns`] at entry.
    pub taken_ns: u64,
}

impl Frame {
    /// Opens an interval at `now_ns`.
    #[inline(always)]
    pub const fn open(now_ns: u64, taken: &Taken) -> Self {
        Self { start_ns: now_ns, taken_ns: taken.interrupts_ns() }
    }

    /// Net duration up to `now_ns`, or `None` where the clock ran backwards.
    #[inline(always)]
    pub const fn net_ns(&self, now_ns: u64, taken: &Taken) -> Option<u64> {
        if now_ns < self.start_ns {
            return None;
        }
        let gross = now_ns - self.start_ns;
        let nested = taken.interrupts_ns().wrapping_sub(self.taken_ns);
        // An NMI reports its own duration by another clock, so it can exceed the gap by a little.
        if nested >= gross { Some(0) } else { Some(gross - nested) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert_eq, proptest};

    #[test]
    fn an_irq_inside_a_softirq_is_charged_once() {
        let mut taken = Taken::default();
        let softirq = Frame::open(100, &taken);
        let irq = Frame::open(150, &taken);
        taken.nmi_ns += 5;
        let irq_net = irq.net_ns(180, &taken).unwrap();
        taken.hardirq_ns += irq_net;
        assert_eq!(irq_net, 25);
        assert_eq!(softirq.net_ns(200, &taken), Some(70));
    }

    #[test]
    fn a_clock_that_runs_backwards_is_refused() {
        assert_eq!(Frame::open(100, &Taken::default()).net_ns(99, &Taken::default()), None);
    }

    proptest! {
        /// Net times of all levels sum to the wall time of the outermost one.
        #[test]
        fn net_times_sum_to_the_outermost_interval(
            irqs in proptest::collection::vec((1u64..1_000, 1u64..1_000, 0u64..500), 0..20),
            tail in 1u64..1_000,
        ) {
            let mut taken = Taken { nmi_ns: 7, hardirq_ns: 11, ..Taken::default() };
            let mut now = 1_000;
            let softirq = Frame::open(now, &taken);
            let (mut nmi_sum, mut irq_sum) = (0, 0);
            for (gap, own, nmi) in irqs {
                now += gap;
                let irq = Frame::open(now, &taken);
                now += own + nmi;
                taken.nmi_ns += nmi;
                nmi_sum += nmi;
                let net = irq.net_ns(now, &taken).unwrap();
                prop_assert_eq!(net, own);
                taken.hardirq_ns += net;
                irq_sum += net;
            }
            now += tail;
            let net = softirq.net_ns(now, &taken).unwrap();
            prop_assert_eq!(net + irq_sum + nmi_sum, now - 1_000);
        }
    }
}
