//! Serves a directory on a port: `cargo run --release --example serve -- PORT DIRECTORY`.

fn main() -> velella::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let port = arguments
        .next()
        .and_then(|port| port.parse().ok())
        .unwrap_or(6380);
    let directory = arguments
        .next()
        .unwrap_or_else(|| "velella-data".to_owned());
    let config = velella_server::Config {
        port,
        ..velella_server::Config::default()
    };
    velella_server::serve(config, velella::open(directory)?, |server| {
        println!("listening on {}", server.address());
    })
}
