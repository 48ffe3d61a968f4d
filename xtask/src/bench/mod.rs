//! `cargo xtask bench`: cost of a scrape, compared with node_exporter and a floor program. Method: docs/benchmarks.md.

mod amd;
mod burst;
mod client;
mod crates;
mod instructions;
mod lustre;
mod lustre_peer;
mod machine;
mod measure;
mod meter;
mod nvidia;
mod nvidia_peer;
mod parts;
mod peers;
mod program;
mod rdma;
mod relocated;
mod report;
mod soak;
mod syscalls;
mod warm;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use testkit::hcas::Hcas;
use testkit::tmpfs::Tmpfs;
use testkit::tree;

use crate::cmd;
use machine::Cores;
use measure::Figures;
use program::{Program, Recipe};

/// The document that `--write` updates.
const DOCUMENT: &str = "docs/benchmarks.md";

/// Program names in the tables.
const OURS: &str = "nodewarden";
const OURS_WHOLE: &str = "nodewarden, whole node";
const FLOOR: &str = "floor";
/// The floor with the processes and threads that nodewarden's design has on the way of a value, and with nodewarden's page.
const FLOOR_DESIGN: &str = "floor of the design";

/// Number of adapters, as on a real node of that kind.
const HCAS: usize = 10;

/// Size limit of the folder of trees, in bytes.
const MEMORY: u64 = 1 << 30;

/// The fixture to which the adapters are added for the whole node.
const NODE: &str = "fixtures/host/h100";

/// The measurement.
#[derive(clap::Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    what: Option<What>,
    /// Fewer and shorter rounds; ignore limits, but fail on pages without required values.
    #[arg(long, conflicts_with_all = ["soak", "write"])]
    quick: bool,
    /// 20,000 scrapes in place of the comparison; fail if memory, descriptors or threads grow.
    #[arg(long, conflicts_with = "write")]
    soak: bool,
    /// Write the tables to docs/benchmarks.md.
    #[arg(long)]
    write: bool,
    /// Without nodewarden.
    #[arg(long, conflicts_with = "soak")]
    peers: bool,
    /// Without the other programs, for profiling.
    #[arg(long, conflicts_with_all = ["soak", "write", "peers"])]
    ours: bool,
    /// Compare with another build of nodewarden in place of the other programs.
    #[arg(long, value_name = "PROGRAM", conflicts_with_all = ["soak", "write", "peers", "ours"])]
    against: Option<PathBuf>,
}

impl BenchArgs {
    /// Whether only nodewarden is measured.
    fn is_ours(&self) -> bool {
        self.ours || self.against.is_some()
    }
}

#[derive(clap::Subcommand)]
enum What {
    /// Eight H100s of the stand-in for NVIDIA's library, compared with all-smi from crates.io.
    Nvidia {
        /// Fewer scrapes; ignore limits.
        #[arg(long, conflicts_with = "write")]
        quick: bool,
        /// Write the table to docs/benchmarks.md.
        #[arg(long, conflicts_with = "peers")]
        write: bool,
        /// Without nodewarden.
        #[arg(long)]
        peers: bool,
    },
    /// A client of Lustre with 4 and with 1,000 OSTs, compared with lustre_collector from crates.io.
    Lustre {
        /// Fewer scrapes; ignore the limit.
        #[arg(long, conflicts_with = "write")]
        quick: bool,
        /// Write the table to docs/benchmarks.md.
        #[arg(long)]
        write: bool,
    },
    /// Eight MI300X in 64 partitions, by a page of each tier.
    Amd {
        /// Fewer scrapes.
        #[arg(long, conflicts_with = "write")]
        quick: bool,
        /// Write the table to docs/benchmarks.md.
        #[arg(long)]
        write: bool,
    },
    /// Counters of RDMA ports by netlink and by sysfs files, in a guest with soft-RoCE.
    Rdma {
        /// Write the table to docs/benchmarks.md.
        #[arg(long)]
        write: bool,
    },
    /// What one scrape costs each process: CPU, wake-ups, system calls, bytes between processes.
    Where {
        /// A few scrapes.
        #[arg(long, conflicts_with = "write")]
        quick: bool,
        /// Write the tables to docs/benchmarks.md.
        #[arg(long)]
        write: bool,
    },
    /// Instructions of the encoder and of the workers' frames, compared with the committed counts.
    Instructions {
        /// Write the current counts as the new expected ones.
        #[arg(long)]
        bless: bool,
    },
}

/// Runs the measurement.
///
/// # Errors
/// When a measurement fails, a page is stale, or a limit is exceeded.
pub(crate) fn run(args: &BenchArgs) -> Result<()> {
    match args.what {
        Some(What::Instructions { bless }) => return instructions::run(bless),
        Some(What::Where { quick, write }) => return parts::run(quick, write),
        Some(What::Nvidia { quick, write, peers }) => return nvidia::run(quick, write, !peers),
        Some(What::Lustre { quick, write }) => return lustre::run(quick, write),
        Some(What::Amd { quick, write }) => return amd::run(quick, write),
        Some(What::Rdma { write }) => return rdma::run(write),
        None if args.soak => return soaked(),
        None => {}
    }
    let plan = if args.quick { measure::QUICK } else { measure::FULL };
    compare(plan, args)
}

