import Testing
@testable import torture

/// The referee of the torture, with journals that are made up.
@Suite struct RefereeTests {
  /// Two processes that fail three times, trip, probe and close.
  private func evidence() throws -> Evidence {
    var evidence = Evidence()
    evidence.probeTimeout = 1_000
    evidence.journals = [
      try Journal(
        pid: 1,
        """
        b 1 100 100 acquire api -
        e 1 101 101 s normal
        b 2 110 110 report api failure/1
        t 115 api closed open
        e 2 116 116 s counted
        b 3 300 300 acquire api -
        t 305 api open half_open
        e 3 306 306 s probe
        b 4 320 320 report api success/3
        t 325 api half_open closed
        e 4 326 326 s counted
        """),
      try Journal(
        pid: 2,
        """
        b 1 120 120 acquire api -
        e 1 121 121 s rejected
        b 2 310 310 acquire api -
        e 2 311 311 s rejected
        b 3 340 340 batch api 5
        e 3 350 350 s 5/0
        """),
      try Journal(
        pid: 3,
        """
        b 1 330 330 check api -
        p 1 31
        e 1 335 335 s exit0
        """),
    ]
    evidence.events = [
      Event(id: 1, breaker: "api", from: "closed", to: "open", pid: 1),
      Event(id: 2, breaker: "api", from: "open", to: "half_open", pid: 1),
      Event(id: 3, breaker: "api", from: "half_open", to: "closed", pid: 1),
    ]
    var row = Row()
    row.generation = 4
    row.trips = 1
    row.failures = 1
    row.successes = 6
    evidence.rows["api"] = row
    return evidence
  }

  private func kinds(_ evidence: Evidence) -> [Violation.Kind] {
    var referee = Referee(evidence)
    return referee.violations().map(\.kind)
  }

  /// Adds lines to the journal of a process that has none yet.
  private func with(
    _ lines: String, by pid: Int32 = 9, killed: Int64? = nil
  ) throws -> Evidence {
    var evidence = try evidence()
    evidence.journals.append(try Journal(pid: pid, killed: killed, lines))
    return evidence
  }

  @Test func `the referee finds nothing where all is well, and compares every answer`() throws {
    var referee = Referee(try evidence())
    #expect(referee.violations().isEmpty)
    #expect(referee.answersCompared == 4)
    #expect(referee.probesHeld == 1)
    #expect(referee.failuresAcknowledged == 1)
  }

  @Test func `the referee finds a failure that was lost and one that was never reported`() throws {
    let lines = "b 1 10 10 report api failure/0\n"
    #expect(try kinds(with(lines + "e 1 20 20 s counted")) == [.lostFailure])
    var evidence = try evidence()
    evidence.rows["api"]?.failures = 2
    #expect(kinds(evidence) == [.inventedFailure])
    // A failure whose process was killed during the report may or may not have been counted, and so
    // may one that the process's own breaker took.
    for lines in [lines, lines + "e 1 20 20 m counted"] {
      #expect(try kinds(with(lines, killed: 15)).isEmpty)
      evidence = try with(lines, killed: 15)
      evidence.rows["api"]?.failures = 2
      #expect(kinds(evidence).isEmpty)
    }
  }

  @Test func `the referee counts many failures that were written down together`() throws {
    let lines = "b 1 10 10 failures api 7\n"
    let kept = try with(lines + "e 1 20 20 s 5/2")
    #expect(kinds(kept) == [.lostFailure])
    var evidence = try with(lines, killed: 15)
    evidence.rows["api"]?.failures = 8
    #expect(kinds(evidence).isEmpty)
    evidence.rows["api"]?.failures = 9
    #expect(kinds(evidence) == [.inventedFailure])
  }

  @Test func `the referee finds a success that was lost, unless the counters were lost`() throws {
    var evidence = try evidence()
    evidence.rows["api"]?.successes = 5
    #expect(kinds(evidence) == [.lostSuccess])
    evidence.keepsCounters = false
    #expect(kinds(evidence).isEmpty)
  }

  @Test
  func `the referee does not rely on a batch that may have been a probe for too long`() throws {
    let quick = try with("b 1 400 400 batch api 3\ne 1 1399 1399 s 3/0")
    #expect(kinds(quick) == [.lostSuccess])
    let slow = try with("b 1 400 400 batch api 3\ne 1 1400 1400 s 3/0")
    #expect(kinds(slow).isEmpty)
  }

