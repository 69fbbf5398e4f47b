import BreakerStore
import Testing

@testable import ControlKit

struct NamePatternTests {
  @Test(arguments: [
    (["pay-*"], "pay-"), (["pay-eu", "pay-*"], "pay-"), (["pay-eu", "pa?"], "pa"),
    (["a*", "b*"], ""), (["*"], ""), (["[ab]c"], ""), (["a\\*b"], "a"), (["größe*"], "gr"),
    (["e\u{301}*"], ""), ([], ""),
  ])
  func `patterns give the beginning that they have in common`(patterns: [String], beginning: String)
  {
    #expect(NamePattern.commonBeginning(of: patterns.map { NamePattern($0) }) == beginning)
  }

  @Test func `a pattern also selects the breaker that has it as its name`() {
    let bench = CommandBench()
    for name in ["a[1]", "a1", "b"] { _ = bench("policy", name, "--set", "open-for=1m") }
    let answer = bench("status", "a[1]")
    #expect(answer.output.contains("\na1 "))
    #expect(answer.output.contains("\na[1] "))
    #expect(answer.errors.isEmpty)
  }

  @Test func `a breaker that is asked for twice is listed once`() {
    let bench = CommandBench()
    for name in ["pay-eu", "pay-us"] { _ = bench("policy", name, "--set", "open-for=1m") }
    let answer = bench("status", "pay-eu", "pay-*", "*-eu")
    #expect(answer.output.split(separator: "\n").count == 3)
  }

  @Test func `a state filters names and patterns alike`() {
    let bench = CommandBench()
    for name in ["pay-eu", "pay-us"] { _ = bench("policy", name, "--set", "open-for=1m") }
    _ = bench("trip", "pay-us")
    #expect(bench("status", "pay-us", "--state", "open").output.contains("\npay-us  open"))
    let none = bench("status", "pay-eu", "--state", "open")
    #expect(none.output.isEmpty)
    #expect(none.errors == "cbctl: no matching breaker is open: the store has 2 breakers\n")
    #expect(bench("status", "*-us", "--state", "open").output.contains("\npay-us  open"))
    #expect(bench("status", "*-eu", "--state", "open").errors == none.errors)
    #expect(bench("status", "pya-us", "--state", "open").code == 66)
  }

  /// A bench with three breakers.
  private func bench() -> CommandBench {
    let bench = CommandBench()
    for name in ["mail", "pay-eu", "pay-us"] { _ = bench("trip", name, "--for", "1h") }
    return bench
  }

  @Test(arguments: [
    (["force", "pay-*", "observe"], "observe"), (["trip", "pay-*", "--for", "2h"], "open"),
    (["hold", "pay-*", "--for", "2h"], "held for 2h"), (["reset", "pay-*", "--yes"], "closed"),
    (["policy", "pay-*", "--set", "open-for=9s"], "set by an operator: open-for=9s"),
  ])
  func `a pattern changes all breakers that match, and no other one`(words: [String], word: String)
  {
    let bench = bench()
    let before = bench("show", "mail", "--json").output
    let answer = bench.run(words)
    #expect(answer.code == 0)
    let lines = answer.output.split(separator: "\n")
    #expect(lines.allSatisfy { $0.contains(word) }, "\(answer.output)")
    #expect(lines.map { String($0.prefix(7)) } == ["pay-eu:", "pay-us:"], "\(answer.output)")
    #expect(bench("show", "mail", "--json").output == before)
  }

  @Test(arguments: [
    ["force", "pya-*", "observe"], ["trip", "pya-*"], ["hold", "pya-*", "--for", "2h"],
    ["hold", "pya-*", "--end"], ["reset", "mail", "pya-*", "--yes"],
    ["policy", "pya-*", "--set", "open-for=9s"],
    ["delete", "mail", "pya-*", "--force", "--yes"],
  ])
  func `a pattern that nothing matches creates nothing and changes nothing`(words: [String]) {
    let bench = bench()
    let before = bench("status", "--json").output
    let answer = bench.run(words)
    #expect(answer.code == 66)
    #expect(answer.errors.hasPrefix("cbctl: no breaker matches 'pya-*': nothing was changed"))
    #expect(bench("status", "--json").output == before)
  }

  @Test(arguments: [["reset", "pay-*"], ["delete", "pay-*", "--force"]])
  func `a pattern asks before it resets or deletes`(words: [String]) {
    let bench = bench()
    let script = bench.run(words)
    #expect(script.code == 64)
    #expect(script.errors.contains("there is no terminal to confirm it at: add --yes"))
    #expect(bench.run(words, ask: { _ in false }).code == 1)
    #expect(bench("check", "pay-eu").code == 75)
    let asked = Guarded("")
    #expect(
      bench.run(words) { question in
        asked.withLock { $0 = question }; return true
      }.code == 0)
    #expect(asked.withLock { $0 }.contains("\(words[0]) 2 breakers"))
    #expect(bench("check", "mail").code == 75)
  }

  @Test func `a pattern shows all breakers that match, with their policies`() {
    let bench = bench()
    let pages = bench("show", "pay-*").output
    #expect(pages.hasPrefix("pay-eu: open") && pages.contains("\n\npay-us: open"), "\(pages)")
    #expect(!pages.contains("mail"))
    let tables = bench("policy", "pay-*").output
    #expect(tables.hasPrefix("pay-eu:\n") && tables.contains("\n\npay-us:\n"), "\(tables)")
    #expect(bench("policy", "pay-eu").output.hasPrefix("max-failures"))
    for command in ["show", "policy"] {
      let document = bench(command, "pay-??", "--json").output
      #expect(document.matches(of: /"policy_sources"/).count == 2, "\(document)")
      let none = bench(command, "pya-*")
      #expect(none.code == 66 && none.errors.contains("pya-*"), "\(none)")
    }
  }

  @Test func `the end of a hold reaches all that match, and says which were not held`() {
    let bench = bench()
    _ = bench("hold", "pay-us", "--for", "1h")
    let answer = bench("hold", "pay-*", "--end")
    #expect(answer.code == 0)
    #expect(answer.errors == "cbctl: pay-eu: not held: nothing was changed\n")
  }

  @Test func `the history of all that match has the newest entries, as many as were asked for`() {
    let bench = bench()
    let lines = bench("history", "pay-*").output.split(separator: "\n")
    #expect(lines.count == 2 && lines[0].contains("pay-eu") && lines[1].contains("pay-us"))
    #expect(bench("history", "*", "--limit", "1").output.contains("pay-us"))
    #expect(
      bench("history", "mail", "*-eu", "--limit", "2").output.split(separator: "\n").count == 2)
    #expect(bench("history", "pay-*", "nail").code == 66)
    let none = bench("history", "pya-*")
    #expect(none.code == 0 && none.errors.hasPrefix("cbctl: no history"))
  }

  @Test func `a name that looks like a pattern means its own breaker, and its user is not asked`() {
    let bench = CommandBench()
    for name in ["http/1:80", "a*", "ab"] { _ = bench("acquire", name) }
    // No breaker has that name yet.
    #expect(bench("trip", "http/[::1]:80").output.hasPrefix("http/[::1]:80: open"))
    #expect(bench("trip", "a*").output.hasPrefix("a*: open"))
    #expect(bench("check", "http/1:80").code == 0 && bench("check", "ab").code == 0)
    #expect(bench("reset", "http/[::1]:80").code == 0)
  }
}
