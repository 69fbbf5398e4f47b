import SharedBreaker
import TestSupport
import Testing

/// A store in which a process with a false boot clock has written.
@Suite struct FalseTimesRepairTests {
  private static let away = "1790000000000000000"

  @Test func `a breaker that is open for longer than any policy allows is due everywhere`()
    throws
  {
    let clinic = try Clinic()
    try clinic.sql("UPDATE breaker SET open_until_ns = \(Self.away) WHERE name = 'pay'")
    #expect(clinic.cbctl(["check", "pay"]).code == 0)
    let shown = clinic.cbctl(["show", "pay", "--json"]).output
    #expect(shown.contains(#""permitted":true"#), "\(shown)")
    let before = clinic.line("clock", of: clinic.doctor())
    #expect(before.word == "warn", "\(before)")
    #expect(before.text.contains("the times of pay lie further ahead than any policy allows"))
    let repaired = clinic.doctor("--repair")
    #expect(repaired.output.contains("; repair: done: correct them"), "\(repaired)")
    #expect(clinic.isWell(clinic.doctor()))
    let ends = try Database.value(
      clinic.store, "SELECT open_until_ns < \(Self.away) FROM breaker WHERE name = 'pay'")
    #expect(ends == "1")
  }

  @Test func `a forced mode that lasts longer than it was set for is over`() throws {
    let clinic = try Clinic()
    try clinic.sql(
      "UPDATE breaker SET mode_until_ns = \(Self.away), mode_length_ns = 1000 WHERE name = 'mail'")
    #expect(clinic.cbctl(["check", "mail"]).code == 0)
    #expect(clinic.line("clock", of: clinic.doctor()).word == "warn")
    #expect(clinic.doctor("--repair").code == 0)
    #expect(clinic.isWell(clinic.doctor()))
  }

  @Test func `a probe whose lease outlasts every policy keeps no slot`() throws {
    let clinic = try Clinic()
    try clinic.sql("UPDATE breaker SET state = 2, open_until_ns = NULL WHERE name = 'pay'")
    try clinic.addLease("1, \(Self.away)")
    #expect(clinic.cbctl(["check", "pay"]).code == 0)
    #expect(clinic.line("clock", of: clinic.doctor()).word == "warn")
    #expect(clinic.doctor("--repair").code == 0)
    #expect(try Database.value(clinic.store, "SELECT count(*) FROM lease") == "0")
    #expect(clinic.isWell(clinic.doctor()))
  }
}
