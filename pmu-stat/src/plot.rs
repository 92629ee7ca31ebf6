// SPDX-License-Identifier: GPL-2.0

//! The picture of `-I MS --plot FILE`: counts per interval over time, as SVG.
//!
//! Events that peak within [`ALIKE`] of each other share a panel, and so can be compared; others
//! have panels of their own, the largest on top, above one time axis. Every count axis is linear
//! and begins at 0: a logarithmic one could show cycles and branch misses at once, but not that an
//! event doubled, nor that it did not happen at all.
//!
//! What is told by colour is also told by dashes, and each line's name stands at its end.

use std::fmt;

/// What to draw.
pub(crate) struct Plot<'a> {
    /// Heading; cut if it is wider than the page.
    pub(crate) title: &'a str,
    /// Length of an interval, in seconds. 0 if it is not known: then only a NaN is a gap.
    pub(crate) interval: f64,
    /// The events, in the order in which they were asked for.
    pub(crate) series: Vec<Series<'a>>,
}

/// The counts of one event.
pub(crate) struct Series<'a> {
    /// Its name; cut in the middle if it is long.
    pub(crate) name: &'a str,
    /// Seconds from the start to the end of an interval, and the count in that interval.
    ///
    /// What cannot be a count (NaN, negative, beyond [`MOST_COUNT`]) is a gap, as is a step of more
    /// than [`GAP`] intervals. A last interval shorter than [`FULL`] is drawn as a ring of its own,
    /// as its count says little beside the others.
    pub(crate) points: Vec<(f64, f64)>,
}

/// The picture, as the text of an SVG file.
pub(crate) fn render(plot: &Plot<'_>) -> String {
    plot.to_string()
}

/// Events share a panel if the greatest peak is at most this many times the least: each line then
/// has a fifth of the height at least.
const ALIKE: f64 = 5.0;
/// Lines in a panel, at most: as many as there are dash patterns.
const MOST_LINES: usize = DASHES.len();
/// Series in a picture, at most; the foot says how many are left out.
const MOST_SERIES: usize = 32;
/// The largest count, in events: above any that 64 bits hold.
const MOST_COUNT: f64 = 1e20;
/// The latest time, in seconds: three centuries.
const MOST_TIME: f64 = 1e10;
/// The shortest time axis, in seconds.
const LEAST_TIME: f64 = 1e-6;
/// A step beyond this many intervals is a gap: timers can be late by one.
const GAP: f64 = 2.5;
/// A last interval below this part of the others is a short one.
const FULL: f64 = 0.9;

/// Width of the page, in pixels; so are all lengths below.
const WIDTH: f64 = 900.0;
/// From the left edge to the panels.
const LEFT: f64 = 84.0;
/// From the upper edge to the first panel.
const HEAD: f64 = 56.0;
/// From the last panel to the notes: the labels of the time axis and its title.
const AXIS: f64 = 52.0;
/// Between two panels: room for half a tick label of each, and more.
const BETWEEN: f64 = 24.0;
/// From the panels to the sample of a line.
const LEADER: f64 = 22.0;
/// Length of the sample of a line: each dash pattern repeats in it.
const SAMPLE: f64 = 34.0;
/// From the sample to the name, and from the name to the right edge.
const PAD: f64 = 8.0;
/// Between the baselines of two names.
const LABEL: f64 = 17.0;
/// Between the baselines of two notes at the foot.
const NOTE: f64 = 16.0;
/// Width of a character of a name: 12 px, monospaced.
const CHARACTER: f64 = 7.3;
/// Characters of a name, at most.
const NAME: usize = 26;
/// Characters in a tooltip, at most.
const TOOLTIP: usize = 300;
/// A series of more points than this, one for two pixels, is drawn as means and a band.
const MOST_POINTS: usize = 320;
/// Width of what is drawn as one mean.
const COLUMN: f64 = 4.0;
/// If no series has more points than this, there is a dot at each.
const DOTTED: usize = 40;

/// Line colours, on white. Any four in a row, round the end, differ by 17 (CIE76) or more also to
/// those who lack one kind of cone.
const COLOURS: [&str; 8] = [
    "#0072b2", "#d55e00", "#009e73", "#882255", "#222222", "#b8860b", "#332288", "#5b3a00",
];
/// Dash patterns, in the order of the lines of a panel.
const DASHES: [&str; 4] = ["none", "8 3", "2.5 3", "11 3 2.5 3"];

/// A series, as it is drawn.
struct Line<'a> {
    /// Its name in full.
    name: &'a str,
    /// Points without a gap between them; none is empty.
    runs: Vec<Vec<(f64, f64)>>,
    /// The last interval, if it is a short one.
    short: Option<(f64, f64)>,
    /// The greatest count.
    peak: f64,
    /// Number of points.
    points: usize,
}

