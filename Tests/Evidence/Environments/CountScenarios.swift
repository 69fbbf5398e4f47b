import Glibc
import TestSupport

/// Scenarios in which several processes count together.
extension Scenario {
  static let ofCounts = [
    Scenario(
      name: "counts",
      summary:
        "what several processes count at once is exact, for all of them and after their deaths"
    ) { scene in
      let puppets = try scene.puppets(each: 2, windowed)
      try scene.expectExactCounts(of: puppets)
    },
    Scenario(
      name: "healthy calls",
      summary:
        "a breaker without a policy that has seen only successes exists for all, and keeps them"
    ) { scene in
      let puppets = try scene.puppets(each: 2)
      try scene.tell(puppets, "name quiet")
      for answer in try puppets.ask("successes 1000") {
        scene.expect(answer, is: "ok 1000 rejected 0", "calls")
      }
      try scene.kill(puppets)
      let wanted =
        #"{"successes":4000,"failures":0,"ignored":0,"rejections":0,"slow":0,"would_reject":0,"busy":0,"holds":0,"held":0,"ramping":0,"over_rate":0,"retries":0,"over_budget":0,"lost_calls":0}"#
      for side in Scene.Side.allCases {
        let shown = try scene.cbctl(side, "show quiet --json")
        scene.expect(
          shown.text.member("totals"), is: wanted, "'show' \(side) after all were killed")
      }
      scene.expect(try scene.cbctl(.outside, "force quiet forced_open"), hasCode: 0, "'force'")
      scene.expect(try scene.cbctl(.inside, "check quiet"), hasCode: 75, "'check' after 'force'")
    },
    Scenario(
      name: "adding up",
      summary: "failures of several processes open a breaker together: by number, and by rate"
    ) { scene in
      let puppets = try scene.puppets(each: 2)
      try scene.tell(puppets, "name number")
      try scene.tell(puppets, "open failures=4 within=10m open-for=10m")
      for (index, puppet) in puppets.enumerated() {
        scene.expectAllClosed(try puppets.ask("state"), "after \(index) failures of 4")
        scene.expect(try puppet.ask("run fail"), is: "failed", "failure \(index + 1) of 4")
      }
      try scene.expectAllRejected(puppets, "after 4 failures of 4")

      try scene.tell(puppets, "name rate")
      try scene.tell(puppets, "open failure-rate=50% window=10m min-calls=20 open-for=10m")
      for call in 0..<20 {
        scene.expectAllClosed(try puppets.ask("state"), "after \(call) calls of 20")
        // Every second call of each process fails, and so does the very last call.
        let fails = (call / 4).isMultiple(of: 2) != call.isMultiple(of: 2)
        let answer = try puppets[call % 4].ask(fails ? "run fail" : "run ok")
        scene.expect(answer, is: fails ? "failed" : "ok 42", "call \(call + 1) of 20")
      }
      try scene.expectAllRejected(puppets, "after 10 failures of 20 calls")
    },
  ]

  /// A policy that never trips here, with a window that outlasts every scenario.
  static let windowed = "failure-rate=90% window=2h min-calls=1000000"
}

extension Scene {
  /// Lets four puppets make 500 calls each at the same time, every 50th of which fails; then kills
  /// all of them.
  func expectExactCounts(of puppets: [Puppet], as users: [Side: User] = [:]) throws {
    let counters = inodeOfCounters
    for answer in try puppets.ask("mixed 500 50") {
      expect(answer, is: "ok 490 failed 10", "calls")
    }
    let wanted = "window 2000 40 totals 1960 40 0"
    for (index, counts) in try puppets.ask("counts").enumerated() {
      expect(counts, is: wanted, "counts seen by process \(index) of 4")
    }
    for side in Side.allCases {
      let newcomer = try puppet(side, as: users[side])
      expect(try newcomer.ask("counts"), is: wanted, "counts seen by a newcomer \(side)")
    }
    try expectShown("while they run", as: users)
    try kill(puppets)
    try expectShown("after all were killed", as: users)
    expect(inodeOfCounters, is: counters, "the inode of the counters")
    expect(try Database.integrity(store), is: "ok", "integrity")
  }

  private func expectShown(_ when: String, as users: [Side: User]) throws {
    for side in Side.allCases {
      let shown = try cbctl(side, "show api --json", as: users[side]).text
      expect(
        shown.member("window"), is: #"{"calls":2000,"failures":40,"slow":0}"#,
        "window that 'show' tells \(side) \(when)")
      expect(
        shown.member("totals"),
        is:
          #"{"successes":1960,"failures":40,"ignored":0,"rejections":0,"slow":0,"would_reject":0,"busy":0,"holds":0,"held":0,"ramping":0,"over_rate":0,"retries":0,"over_budget":0,"lost_calls":0}"#,
        "totals that 'show' tells \(side) \(when)")
    }
  }

  /// The inode of the counters; it changes if the file is replaced, and is nil if there is no file.
  private var inodeOfCounters: UInt? {
    var status = stat()
    return unsafe stat(store + "-counters", &status) == 0 ? status.st_ino : nil
  }

  func expectAllClosed(_ states: [String], _ when: String) {
    expect(states.allSatisfy { $0 == "closed" }, "\(when): \(states), not closed for all")
  }

  /// Expects a rejection by a breaker that has just opened for ten minutes.
  func expectRejected(_ answer: String, _ what: String) {
    let words = answer.split(separator: " ")
    let left = words.last.flatMap { Int($0) } ?? 0
    expect(
      words.starts(with: ["rejected", "open"]) && (500_000...600_000).contains(left),
      "\(what): \(answer), not rejected for 10 minutes")
  }

  func expectAllRejected(_ puppets: [Puppet], _ when: String) throws {
    for (index, answer) in try puppets.ask("run ok").enumerated() {
      expectRejected(answer, "process \(index) of \(puppets.count) \(when)")
    }
  }
}
