//! The system calls that are refused: those that lead out, or that no tool needs and that had holes.

use super::{Doing as _, Step};
use crate::policy::Network;
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};
use std::collections::BTreeMap;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Refused whatever their arguments.
const REFUSED: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

const NEW_NAMESPACES: &[i32] = &[
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

/// Typing into a terminal that is not one's own.
const TERMINAL: &[u64] = &[libc::TIOCSTI, libc::TIOCLINUX];

const MPTCP: u64 = 262;

/// Restricts this process for good.
pub(super) fn restrict(network: Network) -> Step<()> {
    let mut rules: Rules = REFUSED.iter().map(|number| (*number, Vec::new())).collect();
    rules.insert(libc::SYS_clone, any_bit(NEW_NAMESPACES)?);
    let terminal: Step<_> =
        TERMINAL.iter().map(|ioctl| rule(&[(1, SeccompCmpOp::Eq, *ioctl)])).collect();
    rules.insert(libc::SYS_ioctl, terminal?);
    rules.insert(libc::SYS_socket, sockets(network)?);
    apply(rules, libc::EPERM)?;
    // Its flags lie in memory, out of the filter's sight; without it `clone` is used.
    apply(Rules::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)
}

fn sockets(network: Network) -> Step<Vec<SeccompRule>> {
    let family = |family: i32| u64::from(family.unsigned_abs());
    let others_than = |families: &[i32]| {
        let each: Vec<_> =
            families.iter().map(|known| (0, SeccompCmpOp::Ne, family(*known))).collect();
        rule(&each)
    };
    match network {
        Network::Off => Ok(vec![others_than(&[libc::AF_UNIX])?]),
        Network::Host => Ok(vec![
            others_than(&[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK])?,
            rule(&[(2, SeccompCmpOp::Eq, MPTCP)])?,
        ]),
    }
}

fn any_bit(bits: &[i32]) -> Step<Vec<SeccompRule>> {
    let one = |bit: &i32| {
        let bit = u64::from(bit.unsigned_abs());
        rule(&[(0, SeccompCmpOp::MaskedEq(bit), bit)])
    };
    bits.iter().map(one).collect()
}

fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Step<SeccompRule> {
    let condition = |(argument, operator, value): &(u8, SeccompCmpOp, u64)| {
        SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operator.clone(), *value)
    };
    let conditions: Result<_, _> = conditions.iter().map(condition).collect();
    SeccompRule::new(conditions.doing("write a seccomp condition")?).doing("write a seccomp rule")
}

fn apply(rules: Rules, errno: i32) -> Step<()> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH).doing("know this processor")?;
    let refuse = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture)
        .doing("write a seccomp filter")?;
    let program: seccompiler::BpfProgram = filter.try_into().doing("compile a seccomp filter")?;
    seccompiler::apply_filter(&program).doing("apply a seccomp filter")
}
