/// The acts on one breaker that one process claims.
struct Claims {
  /// Changes that the process knows it has made.
  var sure: [Notice] = []

  /// When calls began that may have made a change, one time for each change.
  var possible: [Int64] = []

  /// When all these calls had ended; the largest number if that is not known.
  var ended: Int64 = 0

  /// The most changes that a call or a command makes.
  private static let mostOfCall = 2
  private static let mostOfCommand = 3

  mutating func add(_ call: Call, of journal: Journal, areModes: Bool) {
    let end = call.ended?.real ?? .max
    if call.pid == journal.pid {
      guard call.ended != nil else {
        possible += Array(repeating: call.began.real, count: Self.mostOfCall)
        ended = .max
        return
      }
      guard call.answer == "ok" else { return }
      if call.action == .reset, !areModes { sure.append(Notice(call, to: "closed", told: end)) }
      if call.action == .force, areModes { sure.append(Notice(call, to: call.detail, told: end)) }
      if call.action == .trip, !areModes {
        // The answer does not say whether the breaker was open already.
        possible.append(call.began.real)
        ended = max(ended, end)
      }
      return
    }
    // No command of the torture sets a mode.
    guard !areModes else { return }
    // A command does not report its changes, but makes no more of them after it has ended.
    ended = call.answer == "killed" ? .max : max(ended, end)
    possible += Array(repeating: call.began.real, count: Self.mostOfCommand)
    if call.answer == "exit0", call.action == .reset || call.action == .trip {
      possible.removeLast()
      sure.append(Notice(call, to: call.action == .reset ? "closed" : "open", told: end))
    }
  }

  /// The claims of all processes about states, or about modes, by breaker and process.
  static func all(_ evidence: Evidence, areModes: Bool) -> [String: [Int32: Claims]] {
    var all: [String: [Int32: Claims]] = [:]
    for journal in evidence.journals {
      for notice in journal.notices where !areModes {
        all[notice.breaker, default: [:]][journal.pid, default: Claims()].sure.append(notice)
      }
      for call in journal.calls.values {
        guard let pid = call.pid else { continue }
        all[call.breaker, default: [:]][pid, default: Claims()].add(
          call, of: journal, areModes: areModes)
      }
    }
    return all
  }

  /// The certain times of the process's events, which are given in order.
  func steps(of events: [Event]) -> [StateTimeline.Step] {
    let begins = (sure.map(\.began) + possible).sorted()
    let ends = sure.map(\.told).sorted()
    let last = possible.isEmpty ? Int64.max : max(ended, ends.last ?? .min)
    return events.enumerated().map { index, event in
      StateTimeline.Step(
        event: event, began: index < begins.count ? begins[index] : .min,
        ended: index < ends.count ? ends[index] : last)
    }
  }

  /// Violations by the process's events.
  func violations(of events: [Event], by pid: Int32, on breaker: String) -> [Violation] {
    var found: [Violation] = []
    var rest = events
    for notice in sure {
      let fits = rest.firstIndex {
        $0.to == notice.to && (notice.from == "*" || $0.from == notice.from)
      }
      if let fits {
        rest.remove(at: fits)
      } else {
        found.append(
          Violation(
            .lostEvent,
            "\(breaker): process \(pid) was told of \(notice.from)>\(notice.to) at \(notice.told),"
              + " which is not in the history"))
      }
    }
    for event in rest.dropFirst(possible.count) {
      found.append(Violation(.doubleEvent, "\(breaker): nobody has made \(event.text)"))
    }
    return found
  }
}

extension Notice {
  /// Creates the notice of a change by a call, whatever the state was before.
  init(_ call: Call, to: String, told: Int64) {
    self.init(breaker: call.breaker, from: "*", to: to, began: call.began.real, told: told)
  }
}