impl<'a> Line<'a> {
    /// Splits `series` at its gaps.
    fn new(series: &Series<'a>, interval: f64) -> Self {
        let known = span(interval).is_some();
        let mut points = series.points.clone();
        points.retain(|&(time, _)| (0.0..=MOST_TIME).contains(&time));
        points.sort_by(|a, b| a.0.total_cmp(&b.0));

        let possible = |count| (0.0..=MOST_COUNT).contains(&count);
        let mut line = Line {
            name: series.name,
            runs: Vec::new(),
            short: None,
            peak: 0.0,
            points: 0,
        };
        let last = points.len().saturating_sub(1);
        let mut before = 0.0;
        let mut joined = false;
        for (index, &(time, count)) in points.iter().enumerate() {
            let step = time - before;
            before = time;
            if !possible(count) {
                joined = false;
                continue;
            }
            line.peak = line.peak.max(count);
            line.points += 1;
            if known && index == last && step < FULL * interval {
                line.short = Some((time, count));
                break;
            }
            joined &= !known || step <= GAP * interval;
            match line.runs.last_mut() {
                Some(run) if joined => run.push((time, count)),
                _ => line.runs.push(vec![(time, count)]),
            }
            joined = true;
        }
        line
    }

    /// The latest time.
    fn end(&self) -> Option<f64> {
        self.short
            .or_else(|| self.runs.last()?.last().copied())
            .map(|(time, _)| time)
    }

    /// What stands at the line's end.
    fn label(&self) -> String {
        let mut label = cut_middle(self.name);
        if self.points == 0 {
            label.push_str(" (no data)");
        }
        label
    }

    /// Whether there are too many points to draw each.
    fn is_dense(&self) -> bool {
        self.points > MOST_POINTS
    }
}

/// Sorts lines into panels, the largest counts first, each panel in the given order; one that is
/// empty if there is none.
///
/// A line that is nowhere above 0 has no size of its own, and goes where the smallest are.
fn panels(lines: &[Line<'_>]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lines.len()).collect();
    order.sort_by(|&a, &b| lines[b].peak.total_cmp(&lines[a].peak));

    let mut panels: Vec<Vec<usize>> = Vec::new();
    let mut peak = 0.0;
    for index in order {
        let own = lines[index].peak;
        match panels.last_mut() {
            Some(panel) if panel.len() < MOST_LINES && (own == 0.0 || own * ALIKE >= peak) => {
                panel.push(index);
            }
            _ => {
                panels.push(vec![index]);
                peak = own;
            }
        }
    }
    for panel in &mut panels {
        panel.sort_unstable();
    }
    if panels.is_empty() {
        panels.push(Vec::new());
    }
    panels
}

/// The distance of two ticks: `digit` times ten to the `exponent`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    /// 1, 2 or 5.
    digit: f64,
    /// Of ten.
    exponent: i32,
}

impl Step {
    /// The shortest, of no fewer digits than `least`, that covers `range` at most `most` times.
    fn new(range: f64, most: f64, least: i32) -> Self {
        let mut step = Step {
            digit: 1.0,
            exponent: least,
        };
        // A millionth: what is a whole number of steps but for rounding takes no further one.
        while step.value() * most < range * (1.0 - 1e-6) {
            (step.digit, step.exponent) = match step.digit {
                1.0 => (2.0, step.exponent),
                2.0 => (5.0, step.exponent),
                _ => (1.0, step.exponent + 1),
            };
        }
        step
    }

    /// As a number.
    fn value(self) -> f64 {
        self.digit * 10f64.powi(self.exponent)
    }

    /// How many of it reach `range` without going beyond.
    fn within(self, range: f64) -> u32 {
        // Few, as `new` chose it.
        (range / self.value() + 1e-6).floor() as u32
    }

    /// How many of it reach `range` or go beyond, at least one.
    fn around(self, range: f64) -> u32 {
        ((range / self.value() - 1e-6).ceil() as u32).max(1)
    }

    /// Digits behind the point that a multiple of it needs.
    fn decimals(self) -> usize {
        usize::try_from(-self.exponent).unwrap_or(0)
    }
}

/// The label of tick `tick` on a count axis of `ticks` ticks: all with the same prefix.
fn count_label(tick: u32, ticks: u32, step: Step) -> String {
    const PREFIXES: [&str; 7] = ["", " k", " M", " G", " T", " P", " E"];

    if tick == 0 {
        return "0".to_string();
    }
    let top = f64::from(ticks) * step.value();
    let mut step = step;
    let mut prefixes = PREFIXES.iter();
    let mut prefix = prefixes.next();
    let mut unit = 1e3;
    while top >= unit * (1.0 - 1e-6) {
        let Some(next) = prefixes.next() else { break };
        prefix = Some(next);
        step.exponent -= 3;
        unit *= 1e3;
    }
    format!(
        "{:.*}{}",
        step.decimals(),
        f64::from(tick) * step.value(),
        prefix.unwrap_or(&""),
    )
}

/// The time axis.
struct Times {
    /// Its right end, in seconds.
    end: f64,
    /// Name of its unit.
    unit: &'static str,
    /// Seconds in its unit.
    seconds: f64,
    /// Between its ticks, in its unit.
    step: Step,
}

impl Times {
    /// An axis up to `end` seconds.
    fn new(end: f64) -> Self {
        let end = end.max(LEAST_TIME);
        let (unit, seconds) = match end {
            _ if end < 1.0 => ("ms", 1e-3),
            _ if end < 600.0 => ("s", 1.0),
            _ if end < 36_000.0 => ("min", 60.0),
            _ => ("h", 3600.0),
        };
        Times {
            end,
            unit,
            seconds,
            step: Step::new(end / seconds, 10.0, -6),
        }
    }

