//! CREATE TASK and ALTER TASK.

use super::cursor::Cursor;
use super::pieces::procedure_name;
use super::statement::Ddl;
use ferrite_base::{UserError, UserResult, limits};
use ferrite_catalog::{Change, Cron, Interval, IntervalUnit, OnError, RunOn, Schedule, Task, TaskAction};
use ferrite_value::decimal::Rest;
use ferrite_value::{OwnedValue, text};
use sqlparser::tokenizer::Token;

/// What follows CREATE TASK: the name, then its clauses in any order.
pub(crate) fn create_task(cursor: &mut Cursor<'_>) -> UserResult<Ddl> {
    let name = cursor.name("a task name")?;
    let mut schedule = None;
    let mut procedure = None;
    let mut user = None;
    let mut task = Task {
        name,
        schedule: Schedule::Every(Interval { count: 1, unit: IntervalUnit::Seconds }),
        procedure: String::new(),
        parameters: Vec::new(),
        on_error: OnError::default(),
        run_on: RunOn::default(),
        enabled: true,
    };
    while !cursor.at_end() {
        if schedule.is_none() && cursor.accept_all(&["ON", "SCHEDULE"]) {
            schedule = Some(self::schedule(cursor)?);
        } else if procedure.is_none() && cursor.accept("PROCEDURE") {
            if cursor.is_word("FROM") {
                return Err(own_class(cursor));
            }
            procedure = Some(called(cursor)?);
            if cursor.accept("WITH") {
                task.parameters = constants(cursor)?;
            }
        } else if cursor.accept_all(&["ON", "ERROR"]) {
            task.on_error = on_error(cursor)?;
        } else if cursor.accept_all(&["RUN", "ON"]) {
            task.run_on = run_on(cursor)?;
        } else if cursor.accept_all(&["AS", "USER"]) {
            user = Some(cursor.name("a user name")?);
        } else if cursor.accept("ENABLE") {
            task.enabled = true;
        } else if cursor.accept("DISABLE") {
            task.enabled = false;
        } else if cursor.is_word("FROM") {
            return Err(own_class(cursor));
        } else {
            return Err(cursor.unexpected("ON SCHEDULE, PROCEDURE, ON ERROR, RUN ON, AS USER, ENABLE or DISABLE"));
        }
    }
    task.schedule = schedule.ok_or_else(|| cursor.unexpected("ON SCHEDULE"))?;
    task.procedure = procedure.ok_or_else(|| cursor.unexpected("PROCEDURE"))?;
    Ok(Ddl::CreateTask { task, user })
}

/// What follows ALTER TASK.
pub(crate) fn alter_task(cursor: &mut Cursor<'_>) -> UserResult<Ddl> {
    let name = cursor.name("a task name")?;
    let action = if cursor.accept("ENABLE") {
        TaskAction::Enable
    } else if cursor.accept("DISABLE") {
        TaskAction::Disable
    } else {
        cursor.accept("ALTER");
        cursor.expect("ON")?;
        cursor.expect("ERROR")?;
        TaskAction::OnError(on_error(cursor)?)
    };
    Ok(Ddl::Change(Change::AlterTask { name, action }))
}

