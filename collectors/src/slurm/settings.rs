//! `[slurm.jobs]`.

use super::user::UserLabel;
use crate::settings::Kind;
use crate::{Error, Settings};

/// A node name that Slurm accepts.
pub const NODE_NAME: Kind = Kind::Text {
    what: "a Slurm node name",
    fits: |text| {
        let known = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
        (1..=255).contains(&text.len()) && text.bytes().all(known) && !text.starts_with('-')
    },
};

crate::keys! {
    pub KEYS;
    NODE = "slurm.jobs.node": NODE_NAME, example "\"gpu017\"", since "0.1.0",
        "The node whose jobs are read, where several slurmds run on this host. Not set: slurm.node_name.";
    USER = "slurm.jobs.user": Kind::Choice(&["uid", "name", "hash", "off"]), default "\"uid\"", rule salted, since "0.1.0",
        "Form of a job's user in labels: uid, name, hash (HMAC-SHA-256 of the uid with a salt) or off.";
    LABELS = "slurm.jobs.labels": Kind::List {
            what: "an array of labels",
            of: &Kind::Choice(&["user", "account", "partition"]),
            empty: true,
        }, default "[]", example "[\"user\", \"account\", \"partition\"]", since "0.1.0",
        "Labels of slurm_job_info besides the job number: user, account, partition. Pages know no user, so every client\n\
         sees them.";
    SALT = "slurm.jobs.salt": Kind::Text { what: "a string", fits: |_| true }, default "\"\"", since "0.1.0",
        "The salt of user = \"hash\": the same on the whole site, and secret.";
    HOOKS = "slurm.jobs.hooks": Kind::Path, default "\"/run/nodewarden/jobs\"", since "0.1.0",
        "Directory of the records of `nodewarden hook prolog`. Not set: the directory jobs in the run directory.";
    GRES_CONF = "slurm.jobs.gres_conf": Kind::Path, example "\"/etc/slurm/gres.conf\"", since "0.1.0",
        "Path of gres.conf. Not set: beside slurm.conf, or one of Slurm's usual places.";
    MAPPING = "slurm.jobs.mapping": Kind::List {
            what: "an array of tables such as { dir = \"/run/gpustat\", names = \"position\" }",
            of: &Kind::Record {
                what: "a table with dir and names",
                fields: &[
                    ("dir", Kind::Path),
                    ("names", Kind::Choice(&["position", "minor", "uuid"])),
                ],
                optional: &[],
            },
            empty: true,
        }, default "[]", example "[{ dir = \"/run/gpustat\", names = \"position\" }]", since "0.1.0",
        "Directories of other tools' files that name the jobs of each GPU. The files are named by position in gres.conf,\n\
         device minor number or UUID.";
    JOBS = "slurm.jobs.max_jobs": Kind::Integer { what: "a number", from: 1, to: 1024 }, default "1024", since "0.1.0",
        "Maximum number of jobs with their own series on a page; the oldest jobs are kept.";
}

/// The number of jobs that have separate series on a page. All jobs are read: an omitted job is still listed.
///
/// # Errors
/// When the value is invalid.
pub fn max_jobs(settings: &Settings) -> Result<usize, Error> {
    settings.get(&JOBS)
}

/// The personal labels of a job that pages show.
///
/// # Errors
/// When the value is invalid.
pub fn labels(settings: &Settings) -> Result<Vec<String>, Error> {
    settings.get(&LABELS)
}

/// A hash without a salt could be reversed by hashing every uid.
pub(super) fn salted(settings: &Settings) -> Result<(), Error> {
    if settings.get::<UserLabel>(&USER)? != UserLabel::Hash || !settings.get::<String>(&SALT)?.is_empty() {
        return Ok(());
    }
    let message = "slurm.jobs.user: \"hash\" needs a salt (slurm.jobs.salt): a secret text shared by the \
                   whole site";
    Err(Error::Settings(message.to_owned()))
}
