//! The process's JVM: started once, never stopped, its bridge classes looked up once.

use crate::locate::{self, Jdk};
use crate::signal_stack;
use crate::sources;
use crate::trial;
use ferrite_base::{ErrorKind, UserError, UserResult};
use jni::objects::{GlobalRef, JClass, JStaticMethodID};
use jni::sys::{jint, jvalue};
use jni::{InitArgsBuilder, JNIEnv, JNIVersion, JavaVM, NativeMethod};
use std::process::Command;
use std::time::Duration;

/// Options that the JVM gets unless `--java-options` say otherwise, which come after them.
const OPTIONS: [&str; 4] = [
    // Signals are the server's.
    "-Xrs",
    // No files of figures, which a slow disk makes every pause wait for.
    "-XX:-UsePerfData",
    // Procedures leave garbage that dies young; a small heap and a simple collector pause least
    // where there are few cores.
    "-XX:+UseSerialGC",
    "-Xmx512m",
];
/// Where the heap may be so large.
const OPTIONS_WITH_ROOM: [&str; 2] = ["-Xms128m", "-Xmn64m"];
const ROOM_BYTES: u64 = 192 << 20;
/// Options of the user's are tried so long; those with which a JVM does not end by itself then are
/// taken for good.
const TRIAL_TIME_MAX: Duration = Duration::from_secs(10);
/// Characters of what a JVM says that cannot begin.
const WORDS_MAX: usize = 2_000;

pub(crate) struct Machine {
    pub vm: JavaVM,
    /// `org.voltdb.Bridge`.
    pub bridge: GlobalRef,
    pub load: JStaticMethodID,
    pub describe: JStaticMethodID,
    pub description: JStaticMethodID,
    pub attach: JStaticMethodID,
    pub run: JStaticMethodID,
    pub compound: JStaticMethodID,
    pub stage: JStaticMethodID,
    pub over: JStaticMethodID,
    pub failure: JStaticMethodID,
    pub function: JStaticMethodID,
    pub call: JStaticMethodID,
    pub aggregate: JStaticMethodID,
}

impl Machine {
    /// `natives`: what Java calls back, for its class `Bridge`.
    pub fn start(options: &[String], natives: &[NativeMethod]) -> UserResult<Machine> {
        signal_stack::own_stack_for_signals();
        let jdk = locate::find()?;
        let compiled = sources::compiled(&jdk)?;
        // A JVM whose working directory is gone does not start, and takes the process with it.
        if std::env::current_dir().is_err() {
            let _ = std::env::set_current_dir("/");
        }
        let mut builder = InitArgsBuilder::new().version(JNIVersion::V8);
        let class_path = format!("-Djava.class.path={}", compiled.jar.display());
        let ours = OPTIONS_WITH_ROOM.into_iter().filter(|_| heap_max(options).is_none_or(|bytes| bytes >= ROOM_BYTES));
        let all = OPTIONS.into_iter().chain(ours).chain(options.iter().map(String::as_str));
        let all: Vec<&str> = all.chain([class_path.as_str()]).collect();
        if options.iter().any(|option| !option.starts_with("-Dferrite.")) {
            try_options(&jdk, &all)?;
        }
        for option in all {
            builder = builder.option(option.to_owned());
        }
        let arguments = builder.build().map_err(|error| unusable(&error))?;
        let vm = JavaVM::with_libjvm(arguments, || Ok(&jdk.library)).map_err(|error| {
            unusable(&error).with_hint("see the JVM's message in the server's standard error, and --java-options")
        })?;
        let machine = {
            let mut guard = vm.attach_current_thread().map_err(|error| unusable(&error))?;
            Self::look_up(&mut guard, natives).map_err(|error| unusable(&error))?
        };
        let (
            bridge,
            [load, describe, description, attach, run, compound, stage, over, failure, function, call, aggregate],
        ) = machine;
        Ok(Machine {
            vm,
            bridge,
            load,
            describe,
            description,
            attach,
            run,
            compound,
            stage,
            over,
            failure,
            function,
            call,
            aggregate,
        })
    }