    /// Where the ticks are, in seconds, and their labels.
    fn ticks(&self) -> Vec<(f64, String)> {
        (0..=self.step.within(self.end / self.seconds))
            .map(|tick| {
                let time = f64::from(tick) * self.step.value();
                let decimals = if tick == 0 { 0 } else { self.step.decimals() };
                (time * self.seconds, format!("{time:.decimals$}"))
            })
            .collect()
    }
}

/// `interval` seconds, in words; `None` if it is not known.
fn span(interval: f64) -> Option<String> {
    if !(LEAST_TIME..=MOST_TIME).contains(&interval) {
        return None;
    }
    let (unit, seconds) = if interval < 1.0 {
        ("ms", 1e-3)
    } else {
        ("s", 1.0)
    };
    let number = format!("{:.3}", interval / seconds);
    Some(format!(
        "{} {unit}",
        number.trim_end_matches('0').trim_end_matches('.')
    ))
}

/// Moves `wanted`, which ascend, as little as makes them [`LABEL`] apart and no less than `least`,
/// and, where there is room, no more than `most`.
fn spread(wanted: &mut [f64], least: f64, most: f64) {
    let mut ceiling = most;
    for y in wanted.iter_mut().rev() {
        *y = y.min(ceiling);
        ceiling = *y - LABEL;
    }
    let mut floor = least;
    for y in wanted.iter_mut() {
        *y = y.max(floor);
        floor = *y + LABEL;
    }
}

/// Columns of a line of text that `c` takes, at most, in a monospaced font.
fn columns(c: char) -> usize {
    1 + usize::from(!c.is_ascii())
}

/// `name`, without its middle if it is longer than [`NAME`]: what tells names apart is at their
/// ends.
fn cut_middle(name: &str) -> String {
    if name.chars().map(columns).sum::<usize>() <= NAME {
        return name.to_string();
    }
    let head = cut(name.chars(), NAME * 3 / 5, columns);
    let tail = cut(name.chars().rev(), NAME - NAME * 3 / 5 - 2, columns);
    head.into_iter()
        .chain(['…'])
        .chain(tail.into_iter().rev())
        .collect()
}

/// As many of `text` as fit `room`.
fn cut(text: impl Iterator<Item = char>, room: usize, width: fn(char) -> usize) -> Vec<char> {
    let mut used = 0;
    text.take_while(|&c| {
        used += width(c);
        used <= room
    })
    .collect()
}

/// The beginning of `text` that fits `room`, with an ellipsis if that is not all.
fn cut_end(text: &str, room: usize, width: fn(char) -> usize) -> String {
    let mut kept = cut(text.chars(), room, width);
    if kept.len() < text.chars().count() {
        kept = cut(text.chars(), room.saturating_sub(width('…')), width);
        kept.push('…');
    }
    kept.into_iter().collect()
}

/// Width of `c` in the heading, at most, in pixels: 15 px, bold, of a wide font.
fn heading_width(c: char) -> usize {
    match c {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' | '/' => 6,
        'f' | 't' | 'r' | '-' | '(' | ')' => 8,
        'm' | 'w' | 'M' | 'W' | '@' | '%' => 17,
        'A'..='Z' => 13,
        _ if c.is_ascii() => 11,
        _ => 17,
    }
}

/// Text as XML takes it: characters that it has no place for, or that would turn the text around,
/// are shown as replaced.
struct Text<'a>(&'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;

        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\t' | '\n' | '\r' => f.write_char(' ')?,
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fffe}' | '\u{ffff}' => {
                    f.write_char(char::REPLACEMENT_CHARACTER)?;
                }
                _ if c.is_control() => f.write_char(char::REPLACEMENT_CHARACTER)?,
                _ => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// Where a panel is on the page, and what its edges stand for.
struct Panel {
    /// Left edge: the start.
    left: f64,
    /// Right edge: `end`.
    right: f64,
    /// Upper edge: `most`.
    top: f64,
    /// Lower edge: no event.
    bottom: f64,
    /// In seconds.
    end: f64,
    /// In events.
    most: f64,
}

impl Panel {
    /// Where `time` is.
    fn x(&self, time: f64) -> f64 {
        self.left + (self.right - self.left) * (time / self.end)
    }

    /// Where `count` is.
    fn y(&self, count: f64) -> f64 {
        self.bottom - (self.bottom - self.top) * (count / self.most)
    }

    /// The runs of `line` by columns. A gap within a column is not seen.
    fn columns(&self, line: &Line<'_>) -> Vec<Vec<Column>> {
        let number = |&(time, _): &(f64, f64)| (self.x(time) / COLUMN).floor();
        let mut runs: Vec<Vec<(f64, f64)>> = Vec::new();
        for run in &line.runs {
            match runs.last_mut() {
                Some(before) if before.last().map(number) == run.first().map(number) => {
                    before.extend(run);
                }
                _ => runs.push(run.clone()),
            }
        }

        let column = |chunk: &[(f64, f64)]| {
            let points = chunk.len() as f64;
            let counts = || chunk.iter().map(|point| point.1);
            Column {
                x: self.x(chunk.iter().map(|point| point.0 / points).sum()),
                mean: counts().map(|count| count / points).sum(),
                least: counts().fold(MOST_COUNT, f64::min),
                greatest: counts().fold(0.0, f64::max),
            }
        };
        runs.iter()
            .map(|run| {
                run.chunk_by(|a, b| number(a) == number(b))
                    .map(column)
                    .collect()
            })
            .collect()
    }

