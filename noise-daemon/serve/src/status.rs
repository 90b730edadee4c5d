//! The page at `/`, live, for a person: who is held up and by whom, incidents, and the signals.

use std::fmt::Write as _;
use std::sync::Arc;

use jiff::tz::TimeZone;
use noise_analysis::{Name, Overview, Process, Report, Side, processes};
use noise_common::signals::ExportKind;
use noise_model::labels::{ROOT, spoken_briefly};
use noise_model::words::{culprit_briefly, why};
use noise_model::{Host, Model, Summary, Victim};
use noise_text::clean::clean;
use noise_text::units;
use noise_verdict::{Account, Advice, Finding, mostly};

const HEAD: &str = r#"<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>noised</title>
<link rel="stylesheet" href="/status.css"><script src="/status.js" defer></script></head><body><h1>noised</h1>
<p id=stale class=bad role=status></p>"#;

const TAIL: &str = r#"<p><a href="/metrics">/metrics</a> for Prometheus,
<a href="/api/v1/incidents">incidents</a> and <a href="/api/v1/outliers">long waits</a> as JSON</p><noscript><p>Reload for newer values.</p></noscript></body></html>"#;

/// What the page looks like. Apart from it, as the script: `Content-Security-Policy: default-src
/// 'self'` allows neither within a page.
pub const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em;background:#fff;color:#222}a{color:#00c}
table{border-collapse:collapse;width:100%}th,td{padding:.3em .8em;text-align:right;border-bottom:1px solid #ddd}
th:first-child,td:first-child,.words th,.words td{text-align:left}td{font-variant-numeric:tabular-nums}th+th,td+td{white-space:nowrap}
table.words th+th,table.words td+td{white-space:normal}table.words .number{white-space:nowrap}small{color:#666}.absent td{color:#6a6a6a}.bad{color:#b00}
.curve{display:block;width:9em;height:1.3em;fill:none;stroke:currentColor;stroke-width:1.2;overflow:visible}
#stale:empty{margin:0}summary{cursor:pointer;font-weight:bold;margin:1.5em 0 .5em}h1 small{font-size:.5em;font-weight:normal}
@media(max-width:45em){body{margin:1em auto;padding:0 .5em}main{overflow-x:auto}.wide{display:none}th,td{padding:.3em .4em}
.stacked td{display:block;border-width:0}.stacked td:last-child{border-width:0 0 1px}.stacked th{display:none}}
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}a{color:#8bf}th,td{border-color:#333}
small{color:#aaa}.absent td{color:#999}.bad{color:#f88}}
";

/// What keeps the page up to date, or says since when it is not. Under the keyboard's focus, or while some of it is selected, it
/// stays as it is.
pub const SCRIPT: &str = r#"const note=document.getElementById("stale");let known=new Date();
async function turn(){let why="";try{
const r=await fetch("/",{signal:AbortSignal.timeout(5000)});if(!r.ok)throw Error("noised answers with status "+r.status);
const d=new DOMParser().parseFromString(await r.text(),"text/html"),next=d.querySelector("main"),now=document.querySelector("main");
if(now.querySelector(":focus-visible")||!getSelection().isCollapsed)why="a part of the page has the focus or is selected";
else{next.querySelector("details").open=now.querySelector("details").open;now.replaceWith(next);known=new Date()}
}catch(e){why=e.message}
const text=why&&"Stale since "+known.toLocaleTimeString()+": "+why;if(note.textContent!==text)note.textContent=text;
setTimeout(turn,1000)}
setTimeout(turn,1000)
"#;

fn escape(text: &str) -> String {
    let text = clean(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace('\'', "&#39;")
}

fn row(page: &mut String, summary: &Summary) {
    let info = summary.signal.info();
    let (name, help) = (info.name, escape(info.help));
    let _ = if let Some(reason) = &summary.absent {
        let reason = escape(reason);
        write!(
            page,
            "<tr class=absent><td>{name}<br><small>{help}</small><td colspan=6>not measured: {reason}"
        )
    } else {
        let lost = match info.kind {
            ExportKind::Histogram(_) => units::duration(summary.lost * 1e9),
            ExportKind::Counter => "–".to_owned(),
        };
        write!(
            page,
            "<tr><td>{name}<br><small>{help}</small><td>{:.1}<td>{}<td>{}<td>{}<td>{lost}<td>{}",
            summary.rate,
            units::known_duration(summary.p50_ns),
            units::known_duration(summary.p99_ns),
            units::known_duration(summary.max_ns),
            summary.total,
        )
    };
}

/// Seconds per second over time as a picture, the newest at the right.
fn curve(values: &[f64]) -> String {
    let most = values.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return String::new();
    }
    let last = values.len().saturating_sub(1).max(1) as f64;
    let place = |(index, value): (usize, &f64)| {
        format!("{:.1},{:.1}", index as f64 / last * 120.0, 19.0 - value / most * 18.0)
    };
    let places: Vec<String> = values.iter().enumerate().map(place).collect();
    format!(
        "<svg class=curve viewBox=\"0 0 120 20\" preserveAspectRatio=none><title>at most {}</title><polyline points=\"{}\"/></svg>",
        units::lost(most),
        places.join(" ")
    )
}

/// Of what is in no cgroup, the thread that had most of a victim's long waits, behind a comma; nothing of another cgroup.
fn first_thread(overview: &Overview, side: Side, (victim, of): (&str, &str)) -> String {
    if of != ROOT {
        return String::new();
    }
    let outliers = overview.outliers.iter().map(|one| &**one);
    let all = processes(outliers, victim, &overview.commands);
    let first = all.iter().find(|one| one.side == side && *one.of == *of);
    first.map_or_else(String::new, |first| format!(", {}", escape(&first.name())))
}

/// Victims without an open incident that are shown.
const SHOWN_VICTIMS: usize = 10;

/// Who was held up, with who did it: all with open incidents first, then the worst.
fn victims(page: &mut String, model: &Model, overview: &Overview) {
    page.push_str("<h2>Who is held up, and by whom</h2>");
    let disturbed = overview.victims();
    let has_row = |name: &Name| model.victims.iter().any(|one| one.name == *name);
    let quiet = disturbed.iter().filter(|name| !has_row(name));
    let quiet: Vec<Victim> =
        quiet.map(|name| Victim { name: Arc::clone(name), ..Victim::default() }).collect();
    let all = model.victims.iter().chain(&quiet);
    let (first, rest): (Vec<_>, Vec<_>) = all.partition(|one| disturbed.contains(&one.name));
    if first.is_empty() && rest.is_empty() {
        page.push_str("<p>No delays in the last five seconds.</p>");
        return;
    }
    page.push_str(
        "<table class=words><tr><th>victim<th>held up<th>lacks<th>mostly by<th class=wide>how<th class=wide>15 minutes\
         <th class=wide>usual p99 wait<th class=wide>all lost",
    );
    for victim in first.into_iter().chain(rest.into_iter().take(SHOWN_VICTIMS)) {
        let open = overview.suffers(&victim.name).count();
        let mark = if open > 0 { format!(" <b class=bad>●{open}</b>") } else { String::new() };
        let short = overview.short_of_memory(&victim.name);
        let lacks = match &short {
            Some(_) => Some(Account::Memory),
            None => mostly(victim.held_up.iter().copied()),
        };
        let lacks = lacks.map_or("–", Account::name);
        let thread = first_thread(overview, Side::Victim, (&victim.name, &victim.name));
        let thread = if thread.is_empty() { thread } else { format!("<small>{thread}</small>") };
        let usual = overview.usual.iter().find(|usual| *usual.subject == *victim.name);
        let (culprit, how) = match (&short, &victim.culprit) {
            (Some(by), _) => (escape(by), ""),
            (None, Some((culprit, cause, ns))) => {
                let share = units::share(*ns as f64 / victim.held_up_ns.max(1) as f64);
                let thread = first_thread(overview, Side::Culprit, (&victim.name, culprit));
                let name = escape(culprit_briefly(*cause, culprit));
                (format!("{name} <small>{share}{thread}</small>"), why(*cause))
            }
            (None, None) => ("–".to_owned(), ""),
        };
        let _ = write!(
            page,
            "<tr><td>{}{thread}{mark}<td class=number>{}<td>{lacks}<td>{culprit}<td class=wide>{how}<td class=wide>{}<td class=wide>{}<td class=wide>{}",
            escape(spoken_briefly(&victim.name)),
            units::duration(victim.held_up_ns as f64),
            curve(&model.trends.victim(&victim.name)),
            units::known_duration(usual.and_then(|usual| usual.level.p99_ns)),
            units::duration(victim.lost_ns as f64),
        );
    }
    page.push_str(
        "</table><p><small>Of the last five seconds, all threads of a cgroup together; those with open incidents (●) first. Held up: it waited for others, \
         interrupts, its CPU quota or the hypervisor. All lost: by its threads, also behind their own work, for CPUs that were idle, and asleep until a disk was done; requests are not added. 15 minutes: held up meanwhile, or for as long as is known. \
         <code>noised why NAME</code> says more of one.</small></p>",
    );
}

/// Incidents that are shown.
const SHOWN_INCIDENTS: usize = 8;

/// The latest incidents, with what the longest wait at their begin was spent on, where that was kept.
fn incidents(page: &mut String, overview: &Overview) {
    let latest: Vec<&Report> =
        overview.incidents.iter().rev().take(SHOWN_INCIDENTS).map(|report| &**report).collect();
    if latest.is_empty() {
        return;
    }
    page.push_str(
        "<h2>Incidents</h2><table class=\"words stacked\"><tr><th>incident<th>lacks<th>first culprit<th>what was \
         waited for when it opened, what to try first",
    );
    for report in latest {
        let (id, main) = (report.id, &report.main);
        let bad = if report.open { " class=bad" } else { "" };
        let verdict = report.verdict(&TimeZone::UTC);
        let first = verdict.findings.first();
        let culprit = first.map_or("not known", |first| &first.culprit.name);
        let of = report.leading().map_or("", |leading| &*leading.culprit);
        // What is in no cgroup is nothing but its threads.
        let most = if of == ROOT { usize::MAX } else { 1 };
        let threads = report.threads_of(Side::Culprit, (&main.subject, of));
        let threads: Vec<String> =
            threads.map(Process::words).take(most).map(|words| escape(&words)).collect();
        let _ = write!(
            page,
            "<tr><td>#{id} {}<br><small{bad}>{}, {:.1} s since {}</small><td>{}<td>{}<br><small>{}</small><td>",
            escape(&verdict.sentence),
            escape(report.standing()),
            report.lasted(),
            report.start().strftime("%Y-%m-%d %H:%M:%S UTC"),
            report.resource().name(),
            escape(culprit),
            threads.join("<br>"),
        );
        if let Some(trace) = overview.trace(id) {
            match trace.waits.first() {
                Some(wait) => {
                    let wait = escape(wait);
                    let _ = write!(page, "{wait} <a href=\"/api/v1/incidents/{id}/path\">path</a>");
                }
                None => page.push_str(&escape(&trace.sentence())),
            }
        }
        let ready = verdict.findings.first().and_then(Finding::ready);
        for line in ready.into_iter().flat_map(Advice::lines) {
            let _ = write!(page, "<br><small>{}</small>", escape(&line));
        }
    }
    page.push_str("</table>");
}

/// How long the host has been up, by the clock of the samples, which stands still while it is suspended.
fn uptime(at_ns: u64) -> String {
    let minutes = at_ns / 60_000_000_000;
    let (days, hours, minutes) = (minutes / 1440, minutes / 60 % 24, minutes % 60);
    match days {
        0 => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

pub fn page(host: &Host, model: &Model, overview: &Overview) -> String {
    let mut page = String::from(HEAD);
    let sample = &model.sample;
    let open = overview.incidents.iter().filter(|report| report.open).count();
    let (bad, open) = match open {
        0 => ("", "no open incident".to_owned()),
        1 => (" class=bad", "1 open incident".to_owned()),
        _ => (" class=bad", format!("{open} open incidents")),
    };
    let _ = write!(
        page,
        "<main><p><b>{}</b>, Linux {}, up {}, {} CPUs, noised {}. <b{bad}>{open}</b>.</p>",
        escape(&host.name),
        escape(&host.kernel),
        uptime(sample.at_ns),
        host.cpus.len(),
        escape(&host.noised),
    );
    victims(&mut page, model, overview);
    incidents(&mut page, overview);
    page.push_str(
        "<details><summary>Signals</summary><table><tr><th>signal<th>events/s<th>p50 ≤<th>p99 ≤<th>max\
         <th>lost per second<th>events since start",
    );
    for summary in &model.signals {
        row(&mut page, summary);
    }
    page.push_str("</table></details>");
    let attached = sample.hooks.iter().filter(|hook| hook.attached).count();
    let _ = write!(page, "<p>{attached} of {} hooks attached.</p>", sample.hooks.len());
    let missed: u64 = sample.hooks.iter().map(|hook| hook.missed).sum();
    if missed > 0 {
        let _ = write!(page, "<p class=bad>{missed} events missed by recursion.</p>");
    }
    page.push_str("</main>");
    page.push_str(TAIL);
    page
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use noise_analysis::{Culprit, KeptTrace, Remedy, ReportedOutlier, Time};
    use noise_common::charge::{Cause, Charged, Resource};
    use noise_common::signals::{SIGNALS, Signal};
    use noise_model::{Builder, Interference, OutlierRecord, Sample};

    use super::*;

    #[test]
    fn every_signal_is_named_and_absence_explained() {
        let absent = vec![(Signal::Nmi, "not attached: <x>".to_owned())];
        let page = page(
            &Host::default(),
            &Builder::default().model_after(Sample { absent, ..Sample::default() }),
            &Overview::default(),
        );
        for info in &SIGNALS {
            assert!(page.contains(info.name), "{}", info.name);
        }
        assert!(page.contains("not measured: not attached: &lt;x&gt;"));
    }

    #[test]
    fn a_strict_policy_lets_the_page_work() {
        let page = page(
            &Host::default(),
            &Builder::default().model_after(Sample::default()),
            &Overview::default(),
        );
        for inline in ["<style", "<script>", " style=", " onload=", "javascript:"] {
            assert!(!page.contains(inline), "{inline}: {page}");
        }
        // What the script looks for is there, and what it replaces does not have the note.
        let (before, main) = page.split_once("<main>").unwrap();
        assert!(before.contains("<p id=stale class=bad role=status></p>"), "{page}");
        assert!(main.contains("<details><summary>"), "{page}");
        // One request after the other, and no failure goes unsaid.
        assert_eq!(SCRIPT.matches("setTimeout(turn,1000)").count(), 2);
        for part in [
            "if(!r.ok)throw",
            "catch(e){why=e.message}",
            "getElementById(\"stale\")",
            ":focus-visible",
            "isCollapsed",
        ] {
            assert!(SCRIPT.contains(part), "{part}");
        }
    }

    /// The colours that a style sheet gives, by selector and property.
    fn colours(style: &str) -> BTreeMap<(String, String), String> {
        let rules = style.split('}').filter_map(|rule| rule.split_once('{'));
        let declared = rules.flat_map(|(selector, all)| {
            let pairs = all.split(';').filter_map(|one| one.split_once(':'));
            pairs.map(move |(name, value)| ((selector.trim().to_owned(), name.to_owned()), value))
        });
        let is_colour = |name: &str| name == "color" || name == "background";
        let declared = declared.filter(|((_, name), _)| is_colour(name));
        declared.map(|(key, value)| (key, value.to_owned())).collect()
    }

    /// Relative luminance of `#rgb` or `#rrggbb` (WCAG 2).
    fn luminance(colour: &str) -> f64 {
        let digits = colour.strip_prefix('#').unwrap();
        let width = digits.len() / 3;
        let channel = |place: usize| {
            let text = &digits[place * width..(place + 1) * width];
            let part = u8::from_str_radix(&text.repeat(3 - width), 16).unwrap();
            let part = f64::from(part) / 255.0;
            if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(0) + 0.7152 * channel(1) + 0.0722 * channel(2)
    }

    #[test]
    fn text_can_be_read_in_both_schemes() {
        let (light, dark) = STYLE.split_once("@media(prefers-color-scheme:dark){").unwrap();
        let light = colours(light);
        let mut dark = colours(dark);
        for (key, colour) in &light {
            dark.entry(key.clone()).or_insert_with(|| colour.clone());
        }
        for (scheme, colours) in [("light", &light), ("dark", &dark)] {
            let of = |selector: &str, name: &str| &colours[&(selector.into(), name.into())];
            // Links, too, are not left to the browser, which has one colour for both.
            assert!(of("a", "color").starts_with('#'));
            let back = luminance(of("body", "background"));
            for ((selector, _), colour) in colours.iter().filter(|((_, name), _)| name == "color") {
                let text = luminance(colour);
                let contrast = (text.max(back) + 0.05) / (text.min(back) + 0.05);
                assert!(contrast >= 4.5, "{scheme}: {selector} {colour}: {contrast:.2}");
            }
        }
    }

    #[test]
    fn what_to_try_first_is_shown() {
        let mut report = Arc::unwrap_or_clone(crate::made::report(true));
        let ready = Advice {
            remedy: Remedy::CpuWeight,
            now: Some("x<y".to_owned()),
            commands: vec!["echo 1 > /a&b".to_owned()],
            undo: Vec::new(),
        };
        report.beside.advice = Some(vec![Advice::plain(Remedy::CpuAffinity), ready]);
        report.beside.advised_culprit = Some("b.service".into());
        let time = Time { seconds: 1.0, share: 1.0 };
        report.main.culprits = vec![Culprit {
            culprit: "b.service".into(),
            cause: Cause::Foreign,
            time,
            beyond: time,
        }];
        let overview = Overview { incidents: vec![report.into()], ..Overview::default() };
        let model = Builder::default().model_after(Sample::default());
        let page = page(&Host::default(), &model, &overview);
        let shown = "<br><small>now: x&lt;y</small><br><small># echo 1 &gt; /a&amp;b</small>";
        assert!(page.contains(shown), "{page}");
    }

    #[test]
    fn incidents_are_shown_with_what_was_waited_for() {
        let report = crate::made::report(true);
        let without = KeptTrace::without(report.id, report.main.start, "the <disk> is full");
        let kept = KeptTrace {
            waits: vec!["web<1> 42 waited 3 ms".into()],
            trouble: None,
            ..without.clone()
        };
        let shown = |trace: KeptTrace| {
            let overview = Overview {
                incidents: vec![report.clone()],
                traces: vec![trace.into()],
                ..Overview::default()
            };
            page(&Host::default(), &Builder::default().model_after(Sample::default()), &overview)
        };
        let link = format!(
            "web&lt;1&gt; 42 waited 3 ms <a href=\"/api/v1/incidents/{}/path\">",
            report.id
        );
        let page = shown(kept);
        assert!(page.contains(&link) && page.contains("<h2>Incidents"), "{page}");
        let page = shown(without);
        assert!(page.contains("not kept: the &lt;disk&gt; is full"), "{page}");
    }

    #[test]
    fn curves_are_of_what_is_known() {
        assert_eq!(curve(&[]) + &curve(&[0.0, 0.0]), "");
        let text = curve(&[0.0, 0.5, 0.25]);
        assert!(
            text.contains("points=\"0.0,19.0 60.0,1.0 120.0,10.0\"")
                && text.contains("at most 500 ms/s"),
            "{text}"
        );
    }

    #[test]
    fn the_host_and_who_is_held_up_come_first() {
        let charge = |culprit: &str, cause, ns| Interference {
            resource: Resource::Cpu,
            cause,
            place: "".into(),
            victim: "web<1>".into(),
            culprit: culprit.into(),
            charged: Charged { ns, count: 1 },
        };
        let interference = vec![
            charge("a", Cause::Foreign, 1_000_000),
            charge("b", Cause::Foreign, 3_000_000),
            charge("web<1>", Cause::Own, 5_000_000),
        ];
        let at_ns = 93_784_000_000_000;
        let host = Host { name: "db<1>".to_owned(), cpus: vec![0, 1], ..Host::default() };
        let page = page(
            &host,
            &Builder::default().model_after(Sample { at_ns, interference, ..Sample::default() }),
            &Overview::default(),
        );
        let row = "<tr><td>web&lt;1&gt;<td class=number>4.00 ms<td>cpu<td>b <small>75.0 %</small><td class=wide>another cgroup<td class=wide><td class=wide>–\
                   <td class=wide>9.00 ms";
        assert!(page.contains(row), "{page}");
        assert!(page.contains("<b>db&lt;1&gt;</b>, Linux , up 1 d 2 h, 2 CPUs"), "{page}");
        assert!(page.find("Who is held up") < page.find("<details>"));
        assert_eq!(uptime(3_660_000_000_000), "1 h 1 min");
    }

    #[test]
    fn the_root_cgroup_is_followed_by_the_process_that_waited_longest() {
        let interference = vec![Interference {
            resource: Resource::Cpu,
            cause: Cause::Foreign,
            place: "".into(),
            victim: "/".into(),
            culprit: "hog".into(),
            charged: Charged { ns: 1_000_000, count: 1 },
        }];
        let wait = OutlierRecord {
            at_ns: 0,
            wait_ns: 1,
            victim: "/".into(),
            pid: 42,
            comm: "worker".into(),
            cpu: 0,
            made_runnable: "wakeup".into(),
            parts: Vec::new(),
            rest_ns: 1,
        };
        let outliers = vec![ReportedOutlier { time: jiff::Timestamp::UNIX_EPOCH, wait }.into()];
        let model = Builder::default().model_after(Sample { interference, ..Sample::default() });
        let overview = Overview { outliers, ..Overview::default() };
        let page = page(&Host::default(), &model, &overview);
        assert!(page.contains("<tr><td>root cgroup<small>, worker 42</small><td"), "{page}");
    }

    #[test]
    fn who_has_an_open_incident_comes_before_who_is_held_up_more() {
        let charge = |victim: &str, ns| Interference {
            resource: Resource::Cpu,
            cause: Cause::Foreign,
            place: "".into(),
            victim: victim.into(),
            culprit: "hog".into(),
            charged: Charged { ns, count: 1 },
        };
        let order = |is_open, own_ns| {
            let report = crate::made::report(is_open);
            let mut interference = vec![charge(&report.main.subject, own_ns)];
            interference
                .extend((0..12).map(|one| charge(&format!("batch{one:02}"), 9_000_000 - one)));
            let model =
                Builder::default().model_after(Sample { interference, ..Sample::default() });
            let overview = Overview { incidents: vec![report], ..Overview::default() };
            let page = page(&Host::default(), &model, &overview);
            let own = if is_open {
                "<tr><td>/system.slice/a.service <b class=bad>●1</b><td"
            } else {
                "<tr><td>/system.slice/a.service<td"
            };
            assert!(!page.contains("<tr><td>batch10<td"), "{page}");
            (page.find(own), page.find("<tr><td>batch00<td").unwrap())
        };
        // Whether it lost much, little or nothing in the last seconds.
        for own_ns in [10_000_000, 1_000_000, 0] {
            let (own, batch) = order(true, own_ns);
            assert!(own.unwrap() < batch, "{own_ns}");
        }
        assert_eq!(order(false, 1_000_000).0, None);
    }
}
