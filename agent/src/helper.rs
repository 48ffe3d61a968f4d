//! A helper's main: one right, requests of one worker, nothing else.

use std::os::fd::OwnedFd;
use std::process::ExitCode;

use collectors::domain;
use collectors::sys::helper;
use sys::{privileges, sandbox};

/// `nodewarden helper NAME UID GID`, started by the parent only.
///
/// # Errors
/// When it cannot begin, or the worker sends a request that is none.
pub(crate) fn main(args: &[String]) -> anyhow::Result<ExitCode> {
    let [name, uid, gid] = args else {
        anyhow::bail!("for the parent only: helper NAME UID GID")
    };
    let helper = domain::helpers()
        .find(|h| h.name == name)
        .ok_or_else(|| anyhow::anyhow!("unknown helper {name:?}"))?;
    privileges::drop_to(uid.parse()?, gid.parse()?, helper.capability_mask())?;
    // Its stderr may be a file.
    sys::signals::survive_file_limit()?;
    sys::set_process_name(&format!("nw-{}", helper.name));
    let socket = OwnedFd::from(sys::stdin_socket()?);
    sandbox::enter(helper.name, None);
    helper::serve(helper, &socket)?;
    Ok(ExitCode::SUCCESS)
}
