//! The code of the managed tools.

mod action;
mod agent_toolset;
mod answer;
mod change;
mod command;
mod entry;
mod managed;
mod read;
mod restore;
mod sandbox;
mod search;
mod shell;
mod shell_state;
mod spill;

pub(crate) use action::Action;
pub(crate) use managed::Managed;

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
    .chain(agent_toolset::tools())
    .collect()
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
