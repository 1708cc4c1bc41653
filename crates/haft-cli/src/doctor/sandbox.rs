//! The kernel's part of the sandbox: a sandbox is built, and says which of its layers hold.

use haft_sandbox::launcher::Launcher;
use haft_sandbox::layers::{Layer, LayerReport, Standing};
use haft_sandbox::mounts::Mounts;
use haft_sandbox::policy::{Policy, Requirement};
use haft_sandbox::process::Sandbox;

use super::finding::Finding;

const NAME: &str = "sandbox";

pub(super) fn examine() -> Vec<Finding> {
    let built = Mounts::open([]).map_err(|error| error.to_string()).and_then(|mounts| {
        // A kernel without Landlock is told below as what it is.
        let policy = Policy { landlock: Requirement::WherePresent, ..Policy::new(mounts) };
        let policy = policy.read_only();
        Sandbox::open(&Launcher::this_program(), &policy).map_err(|error| error.to_string())
    });
    match built {
        Ok(sandbox) => {
            let works = "commands can be confined: user namespaces and mounts work";
            let layers = sandbox.describe().iter().map(layer);
            [Finding::ok(NAME, works)].into_iter().chain(layers).collect()
        }
        Err(why) => vec![Finding::problem(
            NAME,
            format!("no command can be run here: {why}"),
            "allow unprivileged user namespaces (`sysctl kernel.unprivileged_userns_clone=1`, \
             `user.max_user_namespaces`, `kernel.apparmor_restrict_unprivileged_userns=0`); in a \
             container, let it make namespaces",
        )],
    }
}

fn layer(report: &LayerReport) -> Finding {
    let name = name(report.layer);
    match &report.standing {
        Standing::Enforced => Finding::ok(name, "enforced"),
        Standing::Partly { lacking } => {
            Finding::warning(name, format!("enforced in part: {lacking}"), fix(report.layer))
        }
        Standing::Absent { reason } if report.layer == Layer::Landlock => {
            let message = format!("not enforced: {reason}; tools that run commands refuse to");
            Finding::problem(name, message, fix(report.layer))
        }
        Standing::Absent { reason } => {
            Finding::warning(name, format!("not enforced: {reason}"), fix(report.layer))
        }
    }
}

const fn name(layer: Layer) -> &'static str {
    match layer {
        Layer::User => "sandbox.user_namespace",
        Layer::Mounts => "sandbox.mounts",
        Layer::Processes => "sandbox.processes",
        Layer::Network => "sandbox.network",
        Layer::Ipc => "sandbox.ipc",
        Layer::Privileges => "sandbox.privileges",
        Layer::SystemCalls => "sandbox.seccomp",
        Layer::Landlock => "sandbox.landlock",
        Layer::Limits => "sandbox.limits",
        Layer::TotalMemory => "sandbox.total_memory",
        _ => NAME,
    }
}

const fn fix(layer: Layer) -> &'static str {
    match layer {
        Layer::Landlock => "use Linux 6.12 or newer with Landlock among `CONFIG_LSM`",
        Layer::TotalMemory => {
            "run as root, or with `Delegate=memory pids` in the systemd unit, where control groups \
             limit memory; else limit the server as a whole with `MemoryMax=`"
        }
        _ => "use a kernel that offers it",
    }
}
