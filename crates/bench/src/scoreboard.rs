//! The demo's live scoreboard: votes per contestant, and how fast they come, in a terminal.
//!
//! Promises to give the terminal back as it was, whatever ends the demo. Knows no server: it draws
//! what it is given.

use crate::error::{BenchResult, Doing};
use crate::report::{duration_text, grouped};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Sparkline};
use ratatui::{Frame, Terminal, backend::Backend};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Seconds that the sparkline remembers.
const HISTORY_SECONDS_MAX: usize = 300;
const COLOURS: [Color; 6] =
    [Color::LightRed, Color::LightGreen, Color::LightYellow, Color::LightBlue, Color::LightMagenta, Color::LightCyan];

/// What the scoreboard shows.
#[derive(Clone, Debug, Default)]
pub struct Scores {
    /// The server's ready line.
    pub server: String,
    /// How clients connect.
    pub hint: String,
    /// What the user may press beside the keys that end it.
    pub keys: String,
    /// What has happened to the servers.
    pub events: Vec<String>,
    /// Name, number and votes of each contestant, the leader first.
    pub contestants: Vec<(String, i64, u64)>,
    /// Transactions of each second so far.
    pub transactions: Vec<u64>,
    /// Of the last second, in microseconds.
    pub p50: u64,
    pub p99: u64,
    pub elapsed: Duration,
    /// None: until the user ends it.
    pub duration: Option<Duration>,
}

impl Scores {
    pub fn total(&self) -> u64 {
        self.contestants.iter().map(|(_, _, votes)| votes).sum()
    }
}

/// A terminal taken over for the scoreboard; given back when dropped.
pub struct Scoreboard {
    terminal: DefaultTerminal,
}

/// What the user wants, by a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    End,
    /// That the leading server be killed.
    Kill,
}

static TAKEN: AtomicBool = AtomicBool::new(false);

/// Puts the terminal back as it was, if it was taken over.
pub fn give_terminal_back() {
    if TAKEN.swap(false, Ordering::Relaxed) {
        ratatui::restore();
    }
}

impl Scoreboard {
    pub fn open() -> BenchResult<Scoreboard> {
        TAKEN.store(true, Ordering::Relaxed);
        // It also gives the terminal back if the program panics.
        Ok(Scoreboard { terminal: ratatui::try_init().doing("taking over the terminal")? })
    }

    pub fn draw(&mut self, scores: &Scores) -> BenchResult<()> {
        draw_on(&mut self.terminal, scores).doing("drawing the scoreboard")
    }

    /// Waits so long for a key.
    pub fn wish(&self, wait: Duration) -> BenchResult<Option<Wish>> {
        if !event::poll(wait).doing("waiting for a key")? {
            return Ok(None);
        }
        let Event::Key(key) = event::read().doing("reading a key")? else {
            return Ok(None);
        };
        if key.kind != KeyEventKind::Press {
            return Ok(None);
        }
        let control_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        Ok(match key.code {
            KeyCode::Char('q') | KeyCode::Esc => Some(Wish::End),
            KeyCode::Char('k') => Some(Wish::Kill),
            _ => control_c.then_some(Wish::End),
        })
    }
}

impl Drop for Scoreboard {
    fn drop(&mut self) {
        give_terminal_back();
    }
}

fn draw_on<B: Backend>(terminal: &mut Terminal<B>, scores: &Scores) -> Result<(), B::Error> {
    terminal.draw(|frame| draw(frame, scores)).map(drop)
}

fn draw(frame: &mut Frame<'_>, scores: &Scores) {
    let contestants = scores.contestants.len() as u16;
    let [head, board, speed, foot] = Layout::vertical([
        Constraint::Length(2 + scores.events.len() as u16),
        Constraint::Length(contestants * 2 + 2),
        Constraint::Min(5),
        Constraint::Length(2),
    ])
    .areas(frame.area());
    draw_head(frame, head, scores);
    draw_board(frame, board, scores);
    draw_speed(frame, speed, scores);
    let keys = Line::from(format!("q, Esc or Ctrl-C ends it{}", scores.keys)).dim();
    frame.render_widget(Paragraph::new(vec![Line::from(scores.hint.as_str()).dim(), keys]), foot);
}

