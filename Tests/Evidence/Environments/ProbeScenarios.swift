import Glibc
import TestSupport

/// Scenarios of how many probes are under way, and for how long.
extension Scenario {
  static let ofProbes = [
    Scenario(
      name: "probes",
      summary: "no more than 'probes' are under way, and a live prober keeps its slot"
    ) { scene in
      try scene.probeAllAtOnce()
      for prober in Scene.Side.allCases {
        for asker in Scene.Side.allCases { try scene.killProber(prober, seenBy: asker) }
      }
    },
    Scenario(
      name: "deadline",
      summary:
        "a prober that never reports loses its slot at its deadline"
    ) { scene in
      for prober in Scene.Side.allCases {
        let (victim, heir) = (try scene.puppet(prober), try scene.puppet(.outside))
        try scene.trip([victim, heir], "victim-\(prober)", "open-for=500ms probe-timeout=500ms")
        let start = Scene.now()
        scene.expect(try scene.permit(for: victim, "a prober"), is: "probe", "a prober \(prober)")
        let answer = try scene.permit(for: heir, "the next prober")
        let passed = (Scene.now() - start) / 1_000_000
        scene.expect(answer, is: "probe", "the next after a prober \(prober)")
        scene.expect(passed >= 1_000, "the next was permitted after \(passed) ms of 1,000")
      }
    },
    Scenario(
      name: "lifeline",
      summary: "a prober out of sight keeps its slot while it lives, and not when it was killed"
    ) { scene in
      let (victim, other) = (try scene.puppet(.outside), try scene.puppet(.inside))
      try scene.trip([victim, other], "api", "open-for=200ms probe-timeout=10m")
      scene.expect(try scene.permit(for: victim, "a prober"), is: "probe", "the first call")
      // As if it were alone in a PID namespace.
      try Database.rows(
        scene.store, "UPDATE lease SET pid = 1, pid_namespace = 2; UPDATE breaker SET name = name")
      for side in Scene.Side.allCases {
        scene.expect(try scene.cbctl(side, "check api"), hasCode: 75, "'check' while it lives")
      }
      try scene.kill(victim)
      let code: Int32 = scene.environment.keepsLifelines ? 0 : 75
      for side in Scene.Side.allCases {
        scene.expect(try scene.cbctl(side, "check api"), hasCode: code, "'check' when it is dead")
      }
      let answer = try other.ask("acquire")
      scene.expect(answer == "probe", is: scene.environment.keepsLifelines, "'\(answer)' after it")
      let told = try scene.cbctl(.outside, "doctor").text.contains("keeps no lock for a process")
      scene.expect(told, is: !scene.environment.keepsLifelines, "what the doctor tells")
    },
    Scenario(
      name: "reopening",
      summary: "no more than 'probes' are under way, however often a breaker has opened again"
    ) { scene in
      let puppets = try scene.puppets(each: 4)
      try scene.trip(puppets, "api", "open-for=200ms probes=2 probe-timeout=10m")
      var free = puppets
      var held = 0
      for round in 1...3 {
        // The first probe of a round goes on if there is a second one, which fails.
        let first = try scene.until("round \(round) has a prober") {
          try free.firstIndex { try $0.ask("acquire") == "probe" }
        }
        let slow = free.remove(at: first)
        let second = try free.firstIndex { try $0.ask("acquire") == "probe" }
        let underWay = held + (second == nil ? 1 : 2)
        scene.expect(underWay <= 2, "round \(round): \(underWay) probes of 2 are under way")
        if let second {
          _ = try free[second].ask("fail")
          held += 1
        } else {
          _ = try slow.ask("fail")
          free.append(slow)
        }
      }
    },
    Scenario(
      name: "hung probe",
      summary: "a probe that hangs locks no process out, not even those that only ask"
    ) { scene in
      for prober in Scene.Side.allCases {
        let name = "hung-\(prober)"
        let asker = try scene.puppet(prober == .outside ? .inside : .outside)
        try scene.trip([asker], name, "open-for=500ms probe-timeout=500ms")
        _ = try scene.until("'acquire' \(prober) is a probe") {
          try scene.cbctl(prober, "acquire \(name)").code == 0 ? true : nil
        }
        for side in Scene.Side.allCases {
          let wait = try scene.cbctl(side, "wait \(name) --state permitted --timeout 30s")
          guard wait.code == 0 else {
            throw SupportError(
              "'wait' \(side) of a probe \(prober): code \(wait.code): \(wait.text.inOneLine)")
          }
          scene.expect(
            try scene.cbctl(side, "check \(name)"), hasCode: 0,
            "'check' \(side), after a probe \(prober) has hung")
        }
        scene.expect(try asker.ask("acquire"), is: "probe", "a call after a probe has hung")
      }
    },
    Scenario(
      name: "long job",
      summary:
        "a probe of 'cbctl run' lasts as long as its command, and its success closes the breaker"
    ) { scene in
      for side in Scene.Side.allCases {
        let name = "job-\(side)"
        let other = try scene.puppet(side == .outside ? .inside : .outside)
        try scene.trip([other], name, "open-for=200ms probe-timeout=2s")
        // `check` takes no probe, so the job gets it.
        _ = try scene.until("'check' is permitted") {
          try scene.cbctl(side, "check \(name)").code == 0 ? true : nil
        }
        let start = Scene.now()
        let job = try scene.start(side, "run \(name) -- sleep 3")
        _ = try scene.until("the job \(side) is a probe") {
          try other.ask("state") == "half_open" ? true : nil
        }
        var answer = ""
        repeat {
          answer = try other.ask("acquire")
        } while answer.hasPrefix("rejected") && Scene.now() - start < 3_000_000_000
        // After three seconds the job may be over.
        scene.expect(
          answer.hasPrefix("rejected") || Scene.now() - start >= 3_000_000_000,
          "beside the job \(side): \(answer)")
        _ = try job.rest()
        scene.expect(job.waitForEnd() == 0, "the job \(side) failed")
        scene.expect(try other.ask("state"), is: "closed", "after the job \(side)")
        scene.expect(
          try Database.transitions(scene.store, from: "half_open", to: "open", of: name), is: 0,
          "reopenings while the job \(side) ran")
      }
    },
  ]
}

