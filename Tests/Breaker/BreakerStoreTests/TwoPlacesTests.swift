@_spi(Relay) import BreakerCore
import TestSupport
import Testing

@testable import BreakerStore

/// Random walks over a file and over memory, which must answer the same and hold the same.
@Suite struct TwoPlacesTests {
  @Test(.timeLimit(.minutes(60)))
  func `a file and a memory that are used alike are alike after each step`() throws {
    for seed in 0..<UInt64(rounds(200)) {
      var walk = try Walk(seed: seed)
      for number in 0..<40 {
        let before = try walk.stages.map { try $0.revision() }
        let step = try walk.step()
        let after = try walk.stages.map { try $0.revision() }
        let raised = zip(after, before).map { $0 - $1 }
        let same = step.answers[0] == step.answers[1] && raised[0] == raised[1]
        #expect(same, "seed \(seed), step \(number), \(step.name): \(step.answers), \(raised)")
        let pictures = try walk.stages.map { try $0.picture() }
        let alike = pictures[0] == pictures[1]
        #expect(alike, "seed \(seed), step \(number), \(step.name)\n\(pictures[0])\n\(pictures[1])")
        guard same, alike else { return }
      }
      for stage in walk.stages { stage.storage.close() }
    }
  }
}

/// A random walk over two stores that share a clock.
private struct Walk {
  let stages: [StorageStage]
  private var random: SeededRandom
  private var turns: [HookTurn] = [.idle, .idle]
  private var stamp: Int64 = 0

  private static let names = ["a", "b", "c"]

  init(seed: UInt64) throws {
    random = SeededRandom(seed: seed)
    let file = try StorageStage(.file, room: 2)
    stages = [file, try StorageStage(.memory, room: 2, sharing: file)]
  }

  private enum Kind: CaseIterable {
    case call, trip, mode, declare, override, nothing, note, command
    case delete, deleteVersion, together, thrown, hear, position, publish, correct, leave
    case hook, report, wait, reboot
  }

  mutating func step() throws -> (name: String, answers: [String]) {
    let kind = random.pick(Kind.allCases)
    let name = random.pick(Self.names)
    let answers =
      switch kind {
      case .call, .trip, .mode, .declare, .override, .nothing, .note, .command:
        try change(kind, name)
      case .delete: each { "\(try $0.storage.delete(name))" }
      case .deleteVersion: deleteVersion(name)
      case .together: together()
      case .thrown: thrown(name)
      case .hear, .position, .publish, .correct: try hear(kind, name)
      case .leave: each { "\(try $0.storage.leaveFleet())" }
      case .hook, .report: try hook(kind, name)
      case .wait: wait()
      case .reboot: reboot()
      }
    return ("\(kind) \(name)", answers)
  }

  /// The answer of each store, or its reason to refuse.
  private func each(_ body: (StorageStage) throws -> String) -> [String] {
    stages.map { stage in
      do {
        return try body(stage)
      } catch let error as StoreError {
        return "\(error.kind)"
      } catch {
        return "\(error)"
      }
    }
  }

  private mutating func change(_ kind: Kind, _ name: String) throws -> [String] {
    let orCreate = random.number(0...3) > 0
    let number = random.number(1...9)
    let isFailure = random.number(0...2) > 0
    let action = random.pick(Self.actions(number))
    return each { stage in
      let done = try stage.step(name, orCreate: orCreate) { draft -> String in
        let time = Duration.seconds(number)
        switch kind {
        case .call: return draft.call(isFailure: isFailure)
        case .trip: draft.trip(for: time)
        case .mode:
          draft.apply { record, now in
            record.modeSet(to: .forcedOpen, for: time, reason: "drill", by: "ann", at: now)
          }
        case .declare:
          let words = "max-failures=\(number % 3 + 1) fleet-hold=yes"
          draft.add(OwnShare(declared: words, isUndeclared: true, pending: Counted()))
        case .override: return draft.override("\(number)")
        case .note: draft.note(.extended, reason: nil)
        case .command: draft.give(action)
        default: break
        }
        return ""
      }
      return "\(String(describing: done?.answer)) \(String(describing: done?.events))"
        + " \(String(describing: done?.breaker.record))"
    }
  }

  private static func actions(_ number: Int) -> [FleetCommand.Action] {
    [
      .reset, .endHold, .trip(for: .seconds(number)), .force(.observe, for: .seconds(number)),
      .force(.automatic, for: nil), .policy(set: [.probes: "\(number)"], unset: [.openFor]),
    ]
  }

  private mutating func deleteVersion(_ name: String) -> [String] {
    let changes = random.number(0...1) == 0
    return each { stage in
      guard let found = try stage.storage.find(name) else { return "none" }
      if changes { try stage.step(name) { $0.note(.extended, reason: nil) } }
      return "\(try stage.storage.delete(name, ifStill: StoredVersion(of: found)).isDeleted)"
    }
  }

