//! Drills about services that wait for each other, and for themselves.

use std::fs;

use anyhow::Result;

use super::Prepared;
use super::kit::{CONNECTIONS, Kit, PAUSE_US, Stage, caused_by, once};
use crate::daemon::free_address;
use crate::namespace::configure;
use crate::scratch::argument;

/// What a service does by itself for a request.
const WORK: &str = "compute=300";
/// Addresses of a net that is set aside for examples: another host's, and this one's in that net.
const FAR_HOST: &str = "198.51.100.2";
/// See there.
const HERE: &str = "198.51.100.1";

/// A lock that threads of one process hold for too long.
pub(super) fn lock() -> Result<Prepared> {
    let mut kit = Kit::new()?;
    let shop = kit.service_group("shop", &[])?;
    let slow = kit.path("slow");
    let held = once(&slow, "alone=nap=15000")?;
    let address = kit.serve(&shop, "shop", &[WORK, "alone=compute=50", &held])?;
    kit.ask(address, 2 * CONNECTIONS, PAUSE_US)?;
    let truth = caused_by(&["lock"], &[&shop.label(), "shop", "its own threads"]);
    Ok(Stage::planted(kit, shop, truth, move |_| Ok(fs::write(slow, "")?)))
}

/// A backend that answers late.
pub(super) fn backend() -> Result<Prepared> {
    let mut kit = Kit::new()?;
    let (shop, stock) = (kit.service_group("shop", &[])?, kit.service_group("stock", &[])?);
    let slow = kit.path("slow");
    let late = once(&slow, "nap=40000")?;
    let behind = kit.serve(&stock, "stock", &[WORK, &late])?;
    let address = kit.serve(&shop, "shop", &[WORK, &format!("ask={behind}")])?;
    kit.ask(address, CONNECTIONS, PAUSE_US)?;
    let truth = caused_by(&["tier"], &[&stock.label(), "stock"]);
    Ok(Stage::planted(kit, shop, truth, move |_| Ok(fs::write(slow, "")?)))
}

/// A backend on another host: another kernel's packets, as far as this one can tell.
pub(super) fn remote() -> Result<Prepared> {
    let mut kit = Kit::new()?;
    let (shop, far) = (kit.service_group("shop", &[])?, kit.service_group("far", &[])?);
    let slow = kit.path("slow");
    let interface = format!("ntest{}t", std::process::id());
    let arguments = [&interface, FAR_HOST, "7000", argument(&slow)?, "40"];
    kit.load(&far, "far-host", &arguments)?;
    configure("ip", &["address", "add", &format!("{HERE}/30"), "dev", &interface])?;
    configure("ip", &["link", "set", &interface, "up"])?;
    let address = kit.serve(&shop, "shop", &[WORK, &format!("ask={FAR_HOST}:7000")])?;
    kit.ask(address, CONNECTIONS, PAUSE_US)?;
    let truth = caused_by(&["tier", "network"], &[FAR_HOST]);
    Ok(Stage::planted(kit, shop, truth, move |_| Ok(fs::write(slow, "")?)))
}

/// A name server that does not answer any more.
pub(super) fn names() -> Result<Prepared> {
    let mut kit = Kit::new()?;
    let (shop, resolver) = (kit.service_group("shop", &[])?, kit.service_group("resolver", &[])?);
    let silent = kit.path("silent");
    let server = free_address()?;
    kit.load(&resolver, "names", &[&server.to_string(), argument(&silent)?])?;
    let address = kit.serve(&shop, "shop", &[WORK, &format!("resolve={server}")])?;
    kit.ask(address, CONNECTIONS, PAUSE_US)?;
    let names = [&*server.to_string(), &resolver.label(), "DNS", "name server"];
    let truth = caused_by(&["tier", "network"], &names);
    Ok(Stage::planted(kit, shop, truth, move |_| Ok(fs::write(silent, "")?)))
}

/// Requests in two small packets, of which the second waits for an acknowledgement that comes late.
pub(super) fn nagle() -> Result<Prepared> {
    let mut kit = Kit::new()?;
    let (shop, stock) = (kit.service_group("shop", &[])?, kit.service_group("stock", &[])?);
    let parts = kit.path("parts");
    let file = argument(&parts)?.to_owned();
    let behind = kit.serve(&stock, "stock", &[WORK])?;
    let steps = [format!("unless:{file}:ask={behind}"), format!("if:{file}:ask-in-parts={behind}")];
    let address = kit.serve(&shop, "shop", &[WORK, &steps[0], &steps[1]])?;
    kit.ask(address, CONNECTIONS, PAUSE_US)?;
    let truth = caused_by(&["network"], &["Nagle", "acknowledg", &stock.label(), "stock"]);
    Ok(Stage::planted(kit, shop, truth, move |_| Ok(fs::write(parts, "")?)))
}