    /// Where `line` goes along.
    fn places(&self, line: &Line<'_>) -> Vec<Vec<(f64, f64)>> {
        let point = |&(time, count): &(f64, f64)| (self.x(time), self.y(count));
        let mean = |column: &Column| (column.x, self.y(column.mean));
        if line.is_dense() {
            self.columns(line)
                .iter()
                .map(|run| run.iter().map(mean).collect())
                .collect()
        } else {
            line.runs
                .iter()
                .map(|run| run.iter().map(point).collect())
                .collect()
        }
    }

    /// Where `line` ends, which its name belongs to: a short interval counts if there is no other.
    fn line_end(&self, line: &Line<'_>) -> Option<(f64, f64)> {
        let short = line
            .short
            .map(|(time, count)| (self.x(time), self.y(count)));
        self.places(line)
            .last()
            .and_then(|run| run.last().copied())
            .or(short)
    }

    /// Draws the grid and the count axis.
    fn grid(
        &self,
        f: &mut fmt::Formatter<'_>,
        step: Step,
        ticks: u32,
        times: &Times,
    ) -> fmt::Result {
        let Panel {
            left,
            right,
            top,
            bottom,
            ..
        } = self;
        f.write_str("<path stroke='#ebebeb' d='")?;
        for (time, _) in times.ticks() {
            write!(f, "M{:.1} {top:.1}V{bottom:.1}", self.x(time))?;
        }
        for tick in 1..=ticks {
            let y = self.y(f64::from(tick) * step.value());
            write!(f, "M{left:.1} {y:.1}H{right:.1}")?;
        }
        writeln!(f, "'/>")?;
        writeln!(
            f,
            "<path stroke='#777' fill='none' d='M{left:.1} {top:.1}V{bottom:.1}H{right:.1}'/>"
        )?;
        for tick in 0..=ticks {
            writeln!(
                f,
                "<text x='{:.1}' y='{:.1}' text-anchor='end'>{}</text>",
                left - 8.0,
                self.y(f64::from(tick) * step.value()) + 4.0,
                count_label(tick, ticks, step),
            )?;
        }
        Ok(())
    }

    /// Draws `line`, with a dot at each point if it is to be `dotted`.
    fn line(
        &self,
        f: &mut fmt::Formatter<'_>,
        line: &Line<'_>,
        style: &Style,
        dotted: bool,
    ) -> fmt::Result {
        let Style { colour, dash } = style;
        writeln!(f, "<g stroke='{colour}' fill='{colour}'>")?;
        writeln!(
            f,
            "<title>{}</title>",
            Text(&cut_end(line.name, TOOLTIP, |_| 1))
        )?;
        if line.is_dense() {
            f.write_str("<path stroke='none' fill-opacity='0.22' d='")?;
            for run in self.columns(line) {
                let above = run.iter().map(|column| (column.x, self.y(column.greatest)));
                let below = run
                    .iter()
                    .rev()
                    .map(|column| (column.x, self.y(column.least)));
                trace(f, above.chain(below))?;
                f.write_str("Z")?;
            }
            writeln!(f, "'/>")?;
        }

        let drawn = self.places(line);
        write!(
            f,
            "<path fill='none' stroke-width='2' stroke-linejoin='round' \
             stroke-dasharray='{dash}' d='",
        )?;
        for run in drawn.iter().filter(|run| run.len() > 1) {
            trace(f, run.iter().copied())?;
        }
        writeln!(f, "'/>")?;
        // What no line leads to is seen only by its dot.
        for (x, y) in drawn
            .iter()
            .filter(|run| dotted || run.len() == 1)
            .flatten()
        {
            writeln!(f, "<circle cx='{x:.1}' cy='{y:.1}' r='2.5' stroke='none'/>")?;
        }
        if let Some((time, count)) = line.short {
            writeln!(
                f,
                "<circle cx='{:.1}' cy='{:.1}' r='3.5' fill='#fff' stroke-width='1.5'/>",
                self.x(time),
                self.y(count),
            )?;
        }
        writeln!(f, "</g>")
    }

    /// Names the lines of the panel at their ends.
    fn labels(&self, f: &mut fmt::Formatter<'_>, lines: &[(&Line<'_>, Style)]) -> fmt::Result {
        let mut wanted: Vec<_> = lines
            .iter()
            .map(|(line, style)| {
                let (x, y) = self.line_end(line).unwrap_or((self.left, self.bottom));
                (y, x, line, style)
            })
            .collect();
        wanted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut places: Vec<f64> = wanted.iter().map(|label| label.0).collect();
        spread(&mut places, self.top + 2.0, self.bottom);

        for ((y, x, line, Style { colour, dash }), place) in wanted.into_iter().zip(places) {
            let sample = self.right + LEADER;
            // Not to lines that ended long before: it would not seem to belong to them.
            if line.points > 0 && self.right - x < 3.0 * LEADER {
                writeln!(
                    f,
                    "<path stroke='{colour}' stroke-opacity='0.6' \
                     d='M{:.1} {y:.1}L{:.1} {place:.1}'/>",
                    self.right + 6.0,
                    sample - 1.0,
                )?;
            }
            if line.points > 0 {
                writeln!(
                    f,
                    "<path stroke='{colour}' stroke-width='2' stroke-dasharray='{dash}' \
                     d='M{sample:.1} {place:.1}h{SAMPLE}'/>",
                )?;
            }
            writeln!(
                f,
                "<text x='{:.1}' y='{:.1}' font-family='monospace' fill='#222'>{}</text>",
                sample + SAMPLE + PAD,
                place + 4.0,
                Text(&line.label()),
            )?;
        }
        Ok(())
    }
}

