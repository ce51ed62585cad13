//! Serves a directory on a port: `cargo run --release -p velella-server --example serve -- PORT
//! DIRECTORY`; by default 6380 and `velella-data`.

fn main() -> velella::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let port = match arguments.next() {
        None => 6380,
        Some(port) => port.parse().map_err(|_| {
            let found = format!("`{port}` is no port; give it first, then the directory");
            velella::Error::new(velella::ErrorKind::InvalidInput, "serve", found)
        })?,
    };
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
