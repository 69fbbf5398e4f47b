/// What one process says it has done to one breaker.
struct Claims {
  /// Changes that it knows it has made.
  var sure: [Notice] = []

  /// When calls began that may have made a change, each of them one.
  var possible: [Int64] = []

  /// When all of them were over; the largest number if nobody knows.
  var ended: Int64 = 0

  /// No call makes more changes than this.
  private static let mostOfCall = 2
  private static let mostOfCommand = 3

  mutating func add(_ call: Call, of journal: Journal) {
    let end = call.ended?.real ?? .max
    if call.pid == journal.pid {
      guard call.ended != nil else {
        possible += Array(repeating: call.began.real, count: Self.mostOfCall)
        ended = .max
        return
      }
      if call.action == .reset, call.answer == "ok" { sure.append(Notice(reset: call, told: end)) }
      return
    }
    // A command of its own tells nobody of changes, but has made none once it is over.
    ended = call.answer == "killed" ? .max : max(ended, end)
    possible += Array(repeating: call.began.real, count: Self.mostOfCommand)
    if call.answer == "exit0", call.action == .reset || call.action == .trip {
      possible.removeLast()
      sure.append(
        call.action == .reset
          ? Notice(reset: call, told: end)
          : Notice(breaker: call.breaker, from: "*", to: "open", began: call.began.real, told: end))
    }
  }

  /// The claims of all processes, by breaker and process.
  static func all(_ evidence: Evidence) -> [String: [Int32: Claims]] {
    var all: [String: [Int32: Claims]] = [:]
    for journal in evidence.journals {
      for notice in journal.notices {
        all[notice.breaker, default: [:]][journal.pid, default: Claims()].sure.append(notice)
      }
      for call in journal.calls.values {
        guard let pid = call.pid else { continue }
        all[call.breaker, default: [:]][pid, default: Claims()].add(call, of: journal)
      }
    }
    return all
  }

  /// The times of its events, which are given in order.
  func steps(of events: [Event]) -> [Timeline.Step] {
    let begins = (sure.map(\.began) + possible).sorted()
    let ends = sure.map(\.told).sorted()
    let last = possible.isEmpty ? Int64.max : ended
    return events.enumerated().map { index, event in
      Timeline.Step(
        event: event, began: index < begins.count ? begins[index] : .min,
        ended: index < ends.count ? ends[index] : last)
    }
  }

  /// What its events must not be.
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
  init(reset call: Call, told: Int64) {
    self.init(
      breaker: call.breaker, from: "*", to: "closed", began: call.began.real, told: told)
  }
}