/// Points that lie too close to draw each.
struct Column {
    /// Where their middle is.
    x: f64,
    /// Of their counts, as are the others.
    mean: f64,
    /// The band's lower edge.
    least: f64,
    /// The band's upper edge.
    greatest: f64,
}

/// How a line looks.
struct Style {
    /// Of [`COLOURS`].
    colour: &'static str,
    /// Of [`DASHES`].
    dash: &'static str,
}

/// Draws a line through `points`, within the data of a path.
fn trace(f: &mut fmt::Formatter<'_>, points: impl Iterator<Item = (f64, f64)>) -> fmt::Result {
    for (index, (x, y)) in points.enumerate() {
        let command = if index == 0 { 'M' } else { 'L' };
        write!(f, "{command}{x:.1} {y:.1}")?;
    }
    Ok(())
}

/// What the picture needs to have explained.
fn notes(plot: &Plot<'_>, lines: &[Line<'_>]) -> Vec<String> {
    let mut notes = Vec::new();
    if lines.iter().any(Line::is_dense) {
        let note = "Line: mean of the intervals that lie too close to draw each; \
                    band: from the least to the greatest of them.";
        notes.push(note.to_string());
    }
    if lines.iter().any(|line| line.short.is_some()) {
        let span = span(plot.interval).unwrap_or_default();
        notes.push(format!(
            "Ring: the last interval, which was shorter than {span}."
        ));
    }
    match plot.series.len().saturating_sub(MOST_SERIES) {
        0 => {}
        1 => notes.push("1 further event is not drawn.".to_string()),
        more => notes.push(format!("{more} further events are not drawn.")),
    }
    notes
}

impl Plot<'_> {
    /// Draws the page and its heading.
    fn page(&self, f: &mut fmt::Formatter<'_>, height: f64) -> fmt::Result {
        writeln!(
            f,
            "<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{height}' \
             viewBox='0 0 {WIDTH} {height}' role='img' font-family='sans-serif' font-size='12' \
             fill='#444'>",
        )?;
        writeln!(
            f,
            "<title>{}</title>",
            Text(&cut_end(self.title, TOOLTIP, |_| 1)),
        )?;
        // Without it, a dark page would show through.
        writeln!(f, "<rect width='{WIDTH}' height='{height}' fill='#fff'/>")?;
        let room = (WIDTH - LEFT - 2.0 * PAD) as usize;
        writeln!(
            f,
            "<text x='{LEFT}' y='30' font-size='15' font-weight='bold' fill='#111'>{}</text>",
            Text(&cut_end(self.title, room, heading_width)),
        )
    }

    /// Draws what all panels share: the time axis below the `last` of them, and the title of their
    /// count axes.
    fn axes(&self, f: &mut fmt::Formatter<'_>, times: &Times, last: &Panel) -> fmt::Result {
        for (time, label) in times.ticks() {
            writeln!(
                f,
                "<text x='{:.1}' y='{:.1}' text-anchor='middle'>{label}</text>",
                last.x(time),
                last.bottom + 18.0,
            )?;
        }
        writeln!(
            f,
            "<text x='{:.1}' y='{:.1}' text-anchor='middle' font-size='13'>time ({})</text>",
            (last.left + last.right) / 2.0,
            last.bottom + 40.0,
            times.unit,
        )?;
        let middle = (HEAD + last.bottom) / 2.0;
        let span = span(self.interval).unwrap_or_else(|| "interval".to_string());
        writeln!(
            f,
            "<text x='22' y='{middle:.1}' text-anchor='middle' font-size='13' \
             transform='rotate(-90 22 {middle:.1})'>events per {span}</text>",
        )
    }
}