extension Scene {
  /// Opens a breaker by one failure.
  func trip(_ puppets: [Puppet], _ name: String, _ policy: String) throws {
    try tell(puppets, "name \(name)")
    try tell(puppets, "open max-failures=1 \(policy)")
    expect(try puppets[0].ask("run fail"), is: "failed", "the failure that trips")
  }

  fileprivate func probeAllAtOnce() throws {
    let puppets = try puppets(each: 3)
    try trip(puppets, "race", "open-for=500ms probes=2 probe-timeout=10m")
    var granted = 0
    _ = try until("a probe is granted") {
      granted += try puppets.ask("acquire").count("probe")
      return granted > 0 ? true : nil
    }
    for _ in 1...5 {
      granted += try puppets.ask("acquire").count("probe")
      try tell(puppets, "name elsewhere")
      _ = try puppets.ask("run fail")
      try tell(puppets, "name race")
    }
    expect(granted, is: 2, "probes under way of six processes that asked at once")
  }

  /// Kills one of two probers; no process may get the slot of the other one.
  ///
  /// A process inside has namespaces of its own, so two that are inside cannot see each other either.
  fileprivate func killProber(_ side: Side, seenBy asker: Side) throws {
    let victim = try puppet(side)
    let living = try puppet(side == .outside ? .inside : .outside)
    let others = [try puppet(asker), try puppet(asker == .outside ? .inside : .outside)]
    let name = "prober-\(side)-\(asker)"
    try trip([victim, living] + others, name, "open-for=200ms probes=2 probe-timeout=10m")
    expect(try permit(for: victim, "a prober \(side)"), is: "probe", "the first call \(side)")
    expect(try living.ask("acquire"), is: "probe", "the second call")
    for _ in 1...3 {
      for answer in try others.ask("acquire") {
        expect(answer.hasPrefix("rejected half_open"), "beside two live probers: \(answer)")
      }
    }
    try kill(victim)
    // A process in a namespace dies a moment after the command that started it. Only that command
    // can be waited for.
    _ = try until("'check' \(asker) sees that a prober \(side) was killed") {
      try cbctl(asker, "check \(name)").code == 0 ? true : nil
    }
    expect(
      try others[0].ask("acquire"), is: "probe", "one \(asker), after a prober \(side) was killed")
    let more = try others.ask("acquire").count("probe")
    expect(more, is: 0, "probes more, after one took the place of the prober \(side)")
  }
}
