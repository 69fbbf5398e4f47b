/// Totals of the acts and sights of a run.
struct Tally {
  var phases = 0
  var processes = 0
  var forks = 0
  var commands = 0
  var kills = 0
  var stops = 0
  var filesReplaced = 0
  var pagesDeleted = 0
  var disksFilled = 0
  var calls = 0
  var failures = 0
  var trips = 0
  var probes = 0
  var answersCompared = 0

  /// The longest time, in milliseconds, until everything had recovered.
  var healing = 0

  init() {}

  init(_ plan: Plan, _ evidence: Evidence, _ referee: Referee, _ cast: Cast, _ mischief: Mischief) {
    phases = 1
    processes = cast.processes
    // The journals of children, and that of the referee, come on top of those of the cast.
    forks = evidence.journals.count - 1 - cast.processes
    commands = evidence.journals.reduce(0) { sum, journal in
      sum + journal.calls.values.count { $0.pid != journal.pid }
    }
    kills = cast.kills
    stops = cast.stops
    filesReplaced = mischief.filesReplaced
    pagesDeleted = mischief.pagesDeleted
    disksFilled = mischief.disksFilled
    calls = evidence.journals.reduce(0) { sum, journal in
      sum
        + journal.calls.values.reduce(0) { sum, call in
          let isMany = call.action == .batch || call.action == .failures
          return sum + (isMany ? Int(call.detail) ?? 1 : 1)
        }
    }
    failures = referee.failuresAcknowledged
    trips = evidence.events.count { $0.to == "open" }
    probes = referee.probesHeld
    answersCompared = referee.answersCompared
  }

  static func += (left: inout Tally, right: Tally) {
    left.phases += right.phases
    left.processes += right.processes
    left.forks += right.forks
    left.commands += right.commands
    left.kills += right.kills
    left.stops += right.stops
    left.filesReplaced += right.filesReplaced
    left.pagesDeleted += right.pagesDeleted
    left.disksFilled += right.disksFilled
    left.calls += right.calls
    left.failures += right.failures
    left.trips += right.trips
    left.probes += right.probes
    left.answersCompared += right.answersCompared
    left.healing = max(left.healing, right.healing)
  }

  var text: String {
    "processes \(processes), forks \(forks), commands \(commands), kills \(kills), stops \(stops), files replaced \(filesReplaced),"
      + " counters deleted \(pagesDeleted), disks filled \(disksFilled), calls \(calls),"
      + " failures acknowledged \(failures), trips \(trips), probes \(probes),"
      + " answers compared \(answersCompared), healed within \(healing) ms"
  }
}
