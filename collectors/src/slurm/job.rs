//! One job: the values of its cgroup, and the devices that its device program allows.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, TryLockError};

use super::cgroup::JobName;
use super::devices::{DeviceList, UnknownReason};
use super::files::{JobFiles, NumberFile};
use super::grants::{self, Grants};
use super::hook::{Hooks, JobRecord};
use super::mapping::Mappings;
use super::metrics::{
    JOB_DEVICE, JOB_DEVICES, JOB_FOLDER, JOB_GRANT, JOB_INFO, JOB_OWNER, JOB_PARTS, JOB_PROLOG, JOB_START,
};
use super::parts::{Parts, Sharing};
use super::pod;
use super::positions::Positions;
use super::process;
use super::tree::Folder;
use super::user::Users;
use crate::sys::bpf::Programs;
use crate::sys::kept::DescriptorBudget;
use crate::sys::root;
use crate::{Block, Device, Env, Error, Subject, SubjectKind, Value};

/// Between the prolog of a job and its first step, in seconds.
const PROLOG_MAX: f64 = 600.0;

/// State shared by all jobs.
pub(super) struct JobContext {
    pub(super) env: Env,
    pub(super) budget: Arc<DescriptorBudget>,
    pub(super) programs: Mutex<Box<dyn Programs>>,
    pub(super) hooks: Hooks,
    pub(super) positions: Mutex<Positions>,
    pub(super) mappings: Mutex<Mappings>,
    pub(super) sharing: Arc<Sharing>,
    /// The node whose jobs are read, if configured.
    pub(super) node: Option<String>,
    pub(super) users: Users,
}

/// A job on this node.
pub(super) struct JobDevice {
    subject: Subject,
    path: PathBuf,
    state: SharedJob,
}

/// The state of a job, shared over scans: a scan makes new devices, which continue with it.
pub(super) type SharedJob = Arc<Mutex<JobState>>;

/// A job's folder, its open files, and its constant properties.
pub(super) struct JobState {
    folder: Folder,
    /// The uid of the pod that it is in, or empty.
    pod: String,
    files: JobFiles,
    /// Where a slurmstepd was last found.
    home: Option<PathBuf>,
    owned: DeviceList,
    granted: Grants,
    parts: Parts,
    common: Arc<JobContext>,
    /// By its processes, found once.
    id: Option<u32>,
    uid: Option<u32>,
    began: Option<f64>,
    /// The record of its prolog hook.
    hook: Option<JobRecord>,
    /// An unusable record was already logged.
    is_logged: bool,
    /// It was read, and no slurmstepd was left then.
    is_left: bool,
    /// Another run of the job has begun in its folder, which needs a state and a subject of its own.
    pub(super) is_replaced: bool,
}

impl JobDevice {
    /// `run`: how many runs of the job were seen in this folder before.
    pub(super) fn new(folder: &Folder, run: u32, state: &SharedJob) -> Self {
        // A requeued job is another device with the old number.
        let name = match run {
            0 => format!("{}:{}", folder.name, folder.inode),
            run => format!("{}:{}.{run}", folder.name, folder.inode),
        };
        Self {
            subject: Subject::new(SubjectKind::Job, name),
            path: folder.path.clone(),
            state: Arc::clone(state),
        }
    }
}

impl JobState {
    pub(super) fn new(common: &Arc<JobContext>, folder: Folder, mount: &Path) -> Self {
        let path = folder.path.strip_prefix(mount).unwrap_or(&folder.path);
        let pod = pod::of(&path.to_string_lossy());
        let uid = pod.as_deref().and_then(|pod| pod.strip_prefix("pod"));
        Self {
            pod: uid.unwrap_or_default().to_owned(),
            files: JobFiles::new(&folder, mount, &common.budget, &common.env),
            home: None,
            id: None,
            uid: folder.uid,
            began: None,
            hook: None,
            is_logged: false,
            is_left: false,
            is_replaced: false,
            owned: DeviceList::default(),
            granted: Grants::default(),
            parts: Parts::new(&common.sharing, &folder),
            common: Arc::clone(common),
            folder,
        }
    }

    /// Whether a slurmstepd is left. Slurm cannot always remove a cgroup, and a slurmstepd that is killed leaves the
    /// processes of its step.
    fn is_alive(&mut self) -> Result<bool, Error> {
        let is_empty = |events: &mut NumberFile| events.field("populated") == Some(0);
        if self.files.events.as_mut().is_some_and(is_empty) {
            return Ok(false);
        }
        let env = &self.common.env;
        let has_daemon = |home: &PathBuf| Ok(!process::daemons_in(env, home)?.is_empty());
        if self
            .home
            .as_ref()
            .is_some_and(|home| matches!(has_daemon(home), Ok(true)))
        {
            return Ok(true);
        }
        let mut unread = Ok(false);
        let homes = process::homes(&self.folder.path)?;
        self.home = homes.into_iter().find(|home| match has_daemon(home) {
            Ok(has) => has,
            Err(error) => {
                unread = Err(error);
                false
            }
        });
        // One that cannot be read may have a slurmstepd.
        if self.home.is_some() { Ok(true) } else { unread }
    }