fn draw_head(frame: &mut Frame<'_>, area: Rect, scores: &Scores) {
    let time = match scores.duration {
        Some(duration) => format!("{:.0} of {:.0} s", scores.elapsed.as_secs_f64(), duration.as_secs_f64()),
        None => format!("{:.0} s", scores.elapsed.as_secs_f64()),
    };
    let title = Line::from(vec![
        Span::from(" FerriteDB ").bold().reversed(),
        Span::from(format!("  {} votes, {time}", grouped(scores.total()))).bold(),
    ]);
    let mut lines = vec![title, Line::from(scores.server.as_str()).dim()];
    lines.extend(scores.events.iter().map(|event| Line::from(event.as_str()).light_yellow()));
    frame.render_widget(Paragraph::new(lines), area);
}

fn draw_board(frame: &mut Frame<'_>, area: Rect, scores: &Scores) {
    let block = Block::bordered().title(" Votes ");
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let most = scores.contestants.iter().map(|(_, _, votes)| *votes).max().unwrap_or(0);
    let name_width = scores.contestants.iter().map(|(name, _, _)| name.chars().count()).max().unwrap_or(0);
    let bar_width = usize::from(inner.width).saturating_sub(name_width + 16);
    let mut lines = Vec::new();
    for (name, number, votes) in &scores.contestants {
        let colour = COLOURS[number.unsigned_abs() as usize % COLOURS.len()];
        lines.push(Line::from(vec![
            Span::styled(format!(" {name:<name_width$} "), Style::new().fg(colour).add_modifier(Modifier::BOLD)),
            Span::styled(bar(*votes, most, bar_width), Style::new().fg(colour)),
            Span::from(format!(" {}", grouped(*votes))),
        ]));
        lines.push(Line::default());
    }
    frame.render_widget(Paragraph::new(lines), inner);
}

/// A bar in eighths of a character.
fn bar(value: u64, most: u64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "\u{258f}", "\u{258e}", "\u{258d}", "\u{258c}", "\u{258b}", "\u{258a}", "\u{2589}"];
    let filled = if most == 0 { 0 } else { (u128::from(value) * width as u128 * 8 / u128::from(most)) as usize };
    let mut bar = "\u{2588}".repeat(filled / 8);
    bar.push_str(EIGHTHS[filled % 8]);
    bar
}

fn draw_speed(frame: &mut Frame<'_>, area: Rect, scores: &Scores) {
    let last = scores.transactions.last().copied().unwrap_or(0);
    let title = format!(
        " {} transactions per second   p50 {}   p99 {} ",
        grouped(last),
        duration_text(scores.p50 as f64),
        duration_text(scores.p99 as f64)
    );
    let block = Block::bordered().title(Span::from(title).bold());
    let room = usize::from(block.inner(area).width).min(HISTORY_SECONDS_MAX);
    let start = scores.transactions.len().saturating_sub(room);
    let sparkline = Sparkline::default().block(block).data(&scores.transactions[start..]);
    frame.render_widget(sparkline.style(Style::new().fg(Color::LightGreen)), area);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::backend::TestBackend;

    #[test]
    fn bars_have_their_share_of_the_width() {
        for (value, most, width, expected) in [
            (0, 0, 10, ""),
            (0, 8, 10, ""),
            (8, 8, 4, "\u{2588}\u{2588}\u{2588}\u{2588}"),
            (4, 8, 4, "\u{2588}\u{2588}"),
            (1, 8, 1, "\u{258f}"),
            (u64::MAX, u64::MAX, 2, "\u{2588}\u{2588}"),
        ] {
            assert_eq!(bar(value, most, width), expected, "{value} of {most}");
        }
    }

    #[test]
    fn draws_what_it_is_given_at_any_size() {
        let scores = Scores {
            server: "ferrite ready on here:1".to_string(),
            hint: "connect to here:1".to_string(),
            keys: "; k kills".to_string(),
            events: vec!["node 1 was killed".to_string()],
            contestants: vec![("Ada".to_string(), 1, 1_234_567), ("Bruno".to_string(), 2, 1)],
            transactions: vec![5, 900_000],
            p50: 1_500,
            p99: 2_500,
            elapsed: Duration::from_secs(2),
            duration: Some(Duration::from_secs(20)),
        };
        for (width, height) in [(100, 30), (40, 12), (3, 2), (1, 1)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            draw_on(&mut terminal, &scores).unwrap();
            let text: String = terminal.backend().buffer().content().iter().map(|cell| cell.symbol()).collect();
            if width == 100 {
                for expected in [
                    "1,234,568 votes",
                    "2 of 20 s",
                    "Ada",
                    "1,234,567",
                    "900,000 trans",
                    "p99 2.50 ms",
                    "here:1",
                    "node 1 was",
                    "ends it; k kills",
                ] {
                    assert!(text.contains(expected), "{expected} is not in {text}");
                }
            }
        }
    }
}
