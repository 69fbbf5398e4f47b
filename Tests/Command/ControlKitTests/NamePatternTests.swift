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
}