    /// Whether the epilog of this run was seen, whatever Slurm has left in the cgroup.
    fn is_over(&self, id: u32) -> bool {
        let record = self.hook.as_ref().filter(|record| self.is_about(record));
        let start = record.and_then(|record| record.start);
        start.is_some_and(|start| self.common.hooks.has_ended(id, start))
    }

    /// Whether another run of the job has begun in the folder of one that is over: Slurm uses a cgroup again that it could not
    /// remove. The start of the prolog decides, if there is one: between two steps a job may have no slurmstepd.
    fn is_another_run(&self, id: u32) -> bool {
        if !self.is_left && !self.is_over(id) {
            return false;
        }
        let record = self.common.hooks.of(id).ok().flatten();
        match record.and_then(|record| record.start) {
            Some(start) => self.hook.as_ref().and_then(|known| known.start) != Some(start),
            None => self.is_left,
        }
    }

    /// Reads the constant properties.
    fn find_out(&mut self) {
        let (env, path) = (&self.common.env, &self.folder.path);
        self.id = self.id.or_else(|| number(&self.common, &self.folder));
        if self.uid.is_none() {
            let owner = |pid: u32| root::owner(&env.path(&format!("/proc/{pid}")));
            self.uid = process::user(path, owner).ok().flatten();
        }
        if self.began.is_none() {
            self.began = began(&self.common, path);
        }
        if let (None, Some(id)) = (&self.hook, self.id) {
            match self.common.hooks.of(id) {
                Ok(record) => self.hook = record,
                Err(error) => self.tell(&error.to_string()),
            }
        }
        if self.hook.as_ref().is_some_and(|record| !self.is_about(record)) {
            self.tell("it belongs to another job with this number: its user or SLUID differs");
        }
    }

    fn tell(&mut self, error: &str) {
        if !std::mem::replace(&mut self.is_logged, true) {
            let job = self.id;
            tracing::warn!(error, job, "the record of the prolog hook is unusable");
        }
    }

    /// Whether the job may have begun with this prolog, as far as both times are known.
    fn began_with(&self, record: &JobRecord) -> bool {
        let times = record.start.zip(self.began);
        times.is_none_or(|(prolog, job)| (job - prolog).abs() < PROLOG_MAX)
    }

    /// Whether a record belongs to this job: one with the same number may be left over, or from another cluster.
    fn is_about(&self, record: &JobRecord) -> bool {
        let same_user = match (record.uid, self.uid) {
            // Without a user in its path, a job has the one of its tasks: root's may run them as anyone.
            (Some(0), _) if self.folder.v1.is_none() && self.began_with(record) => true,
            (Some(theirs), Some(ours)) => theirs == ours,
            _ => true,
        };
        let same_name = match (&record.sluid, JobName::parse(&self.folder.name)) {
            (Some(theirs), Some(JobName::Sluid(ours))) => theirs == ours,
            _ => true,
        };
        same_user && same_name
    }

    fn show(&self, number: &str, out: &mut Block) {
        let hook = self.hook.as_ref().filter(|record| self.is_about(record));
        let label = |text: fn(&JobRecord) -> &Option<String>| {
            hook.and_then(|h| text(h).as_deref()).unwrap_or_default()
        };
        let uid = hook.and_then(|h| h.uid).or(self.uid);
        let name = hook.and_then(|h| h.user.as_deref());
        let user = self.common.users.label(uid, name);
        out.info(
            &JOB_INFO,
            &[
                number,
                &user,
                label(|h| &h.account),
                label(|h| &h.partition),
                label(|h| &h.array_job),
                label(|h| &h.array_task),
                label(|h| &h.het_job),
            ],
        );
        if let Some(uid) = uid {
            out.info(&JOB_OWNER, &[number, &uid.to_string()]);
        }
        out.info(&JOB_FOLDER, &[number, &self.folder.name, &self.pod]);
        if hook.is_some() {
            out.info(&JOB_PROLOG, &[number]);
        }
        let start = hook.and_then(|h| h.start).or(self.began);
        out.push(&JOB_START, &[number], start.map_or(Value::Absent, Value::F64));
    }