/// The comparison with its limits, as CI runs it.
///
/// # Errors
/// When a measurement fails, a page is stale, or a limit is exceeded.
pub(crate) fn full() -> Result<()> {
    let args = BenchArgs {
        what: None,
        quick: false,
        soak: false,
        write: false,
        peers: false,
        ours: false,
        against: None,
    };
    compare(measure::FULL, &args)
}

/// The instruction counts, as CI compares them.
///
/// # Errors
/// When a count has changed.
pub(crate) fn instructions() -> Result<()> {
    instructions::run(false)
}

/// The GPUs of the stand-in, as CI measures them.
///
/// # Errors
/// When a page has wrong values, or nodewarden makes a call more than once per reading or exceeds a limit.
pub(crate) fn nvidia() -> Result<()> {
    nvidia::run(false, false, true)
}

/// The client of Lustre, as CI measures it.
///
/// # Errors
/// When a program does not show it, or we cost more for a series.
pub(crate) fn lustre() -> Result<()> {
    lustre::run(false, false)
}

/// The divided MI300X, as CI measures them.
///
/// # Errors
/// When a page does not show each partition, or a core page has more series than the limit.
pub(crate) fn amd() -> Result<()> {
    amd::run(false, false)
}

/// RDMA counters by netlink and by sysfs, as CI measures them.
///
/// # Errors
/// When the guest reports no result, or netlink saves no calls.
pub(crate) fn rdma() -> Result<()> {
    rdma::run(false)
}

/// The long run, as CI runs it.
///
/// # Errors
/// When memory, descriptors or threads grow.
pub(crate) fn soaked() -> Result<()> {
    let place = Place::new()?;
    let cores = machine::ready()?;
    let mut hcas = place.adapters("ib")?;
    let recipe = place.nodewarden(OURS, "ib", hcas.len())?;
    let mut program = Program::start(recipe, &cores, &mut hcas)?;
    soak::run(&mut program, &mut hcas)
}

/// The node_exporter for the comparison.
///
/// # Errors
/// When Debian's archive lacks it.
pub(crate) fn node_exporter() -> Result<PathBuf> {
    peers::get(&peers::NEW, &work()?)
}

/// Where downloads and results are kept.
fn work() -> Result<PathBuf> {
    let work = cmd::target_dir()?.join("bench");
    std::fs::create_dir_all(&work)?;
    Ok(work)
}

fn compare(plan: measure::Plan, args: &BenchArgs) -> Result<()> {
    let place = Place::new()?;
    let others: &[&peers::Peer] = if args.is_ours() {
        &[]
    } else {
        &[&peers::NEW, &peers::OLD]
    };
    let cores = machine::ready()?;
    let mut hcas = place.adapters("ib")?;
    let root = place.root("ib");

    let mut recipes = Vec::new();
    for peer in others {
        let program = peers::get(peer, &place.work)?;
        let version = peers::version(&program)?;
        recipes.push(program::node_exporter(
            peer.name, &program, version, &root, peer.shows,
        ));
    }
    if let Some(program) = &args.against {
        let program = std::path::absolute(program)?;
        recipes.push(place.build("another build", &program, "other", "ib", hcas.len())?);
    }
    if !args.peers {
        recipes.push(place.nodewarden(OURS, "ib", hcas.len())?);
    }
    let machine_before = |programs: &[Program]| {
        let method = programs.first().context("nothing to measure")?.meter.method();
        report::machine(cores.count, &root, method)
    };
    let mut programs = start(recipes, &cores, &mut hcas)?;
    if !args.is_ours() {
        let ours = programs.iter_mut().find(|p| p.name == OURS);
        let floors = floors(&place, &root, ours, &cores, &mut hcas)?;
        let at = programs.iter().position(|p| p.name == OURS);
        let at = at.unwrap_or(programs.len());
        programs.splice(at..at, floors);
    }
    let mut machine = machine_before(&programs)?;
    let mut figures = measure::all(&mut programs, &mut hcas, plan, &place.work)?;
    machine.lines.extend(report::unsteady(&figures));
    drop(programs);

    // Separately, so that each program runs once: PSS divides shared pages among all instances.
    if !args.peers && !args.is_ours() {
        tree::unpack(&cmd::root().join(NODE), &place.temp.path().join("whole"))?;
        let mut hcas = place.adapters("whole")?;
        let recipe = place.nodewarden(OURS_WHOLE, "whole", hcas.len())?;
        let mut programs = start(vec![recipe], &cores, &mut hcas)?;
        let floors = floors(
            &place,
            &place.root("whole"),
            programs.first_mut(),
            &cores,
            &mut hcas,
        )?;
        programs.extend(floors);
        let mut measured = measure::all(&mut programs, &mut hcas, plan, &place.work)?.into_iter();
        let whole = measured.next().context("nothing was measured")?;
        figures.push(Figures {
            beside: measured.collect(),
            ..whole
        });
    }
    let ours = (!args.peers).then(|| place.program("nodewarden"));
    show(&figures, &machine, (&place.work, ours.as_deref()), args)
}

