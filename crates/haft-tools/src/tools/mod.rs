//! The code of the managed tools.

mod action;
mod agent_toolset;
mod answer;
mod artifacts;
mod change;
mod checkpoint;
mod command;
mod context_budget;
mod delegation;
mod entry;
mod ground;
mod managed;
mod memory;
mod outcome;
mod permissions;
mod read;
mod recall;
mod resources;
mod restore;
mod sandbox;
mod search;
mod sessions;
mod shell;
mod shell_state;
mod skills;
mod spill;

pub(crate) use action::Action;
pub(crate) use answer::apart;
pub(crate) use managed::Managed;
pub(crate) use recall::{Recalled, recalled};

/// Every managed tool, with its code.
pub(crate) fn all() -> Vec<Managed> {
    vec![
        Managed::new("read", |arguments, context| Box::pin(read::read(arguments, context))),
        Managed::new("write", |arguments, context| Box::pin(change::write(arguments, context)))
            .previewed(|arguments, context| Box::pin(change::preview_write(arguments, context))),
        Managed::new("edit", |arguments, context| Box::pin(change::edit(arguments, context)))
            .previewed(|arguments, context| Box::pin(change::preview_edit(arguments, context))),
        Managed::new("file_restore", |arguments, context| {
            Box::pin(restore::restore(arguments, context))
        }),
        Managed::new("glob", |arguments, context| Box::pin(search::glob(arguments, context))),
        Managed::new("grep", |arguments, context| Box::pin(search::grep(arguments, context))),
        Managed::new("bash", |arguments, context| Box::pin(command::bash(arguments, context))),
        Managed::new("shell_run", |arguments, context| {
            Box::pin(command::shell_run(arguments, context))
        })
        .previewed(|arguments, context| Box::pin(command::preview_script(arguments, context))),
        Managed::new("sandbox_describe", |_, context| Box::pin(sandbox::describe(context))),
        Managed::new("sandbox_execute", |_, _| Box::pin(sandbox::execute()))
            .standing_for(action::meant),
    ]
    .into_iter()
    .chain(shells())
    .chain(inward())
    .chain(around())
    .chain(shared())
    .chain(agent_toolset::tools())
    .collect()
}

/// What looks at sessions and at what they keep.
fn inward() -> Vec<Managed> {
    vec![
        Managed::new("memory_list", |_, context| Box::pin(memory::list(context))),
        Managed::new("memory_read", |arguments, context| {
            Box::pin(memory::read(arguments, context))
        }),
        Managed::new("memory_list_versions", |arguments, context| {
            Box::pin(memory::list_versions(arguments, context))
        }),
        Managed::new("memory_read_version", |arguments, context| {
            Box::pin(memory::read_version(arguments, context))
        }),
        Managed::new("memory_write", |arguments, context| {
            Box::pin(memory::write(arguments, context))
        }),
        Managed::new("memory_promote_note", |arguments, context| {
            Box::pin(memory::promote_note(arguments, context))
        })
        .previewed(|arguments, context| Box::pin(memory::preview_note(arguments, context))),
        Managed::new("outcome_read", |arguments, context| {
            Box::pin(outcome::read(arguments, context))
        }),
        Managed::new("outcome_grade", |arguments, context| {
            Box::pin(outcome::grade(arguments, context))
        }),
        Managed::new("outcome_evaluate", |arguments, context| {
            Box::pin(outcome::evaluate(arguments, context))
        }),
        Managed::new("outcome_history", |arguments, context| {
            Box::pin(outcome::history(arguments, context))
        }),
        Managed::new("outcome_define", |arguments, context| {
            Box::pin(outcome::define(arguments, context))
        }),
        Managed::new("memory_search", |arguments, context| {
            Box::pin(recall::memory(arguments, context))
        }),
        Managed::new("session_search_context", |arguments, context| {
            Box::pin(recall::events(arguments, context))
        }),
        Managed::new("session_search_traces", |arguments, context| {
            Box::pin(recall::traces(arguments, context))
        }),
        Managed::new("retrieval_search", |arguments, context| {
            Box::pin(recall::everything(arguments, context))
        }),
        Managed::new("learning_list", |arguments, context| {
            Box::pin(recall::list_learnings(arguments, context))
        }),
    ]
}

