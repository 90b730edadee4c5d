//! x
fn main() {
    let mut e = noise_daemon::kernel::Engine::load(&Default::default()).unwrap();
    for h in e.hooks() {
        println!("{:?}", h);
    }
    e.attach().unwrap();
    for h in e.hooks() {
        println!("{:?}", h);
    }
    std::thread::sleep(std::time::Duration::from_secs(600));
}
