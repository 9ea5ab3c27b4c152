use clap::Parser;
#[derive(Parser)]
enum Line {
    #[command(subcommand)]
    Bench(ferrite_bench::BenchCommand),
}
fn main() {
    let Line::Bench(command) = Line::parse();
    if let Err(error) = ferrite_bench::run_bench(&command) {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