  @Test(arguments: [("normal", 1), ("probe", 1), ("rejected", 0)])
  func `the referee finds a call permitted after a trip that the call should have seen`(
    answer: String, count: Int
  ) throws {
    let found = try kinds(with("b 1 117 117 acquire api -\ne 1 118 118 s \(answer)"))
    #expect(found.count { $0 == .staleAnswer } == count)
  }

  @Test func `the referee accepts a call that began before the trip was acknowledged`() throws {
    #expect(try kinds(with("b 1 114 114 acquire api -\ne 1 118 118 s normal")).isEmpty)
    // Nothing can be said about an answer for which the store was not asked.
    #expect(try kinds(with("b 1 117 117 acquire api -\ne 1 118 118 m normal")).isEmpty)
  }

  @Test(arguments: [
    ("forced_open", "normal", 1), ("forced_open", "rejected", 0), ("forced_closed", "rejected", 1),
    ("forced_closed", "normal", 0), ("observe", "rejected", 1), ("observe", "normal", 0),
  ])
  func `the referee finds an answer that the mode in force would not give`(
    mode: String, answer: String, count: Int
  ) throws {
    let lines = """
      b 1 400 400 force api \(mode)
      e 1 410 410 s ok
      b 2 420 420 acquire api -
      e 2 430 430 s \(answer)
      """
    var evidence = try with(lines)
    #expect(kinds(evidence) == (answer == "rejected" ? [.lostEvent, .staleAnswer] : [.lostEvent]))
    var event = Event(id: 4, breaker: "api", from: "automatic", to: mode, pid: 9)
    event.isMode = true
    evidence.events.append(event)
    #expect(kinds(evidence) == Array(repeating: .staleAnswer, count: count))
    evidence.events[3].pid = 8
    #expect(kinds(evidence).contains(.doubleEvent))
  }

  @Test func `the referee finds a rejection by a breaker that was closed`() throws {
    let lines = "b 1 400 400 check api -\np 1 91\ne 1 401 401 s exit75"
    #expect(try kinds(with(lines)) == [.staleAnswer])
  }

  @Test func `the referee finds more probes than there may be`() throws {
    let lines = "b 1 307 307 acquire api -\ne 1 308 308 s probe\nb 2 400 400 report api success/1"
    var evidence = try with(lines)
    #expect(kinds(evidence) == [.tooManyProbes])
    // A probe whose process has ended, by itself or not, has freed its slot.
    evidence = try with("b 1 307 307 acquire api -\ne 1 308 308 s probe")
    #expect(kinds(evidence).isEmpty)
    evidence = try self.evidence()
    evidence.journals[0].killed = 306
    evidence.journals.append(try Journal(pid: 9, lines))
    #expect(kinds(evidence).isEmpty)
    evidence = try with(lines)
    evidence.probes = 2
    #expect(kinds(evidence).isEmpty)
  }

  @Test
  func `the referee counts a running probe even after the breaker has closed`() throws {
    // It was granted before the one that closed the breaker, and it reports long after that.
    let lines = """
      b 1 301 301 acquire api -
      e 1 302 302 s probe
      b 2 900 900 report api success/1
      e 2 901 901 s outdated
      """
    var evidence = try with(lines)
    evidence.rows["api"]?.successes = 7
    #expect(kinds(evidence).contains(.tooManyProbes))
    evidence.probes = 2
    #expect(!kinds(evidence).contains(.tooManyProbes))
    // The next probe has nothing to do with the first, which still holds its slot.
    evidence = try with(
      "b 1 301 301 acquire api -\ne 1 302 302 s probe\nb 2 900 900 report api success/1")
    evidence.journals.append(
      try Journal(
        pid: 8, "b 1 700 700 acquire api -\ne 1 701 701 s probe\nb 2 720 720 report api ignored/1"))
    evidence.journals[0] = try Journal(pid: 1, "")
    #expect(kinds(evidence).contains(.tooManyProbes))
  }

