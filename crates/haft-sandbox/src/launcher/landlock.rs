//! Landlock: the same rules on files once more, by another part of the kernel.

use super::{Doing as _, Step};
use crate::policy::NetworkKind;
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, PathBeneath, PathFd,
    Ruleset, RulesetAttr as _, RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use std::ffi::OsString;
use std::path::Path;

/// Versions with what each must have to be of use, best first.
const VERSIONS: [(u64, ABI); 6] =
    [(6, ABI::V6), (5, ABI::V5), (4, ABI::V4), (3, ABI::V3), (2, ABI::V2), (1, ABI::V1)];

/// Programs, libraries and what the sandbox itself put there.
const READABLE: &[&str] =
    &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/proc", "/dev"];
const WRITABLE: &[&str] = &["/tmp", "/dev/shm"];
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// The best version this kernel has, up to the one we know; 0 for none.
pub(super) fn version(network: NetworkKind) -> u64 {
    let works = |(_, abi): &(u64, ABI)| {
        ruleset(*abi, network).is_ok_and(|ruleset| ruleset.create().is_ok())
    };
    VERSIONS.iter().find(|version| works(version)).map_or(0, |(number, _)| *number)
}

/// Restricts this process for good.
pub(super) fn restrict(
    version: u64,
    network: NetworkKind,
    writable: &[OsString],
    readable: &[OsString],
) -> Step<()> {
    let Some((_, abi)) = VERSIONS.iter().find(|(number, _)| *number == version) else {
        return Ok(());
    };
    let abi = *abi;
    let mut created = ruleset(abi, network)?.create().doing("make Landlock rules")?;
    let to_read = AccessFs::from_read(abi);
    let reading = READABLE.iter().map(Path::new).chain(readable.iter().map(Path::new));
    for path in reading {
        // Not every system has every directory.
        if let Ok(open) = PathFd::new(path) {
            created =
                created.add_rule(PathBeneath::new(open, to_read)).doing("add a Landlock rule")?;
        }
    }
    for path in WRITABLE.iter().map(Path::new).chain(writable.iter().map(Path::new)) {
        let open = PathFd::new(path).doing("open a writable root")?;
        created = created
            .add_rule(PathBeneath::new(open, AccessFs::from_all(abi)))
            .doing("add a Landlock rule")?;
    }
    for path in DEVICES {
        let open = PathFd::new(path).doing("open a device")?;
        let access = (AccessFs::from_file(abi) & !AccessFs::Execute) | AccessFs::ReadFile;
        created = created.add_rule(PathBeneath::new(open, access)).doing("add a Landlock rule")?;
    }
    let status = created.restrict_self().doing("apply Landlock")?;
    match status.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        _ => Err("Landlock did not take all rules".to_owned()),
    }
}

fn ruleset(abi: ABI, network: NetworkKind) -> Step<Ruleset> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))
        .doing("ask for Landlock on files")?;
    if network == NetworkKind::Off && abi >= ABI::V4 {
        ruleset =
            ruleset.handle_access(AccessNet::from_all(abi)).doing("ask for Landlock on TCP")?;
    }
    if abi >= ABI::V6 {
        ruleset = ruleset.scope(Scope::from_all(abi)).doing("ask for Landlock on signals")?;
    }
    Ok(ruleset)
}
