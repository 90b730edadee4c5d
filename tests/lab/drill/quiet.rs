//! Drills that plant nothing.

use anyhow::Result;

use super::Prepared;
use super::kit::{CONNECTIONS, Kit, PAUSE_US, Stage};

/// Between requests to a service that is next to idle, us.
const RARELY_US: u32 = 250_000;

/// A service with next to nothing to do.
pub(super) fn idle() -> Result<Prepared> {
    let mut kit = Kit::new()?;
    let shop = kit.service_group("shop", &[])?;
    let address = kit.serve(&shop, "shop", &["compute=300"])?;
    kit.ask(address, 1, RARELY_US)?;
    Ok(Stage::quiet(kit, shop))
}

/// A service that works with a backend, as it always does.
pub(super) fn steady() -> Result<Prepared> {
    let mut kit = Kit::new()?;
    let (shop, stock) = (kit.service_group("shop", &[])?, kit.service_group("stock", &[])?);
    let behind = kit.serve(&stock, "stock", &["compute=300", "nap=2000"])?;
    let address = kit.serve(&shop, "shop", &["compute=1000", &format!("ask={behind}")])?;
    kit.ask(address, CONNECTIONS, PAUSE_US)?;
    Ok(Stage::quiet(kit, shop))
}