    /// The devices that the job owns, or why they are unknown; then other evidence of its GPUs.
    fn show_devices(&mut self, id: u32, number: &str, out: &mut Block) {
        let kernel = match self.common.programs.try_lock() {
            Ok(kernel) => Some(kernel),
            Err(TryLockError::Poisoned(left)) => Some(left.into_inner()),
            // The kernel has not returned from a call for another job: this one does not wait for it.
            Err(TryLockError::WouldBlock) => None,
        };
        let devices = match (&self.folder.v1, kernel) {
            // Its rules can be written, but not read.
            (Some(_), _) => Err(UnknownReason::None),
            (None, None) => Err(UnknownReason::Failed),
            (None, Some(mut kernel)) => self
                .owned
                .read(&mut **kernel, &self.folder.path, &self.common.env),
        };
        let gpus = match devices {
            Ok(devices) => {
                out.info(&JOB_DEVICES, &[number, ""]);
                for device in devices {
                    out.info(&JOB_DEVICE, &[number, device]);
                }
                devices.to_vec()
            }
            Err(unknown) => {
                out.info(&JOB_DEVICES, &[number, unknown.word()]);
                self.show_granted(id, number, out)
            }
        };
        let hook = self.hook.as_ref().filter(|record| self.is_about(record));
        let percent = hook.and_then(|record| record.percent);
        let parts = self.parts.of(&self.common.env, &gpus, percent);
        out.maybe_u64(&JOB_PARTS, &[number], parts.map(u64::from));
    }

    fn show_granted(&mut self, id: u32, number: &str, out: &mut Block) -> Vec<String> {
        let record = self.hook.as_ref().filter(|record| self.is_about(record));
        let of = grants::GrantQuery {
            folder: &self.folder,
            id,
            uid: self.uid,
            began: self.began,
            record,
        };
        let Some((evidence, gpus)) = self.granted.find(&self.common, of) else {
            return Vec::new();
        };
        for gpu in &gpus {
            out.info(&JOB_GRANT, &[number, evidence, gpu]);
        }
        gpus
    }

    fn read(&mut self, out: &mut Block) -> Result<(), Error> {
        if !self.folder.others.is_empty() {
            self.show_ambiguous(out);
            return Ok(());
        }
        if root::inode(&self.folder.path)? != Some(self.folder.inode) || !self.is_alive()? {
            self.is_left |= self.id.is_some();
            self.parts.release();
            return Ok(());
        }
        if self.id.is_some_and(|id| self.is_another_run(id)) {
            self.is_replaced = true;
            self.parts.release();
            return Ok(());
        }
        self.is_left = false;
        self.find_out();
        // A SLUID whose daemons have just started: its number comes with the next reading.
        let Some(id) = self.id else { return Ok(()) };
        if self.is_over(id) {
            self.parts.release();
            return Ok(());
        }
        let number = id.to_string();
        self.show(&number, out);
        self.files.read(&[&number], out);
        self.show_devices(id, &number, out);
        Ok(())
    }

    /// Several slurmds have a job of this name: only its existence is reported, while any of them has a slurmstepd.
    fn show_ambiguous(&mut self, out: &mut Block) {
        let (env, folder) = (&self.common.env, &self.folder);
        let has_daemon = |path: &PathBuf| {
            !process::is_left_over(path) && process::daemons(env, path).is_ok_and(|pids| !pids.is_empty())
        };
        if !has_daemon(&folder.path) && !folder.others.iter().any(has_daemon) {
            return;
        }
        self.id = self.id.or_else(|| number(&self.common, folder));
        if let Some(id) = self.id {
            let number = id.to_string();
            out.info(&JOB_INFO, &[&number, "", "", "", "", "", ""]);
            out.info(&JOB_DEVICES, &[&number, UnknownReason::Ambiguous.word()]);
        }
    }
}

/// The number of a job, by its folder and its daemons, otherwise by the record of the prolog hook.
fn number(common: &JobContext, folder: &Folder) -> Option<u32> {
    let of_hook = || match JobName::parse(&folder.name)? {
        JobName::Sluid(sluid) => Some(common.hooks.of_sluid(sluid)?.job),
        JobName::Id(id) => Some(id),
    };
    process::job_id(&common.env, &folder.name, &folder.path).or_else(of_hook)
}

/// When the oldest daemon of its steps started, as Unix time.
fn began(common: &JobContext, job: &Path) -> Option<f64> {
    let each = process::daemons(&common.env, job).ok()?.into_iter();
    let starts = each.filter_map(|pid| process::unix_start(&common.env, pid));
    // To 0.1 s: clock ticks are 0.01 s, and the two clocks are not read at the same time.
    Some((starts.reduce(f64::min)? * 10.0).round() / 10.0)
}

impl Device for JobDevice {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn read(&mut self, out: &mut Block) -> Result<(), Error> {
        match self.state.try_lock() {
            Ok(mut state) => state.read(out),
            Err(TryLockError::Poisoned(left)) => left.into_inner().read(out),
            // A reading of the previous device of this job has not returned.
            Err(TryLockError::WouldBlock) => Err(Error::io(&self.path, ErrorKind::WouldBlock.into())),
        }
    }
}