/// The floor programs for a tree; that of the design only beside nodewarden, whose page it serves.
fn floors(
    place: &Place,
    root: &Path,
    ours: Option<&mut Program>,
    cores: &Cores,
    hcas: &mut Hcas,
) -> Result<Vec<Program>> {
    let mut recipes = vec![program::floor(
        FLOOR,
        &place.program("floor"),
        root,
        hcas.len(),
        None,
    )];
    if let Some(ours) = ours {
        let page = place.temp.path().join("page.prom");
        std::fs::write(&page, ours.again(false)?.page)?;
        // A file of its own: PSS divides the pages of one among all its processes.
        let copy = place.temp.path().join("floor-design");
        std::fs::copy(place.program("floor"), &copy).with_context(|| copy.display().to_string())?;
        recipes.push(program::floor(FLOOR_DESIGN, &copy, root, hcas.len(), Some(&page)));
    }
    start(recipes, cores, hcas)
}

fn start(recipes: Vec<Recipe>, cores: &Cores, hcas: &mut Hcas) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for recipe in recipes {
        let program = Program::start(recipe, cores, hcas)?;
        println!(
            "{} {}: shows {} of {} counters",
            program.name,
            program.version,
            program.shows().0,
            hcas.len()
        );
        programs.push(program);
    }
    Ok(programs)
}

/// Prints the table and the errors. `places`: the folder of results, and our program if it was measured.
fn show(
    figures: &[Figures],
    machine: &report::Machine,
    (work, ours): (&Path, Option<&Path>),
    args: &BenchArgs,
) -> Result<()> {
    let table = report::table(figures);
    println!("\n{}\n\n{table}", machine.lines.join("\n"));
    let file = work.join("result.json");
    std::fs::write(
        &file,
        serde_json::to_string_pretty(&report::json(figures, machine))?,
    )?;
    println!("{}", file.display());
    if args.write {
        report::write(&cmd::root().join(DOCUMENT), report::MEASURED, machine, &table)?;
    }
    let beside = figures.iter().flat_map(|f| &f.beside);
    let all = figures.iter().chain(beside);
    let mut faults: Vec<String> = all.flat_map(|f| f.faults.clone()).collect();
    let relocated = ours.map(relocated::over_limit).transpose()?.flatten();
    if !args.quick && !args.is_ours() {
        faults.extend(report::over_budget(figures));
        faults.extend(relocated);
    }
    if !faults.is_empty() {
        bail!("{}", faults.join("\n"));
    }
    Ok(())
}

/// Folders of programs and trees.
struct Place {
    /// target/bench, kept between runs.
    work: PathBuf,
    built: PathBuf,
    /// Dropped before the folder on which it is mounted.
    _memory: Tmpfs,
    /// The folder of trees and of all that the programs keep.
    temp: TempDir,
}

impl Place {
    fn new() -> Result<Self> {
        machine::as_root()?;
        // The release build: optimised, without the feature for tests.
        cmd::run(&mut cmd::cargo(&[
            "build",
            "--release",
            "--locked",
            "--package=nodewarden",
            "--package=nodewarden-testkit",
            "--bin=nodewarden",
            "--bin=floor",
        ]))?;
        let target = cmd::target_dir()?;
        let work = work()?;
        // In memory: the writer must not keep a disk busy.
        let temp = tempfile::Builder::new().prefix("nodewarden-bench-").tempdir()?;
        let memory = Tmpfs::mount(temp.path(), MEMORY)?;
        std::fs::set_permissions(temp.path(), Permissions::from_mode(0o755))?;
        Ok(Self {
            work,
            built: target.join("release"),
            _memory: memory,
            temp,
        })
    }

    fn root(&self, tree: &str) -> PathBuf {
        self.temp.path().join(tree).join("root")
    }

    fn adapters(&self, tree: &str) -> Result<Hcas> {
        Hcas::build(&self.root(tree), HCAS)
    }

    fn program(&self, name: &str) -> PathBuf {
        self.built.join(name)
    }

    fn nodewarden(&self, name: &str, tree: &str, shows: usize) -> Result<Recipe> {
        self.build(name, &self.program("nodewarden"), tree, tree, shows)
    }

    /// A build of nodewarden. `own`: the name of its folder.
    fn build(&self, name: &str, program: &Path, own: &str, tree: &str, shows: usize) -> Result<Recipe> {
        let state = self.temp.path().join(format!("{own}.state"));
        std::fs::create_dir_all(&state)?;
        std::fs::set_permissions(&state, Permissions::from_mode(0o755))?;
        program::nodewarden(name, program, &self.root(tree), &state, shows)
    }
}