fn schedule(cursor: &mut Cursor<'_>) -> UserResult<Schedule> {
    if cursor.accept("DELAY") {
        return Ok(Schedule::Delay(interval(cursor)?));
    }
    if cursor.accept("EVERY") {
        return Ok(Schedule::Every(interval(cursor)?));
    }
    if cursor.is_word("FROM") {
        return Err(own_class(cursor));
    }
    if !cursor.accept("CRON") {
        return Err(cursor.unexpected("DELAY, EVERY or CRON"));
    }
    if let Some(Token::SingleQuotedString(text)) = cursor.peek() {
        cursor.advance();
        return Ok(Schedule::Cron(Cron::parse(text)?, one_line(text)));
    }
    let start = cursor.position();
    let next_clause = ["PROCEDURE", "RUN", "ON", "AS", "ENABLE", "DISABLE"];
    while !(cursor.at_end() || next_clause.into_iter().any(|word| cursor.is_word(word))) {
        cursor.advance();
    }
    let text = cursor.text_since(start);
    Ok(Schedule::Cron(Cron::parse(text)?, one_line(text)))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn interval(cursor: &mut Cursor<'_>) -> UserResult<Interval> {
    let count = cursor.number("number of units")?;
    let count = u32::try_from(count).ok().filter(|count| *count > 0);
    let count = count.ok_or_else(|| UserError::ddl("42601", format!("an interval is 1 to {} units", u32::MAX)))?;
    let unit = IntervalUnit::ALL.into_iter().find(|unit| {
        let name = unit.name();
        cursor.accept(name) || cursor.accept(name.trim_end_matches('S'))
    });
    let unit = unit.ok_or_else(|| cursor.unexpected("MILLISECONDS, SECONDS, MINUTES, HOURS or DAYS"))?;
    Ok(Interval { count, unit })
}

fn on_error(cursor: &mut Cursor<'_>) -> UserResult<OnError> {
    let found = [OnError::Stop, OnError::Log, OnError::Ignore].into_iter().find(|one| cursor.accept(one.name()));
    found.ok_or_else(|| cursor.unexpected("STOP, LOG or IGNORE"))
}

fn run_on(cursor: &mut Cursor<'_>) -> UserResult<RunOn> {
    let found = [RunOn::Database, RunOn::Hosts, RunOn::Partitions].into_iter().find(|one| cursor.accept(one.name()));
    found.ok_or_else(|| cursor.unexpected("DATABASE, HOSTS or PARTITIONS"))
}

/// A procedure of the user's, of a table, or of the system.
fn called(cursor: &mut Cursor<'_>) -> UserResult<String> {
    if cursor.accept_token(&Token::AtSign) {
        return Ok(format!("@{}", procedure_name(cursor)?));
    }
    match cursor.peek() {
        Some(Token::Word(word)) if word.value.starts_with('@') => {
            cursor.advance();
            Ok(word.value.clone())
        }
        _ => procedure_name(cursor),
    }
}

/// `(1, -2.5, 'text', NULL)`
fn constants(cursor: &mut Cursor<'_>) -> UserResult<Vec<OwnedValue>> {
    cursor.expect_token(&Token::LParen)?;
    let mut values = Vec::new();
    if cursor.accept_token(&Token::RParen) {
        return Ok(values);
    }
    loop {
        values.push(constant(cursor)?);
        if !cursor.accept_token(&Token::Comma) {
            break;
        }
    }
    cursor.expect_token(&Token::RParen)?;
    if values.len() > limits::PARAMETERS_CEILING {
        return Err(UserError::limit(format!("more than {} parameters", limits::PARAMETERS_CEILING)));
    }
    Ok(values)
}

fn constant(cursor: &mut Cursor<'_>) -> UserResult<OwnedValue> {
    if cursor.accept("NULL") {
        return Ok(OwnedValue::Null);
    }
    let negative = cursor.accept_token(&Token::Minus);
    match cursor.peek() {
        Some(Token::SingleQuotedString(words)) if !negative => {
            cursor.advance();
            Ok(OwnedValue::Text(words.as_str().into()))
        }
        Some(Token::Number(digits, _)) => {
            let digits = format!("{}{digits}", if negative { "-" } else { "" });
            // The smallest integer means NULL on the wire; it is a DECIMAL.
            let number = match text::parse_integer(&digits).filter(|number| *number != i64::MIN) {
                Some(number) => OwnedValue::Integer(number),
                None => match text::parse_decimal_truncated(&digits) {
                    Ok((number, Rest::Zero)) => OwnedValue::Decimal(number),
                    _ if text::parse_float(&digits).is_none() => {
                        return Err(cursor.unexpected("a number within its range"));
                    }
                    // With more digits than DECIMAL has it goes as written, and becomes what its
                    // parameter is: rounded once for a DECIMAL, the nearest double for a FLOAT.
                    _ => OwnedValue::Text(digits.as_str().into()),
                },
            };
            cursor.advance();
            Ok(number)
        }
        _ => Err(cursor.unexpected("a number, a text in quotes or NULL")),
    }
}

/// Schedules and actions that are Java classes.
fn own_class(cursor: &Cursor<'_>) -> UserError {
    let error = UserError::not_supported("a task FROM CLASS")
        .with_hint(
            "say when with DELAY, EVERY or CRON, and call a procedure, which may be a Java class that decides what there is to do",
        );
    cursor.refused(error)
}
