//! Tests that are not run again with stores in PostgreSQL, as the runners are told.

/// Each line is a package, the name of a test, and why. That they exist is checked by the packages themselves.
const LIST: &str = include_str!("../../../crates/testkit/left_out_on_postgres.txt");

fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = LIST.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| {
        let mut words = line.split(' ');
        Some((words.next().filter(|package| !package.is_empty())?, words.next()?))
    })
}

/// All other tests of some packages, for nextest.
pub(super) fn filter(packages: &[&str]) -> String {
    let any = |each: Vec<String>| if each.is_empty() { "none()".to_owned() } else { each.join(" | ") };
    let listed = names().map(|(package, name)| format!("package({package}) & test(={name})")).collect();
    let chosen = packages.iter().map(|package| format!("package({package})")).collect();
    format!("({}) & not ({})", any(chosen), any(listed))
}

/// The same for cargo's own runner, which knows no packages here.
pub(super) fn skips() -> Vec<&'static str> {
    names().flat_map(|(_, name)| ["--skip", name]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_named_once_for_each_runner() {
        let filter = filter(&["enjamb-cli", "enjamb-service"]);
        let beginning = "(package(enjamb-cli) | package(enjamb-service)) & not (package(enjamb-";
        assert!(filter.starts_with(beginning), "{filter}");
        assert_eq!(skips().len(), 2 * names().count());
    }
}