/// What looks at the session itself and at what is around it.
fn around() -> Vec<Managed> {
    vec![
        Managed::new("session_list", |arguments, context| {
            Box::pin(sessions::list(arguments, context))
        }),
        Managed::new("session_list_children", |arguments, context| {
            Box::pin(sessions::list_children(arguments, context))
        }),
        Managed::new("session_get_snapshot", |arguments, context| {
            Box::pin(sessions::snapshot(arguments, context))
        }),
        Managed::new("session_describe_context", |arguments, context| {
            Box::pin(sessions::describe_context(arguments, context))
        }),
        Managed::new("session_get_events", |arguments, context| {
            Box::pin(sessions::events(arguments, context))
        }),
        Managed::new("session_list_traces", |arguments, context| {
            Box::pin(sessions::list_traces(arguments, context))
        }),
        Managed::new("session_get_trace", |arguments, context| {
            Box::pin(sessions::trace(arguments, context))
        }),
        Managed::given_away("session_delegate", delegation::delegate),
        Managed::new("session_run_child", |arguments, context| {
            Box::pin(delegation::run_child(arguments, context))
        }),
        Managed::new("environment_describe", |_, context| Box::pin(ground::environment(context))),
        Managed::new("agent_describe_setup", |arguments, context| {
            Box::pin(ground::describe_setup(arguments, context))
        }),
        Managed::new("agent_compare_setup", |arguments, context| {
            Box::pin(ground::compare_setup(arguments, context))
        }),
        Managed::new("vault_list", |_, context| Box::pin(ground::vaults(context))),
        Managed::new("resources_list", |_, context| Box::pin(ground::resources(context))),
        Managed::new("permissions_describe", |_, context| Box::pin(permissions::describe(context))),
        Managed::new("permissions_check", |arguments, context| {
            Box::pin(permissions::check(arguments, context))
        }),
        Managed::new("skills_list", |_, context| Box::pin(skills::list(context))),
        Managed::new("skills_search", |arguments, context| {
            Box::pin(skills::search(arguments, context))
        }),
        Managed::new("skills_read", |arguments, context| {
            Box::pin(skills::read(arguments, context))
        }),
    ]
}

/// What brings shared files into a session, and back.
fn shared() -> Vec<Managed> {
    vec![
        Managed::new("resources_stage_from_substrate", |arguments, context| {
            Box::pin(resources::stage(arguments, context))
        }),
        Managed::new("resources_list_staged_drafts", |_, context| {
            Box::pin(resources::list_drafts(context))
        }),
        Managed::new("resources_compare_with_substrate", |arguments, context| {
            Box::pin(resources::compare(arguments, context))
        }),
        Managed::new("resources_promote_to_substrate", |arguments, context| {
            Box::pin(resources::promote(arguments, context))
        })
        .previewed(|arguments, context| Box::pin(resources::preview_promote(arguments, context))),
        Managed::new("resources_list_versions", |arguments, context| {
            Box::pin(resources::list_versions(arguments, context))
        }),
        Managed::new("resources_read_version", |arguments, context| {
            Box::pin(resources::read_version(arguments, context))
        }),
        Managed::new("resources_restore_version", |arguments, context| {
            Box::pin(resources::restore(arguments, context))
        })
        .previewed(|arguments, context| Box::pin(resources::preview_restore(arguments, context))),
    ]
}

fn shells() -> [Managed; 12] {
    [
        Managed::new("shell_describe", |_, context| Box::pin(shell_state::describe(context)))
            .of_own_session(),
        Managed::new("shell_history", |arguments, context| {
            Box::pin(shell_state::history(arguments, context))
        })
        .of_own_session(),
        Managed::new("shell_read_last_output", |_, context| {
            Box::pin(shell_state::last_output(context))
        })
        .of_own_session(),
        Managed::new("shell_read_command", |arguments, context| {
            Box::pin(shell_state::command(arguments, context))
        })
        .of_own_session(),
        Managed::new("shell_wait", |arguments, context| Box::pin(shell::wait(arguments, context))),
        Managed::new("shell_set_cwd", |arguments, context| {
            Box::pin(shell_state::set_cwd(arguments, context))
        }),
        Managed::new("shell_set_env", |arguments, context| {
            Box::pin(shell_state::set_env(arguments, context))
        }),
        Managed::new("shell_unset_env", |arguments, context| {
            Box::pin(shell_state::unset_env(arguments, context))
        }),
        Managed::new("shell_open", |arguments, context| Box::pin(shell::open(arguments, context))),
        Managed::new("shell_restart", |arguments, context| {
            Box::pin(shell::restart(arguments, context))
        }),
        Managed::new("shell_exec", |arguments, context| Box::pin(shell::exec(arguments, context)))
            .previewed(|arguments, context| Box::pin(command::preview_script(arguments, context))),
        Managed::new("shell_close", |_, context| Box::pin(shell::close(context))),
    ]
}