    #[allow(clippy::type_complexity, reason = "a name would say no more")]
    fn look_up(
        env: &mut JNIEnv<'_>,
        natives: &[NativeMethod],
    ) -> jni::errors::Result<(GlobalRef, [JStaticMethodID; 12])> {
        let class = env.find_class("org/voltdb/Bridge")?;
        env.register_native_methods(&class, natives)?;
        env.call_static_method(&class, "takeStreams", "()V", &[])?;
        let methods = [
            ("load", "([B)Lorg/voltdb/JarLoader;"),
            ("describe", "(Lorg/voltdb/JarLoader;Ljava/lang/String;)Ljava/lang/Object;"),
            ("description", "(Lorg/voltdb/ProcedureClass;)[Ljava/lang/String;"),
            ("attach", "(IILjava/lang/String;Ljava/nio/ByteBuffer;Ljava/nio/ByteBuffer;)Lorg/voltdb/Exchange;"),
            ("run", "(Lorg/voltdb/ProcedureClass;Lorg/voltdb/Exchange;JJJI)I"),
            ("compound", "(Lorg/voltdb/ProcedureClass;Lorg/voltdb/Exchange;JIJ)Lorg/voltdb/StagedCall;"),
            ("stage", "(Lorg/voltdb/ProcedureClass;Lorg/voltdb/StagedCall;Lorg/voltdb/Exchange;J)I"),
            ("over", "(Lorg/voltdb/StagedCall;)V"),
            ("failure", "(Lorg/voltdb/Exchange;)Ljava/lang/String;"),
            ("function", "(Lorg/voltdb/JarLoader;Ljava/lang/String;Ljava/lang/String;)Ljava/lang/Object;"),
            ("call", "(Lorg/voltdb/FunctionClass;Lorg/voltdb/Exchange;J)I"),
            ("aggregate", "(Lorg/voltdb/FunctionClass;Lorg/voltdb/Exchange;JI)I"),
        ];
        let mut ids = Vec::with_capacity(methods.len());
        for (name, signature) in methods {
            ids.push(env.get_static_method_id(&class, name, signature)?);
        }
        let ids = ids.try_into().unwrap_or_else(|_| unreachable!("as many as there are names"));
        Ok((env.new_global_ref(class)?, ids))
    }

    /// The bridge class, as a reference that is valid while the machine is.
    pub fn bridge_class(&self) -> &JClass<'static> {
        self.bridge.as_obj().into()
    }

    /// Calls a method of the bridge that answers a number. None: an exception is pending.
    ///
    /// # Safety
    ///
    /// `env` is this thread's, and the arguments are those of the method's signature; more may
    /// stand behind them. Nobody holds a reference into the thread's exchange, since Java may ask
    /// for other buffers.
    #[inline]
    pub unsafe fn enter(
        &self,
        env: *mut jni::sys::JNIEnv,
        method: JStaticMethodID,
        arguments: &[jvalue],
    ) -> Option<jint> {
        // SAFETY: as the caller promises. The table of functions is complete in every JVM.
        unsafe {
            let functions = &**env;
            let call = functions.CallStaticIntMethodA.expect("a JVM has this function");
            let answered = call(env, self.bridge.as_raw(), method.into_raw(), arguments.as_ptr());
            let pending = functions.ExceptionCheck.expect("a JVM has this function")(env);
            (pending == 0).then_some(answered)
        }
    }
}

/// What the last -Xmx says, in bytes.
fn heap_max(options: &[String]) -> Option<u64> {
    let said = options.iter().rev().find_map(|option| option.strip_prefix("-Xmx"))?;
    let digits = said.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let shift = match said[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// A JVM that cannot begin with its options ends the process that it is in: so a process of its own
/// tries them first.
fn try_options(jdk: &Jdk, options: &[&str]) -> UserResult<()> {
    let mut command = Command::new(jdk.home.join("bin/java"));
    command.args(options).arg("-version");
    match trial::run(command, TRIAL_TIME_MAX) {
        Ok(Some((status, said))) if !status.success() => {
            let words: String = String::from_utf8_lossy(&said).chars().take(WORDS_MAX).collect();
            Err(unusable(&words.trim()).with_hint("see --java-options"))
        }
        // Without the program there is nothing to try them with.
        _ => Ok(()),
    }
}

pub(crate) fn unusable(error: &dyn std::fmt::Display) -> UserError {
    UserError::new(ErrorKind::Compile, "FE022", format!("the JVM cannot be used: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_size_of_a_heap_counts() {
        let max = |text: &str| heap_max(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(max("-Xmx2g -Xmx64m"), Some(64 << 20));
        assert_eq!(max("-Xmx1048576 -Xss1m"), Some(1 << 20));
        assert_eq!(max("-Xms1g"), None);
        assert_eq!(max("-Xmx99999999999999999999g"), None);
        assert_eq!(max("-Xmxgarbage"), None);
    }
}