  private mutating func together() -> [String] {
    let names = (0..<random.number(1...3)).map { _ in random.pick(Self.names) }
    let mustBeNew = random.number(0...2) == 0
    let gives = random.number(0...3) == 0
    return each { stage in
      let steps = names.enumerated().map { index, name in
        NamedStep(name) { draft in
          draft.trip(for: .seconds(index + 1))
          if gives, index == names.count - 1 { draft.give(.reset) }
        }
      }
      let done = try stage.storage.transact(together: steps, mustBeNew: mustBeNew)
      return "\(done.present) \(done.events)"
    }
  }

  private mutating func thrown(_ name: String) -> [String] {
    each { stage in
      try stage.storage.write(wait: .usual) { place throws(StoreError) -> String in
        _ = try place.take(name, orCreate: true) { $0.trip(for: nil) }
        _ = try place.delete(name, ifStill: nil)
        _ = try place.leaveFleet()
        throw StoreError(.other, "changed my mind")
      }.answer
    }
  }

  private mutating func hear(_ kind: Kind, _ name: String) throws -> [String] {
    let number = random.number(1...9)
    stamp += Int64(random.number(-2...9))
    let age = Duration.seconds(random.number(0...1) * number)
    let command = FleetCommand.given(
      random.pick(Self.actions(number)), to: name, stamp: max(1, stamp), age: age)
    let news = random.pick([
      FleetNews.command(command), .remembered(command), .suspicion(name: name, hosts: 2),
      .hold(name: name, host: "b", FleetHold(left: age, after: stamp)),
    ])
    let latest = stages[0].clock.clock.wallMilliseconds - Int64(number)
    let published = try stages.map { try $0.storage.pendingOrders(limit: 1).first?.id }
    var isMemory = false
    return each { stage in
      defer { isMemory = true }
      let changes = try stage.hear(news) { request in
        switch kind {
        case .position:
          request.position = FleetPosition(
            epoch: "\(number / 5)", number: Int64(number), entry: "\(number)")
          request.note = FleetRequest.Note(isConnected: number > 4, problem: nil)
        case .publish:
          guard let id = published[isMemory ? 1 : 0] else { break }
          if number % 3 == 0 {
            request.refusals = [id: "too early"]
          } else {
            request.published = [id]
          }
        case .correct: request.latestStamp = latest
        default: break
        }
      }
      let verdicts = changes.verdicts.map { verdict in
        // The reason names the store.
        if case .refused = verdict { return "refused" }
        return "\(verdict)"
      }
      return "\(verdicts) \(changes.hasCorrected) \(changes.events)"
    }
  }

  private mutating func hook(_ kind: Kind, _ name: String) throws -> [String] {
    var request = HookRequest(
      hook: random.pick(["pager", "mail"]), name: random.pick([name, nil]),
      process: ProcessTable.current(), timeout: .seconds(5), attempts: 2)
    let outcome = random.pick([HookReport.Outcome.handled, .failed, .released])
    request.mayRun = random.number(0...3) > 0
    var answers: [String] = []
    for (index, stage) in stages.enumerated() {
      if kind == .report, case .run(let event, _, let claim) = turns[index] {
        request.report = HookReport(
          event: event.id, name: event.name, claim: claim, outcome: outcome)
      }
      let turn = try stage.storage.answer(request)
      turns[index] = turn
      if case .run(let event, let isAfterGap, let claim) = turn {
        answers.append("\(event) \(isAfterGap) \(claim.number)")
      } else {
        answers.append("\(turn)")
      }
    }
    return answers
  }

  private mutating func wait() -> [String] {
    stages[0].clock.advance(by: .seconds(random.number(0...12)))
    return ["", ""]
  }

  private mutating func reboot() -> [String] {
    stages[0].clock.reboot(after: .seconds(random.number(1...20)))
    return ["", ""]
  }
}

extension BreakerDraft {
  fileprivate mutating func override(_ value: String) -> String {
    do throws(PolicyError) {
      try agree { words, now throws(PolicyError) in
        try words.overridden(set: [.probes: value], unset: [], at: now)
      }
      return ""
    } catch {
      return "\(error)"
    }
  }

  fileprivate mutating func call(isFailure: Bool) -> String {
    let policy = breaker.policy
    let decision = apply { record, now in
      record.requested(at: now, by: ProcessTable.current(), policy: policy)
    }
    guard case .permitted(let grant) = decision else { return "\(decision)" }
    let verdict = apply { record, now in
      record.reported(
        isFailure ? .failure() : .success, for: grant, elapsed: nil, at: now, by: nil,
        policy: policy, jitter: 0)
    }
    return "\(decision) \(verdict)"
  }
}
