//! PURE: how work travels through threads, processes and tiers. No clock, no file, no kernel.