impl fmt::Display for Plot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let series = self.series.iter().take(MOST_SERIES);
        let lines: Vec<_> = series
            .map(|series| Line::new(series, self.interval))
            .collect();
        let notes = notes(self, &lines);
        let end = lines.iter().filter_map(Line::end).reduce(f64::max);
        let times = Times::new(end.unwrap_or(1.0));
        let dotted = lines.iter().all(|line| line.points <= DOTTED);

        let width = |line: &Line<'_>| line.label().chars().map(columns).sum::<usize>();
        let right = match lines.iter().map(width).max() {
            None => 3.0 * PAD,
            Some(name) => LEADER + SAMPLE + PAD + name as f64 * CHARACTER + 2.0 * PAD,
        };
        let panels = panels(&lines);
        let height = match panels.len() {
            1 => 320.0,
            2 => 190.0,
            3 => 145.0,
            _ => 110.0,
        };
        let number = panels.len() as f64;
        let foot = HEAD + number * height + (number - 1.0) * BETWEEN;
        self.page(f, foot + AXIS + (notes.len() as f64) * NOTE + PAD)?;

        let mut colours = COLOURS.iter().cycle();
        for (index, members) in panels.iter().enumerate() {
            let peak = members
                .iter()
                .map(|&member| lines[member].peak)
                .fold(0.0, f64::max);
            // A tick every 50 pixels; of fewer than four, half the panel could stay empty.
            let step = Step::new(peak, (height / 50.0_f64).floor().max(4.0), 0);
            let ticks = step.around(peak);
            let top = HEAD + index as f64 * (height + BETWEEN);
            let panel = Panel {
                left: LEFT,
                right: WIDTH - right,
                top,
                bottom: top + height,
                end: times.end,
                most: f64::from(ticks) * step.value(),
            };
            panel.grid(f, step, ticks, &times)?;
            let styles = DASHES
                .iter()
                .zip(&mut colours)
                .map(|(dash, colour)| Style { colour, dash });
            let drawn: Vec<_> = members
                .iter()
                .map(|&member| &lines[member])
                .zip(styles)
                .collect();
            for (line, style) in &drawn {
                panel.line(f, line, style, dotted)?;
            }
            panel.labels(f, &drawn)?;
            if index + 1 == panels.len() {
                self.axes(f, &times, &panel)?;
            }
            if end.is_none() {
                writeln!(
                    f,
                    "<text x='{:.1}' y='{:.1}' text-anchor='middle' font-size='14'>\
                     no interval was counted</text>",
                    (panel.left + panel.right) / 2.0,
                    (panel.top + panel.bottom) / 2.0,
                )?;
            }
        }
        for (index, note) in notes.iter().enumerate() {
            writeln!(
                f,
                "<text x='{LEFT}' y='{:.1}' font-size='11' fill='#666'>{}</text>",
                foot + AXIS + (index as f64 + 0.7) * NOTE,
                Text(note),
            )?;
        }
        writeln!(f, "</svg>")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `number` points, `interval` seconds apart.
    fn points(number: u32, interval: f64, count: impl Fn(u32) -> f64) -> Vec<(f64, f64)> {
        (0..number)
            .map(|i| (f64::from(i + 1) * interval, count(i)))
            .collect()
    }

    /// A picture of `series`, of intervals of 100 ms; well-formed, and all of it on the page.
    fn picture(series: &[(&str, Vec<(f64, f64)>)]) -> String {
        drawn("title", 0.1, series)
    }

    /// As [`picture`], with its heading and interval.
    fn drawn(title: &str, interval: f64, series: &[(&str, Vec<(f64, f64)>)]) -> String {
        let series = series
            .iter()
            .map(|(name, points)| Series {
                name,
                points: points.clone(),
            })
            .collect();
        let svg = render(&Plot {
            title,
            interval,
            series,
        });
        check(&svg);
        svg
    }

    /// The value of the attribute `name` of an element.
    fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
        tag.split_once(&format!(" {name}='"))?.1.split('\'').next()
    }

    /// The numbers of the data of a path, or of any attribute.
    fn numbers(value: &str) -> Vec<f64> {
        value
            .split(|c: char| "MLHVZh ".contains(c))
            .filter(|word| !word.is_empty())
            .map(|word| word.parse().expect("a number"))
            .collect()
    }

    /// Whether elements nest, references are known, and every place is finite and on the page.
    fn check(svg: &str) {
        let mut open = Vec::new();
        let mut rest = svg;
        while let Some((text, more)) = rest.split_once('<') {
            assert!(!text.contains('>'), "{text}");
            let (tag, more) = more.split_once('>').expect("the end of a tag");
            rest = more;
            assert_eq!(tag.matches('\'').count() % 2, 0, "{tag}");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "{tag}");
            } else if !tag.ends_with('/') {
                open.push(tag.split(' ').next().expect("a name"));
            }
            for (name, most) in [("x", WIDTH), ("cx", WIDTH), ("y", 5000.0), ("cy", 5000.0)] {
                for number in attribute(tag, name).map(numbers).unwrap_or_default() {
                    assert!((0.0..=most).contains(&number), "{tag}");
                }
            }
            for number in attribute(tag, "d").map(numbers).unwrap_or_default() {
                assert!((0.0..=5000.0).contains(&number), "{tag}");
            }
        }
        assert_eq!(open, Vec::<&str>::new());
        assert_eq!(rest, "\n");
        for reference in svg.split('&').skip(1) {
            let name = reference.split(';').next().expect("a name");
            assert!(["amp", "lt", "gt", "quot", "#39"].contains(&name), "{name}");
        }
        for text in svg
            .split("<text ")
            .filter(|text| text.contains("monospace"))
        {
            let (tag, more) = text.split_once('>').expect("the end of a tag");
            let name = more
                .split('<')
                .next()
                .expect("a name")
                .replace("&quot;", "'");
            let name = name
                .replace("&amp;", "&")
                .replace("&lt;", "<")
                .replace("&gt;", ">")
                .replace("&#39;", "'");
            let x: f64 = tag
                .split('\'')
                .nth(1)
                .expect("a place")
                .parse()
                .expect("a number");
            assert!(x + name.chars().map(columns).sum::<usize>() as f64 * CHARACTER <= WIDTH);
        }
        let control = |c: char| c != '\n' && c.is_control();
        assert!(!svg.contains(control));
    }

    /// What stands in the elements `name`.
    fn texts<'a>(svg: &'a str, name: &str) -> Vec<&'a str> {
        svg.split(&format!("<{name}"))
            .skip(1)
            .filter_map(|rest| rest.split_once('>')?.1.split('<').next())
            .collect()
    }

    #[test]
    fn nothing() {
        assert!(picture(&[]).contains("no interval was counted"));
        let svg = picture(&[
            ("cycles", Vec::new()),
            ("instructions", vec![(f64::NAN, 1.0)]),
        ]);
        assert!(svg.contains("no interval was counted"));
        assert!(texts(&svg, "text").contains(&"cycles (no data)"));
        assert!(texts(&svg, "text").contains(&"instructions (no data)"));
    }

    #[test]
    fn one_point_is_a_dot() {
        assert_eq!(
            picture(&[("cycles", vec![(0.1, 5.0)])])
                .matches("r='2.5'")
                .count(),
            1
        );
        picture(&[("cycles", vec![(0.0, 0.0)])]);
    }

    #[test]
    fn zeros() {
        let svg = picture(&[
            ("a", points(9, 0.1, |_| 0.0)),
            ("b", points(9, 0.1, |_| 0.0)),
        ]);
        let ticks = ["1", "0"];
        assert!(ticks.iter().all(|tick| texts(&svg, "text").contains(tick)));
        // One panel for both.
        assert_eq!(svg.matches("stroke='#777'").count(), 1);
    }

    #[test]
    fn what_is_no_count_is_a_gap() {
        for gap in [
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            -1.0,
            1e21,
            f64::MAX,
        ] {
            let count = |i| if i == 50 { gap } else { 7.0 };
            let svg = picture(&[("cycles", points(100, 0.1, count))]);
            assert!(!svg.contains("NaN") && !svg.contains("inf"));
            let path = svg
                .split("<path")
                .find(|path| path.contains("stroke-width='2'"));
            assert_eq!(path.expect("a line").matches('M').count(), 2, "{gap}");
        }
    }

    #[test]
    fn a_late_interval_is_no_gap_but_a_missing_one_is() {
        let run = |interval, times: &[f64]| {
            let points = times.iter().map(|&time| (time, 1.0)).collect();
            let name = "cycles";
            Line::new(&Series { name, points }, interval).runs.len()
        };
        assert_eq!(run(1.0, &[1.0, 2.0, 3.9, 5.0]), 1);
        assert_eq!(run(1.0, &[1.0, 2.0, 5.0, 6.0]), 2);
        assert_eq!(run(0.0, &[1.0, 2.0, 5.0, 6.0]), 1);
        // In any order, without what is no time.
        assert_eq!(
            run(1.0, &[3.0, 1.0, f64::NAN, 4.0, 2.0, f64::INFINITY, -1.0]),
            1
        );
        assert_eq!(run(1.0, &[9.0, 2.0, 1.0, 10.0, 5.0]), 3);
    }

    #[test]
    fn a_short_last_interval_is_a_ring() {
        let mut points = points(5, 0.1, |_| 100.0);
        points.push((0.52, 20.0));
        let svg = picture(&[("cycles", points.clone())]);
        assert_eq!(svg.matches("r='3.5'").count(), 1);
        assert!(svg.contains("shorter than 100 ms"));
        points.pop();
        assert!(!picture(&[("cycles", points)]).contains("r='3.5'"));
        // It may be the only one.
        assert!(picture(&[("cycles", vec![(0.03, 5.0)])]).contains("r='3.5'"));
    }

    #[test]
    fn largest_count() {
        let svg = picture(&[("cycles", points(9, 0.1, |_| u64::MAX as f64))]);
        assert!(texts(&svg, "text").contains(&"20 E"));
        drawn(
            "",
            f64::INFINITY,
            &[("cycles", vec![(MOST_TIME, MOST_COUNT)])],
        );
        drawn("", 1e-300, &[("cycles", vec![(1e-300, 1e-300)])]);
    }

    #[test]
    fn text_is_escaped_and_cut() {
        let long = "<&>\"'\u{0}\u{1b}\u{202e}\u{ffff}\n]]>é漢".repeat(1000);
        let svg = drawn(&long, 0.1, &[(&long, points(9, 0.1, |_| 1.0))]);
        assert!(svg.len() < 10_000);
        let svg = drawn("a & b", 0.1, &[("x<y", points(9, 0.1, |_| 1.0))]);
        assert!(texts(&svg, "title").contains(&"a &amp; b"));
        assert!(texts(&svg, "text").contains(&"x&lt;y"));
    }

    #[test]
    fn what_tells_names_apart_stays() {
        let long = "an-event-whose-name-does-not-end-before-here:uk";
        let name = cut_middle(long);
        assert_eq!(name.chars().map(columns).sum::<usize>(), NAME);
        assert!(long.starts_with(name.split('…').next().expect("a beginning")));
        assert!(name.ends_with("re:uk"));
        assert_eq!(
            cut_middle("branch-instructions:uk"),
            "branch-instructions:uk"
        );
    }

    #[test]
    fn size_is_bounded() {
        let many = |i| f64::from(i * 7919 % 1000);
        let one = picture(&[("cycles", points(100_000, 0.1, many))]);
        assert!(one.len() < 20_000, "{}", one.len());
        assert!(one.contains("band"));
        // All gaps, between points that nothing joins.
        let holes = |i| if i % 2 == 0 { f64::NAN } else { many(i) };
        let one = picture(&[("cycles", points(100_000, 0.1, holes))]);
        assert!(one.len() < 40_000, "{}", one.len());
        let all = vec![("cycles", points(1000, 0.1, many)); 100];
        let all = picture(&all);
        assert!(all.len() < 700_000, "{}", all.len());
        assert!(all.contains("68 further events are not drawn."));
    }

    #[test]
    fn a_mean_is_that_of_its_column() {
        let panel = Panel {
            left: 0.0,
            right: 4.0 * COLUMN,
            top: 0.0,
            bottom: 100.0,
            end: 4000.0,
            most: 10.0,
        };
        let name = "cycles";
        let points = (0..4000)
            .map(|i| (f64::from(i), f64::from(1 + i % 4)))
            .collect();
        let line = Line::new(&Series { name, points }, 1.0);
        assert!(line.is_dense());
        let columns = panel.columns(&line);
        assert_eq!(columns.len(), 1);
        assert_eq!(columns[0].len(), 4);
        for column in &columns[0] {
            assert!((column.mean - 2.5).abs() < 1e-9);
            assert_eq!((column.least, column.greatest), (1.0, 4.0));
        }
    }

    #[test]
    fn events_alike_share_a_panel() {
        let series: Vec<(&str, f64)> = vec![
            ("branch-misses", 2e4),
            ("cycles", 1e9),
            ("never", 0.0),
            ("instructions", 2e9),
            ("cache-misses", 4e3),
            ("branches", 3.9e8),
        ];
        let lines: Vec<Line<'_>> = series
            .iter()
            .map(|&(name, peak)| {
                let points = points(3, 0.1, |_| peak);
                Line::new(&Series { name, points }, 0.1)
            })
            .collect();
        assert_eq!(panels(&lines), [vec![1, 3], vec![5], vec![0, 2, 4]]);
        // No more lines than patterns.
        let same = vec![("same", points(3, 0.1, |_| 1.0)); 9];
        assert_eq!(picture(&same).matches("stroke='#777'").count(), 3);
    }

    #[test]
    fn ticks_are_round() {
        let labels = |peak, most| {
            let step = Step::new(peak, most, 0);
            let ticks = step.around(peak);
            (0..=ticks)
                .map(|tick| count_label(tick, ticks, step))
                .collect::<Vec<_>>()
                .join(",")
        };
        assert_eq!(labels(0.0, 4.0), "0,1");
        assert_eq!(labels(3.0, 4.0), "0,1,2,3");
        assert_eq!(labels(633.0, 4.0), "0,200,400,600,800");
        assert_eq!(labels(1000.0, 4.0), "0,0.5 k,1.0 k");
        assert_eq!(labels(2.9e8, 6.0), "0,50 M,100 M,150 M,200 M,250 M,300 M");
        assert_eq!(labels(1e9, 6.0), "0,0.2 G,0.4 G,0.6 G,0.8 G,1.0 G");
        assert_eq!(labels(1e20, 4.0), "0,50 E,100 E");
        // A whole number of steps but for rounding.
        for range in [3.0 * (1.0 - 1e-12), 3.0 * (1.0 + 1e-12)] {
            let step = Step::new(range, 3.0, -6);
            assert_eq!((step.digit, step.exponent), (1.0, 0));
            assert_eq!((step.within(range), step.around(range)), (3, 3));
        }
    }

    #[test]
    fn time_has_the_unit_that_fits() {
        for (interval, number, unit, span) in [
            (0.01, 20, "time (ms)", "events per 10 ms"),
            (0.1, 100, "time (s)", "events per 100 ms"),
            (1.0, 4000, "time (min)", "events per 1 s"),
            (60.0, 4000, "time (h)", "events per 60 s"),
            (0.0125, 9, "time (ms)", "events per 12.5 ms"),
        ] {
            let svg = drawn(
                "",
                interval,
                &[("cycles", points(number, interval, |_| 1.0))],
            );
            assert!(texts(&svg, "text").contains(&unit), "{unit}");
            assert!(texts(&svg, "text").contains(&span), "{span}");
        }
        let svg = drawn("", f64::NAN, &[("cycles", points(9, 1.0, |_| 1.0))]);
        assert!(texts(&svg, "text").contains(&"events per interval"));
    }

    #[test]
    fn names_do_not_touch() {
        for wanted in [
            vec![0.0; 4],
            vec![100.0; 4],
            vec![50.0, 51.0, 52.0, 90.0],
            vec![0.0, 30.0, 60.0, 100.0],
        ] {
            let mut places = wanted.clone();
            spread(&mut places, 2.0, 100.0);
            assert!(
                places.windows(2).all(|pair| pair[1] - pair[0] >= LABEL),
                "{places:?}"
            );
            assert!(
                places.iter().all(|place| (2.0..=100.0).contains(place)),
                "{places:?}"
            );
        }
        let mut apart = [10.0, 50.0, 90.0];
        spread(&mut apart, 2.0, 100.0);
        assert_eq!(apart, [10.0, 50.0, 90.0]);
    }

    #[test]
    fn colours_and_dashes_differ_within_a_panel() {
        let svg = picture(&vec![("same", points(9, 0.1, |_| 1.0)); 4]);
        for colour in &COLOURS[..4] {
            assert_eq!(svg.matches(&format!("<g stroke='{colour}'")).count(), 1);
        }
        for dash in DASHES {
            // The line and its sample.
            assert_eq!(
                svg.matches(&format!("stroke-dasharray='{dash}'")).count(),
                2
            );
        }
    }
}
