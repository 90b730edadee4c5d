//! What both sides of the kernel line share.
#![no_std]