  @Test
  func `the referee counts a probe that ran out of time as a failure without a report`() throws {
    var evidence = try evidence()
    evidence.rows["api"]?.failures = 2
    #expect(kinds(evidence) == [.inventedFailure])
    evidence.rows["api"]?.timeouts = 1
    #expect(kinds(evidence).isEmpty)
    evidence.rows["api"]?.failures = 1
    #expect(kinds(evidence) == [.lostFailure])
  }

  @Test func `the referee expects a trip of an open breaker to change only the history`() throws {
    var evidence = try with("b 1 117 117 trip api -\ne 1 118 118 s ok")
    var event = Event(id: 2, breaker: "api", from: "open", to: "open", pid: 9)
    event.isExtension = true
    for index in 1...2 { evidence.events[index].id += 1 }
    evidence.events.insert(event, at: 1)
    #expect(kinds(evidence).isEmpty)
    evidence.events[1].pid = 8
    #expect(kinds(evidence) == [.doubleEvent])
  }

  @Test func `the referee treats a probe that ran out of time as over`() throws {
    let lines = """
      b 1 307 307 acquire api -
      e 1 308 308 s probe
      b 2 400 400 look api -
      e 2 401 401 s closed
      """
    var evidence = try with(lines)
    evidence.probeTimeout = 6
    #expect(!kinds(evidence).contains(.tooManyProbes))
    // By a clock that was moved before the second process asked.
    evidence = try with(lines)
    evidence.clock = [When(real: 0, store: 300), When(real: 307, store: 2_000)]
    #expect(kinds(evidence).isEmpty)
    evidence.clock[1].real = 309
    #expect(kinds(evidence) == [.tooManyProbes])
  }

  @Test func `the referee finds a late report that was not refused`() throws {
    var evidence = try evidence()
    evidence.probeTimeout = 14
    #expect(kinds(evidence) == [.lateReport])
    evidence.probeTimeout = 15
    #expect(kinds(evidence).isEmpty)
  }

  @Test func `the referee finds a change that is in the history twice or not at all`() throws {
    var evidence = try evidence()
    evidence.events.insert(
      Event(id: 0, breaker: "api", isReset: true, from: "closed", to: "closed", pid: 1), at: 0)
    evidence.rows["api"]?.generation = 5
    #expect(kinds(evidence).contains(.doubleEvent))
    evidence = try self.evidence()
    evidence.events.removeLast(2)
    evidence.rows["api"]?.state = "open"
    evidence.rows["api"]?.generation = 2
    #expect(kinds(evidence).count { $0 == .lostEvent } == 2)
  }

  @Test func `the referee finds a history that is not consistent`() throws {
    var evidence = try evidence()
    evidence.events[1].from = "closed"
    #expect(kinds(evidence).contains(.brokenChain))
    evidence = try self.evidence()
    evidence.rows["api"]?.state = "open"
    #expect(kinds(evidence) == [.wrongRow])
    evidence = try self.evidence()
    evidence.rows["api"]?.trips = 2
    evidence.rows["api"]?.generation = 9
    #expect(kinds(evidence) == [.wrongRow, .wrongRow])
  }

  @Test(arguments: [
    ("check api -", "exit1", Violation.Kind.exitCode), ("check nobody unknown", "exit0", .exitCode),
    ("look api usage", "exit0", .exitCode), ("look api -", "exit69", .exitCode),
    ("run api true", "exit7", .exitCode), ("check api -", "signal11", .death),
  ])
  func `the referee finds an exit code that is wrong`(
    call: String, answer: String, kind: Violation.Kind
  ) throws {
    let lines = "b 1 400 400 \(call)\np 1 91\ne 1 410 410 s \(answer)"
    #expect(try kinds(with(lines)).contains(kind))
  }

  @Test func `a command may give the store up, but only after it has waited as long as it should`()
    throws
  {
    for (end, isViolation) in [(500_000_399, true), (500_000_400, false)] {
      let lines = "b 1 400 400 acquire api -\np 1 91\ne 1 \(end) \(end) s exit69"
      #expect(try kinds(with(lines)).contains(.exitCode) == isViolation, "\(end)")
    }
  }

  @Test func `text that is not a journal is refused`() {
    #expect(throws: Illegible.self) { try Journal(pid: 1, "b 1 2") }
    #expect(throws: Illegible.self) { try Journal(pid: 1, "b 1 x 3 acquire api -") }
  }
}
