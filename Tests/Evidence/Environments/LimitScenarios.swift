import Glibc
import TestSupport

/// Scenarios of limits: how many calls are under way, and which callers get the room of the dead.
extension Scenario {
  static let ofLimits = [
    Scenario(
      name: "limit",
      summary: "never more calls than the limit are under way, whichever process is killed"
    ) { scene in try scene.storm() },
    Scenario(
      name: "room of the dead",
      summary: "a killed process gives its room to callers that look for it, and to waiters"
    ) { scene in
      for victim in Scene.Side.allCases {
        for heir in Scene.Side.allCases { try scene.killHolder(victim, inheritedBy: heir) }
      }
    },
    Scenario(
      name: "lost calls",
      summary: "hung calls open the breaker when their processes are killed"
    ) { scene in
      for side in Scene.Side.allCases { try scene.loseCalls(side) }
    },
    Scenario(
      name: "out of memory",
      summary:
        "hung calls open the breaker when the kernel kills their processes for want of memory"
    ) { scene in
      for side in Scene.Side.allCases {
        guard let group = MemoryGroup(megabytes: 64) else {
          scene.remark = "left out, because no control group can be made here"
          return
        }
        try scene.loseCalls(side, in: group)
      }
    },
  ]
}

extension Scene {
  /// Lets processes on both sides, each of which has namespaces of its own, call as fast as they can.
  fileprivate func storm() throws {
    let limit = 3
    let witness = try SlotWitness(path: directory.file("witness"))
    var puppets = try puppets(each: 3, "max-concurrent=\(limit) queue-timeout=1h")
    // A process without spare descriptors may have no page, and keeps to the limit alone.
    if environment.isStarved { puppets = puppets.enumerated().filter { $0.0 % 2 == 0 }.map(\.1) }
    for puppet in puppets { expect(try puppet.ask("run"), is: "ok 42", "a call before the storm") }
    func start(_ index: Int) throws {
      try puppets[index].send("limit-storm \(limit) 2 \(witness.path) \(index)")
    }
    for index in puppets.indices { try start(index) }
    for round in 0..<12 {
      let begun = witness.begun
      _ = try until("calls go on in round \(round)") { witness.begun > begun + 20 ? true : nil }
      let index = round % puppets.count
      // It may give up its room at any instant from now on, and no process can see when.
      witness.exclude(index)
      try kill(puppets[index])
      puppets[index] = try puppet(index % 2 == 0 || environment.isStarved ? .outside : .inside)
      try tell([puppets[index]], "open max-concurrent=\(limit) queue-timeout=1h")
      expect(try puppets[index].ask("run"), is: "ok 42", "the first call of one in round \(round)")
      witness.include(index)
      try start(index)
    }
    for index in puppets.indices { witness.stop(index) }
    for puppet in puppets {
      let answer = try puppet.answer()
      expect(answer.hasPrefix("begun "), "a storm ended with '\(answer)'")
    }
    expect(witness.violations, is: 0, "how often there were more than \(limit) calls under way")
  }

  /// Kills a process that has all the room: one of two others gets it at once, one waits for it.
  fileprivate func killHolder(_ side: Side, inheritedBy heir: Side) throws {
    let policy = "max-concurrent=1 queue-timeout=1h"
    for isPatient in [false, true] {
      let name = "room-\(side)-\(heir)-\(isPatient)"
      // The victim waits for nothing, whatever its policy says.
      let (victim, other) = (try puppet(side), try puppet(heir))
      if environment.isStarved, side == .inside || heir == .inside { return }
      try tell([victim, other], "name \(name)")
      try tell([victim, other], "open \(isPatient ? policy : "max-concurrent=1")")
      expect(try victim.ask("acquire"), is: "normal", "the first call \(side)")
      if isPatient {
        try other.send("acquire")
        _ = try until("one \(heir) waits for the room of one \(side)") {
          try cbctl(.outside, "status \(name) --json").text.contains("\"waiting\":1") ? true : nil
        }
      } else {
        expect(try other.ask("acquire"), is: "busy", "a call \(heir) beside one \(side)")
      }
      try kill(victim)
      let start = Self.now()
      let answer =
        isPatient
        ? try other.answer()
        : try until("one \(heir) has the room of one \(side)") {
          let answer = try other.ask("acquire")
          return answer == "busy" ? nil : answer
        }
      expect(answer, is: "normal", "the call \(heir) after one \(side) was killed")
      let passed = (Self.now() - start) / 1_000_000
      note("the room of one \(side), by one \(heir) that \(isPatient ? "waits" : "asks")", passed)
      expect(passed < 10_000, "the room of one \(side) was free for one \(heir) after \(passed) ms")
    }
  }

  /// Kills two processes that hang in their calls, or lets them die in a group without memory.
  fileprivate func loseCalls(_ side: Side, in group: MemoryGroup? = nil) throws {
    if environment.isStarved, side == .inside { return }
    let name = "lost-\(side)"
    // Others succeed meanwhile, and the two deaths may be noticed one after the other.
    let policy = "max-concurrent=9 lost-calls=failure failures=2 within=1h"
    let victims = [try puppet(side, in: group), try puppet(side, in: group)]
    let other = try puppet(.outside)
    try tell(victims + [other], "name \(name)")
    try tell(victims + [other], "open \(policy)")
    for victim in victims { expect(try victim.ask("acquire"), is: "normal", "a call that hangs") }
    expect(try other.ask("run"), is: "ok 42", "a call beside two that hang \(side)")
    if group == nil { try kill(victims) } else { try starve(victims) }
    // A process that makes a call a second later records them.
    _ = try until("the breaker opens after two calls \(side) have hung") {
      try other.ask("run").hasPrefix("rejected open") ? true : nil
    }
  }
}
